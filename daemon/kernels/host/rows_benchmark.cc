#include <cstdint>
#include <vector>

#include "benchmark/benchmark.h"
#include "daemon/kernels/host/host_kernels.h"

namespace tvarant::host {
namespace {

constexpr int kThreads = 2;

// A contiguous tensor of zeros.
class Buffer {
 public:
  Buffer(DType dtype, std::vector<int64_t> sizes)
      : dtype_(dtype), sizes_(sizes), strides_(sizes.size()) {
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      strides_[i] = stride;
      stride *= sizes[i];
    }
    bytes_.resize(stride * SizeOf(dtype));
  }
  Tensor tensor() {
    return {bytes_.data(), dtype_, static_cast<int>(sizes_.size()),
            sizes_.data(), strides_.data()};
  }
  int64_t* int64s() { return reinterpret_cast<int64_t*>(bytes_.data()); }
  int64_t size_bytes() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  DType dtype_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  std::vector<char> bytes_;
};

using Run = absl::Status (*)(const HostLaunch&, ThreadPool&);

void RunKernel(benchmark::State& state, Run run, Kernel kernel,
               std::vector<Buffer*> dst, std::vector<Buffer*> src,
               std::vector<int64_t> ints, std::vector<double> floats = {}) {
  std::vector<Tensor> outputs, inputs;
  int64_t bytes = 0;
  for (Buffer* b : dst) {
    outputs.push_back(b->tensor());
    bytes += b->size_bytes();
  }
  for (Buffer* b : src) {
    inputs.push_back(b != nullptr ? b->tensor() : Tensor{});
    bytes += b != nullptr ? b->size_bytes() : 0;
  }
  HostLaunch launch;
  launch.kernel = kernel;
  launch.scalar = 1e-5;
  launch.dst = outputs;
  launch.src = inputs;
  launch.ints = ints;
  launch.floats = floats;
  ThreadPool pool(kThreads);
  for (auto _ : state) {
    if (!run(launch, pool).ok()) state.SkipWithError("kernel failed");
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

void Softmax(benchmark::State& state, DType dtype, int64_t dim) {
  Buffer x(dtype, {4096, 1024}), y(dtype, {4096, 1024});
  RunKernel(state, RunSoftmax, Kernel::kSoftmax, {&y}, {&x}, {dim});
}
BENCHMARK_CAPTURE(Softmax, f32, DType::kFloat32, 1)->UseRealTime();
BENCHMARK_CAPTURE(Softmax, f32_first_dim, DType::kFloat32, 0)->UseRealTime();
BENCHMARK_CAPTURE(Softmax, bf16, DType::kBFloat16, 1)->UseRealTime();

void LogSoftmax(benchmark::State& state) {
  Buffer x(DType::kFloat32, {4096, 1024}), y(DType::kFloat32, {4096, 1024});
  RunKernel(state, RunSoftmax, Kernel::kLogSoftmax, {&y}, {&x}, {1});
}
BENCHMARK(LogSoftmax)->UseRealTime();

void LayerNorm(benchmark::State& state, DType dtype) {
  Buffer x(dtype, {4096, 1024}), y(dtype, {4096, 1024});
  Buffer weight(dtype, {1024}), bias(dtype, {1024});
  Buffer mean(DType::kFloat32, {4096}), rstd(DType::kFloat32, {4096});
  RunKernel(state, RunLayerNorm, Kernel::kLayerNorm, {&y, &mean, &rstd},
            {&x, &weight, &bias}, {});
}
BENCHMARK_CAPTURE(LayerNorm, f32, DType::kFloat32)->UseRealTime();
BENCHMARK_CAPTURE(LayerNorm, bf16, DType::kBFloat16)->UseRealTime();

void LayerNormBackward(benchmark::State& state) {
  const DType f32 = DType::kFloat32;
  Buffer x(f32, {4096, 1024}), dy(f32, {4096, 1024}), dx(f32, {4096, 1024});
  Buffer weight(f32, {1024}), dweight(f32, {1024}), dbias(f32, {1024});
  Buffer mean(f32, {4096}), rstd(f32, {4096});
  RunKernel(state, RunLayerNormBackward, Kernel::kLayerNormBackward,
            {&dx, &dweight, &dbias}, {&dy, &x, &mean, &rstd, &weight}, {});
}
BENCHMARK(LayerNormBackward)->UseRealTime();

void Embedding(benchmark::State& state) {
  Buffer table(DType::kFloat32, {30000, 384}), y(DType::kFloat32, {4096, 384});
  Buffer index(DType::kInt64, {4096});
  for (int64_t i = 0; i < 4096; ++i) index.int64s()[i] = i * 7919 % 30000;
  RunKernel(state, RunIndexSelect, Kernel::kIndexSelect, {&y}, {&table, &index},
            {0});
}
BENCHMARK(Embedding)->UseRealTime();

void EmbeddingBackward(benchmark::State& state) {
  Buffer dweight(DType::kFloat32, {30000, 384});
  Buffer dy(DType::kFloat32, {4096, 384}), index(DType::kInt64, {4096});
  for (int64_t i = 0; i < 4096; ++i) index.int64s()[i] = i * 7919 % 30000;
  RunKernel(state, RunEmbeddingBackward, Kernel::kEmbeddingBackward, {&dweight},
            {&dy, &index}, {-1, 0});
}
BENCHMARK(EmbeddingBackward)->UseRealTime();

void Random(benchmark::State& state, Distribution distribution, DType dtype) {
  Buffer y(dtype, {1 << 22});
  RunKernel(state, RunRandom, Kernel::kRandom, {&y}, {},
            {static_cast<int64_t>(distribution), 1, 0, 0, 1000}, {0.25, 1});
}
BENCHMARK_CAPTURE(Random, uniform_f32, Distribution::kUniform, DType::kFloat32)
    ->UseRealTime();
BENCHMARK_CAPTURE(Random, normal_f32, Distribution::kNormal, DType::kFloat32)
    ->UseRealTime();
BENCHMARK_CAPTURE(Random, integer_i64, Distribution::kInteger, DType::kInt64)
    ->UseRealTime();

void Dropout(benchmark::State& state) {
  Buffer x(DType::kFloat32, {1 << 22}), y(DType::kFloat32, {1 << 22});
  Buffer mask(DType::kBool, {1 << 22});
  RunKernel(state, RunDropout, Kernel::kDropout, {&y, &mask}, {&x}, {1, 0},
            {0.1});
}
BENCHMARK(Dropout)->UseRealTime();

}  // namespace
}  // namespace tvarant::host

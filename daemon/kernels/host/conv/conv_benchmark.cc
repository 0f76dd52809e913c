// ResNet and MobileNet convolutions, forward and both gradients.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "daemon/kernels/host/host_kernels.h"

namespace tvarant::host {
namespace {

struct Buffer {
  explicit Buffer(std::vector<int64_t> dims) : sizes(std::move(dims)) {
    strides.resize(sizes.size());
    int64_t count = 1;
    for (size_t i = sizes.size(); i-- > 0; count *= sizes[i]) {
      strides[i] = count;
    }
    data.resize(count, 0.5f);
  }
  Tensor tensor() {
    return {reinterpret_cast<char*>(data.data()), DType::kFloat32,
            static_cast<int>(sizes.size()), sizes.data(), strides.data()};
  }
  std::vector<int64_t> sizes, strides;
  std::vector<float> data;
};

// channels, rows, side, kernel, stride, groups; batch 8
void Conv(benchmark::State& state, Kernel kernel) {
  const int64_t n = 8, c = state.range(0), rows = state.range(1);
  const int64_t side = state.range(2), k = state.range(3);
  const int64_t stride = state.range(4), groups = state.range(5);
  const int64_t pad = k / 2, out = (side + 2 * pad - k) / stride + 1;
  Buffer x({n, c, 1, side, side}), y({n, rows, 1, out, out});
  Buffer weight({rows, c / groups, 1, k, k});
  const std::vector<int64_t> ints = {groups, 1,   stride, stride, 0,
                                     pad,    pad, 1,      1,      1};
  HostLaunch launch;
  launch.kernel = kernel;
  launch.ints = ints;
  std::vector<Tensor> dst, src;
  absl::Status (*run)(const HostLaunch&, ThreadPool&);
  if (kernel == Kernel::kConvolution) {
    dst = {y.tensor()};
    src = {x.tensor(), weight.tensor()};
    run = RunConvolution;
  } else if (kernel == Kernel::kConvolutionTranspose) {
    dst = {x.tensor()};
    src = {y.tensor(), weight.tensor()};
    run = RunConvolutionTranspose;
  } else {
    dst = {weight.tensor()};
    src = {y.tensor(), x.tensor()};
    run = RunConvolutionWeight;
  }
  launch.dst = dst;
  launch.src = src;
  const char* threads = std::getenv("TVARANT_BENCHMARK_THREADS");
  ThreadPool pool(threads != nullptr ? std::atoi(threads) : 2);
  for (auto _ : state) {
    if (!run(launch, pool).ok()) state.SkipWithError("failed");
  }
  const double flops = 2.0 * static_cast<double>(y.data.size()) *
                       static_cast<double>(c / groups * k * k);
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()) * 1e-9,
                         benchmark::Counter::kIsRate);
}

void Shapes(benchmark::internal::Benchmark* b) {
  b->Args({3, 64, 224, 7, 2, 1});
  b->Args({64, 64, 56, 3, 1, 1});
  b->Args({64, 128, 56, 3, 2, 1});
  b->Args({128, 128, 28, 3, 1, 1});
  b->Args({256, 256, 14, 3, 1, 1});
  b->Args({512, 512, 7, 3, 1, 1});
  b->Args({256, 64, 56, 1, 1, 1});
  b->Args({1024, 256, 14, 1, 1, 1});
  b->Args({256, 512, 56, 1, 2, 1});
  b->Args({96, 96, 56, 3, 1, 96});
  b->Args({144, 144, 56, 3, 2, 144});
  b->UseRealTime();
}

BENCHMARK_CAPTURE(Conv, forward, Kernel::kConvolution)->Apply(Shapes);
BENCHMARK_CAPTURE(Conv, input, Kernel::kConvolutionTranspose)->Apply(Shapes);
BENCHMARK_CAPTURE(Conv, weight, Kernel::kConvolutionWeight)->Apply(Shapes);

}  // namespace
}  // namespace tvarant::host

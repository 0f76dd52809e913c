// Bandwidth of the memory-bound kernels, beside memcpy.
//
//   bazel run -c opt //daemon/kernels/host:host_kernels_benchmark
//
// Bytes count each operand once: what must cross the memory bus at least.

#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "daemon/kernels/host/host_kernels.h"

namespace tvarant::host {
namespace {

constexpr int64_t kLarge = 16 << 20;

ThreadPool& Pool() {
  static ThreadPool* const pool =
      new ThreadPool(static_cast<int>(std::thread::hardware_concurrency()));
  return *pool;
}

// A float32 tensor over its own memory.
class Buffer {
 public:
  Buffer(std::vector<int64_t> sizes, std::vector<int64_t> strides)
      : sizes_(std::move(sizes)), strides_(std::move(strides)) {
    int64_t last = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      last += (sizes_[i] - 1) * strides_[i];
    }
    values_.assign(last + 1, 0.5f);
  }
  explicit Buffer(int64_t n) : Buffer({n}, {1}) {}
  Tensor tensor() {
    Tensor t;
    t.data = reinterpret_cast<char*>(values_.data());
    t.dtype = DType::kFloat32;
    t.rank = static_cast<int>(sizes_.size());
    t.sizes = sizes_.data();
    t.strides = strides_.data();
    return t;
  }
  float* data() { return values_.data(); }

 private:
  std::vector<int64_t> sizes_, strides_;
  std::vector<float> values_;
};

void Report(benchmark::State& state, int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * bytes);
}

void BM_Memcpy(benchmark::State& state) {
  const int64_t n = state.range(0);
  Buffer x(n), y(n);
  for (auto _ : state) {
    Pool().ParallelFor(n * 4, 128 << 10, [&](int64_t begin, int64_t end) {
      std::memcpy(reinterpret_cast<char*>(y.data()) + begin,
                  reinterpret_cast<char*>(x.data()) + begin, end - begin);
    });
    benchmark::ClobberMemory();
  }
  Report(state, n * 8);
}
BENCHMARK(BM_Memcpy)->Arg(kLarge)->UseRealTime();

Program OneOp(PointwiseOp op) {
  ProgramBuilder p;
  const DType type = DType::kFloat32;
  const int a = p.Load(0, type);
  p.Store(ArityOf(op) == 2 ? p.Op(op, type, a, p.Load(1, type))
                           : p.Op(op, type, a));
  return std::move(p).Build();
}

void BM_Pointwise(benchmark::State& state, PointwiseOp op) {
  const int64_t n = state.range(0);
  Buffer a(n), b(n), y(n);
  const Program program = OneOp(op);
  const Tensor dst = y.tensor();
  std::vector<Tensor> src = {a.tensor()};
  if (ArityOf(op) == 2) src.push_back(b.tensor());
  HostLaunch launch;
  launch.kernel = Kernel::kPointwise;
  launch.program = &program;
  launch.dst = absl::MakeConstSpan(&dst, 1);
  launch.src = src;
  for (auto _ : state) {
    if (!RunPointwise(launch, Pool()).ok()) state.SkipWithError("failed");
  }
  Report(state, n * 4 * (1 + static_cast<int64_t>(src.size())));
}
#define POINTWISE(name, op)                              \
  BENCHMARK_CAPTURE(BM_Pointwise, name, PointwiseOp::op) \
      ->Arg(16)                                          \
      ->Arg(64 << 10)                                    \
      ->Arg(kLarge)                                      \
      ->UseRealTime()
POINTWISE(add, kAdd);
POINTWISE(mul, kMul);
POINTWISE(exp, kExp);
POINTWISE(tanh, kTanh);
POINTWISE(sigmoid, kSigmoid);
POINTWISE(gelu, kGelu);
POINTWISE(silu, kSilu);

// y = relu(a * b + bias), one bias per column.
void BM_Chain(benchmark::State& state) {
  const int64_t rows = 4096, columns = state.range(0);
  Buffer a({rows, columns}, {columns, 1}), b({rows, columns}, {columns, 1});
  Buffer bias({rows, columns}, {0, 1}), y({rows, columns}, {columns, 1});
  ProgramBuilder p;
  const DType type = DType::kFloat32;
  const int product =
      p.Op(PointwiseOp::kMul, type, p.Load(0, type), p.Load(1, type));
  p.Store(p.Op(PointwiseOp::kRelu, type,
               p.Op(PointwiseOp::kAdd, type, product, p.Load(2, type))));
  const Program program = std::move(p).Build();
  const Tensor dst = y.tensor();
  const std::vector<Tensor> src = {a.tensor(), b.tensor(), bias.tensor()};
  HostLaunch launch;
  launch.program = &program;
  launch.dst = absl::MakeConstSpan(&dst, 1);
  launch.src = src;
  for (auto _ : state) {
    if (!RunPointwise(launch, Pool()).ok()) state.SkipWithError("failed");
  }
  Report(state, rows * columns * 12);
}
BENCHMARK(BM_Chain)->Arg(10)->Arg(64)->Arg(4096)->UseRealTime();

void BM_Copy(benchmark::State& state, bool transposed) {
  const int64_t n = 4096;
  Buffer x({n, n}, transposed ? std::vector<int64_t>{1, n}
                              : std::vector<int64_t>{n, 1});
  Buffer y({n, n}, {n, 1});
  const Tensor dst = y.tensor(), src = x.tensor();
  HostLaunch launch;
  launch.dst = absl::MakeConstSpan(&dst, 1);
  launch.src = absl::MakeConstSpan(&src, 1);
  for (auto _ : state) {
    if (!RunCopy(launch, Pool()).ok()) state.SkipWithError("failed");
  }
  Report(state, n * n * 8);
}
BENCHMARK_CAPTURE(BM_Copy, contiguous, false)->UseRealTime();
BENCHMARK_CAPTURE(BM_Copy, transposed, true)->UseRealTime();

void BM_Fill(benchmark::State& state) {
  Buffer y(kLarge);
  const Tensor dst = y.tensor();
  const int64_t bits[2] = {0x3F800000, 0};
  HostLaunch launch;
  launch.dst = absl::MakeConstSpan(&dst, 1);
  launch.ints = bits;
  for (auto _ : state) {
    if (!RunFill(launch, Pool()).ok()) state.SkipWithError("failed");
  }
  Report(state, kLarge * 4);
}
BENCHMARK(BM_Fill)->UseRealTime();

// 4096 x 4096, over rows, over columns, over both.
void BM_Reduce(benchmark::State& state, ReduceOp op, int64_t rows,
               int64_t columns) {
  const int64_t n = 4096;
  Buffer x({n, n}, {n, 1}), y({rows, columns}, {columns, 1});
  const Tensor dst = y.tensor(), src = x.tensor();
  const int64_t ints[1] = {static_cast<int64_t>(op)};
  HostLaunch launch;
  launch.dst = absl::MakeConstSpan(&dst, 1);
  launch.src = absl::MakeConstSpan(&src, 1);
  launch.ints = ints;
  launch.scalar = 2;
  for (auto _ : state) {
    if (!RunReduce(launch, Pool()).ok()) state.SkipWithError("failed");
  }
  Report(state, n * n * 4);
}
BENCHMARK_CAPTURE(BM_Reduce, sum, ReduceOp::kSum, 1, 1)->UseRealTime();
BENCHMARK_CAPTURE(BM_Reduce, sum_rows, ReduceOp::kSum, 4096, 1)->UseRealTime();
BENCHMARK_CAPTURE(BM_Reduce, sum_columns, ReduceOp::kSum, 1, 4096)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_Reduce, max, ReduceOp::kMax, 1, 1)->UseRealTime();
BENCHMARK_CAPTURE(BM_Reduce, norm, ReduceOp::kNorm, 1, 1)->UseRealTime();
BENCHMARK_CAPTURE(BM_Reduce, var, ReduceOp::kVar, 4096, 1)->UseRealTime();

}  // namespace
}  // namespace tvarant::host

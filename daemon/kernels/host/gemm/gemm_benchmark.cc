#include <cstdint>
#include <vector>

#include "benchmark/benchmark.h"
#include "daemon/kernels/host/host_kernels.h"

namespace tvarant::host {
namespace {

constexpr int kThreads = 2;

// C[m, n] = A[m, k] @ B[k, n], B by columns if `columns`.
void RunShape(benchmark::State& state, DType dtype, int64_t m, int64_t n,
              int64_t k, bool columns) {
  const int64_t bytes = static_cast<int64_t>(SizeOf(dtype));
  // Zeros: no subnormal or infinite numbers, whatever the dtype.
  std::vector<char> a(m * k * bytes), b(k * n * bytes), c(m * n * bytes);
  const int64_t a_sizes[] = {1, m, k}, b_sizes[] = {1, k, n};
  const int64_t c_sizes[] = {1, m, n};
  const int64_t a_strides[] = {m * k, k, 1}, c_strides[] = {m * n, n, 1};
  const int64_t b_strides[] = {k * n, columns ? 1 : n, columns ? k : 1};
  const Tensor dst[] = {{c.data(), dtype, 3, c_sizes, c_strides}};
  const Tensor src[] = {{a.data(), dtype, 3, a_sizes, a_strides},
                        {b.data(), dtype, 3, b_sizes, b_strides},
                        {}};
  HostLaunch launch;
  launch.kernel = Kernel::kGemm;
  launch.batch = 1;
  launch.m = m;
  launch.n = n;
  launch.k = k;
  launch.dst = dst;
  launch.src = src;
  ThreadPool pool(kThreads);
  for (auto _ : state) {
    if (!RunGemm(launch, pool).ok()) state.SkipWithError("gemm failed");
  }
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * static_cast<double>(m) * static_cast<double>(n) *
                             static_cast<double>(k),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void Square(benchmark::State& state, DType dtype, bool columns) {
  const int64_t size = state.range(0);
  RunShape(state, dtype, size, size, size, columns);
}

void OneRow(benchmark::State& state, DType dtype, bool columns) {
  RunShape(state, dtype, 1, state.range(0), state.range(0), columns);
}

#define SQUARES RangeMultiplier(2)->Range(32, 2048)->UseRealTime()
BENCHMARK_CAPTURE(Square, f32, DType::kFloat32, false)->SQUARES;
BENCHMARK_CAPTURE(Square, f32_columns, DType::kFloat32, true)->SQUARES;
BENCHMARK_CAPTURE(Square, f64, DType::kFloat64, false)->SQUARES;
BENCHMARK_CAPTURE(Square, bf16, DType::kBFloat16, false)->SQUARES;
BENCHMARK_CAPTURE(OneRow, f32, DType::kFloat32, false)
    ->Arg(2048)
    ->UseRealTime();
BENCHMARK_CAPTURE(OneRow, f32_columns, DType::kFloat32, true)
    ->Arg(2048)
    ->UseRealTime();
BENCHMARK_CAPTURE(OneRow, bf16_columns, DType::kBFloat16, true)
    ->Arg(2048)
    ->UseRealTime();
#undef SQUARES

}  // namespace
}  // namespace tvarant::host

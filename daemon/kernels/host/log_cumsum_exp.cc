// log_cumsum_exp: y[i] = log(exp(x[0]) + .. + exp(x[i])) along one dimension,
// computed in double.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 11;

// log(exp(a) + exp(b))
double LogAddExp(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const double high = std::max(a, b), low = std::min(a, b);
  // Two equal infinities have no difference.
  if (high == low && std::isinf(high)) return high;
  return high + std::log1p(std::exp(low - high));
}

template <typename T>
void Run(const HostLaunch& launch, const base::StridedLoop<2>& lines,
         ThreadPool& pool) {
  const Tensor& y = launch.dst[0];
  const Tensor& x = launch.src[0];
  const int dim = static_cast<int>(launch.ints[0]);
  const int64_t length = x.sizes[dim];
  pool.ParallelForOrCancel(
      lines.num_rows() * lines.inner_size(),
      std::max<int64_t>(1, kElementsPerTask / length),
      [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          T* to = reinterpret_cast<T*>(y.data) + lines.OffsetOf(0, line);
          const T* from =
              reinterpret_cast<const T*>(x.data) + lines.OffsetOf(1, line);
          double sum = -INFINITY;
          for (int64_t i = 0; i < length; ++i) {
            sum = LogAddExp(
                sum, static_cast<double>(ToValue(from[i * x.strides[dim]])));
            to[i * y.strides[dim]] =
                FromValue<T>(static_cast<ValueType<T>>(sum));
          }
        }
      });
}

}  // namespace

absl::Status RunLogCumsumExp(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& y = launch.dst[0];
  if (y.numel() == 0) return absl::OkStatus();
  int64_t sizes[base::kMaxDims];
  std::copy_n(y.sizes, y.rank, sizes);
  sizes[launch.ints[0]] = 1;
  base::StridedLoop<2> lines(sizes, y.rank, {y.strides, launch.src[0].strides});
  lines.SortByFirst();
  lines.Coalesce();
  ForElementType(y.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (kIsFloat<T>) Run<T>(launch, lines, pool);
  });
  return absl::OkStatus();
}

}  // namespace tvarant::host

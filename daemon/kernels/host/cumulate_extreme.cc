// cumulate_extreme: running maximum or minimum along one dimension, and the
// last place where it stood so far. NaN wins.

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 14;
constexpr int64_t kBlock = 128;

template <bool kMin, typename V>
bool Wins(V value, V best) {
  return IsNan(value) | (!IsNan(best) & (kMin ? value <= best : value >= best));
}

template <typename T, bool kMin>
void AlongLine(const T* from, T* values, int64_t* indices,
               const int64_t (&steps)[3], int64_t length) {
  ValueType<T> best = ToValue(*from);
  int64_t best_at = 0;
  for (int64_t i = 0; i < length; ++i) {
    const ValueType<T> value = ToValue(from[i * steps[2]]);
    // Rare, so that the branch is guessed right and nothing waits for it.
    if (Wins<kMin>(value, best)) {
      best = value;
      best_at = i;
    }
    values[i * steps[0]] = FromValue<T>(best);
    indices[i * steps[1]] = best_at;
  }
}

template <typename T, bool kMin>
void Run(const HostLaunch& launch, const base::StridedLoop<3>& lines,
         ThreadPool& pool) {
  const Tensor& values = launch.dst[0];
  const Tensor& indices = launch.dst[1];
  const Tensor& x = launch.src[0];
  const int dim = static_cast<int>(launch.ints[0]);
  const int64_t length = x.sizes[dim], width = lines.inner_size();
  // Neighbouring lines go side by side if that walks memory better.
  const bool along = x.strides[dim] <= lines.inner_stride(2);
  const int64_t block = along ? 1 : std::min(kBlock, width);
  const int64_t blocks = (width + block - 1) / block;
  const int64_t steps[3] = {values.strides[dim], indices.strides[dim],
                            x.strides[dim]};
  pool.ParallelForOrCancel(
      lines.num_rows() * blocks,
      std::max<int64_t>(1, kElementsPerTask / (length * block)),
      [&](int64_t begin, int64_t end) {
        ValueType<T> best[kBlock];
        int64_t best_at[kBlock];
        for (int64_t task = begin; task < end; ++task) {
          const int64_t first = task % blocks * block;
          const int64_t count = std::min(block, width - first);
          const int64_t line = task / blocks * width + first;
          T* value =
              reinterpret_cast<T*>(values.data) + lines.OffsetOf(0, line);
          int64_t* index = reinterpret_cast<int64_t*>(indices.data) +
                           lines.OffsetOf(1, line);
          const T* from =
              reinterpret_cast<const T*>(x.data) + lines.OffsetOf(2, line);
          if (along) {
            AlongLine<T, kMin>(from, value, index, steps, length);
            continue;
          }
          for (int64_t i = 0; i < length; ++i) {
            for (int64_t l = 0; l < count; ++l) {
              const ValueType<T> v =
                  ToValue(from[l * lines.inner_stride(2) + i * steps[2]]);
              if (i == 0 || Wins<kMin>(v, best[l])) {
                best[l] = v;
                best_at[l] = i;
              }
              value[l * lines.inner_stride(0) + i * steps[0]] =
                  FromValue<T>(best[l]);
              index[l * lines.inner_stride(1) + i * steps[1]] = best_at[l];
            }
          }
        }
      });
}

}  // namespace

absl::Status RunCumulateExtreme(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& values = launch.dst[0];
  if (values.numel() == 0) return absl::OkStatus();
  int64_t sizes[base::kMaxDims];
  std::copy_n(values.sizes, values.rank, sizes);
  sizes[launch.ints[0]] = 1;
  base::StridedLoop<3> lines(
      sizes, values.rank,
      {values.strides, launch.dst[1].strides, launch.src[0].strides});
  lines.SortByFirst();
  lines.Coalesce();
  ForElementType(values.dtype, [&](auto element) {
    using T = decltype(element);
    if (launch.ints[1] != 0) {
      Run<T, true>(launch, lines, pool);
    } else {
      Run<T, false>(launch, lines, pool);
    }
  });
  return absl::OkStatus();
}

}  // namespace tvarant::host

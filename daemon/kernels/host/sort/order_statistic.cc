// order_statistic: of each line along dim the k-th smallest element, the
// median, the median without NaNs, or the most frequent one; and its index.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/scratch.h"
#include "daemon/kernels/host/sort/sort_entries.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 13;

// Where the most frequent element of a sorted line last stands; the smallest
// one if several are. No two NaNs are equal.
template <typename T, typename E>
int64_t LastOfMode(const E* sorted, int64_t n) {
  int64_t best = 0, best_count = 0;
  for (int64_t i = 0; i < n;) {
    int64_t end = i + 1;
    const bool is_nan = kIsFloat<T> && sorted[i].key() == kNanKey<SortKey<T>>;
    while (!is_nan && end < n && sorted[end].key() == sorted[i].key()) ++end;
    if (end - i > best_count) {
      best = end - 1;
      best_count = end - i;
    }
    i = end;
  }
  return sorted[best].index();
}

// The index of the element that is asked for.
template <typename T, typename E>
int64_t Select(const T* row, int64_t step, int64_t n, OrderStatistic what,
               int64_t k, E* a) {
  LoadEntries(row, step, 0, n, /*descending=*/false, a);
  int64_t nans = 0;
  if constexpr (kIsFloat<T>) {
    // Short keys in wide entries keep their own NaN.
    constexpr auto kNan = kNanKey<SortKey<T>>;
    for (int64_t i = 0; i < n; ++i) nans += a[i].key() == kNan;
  }
  if (what == OrderStatistic::kMode) {
    return LastOfMode<T>(SortEntries(a, a + n, n), n);
  }
  if (what == OrderStatistic::kMedian && nans > 0) {
    for (int64_t i = 0; i < n; ++i) {
      if (IsNan(ToValue(row[i * step]))) return i;
    }
  }
  int64_t at = k;
  if (what == OrderStatistic::kMedian) at = (n - 1) / 2;
  if (what == OrderStatistic::kNanMedian) {
    at = std::max<int64_t>(n - nans - 1, 0) / 2;
  }
  std::nth_element(a, a + at, a + n);
  return a[at].index();
}

template <typename T, typename E>
bool Run(const HostLaunch& launch, const base::StridedLoop<3>& loop,
         ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  const int dim = static_cast<int>(launch.ints[0]);
  const auto what = static_cast<OrderStatistic>(launch.ints[1]);
  const int64_t n = x.sizes[dim], step = x.strides[dim];
  const bool sorts = what == OrderStatistic::kMode;
  std::atomic<bool> have_memory{true};
  pool.ParallelForOrCancel(
      loop.num_rows() * loop.inner_size(),
      std::max<int64_t>(1, kElementsPerTask / n),
      [&](int64_t begin, int64_t end) {
        E* a = reinterpret_cast<E*>(
            Scratch(static_cast<size_t>(n) * sizeof(E) * (sorts ? 2 : 1)));
        if (a == nullptr) {
          have_memory = false;
          return;
        }
        for (int64_t line = begin; line < end; ++line) {
          const T* row =
              reinterpret_cast<const T*>(x.data) + loop.OffsetOf(2, line);
          const int64_t at = Select(row, step, n, what, launch.ints[2], a);
          reinterpret_cast<T*>(launch.dst[0].data)[loop.OffsetOf(0, line)] =
              row[at * step];
          reinterpret_cast<int64_t*>(
              launch.dst[1].data)[loop.OffsetOf(1, line)] = at;
        }
      });
  return have_memory;
}

}  // namespace

absl::Status RunOrderStatistic(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& values = launch.dst[0];
  const Tensor& x = launch.src[0];
  if (values.numel() == 0) return absl::OkStatus();
  base::StridedLoop<3> loop(values.sizes, values.rank,
                            {values.strides, launch.dst[1].strides, x.strides});
  loop.Coalesce();
  bool have_memory = true;
  ForElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    const int64_t n = x.sizes[launch.ints[0]];
    have_memory = WithEntry<T>(n, [&](auto entry) {
      return Run<T, decltype(entry)>(launch, loop, pool);
    });
  });
  if (have_memory) return absl::OkStatus();
  return absl::ResourceExhaustedError("order_statistic: no host memory");
}

}  // namespace tvarant::host

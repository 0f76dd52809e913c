// within: whether all elements lie between two limits.

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "daemon/kernels/host/element_runs.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "proto/base/strided.h"
#include "proto/ops/data_checks.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 15;

template <typename T, typename Limit>
bool AllWithin(const Tensor& x, Limit low, Limit high, ThreadPool& pool) {
  base::StridedLoop<1> loop(x.sizes, x.rank, {x.strides});
  loop.Coalesce();
  std::atomic<bool> bad{false};
  pool.ParallelFor(
      x.numel(), kElementsPerTask, [&](int64_t begin, int64_t end) {
        ForEachRun(loop, begin, end, [&](const auto& at, int64_t, int64_t run) {
          const T* from = reinterpret_cast<const T*>(x.data) + at[0];
          const int64_t step = loop.inner_stride(0);
          // Without a branch, for vectors. NaN fails both.
          int good = 1;
          for (int64_t i = 0; i < run; ++i) {
            const auto value = static_cast<Limit>(ToValue(from[i * step]));
            good &= (value >= low) & (value <= high);
          }
          if (good == 0) bad.store(true, std::memory_order_relaxed);
        });
      });
  return !bad;
}

}  // namespace

absl::Status RunWithin(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  bool within = true;
  if (x.numel() == 0) return absl::OkStatus();
  ForElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_same_v<T, double>) {
      within =
          AllWithin<T, double>(x, launch.floats[0], launch.floats[1], pool);
    } else if constexpr (kIsFloat<T>) {
      within = AllWithin<T, float>(x, static_cast<float>(launch.floats[0]),
                                   static_cast<float>(launch.floats[1]), pool);
    } else {
      within = AllWithin<T, int64_t>(x, launch.ints[1], launch.ints[2], pool);
    }
  });
  if (within) return absl::OkStatus();
  return absl::InvalidArgumentError(SentenceOf(launch.ints[0]));
}

}  // namespace tvarant::host

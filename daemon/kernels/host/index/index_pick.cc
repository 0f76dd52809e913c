// index: y[p.., i.., q..] = x[p.., index0[i..], index1[i..], .., q..]

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "daemon/kernels/host/index/index_places.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 14;

template <typename E>
void CopyRun(const E* x, int64_t x_step, E* y, int64_t y_step, int64_t count) {
  if (x_step == 1 && y_step == 1) {
    std::memcpy(y, x, count * sizeof(E));
    return;
  }
  for (int64_t i = 0; i < count; ++i) y[i * y_step] = x[i * x_step];
}

// Elements [begin, end) of the slices that the positions of a block pick.
template <typename E>
void PickBlock(const base::StridedLoop<2>& kept, int64_t begin, int64_t end,
               bool positions_inner, const int64_t* from, const int64_t* to,
               bool dense, int64_t count, const E* x, E* y) {
  const int64_t y_step = kept.inner_stride(0), x_step = kept.inner_stride(1);
  if (!positions_inner) {
    if (kept.num_rows() == 1) {
      x += begin * x_step;
      y += begin * y_step;
      for (int64_t i = 0; i < count; ++i) {
        if (from[i] == IndexPlaces::kBad) continue;
        CopyRun(x + from[i], x_step, y + to[i], y_step, end - begin);
      }
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      if (from[i] == IndexPlaces::kBad) continue;
      ForEachRun(kept, begin, end, [&](const auto& at, int64_t, int64_t n) {
        CopyRun(x + from[i] + at[1], x_step, y + to[i] + at[0], y_step, n);
      });
    }
    return;
  }
  bool good = true;
  for (int64_t i = 0; i < count; ++i) good &= from[i] != IndexPlaces::kBad;
  ForEachRun(kept, begin, end, [&](const auto& at, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
      const E* source = x + at[1] + j * x_step;
      E* target = y + at[0] + j * y_step;
      if (good && dense) {
        target += to[0];
        for (int64_t i = 0; i < count; ++i) target[i] = source[from[i]];
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        if (from[i] != IndexPlaces::kBad) target[to[i]] = source[from[i]];
      }
    }
  });
}

}  // namespace

absl::Status RunIndexPick(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& y = launch.dst[0];
  const Tensor& x = launch.src[0];
  const auto indices = launch.src.subspan(1);
  const int first = static_cast<int>(launch.ints[0]);
  const int num_indexed = static_cast<int>(indices.size());
  IndexPlaces places(x, first, indices, launch.ints.subspan(1),
                     (launch.flags & kWrapNegative) != 0);
  PickedLoops loops = LoopsOf(y, x, first, num_indexed, indices[0].rank);
  loops.kept.SortByFirst();
  loops.kept.Coalesce();
  const base::StridedLoop<2>& kept = loops.kept;
  const int64_t slice = kept.num_rows() * kept.inner_size();
  const int64_t count = places.count();
  if (slice == 0 || count == 0) return absl::OkStatus();
  // The inner loop is over what lies closer together in y.
  const int64_t step = loops.positions.inner_stride(0);
  const bool positions_inner =
      kept.inner_size() == 1 || step < kept.inner_stride(0);
  const bool dense = loops.positions.rank() == 1 && step == 1;
  // Tasks are blocks of positions, and parts of their slices.
  const int64_t block = positions_inner
                            ? std::min(count, IndexPlaces::kBlock)
                            : std::clamp<int64_t>(kElementsPerTask / slice, 1,
                                                  IndexPlaces::kBlock);
  const int64_t blocks = (count + block - 1) / block;
  const int64_t part = std::clamp<int64_t>(kElementsPerTask / block, 1, slice);
  const int64_t parts = (slice + part - 1) / part;
  ForElementSize(SizeOf(x.dtype), [&](auto element) {
    using E = decltype(element);
    pool.ParallelForOrCancel(
        blocks * parts, std::max<int64_t>(1, kElementsPerTask / (block * part)),
        [&](int64_t begin, int64_t end) {
          int64_t from[IndexPlaces::kBlock], to[IndexPlaces::kBlock];
          int64_t resolved = -1;
          for (int64_t task = begin; task < end; ++task) {
            const int64_t first = task / parts * block;
            const int64_t last = std::min(count, first + block);
            if (resolved != first) {
              places.Resolve(first, last, from);
              ForEachRun(loops.positions, first, last,
                         [&](const auto& at, int64_t i, int64_t n) {
                           for (int64_t j = 0; j < n; ++j) {
                             to[i - first + j] = at[0] + j * step;
                           }
                         });
              resolved = first;
            }
            const int64_t start = task % parts * part;
            PickBlock(kept, start, std::min(slice, start + part),
                      positions_inner, from, to, dense, last - first,
                      reinterpret_cast<const E*>(x.data),
                      reinterpret_cast<E*>(y.data));
          }
        });
  });
  return places.status();
}

}  // namespace tvarant::host

// masked_select: y = the elements of x where mask is true, in order.
// masked_scatter: the elements of y where mask is true = source, in order.
//
// One pass counts by chunks, a second one moves. The mask may change between
// them, so each chunk keeps to what it counted.

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/element_runs.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

// first[c]: how many are true before chunk c. The loop's operand 0 is the mask.
void CountTrue(const Tensor& mask, const base::StridedLoop<2>& loop,
               const Chunks& chunks, int64_t* first, ThreadPool& pool) {
  const int64_t step = loop.inner_stride(0);
  pool.ParallelFor(chunks.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      int64_t count = 0;
      ForEachRun(loop, chunks.begin(c), chunks.end(c),
                 [&](const auto& at, int64_t, int64_t n) {
                   const uint8_t* m =
                       reinterpret_cast<const uint8_t*>(mask.data) + at[0];
                   if (step == 1) {
                     for (int64_t i = 0; i < n; ++i) count += m[i] != 0;
                   } else {
                     for (int64_t i = 0; i < n; ++i) count += m[i * step] != 0;
                   }
                 });
      first[c + 1] = count;
    }
  });
  first[0] = 0;
  for (int64_t c = 0; c < chunks.count; ++c) first[c + 1] += first[c];
}

// Calls move(offset, number) for the true elements of a chunk: where the other
// operand has it and how many were true before. Numbers stay below `last`.
template <typename Move>
void ForEachTrue(const Tensor& mask, const base::StridedLoop<2>& loop,
                 int64_t begin, int64_t end, int64_t number, int64_t last,
                 Move move) {
  const int64_t step = loop.inner_stride(0), other = loop.inner_stride(1);
  ForEachRun(loop, begin, end, [&](const auto& at, int64_t, int64_t n) {
    const uint8_t* m = reinterpret_cast<const uint8_t*>(mask.data) + at[0];
    for (int64_t i = 0; i < n && number < last; ++i) {
      if (m[i * step] != 0) move(at[1] + i * other, number++);
    }
  });
}

// The same, but writes before it looks, which needs no guess of the branch.
template <typename E>
void Compress(const Tensor& mask, const base::StridedLoop<2>& loop,
              int64_t begin, int64_t end, const E* x, E* y, int64_t y_step,
              int64_t count) {
  const int64_t step = loop.inner_stride(0), x_step = loop.inner_stride(1);
  int64_t number = 0;
  ForEachRun(loop, begin, end, [&](const auto& at, int64_t, int64_t n) {
    const uint8_t* m = reinterpret_cast<const uint8_t*>(mask.data) + at[0];
    const E* from = x + at[1];
    for (int64_t i = 0; i < n && number < count; ++i) {
      y[number * y_step] = from[i * x_step];
      number += m[i * step] != 0;
    }
  });
}

}  // namespace

absl::Status RunMaskedSelect(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  const Tensor& mask = launch.src[1];
  const Tensor& y = launch.dst[0];
  if (mask.numel() == 0) return absl::OkStatus();
  base::StridedLoop<2> loop(x.sizes, x.rank, {mask.strides, x.strides});
  loop.Coalesce();
  const Chunks chunks(mask.numel());
  int64_t first[Chunks::kMost + 1];
  CountTrue(mask, loop, chunks, first, pool);
  if (first[chunks.count] != y.sizes[0]) {
    return absl::InvalidArgumentError(
        absl::StrCat("masked_select: the mask has ", first[chunks.count],
                     " true elements, the result ", y.sizes[0]));
  }
  ForElementSize(SizeOf(x.dtype), [&](auto element) {
    using E = decltype(element);
    pool.ParallelFor(chunks.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        Compress<E>(mask, loop, chunks.begin(c), chunks.end(c),
                    reinterpret_cast<const E*>(x.data),
                    reinterpret_cast<E*>(y.data) + first[c] * y.strides[0],
                    y.strides[0], first[c + 1] - first[c]);
      }
    });
  });
  return absl::OkStatus();
}

absl::Status RunMaskedScatter(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& mask = launch.src[0];
  const Tensor& source = launch.src[1];
  const Tensor& y = launch.dst[0];
  if (mask.numel() == 0) return absl::OkStatus();
  base::StridedLoop<2> loop(y.sizes, y.rank, {mask.strides, y.strides});
  loop.Coalesce();
  const Chunks chunks(mask.numel());
  int64_t first[Chunks::kMost + 1];
  CountTrue(mask, loop, chunks, first, pool);
  const int64_t available = source.sizes[0];
  ForElementSize(SizeOf(y.dtype), [&](auto element) {
    using E = decltype(element);
    E* to = reinterpret_cast<E*>(y.data);
    const E* from = reinterpret_cast<const E*>(source.data);
    const int64_t step = source.strides[0];
    pool.ParallelFor(chunks.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        ForEachTrue(mask, loop, chunks.begin(c), chunks.end(c), first[c],
                    std::min(first[c + 1], available),
                    [&](int64_t offset, int64_t number) {
                      to[offset] = from[number * step];
                    });
      }
    });
  });
  if (first[chunks.count] > available) {
    return absl::InvalidArgumentError(
        "masked_scatter: expected number of elements of source to be at least "
        "the number of ones in the mask");
  }
  return absl::OkStatus();
}

}  // namespace tvarant::host

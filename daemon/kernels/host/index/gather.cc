// gather: y[i][j][k] = x[i][index[i][j][k]][k] for dim 1, and alike.

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 14;
constexpr int64_t kBlock = 256;

// y[i] = x[i][at[i]], elements `step` apart; every index is good.
template <typename E>
void PickAll(const int64_t* at, int64_t n, E* y, int64_t y_step, const E* x,
             int64_t x_step, int64_t x_dim) {
  if (y_step == 1 && x_step == 0 && x_dim == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[at[i]];
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    y[i * y_step] = x[i * x_step + at[i] * x_dim];
  }
}

// The same, where some are not; `position` is that of the first.
template <typename E>
void PickSome(const int64_t* at, int64_t n, int64_t position, int64_t size,
              E* y, int64_t y_step, const E* x, int64_t x_step, int64_t x_dim,
              BadIndex* bad) {
  for (int64_t i = 0; i < n; ++i) {
    if (at[i] < 0 || at[i] >= size) {
      bad->Report(position + i, at[i]);
      continue;
    }
    y[i * y_step] = x[i * x_step + at[i] * x_dim];
  }
}

}  // namespace

absl::Status RunGather(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  const Tensor& index = launch.src[1];
  const Tensor& y = launch.dst[0];
  if (x.dtype != y.dtype || !IsIndexDType(index.dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("gather: no kernel for ", NameOf(x.dtype), " to ",
                     NameOf(y.dtype), " by ", NameOf(index.dtype)));
  }
  const int64_t dim = launch.ints[0];
  const int64_t size = x.rank == 0 ? 1 : x.sizes[dim];
  const int64_t x_dim = x.rank == 0 ? 0 : x.strides[dim];
  // Where an element of y has its line in x: all dimensions but dim.
  int64_t x_strides[base::kMaxDims];
  for (int i = 0; i < y.rank; ++i) {
    x_strides[i] = i == dim || x.rank == 0 ? 0 : x.strides[i];
  }
  base::StridedLoop<3> loop(y.sizes, y.rank,
                            {y.strides, index.strides, x_strides});
  loop.Coalesce();
  const int64_t inner = loop.inner_size();
  // Long rows are cut, so that a vector is split over threads as well.
  const int64_t piece = std::min(std::max<int64_t>(inner, 1), kElementsPerTask);
  const int64_t pieces = (inner + piece - 1) / piece;
  BadIndex bad;
  ForElementSize(SizeOf(x.dtype), [&](auto element) {
    using E = decltype(element);
    E* dst = reinterpret_cast<E*>(y.data);
    const E* src = reinterpret_cast<const E*>(x.data);
    pool.ParallelForOrCancel(
        loop.num_rows() * pieces, kElementsPerTask / piece,
        [&](int64_t begin, int64_t end) {
          for (int64_t task = begin; task < end; ++task) {
            const int64_t start = task % pieces * piece;
            const int64_t first = task / pieces * inner + start;
            const int64_t count = std::min(piece, inner - start);
            E* to = dst + loop.OffsetOf(0, first);
            const int64_t index_at = loop.OffsetOf(1, first);
            const E* from = src + loop.OffsetOf(2, first);
            for (int64_t i = 0; i < count; i += kBlock) {
              const int64_t n = std::min(kBlock, count - i);
              int64_t at[kBlock];
              if (!LoadIndices(index, index_at + i * loop.inner_stride(1),
                               loop.inner_stride(1), n, size, at)) {
                PickSome(at, n, first + i, size, to + i * loop.inner_stride(0),
                         loop.inner_stride(0), from + i * loop.inner_stride(2),
                         loop.inner_stride(2), x_dim, &bad);
                continue;
              }
              PickAll(at, n, to + i * loop.inner_stride(0),
                      loop.inner_stride(0), from + i * loop.inner_stride(2),
                      loop.inner_stride(2), x_dim);
            }
          }
        });
  });
  return bad.status(dim, size);
}

}  // namespace tvarant::host

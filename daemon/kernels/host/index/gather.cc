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
    pool.ParallelFor(loop.num_rows() * pieces, kElementsPerTask / piece,
                     [&](int64_t begin, int64_t end) {
                       for (int64_t task = begin; task < end; ++task) {
                         const int64_t start = task % pieces * piece;
                         const int64_t first = task / pieces * inner + start;
                         const int64_t count = std::min(piece, inner - start);
                         E* to = dst + loop.OffsetOf(0, first);
                         const int64_t index_at = loop.OffsetOf(1, first);
                         const E* from = src + loop.OffsetOf(2, first);
                         for (int64_t i = 0; i < count; ++i) {
                           const int64_t at = IndexAt(
                               index, index_at + i * loop.inner_stride(1));
                           if (at < 0 || at >= size) {
                             bad.Report(first + i, at);
                             continue;
                           }
                           to[i * loop.inner_stride(0)] =
                               from[i * loop.inner_stride(2) + at * x_dim];
                         }
                       }
                     });
  });
  return bad.status(dim, size);
}

}  // namespace tvarant::host

// index_select: y[..., i, ...] = x[..., index[i], ...]

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kBytesPerTask = 1 << 16;

// The index's value, brought into [0, size), or -1 if it is bad.
int64_t Resolve(const Tensor& index, int64_t i, int64_t size, bool wrap,
                BadIndex* bad) {
  const int64_t value =
      IndexAt(index, index.rank == 0 ? 0 : i * index.strides[0]);
  const int64_t at = wrap && value < 0 && value >= -size ? value + size : value;
  if (at >= 0 && at < size) return at;
  bad->Report(i, value);
  return -1;
}

template <typename E>
void CopyRun(const E* x, int64_t x_step, E* y, int64_t y_step, int64_t count) {
  if (x_step == 1 && y_step == 1) {
    std::memcpy(y, x, count * sizeof(E));
    return;
  }
  for (int64_t i = 0; i < count; ++i) y[i * y_step] = x[i * x_step];
}

}  // namespace

absl::Status RunIndexSelect(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  const Tensor& index = launch.src[1];
  const Tensor& y = launch.dst[0];
  if (x.dtype != y.dtype || !IsIndexDType(index.dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("index_select: no kernel for ", NameOf(x.dtype), " to ",
                     NameOf(y.dtype), " by ", NameOf(index.dtype)));
  }
  const int64_t dim = launch.ints[0];
  const bool wrap = (launch.flags & kWrapNegative) != 0;
  const int64_t size = x.rank == 0 ? 1 : x.sizes[dim];
  const int64_t count = index.numel();
  const int64_t x_dim = x.rank == 0 ? 0 : x.strides[dim];
  const int64_t y_dim = y.rank == 0 ? 0 : y.strides[dim];
  int64_t sizes[base::kMaxDims];
  int64_t y_strides[base::kMaxDims], x_strides[base::kMaxDims];
  int rank = 0;
  for (int i = 0; i < y.rank; ++i) {
    if (i == dim) continue;
    y_strides[rank] = y.strides[i];
    x_strides[rank] = x.strides[i];
    sizes[rank++] = y.sizes[i];
  }
  base::StridedLoop<2> loop(sizes, rank, {y_strides, x_strides});
  loop.SortByFirst();
  loop.Coalesce();
  const int64_t inner = loop.inner_size(), rows = loop.num_rows();
  BadIndex bad;
  if (rows == 0) return absl::OkStatus();
  ForElementSize(SizeOf(x.dtype), [&](auto element) {
    using E = decltype(element);
    E* dst = reinterpret_cast<E*>(y.data);
    const E* src = reinterpret_cast<const E*>(x.data);
    if (y_dim >= loop.inner_stride(0) || inner >= count) {
      // Slice by slice: whole runs of the inner dimension.
      const int64_t slice_bytes =
          rows * inner * static_cast<int64_t>(sizeof(E));
      pool.ParallelFor(
          count, std::max<int64_t>(1, kBytesPerTask / slice_bytes),
          [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t at = Resolve(index, i, size, wrap, &bad);
              if (at < 0) continue;
              loop.ForEachRow(0, rows, [&](const int64_t(&offset)[2]) {
                CopyRun(src + at * x_dim + offset[1], loop.inner_stride(1),
                        dst + i * y_dim + offset[0], loop.inner_stride(0),
                        inner);
              });
            }
          });
      return;
    }
    // The indexed dimension is the inner one in memory: element by element.
    pool.ParallelFor(
        rows * inner,
        std::max<int64_t>(1, kBytesPerTask / static_cast<int64_t>(sizeof(E)) /
                                 std::max<int64_t>(count, 1)),
        [&](int64_t begin, int64_t end) {
          for (int64_t line = begin; line < end; ++line) {
            E* to = dst + loop.OffsetOf(0, line);
            const E* from = src + loop.OffsetOf(1, line);
            for (int64_t i = 0; i < count; ++i) {
              const int64_t at = Resolve(index, i, size, wrap, &bad);
              if (at >= 0) to[i * y_dim] = from[at * x_dim];
            }
          }
        });
  });
  return bad.status(dim, size);
}

}  // namespace tvarant::host

// triangle: keeps the lower or the upper triangle of each matrix.

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "daemon/kernels/host/host_kernels.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kGrainBytes = 128 << 10;

struct Bytes16 {
  uint64_t low;
  uint64_t high;
};

// Row i keeps columns [0, i + diagonal] (lower) or [i + diagonal, width).
template <typename T>
void Triangle(const Tensor& dst, const Tensor& src, int64_t diagonal,
              bool upper, ThreadPool& pool) {
  // Neither sorted nor joined: a row's number matters.
  const base::StridedLoop<2> loop(dst.sizes, dst.rank,
                                  {dst.strides, src.strides});
  const int64_t height = dst.sizes[dst.rank - 2];
  const int64_t width = loop.inner_size();
  if (dst.numel() == 0) return;
  const int64_t row_bytes = width * static_cast<int64_t>(sizeof(T));
  pool.ParallelFor(
      loop.num_rows(), std::max<int64_t>(kGrainBytes / row_bytes, 1),
      [&](int64_t begin, int64_t end) {
        int64_t row = begin;
        loop.ForEachRow(begin, end, [&](const int64_t(&at)[2]) {
          auto* y = reinterpret_cast<T*>(dst.data) + at[0];
          auto* x = reinterpret_cast<const T*>(src.data) + at[1];
          const int64_t i = row++ % height;
          // i < 2^62, so that a far diagonal saturates.
          const int64_t border = std::clamp<int64_t>(
              std::clamp(diagonal, -(int64_t{1} << 62), int64_t{1} << 62) + i +
                  (upper ? 0 : 1),
              0, width);
          const int64_t from = upper ? border : 0;
          const int64_t to = upper ? width : border;
          const int64_t dst_step = loop.inner_stride(0);
          const int64_t src_step = loop.inner_stride(1);
          for (int64_t j = 0; j < from; ++j) y[j * dst_step] = T{};
          for (int64_t j = from; j < to; ++j) {
            y[j * dst_step] = x[j * src_step];
          }
          for (int64_t j = to; j < width; ++j) y[j * dst_step] = T{};
        });
      });
}

}  // namespace

absl::Status RunTriangle(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& dst = launch.dst[0];
  const Tensor& src = launch.src[0];
  if (launch.ints.size() < 2 || dst.rank < 2) {
    return absl::InvalidArgumentError("triangle: wants a matrix and two ints");
  }
  if (dst.dtype != src.dtype) {
    return absl::UnimplementedError("triangle: dtypes differ");
  }
  const int64_t diagonal = launch.ints[0];
  const bool upper = launch.ints[1] != 0;
  switch (SizeOf(dst.dtype)) {
    case 1:
      Triangle<uint8_t>(dst, src, diagonal, upper, pool);
      break;
    case 2:
      Triangle<uint16_t>(dst, src, diagonal, upper, pool);
      break;
    case 4:
      Triangle<uint32_t>(dst, src, diagonal, upper, pool);
      break;
    case 8:
      Triangle<uint64_t>(dst, src, diagonal, upper, pool);
      break;
    default:
      Triangle<Bytes16>(dst, src, diagonal, upper, pool);
      break;
  }
  return absl::OkStatus();
}

}  // namespace tvarant::host

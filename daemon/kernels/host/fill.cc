#include "daemon/kernels/host/fill.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kGrainBytes = 128 << 10;

struct Bytes16 {
  uint64_t low;
  uint64_t high;
};

// In pieces of a cache line, which become wide stores.
template <typename T>
void FillDense(T* y, int64_t n, T value) {
  constexpr int64_t kPiece = 64 / static_cast<int64_t>(sizeof(T));
  T piece[kPiece];
  std::fill(piece, piece + kPiece, value);
  int64_t i = 0;
  for (; i + kPiece <= n; i += kPiece) std::memcpy(y + i, piece, 64);
  std::fill(y + i, y + n, value);
}

template <typename T>
void FillRow(char* dst, int64_t stride, int64_t n, T value) {
  auto* y = reinterpret_cast<T*>(dst);
  if (stride == 1) {
    FillDense(y, n, value);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i * stride] = value;
  }
}

template <typename T>
void FillAs(const Tensor& dst, T value, ThreadPool& pool) {
  if (dst.numel() == 0) return;
  base::StridedLoop<1> loop(dst.sizes, dst.rank, {dst.strides});
  loop.SortByFirst();
  loop.Coalesce();
  constexpr int64_t kBytes = sizeof(T);
  const int64_t stride = loop.inner_stride(0);
  const int64_t width = loop.inner_size();
  if (loop.rank() == 1) {
    pool.ParallelFor(width, kGrainBytes / kBytes,
                     [&](int64_t begin, int64_t end) {
                       FillRow(dst.data + begin * stride * kBytes, stride,
                               end - begin, value);
                     });
    return;
  }
  pool.ParallelFor(loop.num_rows(),
                   std::max<int64_t>(kGrainBytes / kBytes / width, 1),
                   [&](int64_t begin, int64_t end) {
                     loop.ForEachRow(begin, end, [&](const int64_t(&at)[1]) {
                       FillRow(dst.data + at[0] * kBytes, stride, width, value);
                     });
                   });
}

}  // namespace

void FillTensor(const Tensor& dst, uint64_t low, uint64_t high,
                ThreadPool& pool) {
  switch (SizeOf(dst.dtype)) {
    case 1:
      return FillAs(dst, static_cast<uint8_t>(low), pool);
    case 2:
      return FillAs(dst, static_cast<uint16_t>(low), pool);
    case 4:
      return FillAs(dst, static_cast<uint32_t>(low), pool);
    case 8:
      return FillAs(dst, low, pool);
    case 16:
      return FillAs(dst, Bytes16{low, high}, pool);
  }
}

absl::Status RunFill(const HostLaunch& launch, ThreadPool& pool) {
  if (launch.ints.size() < 2) {
    return absl::InvalidArgumentError("fill: wants two ints");
  }
  FillTensor(launch.dst[0], static_cast<uint64_t>(launch.ints[0]),
             static_cast<uint64_t>(launch.ints[1]), pool);
  return absl::OkStatus();
}

}  // namespace tvarant::host

// nonzero: row i of y has the coordinates of x's i-th element that is not 0.
//
// One pass counts by chunks, a second one writes. The memory may change
// between them, so each chunk keeps to the rows that it counted.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "daemon/kernels/host/element_runs.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

// Bits that make an element not 0: all but a float's sign.
template <typename E>
E ValueBits(DType dtype) {
  const E all = static_cast<E>(~E{0});
  return IsFloating(dtype) ? static_cast<E>(all >> 1) : all;
}

template <typename E>
int64_t CountRun(const E* x, int64_t step, int64_t n, E bits) {
  int64_t count = 0;
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) count += (x[i] & bits) != 0;
  } else {
    for (int64_t i = 0; i < n; ++i) count += (x[i * step] & bits) != 0;
  }
  return count;
}

// Coordinates of elements that come in rising order.
class Coordinates {
 public:
  Coordinates(const int64_t* sizes, int rank) : sizes_(sizes), rank_(rank) {}

  const int64_t* Of(int64_t element) {
    if (rank_ == 0) return at_;
    const int64_t ahead = at_[rank_ - 1] + (element - element_);
    if (element_ >= 0 && ahead < sizes_[rank_ - 1]) {
      at_[rank_ - 1] = ahead;
    } else {
      int64_t rest = element;
      for (int d = rank_ - 1; d >= 0; --d) {
        at_[d] = rest % sizes_[d];
        rest /= sizes_[d];
      }
    }
    element_ = element;
    return at_;
  }

 private:
  const int64_t* sizes_;
  int rank_;
  int64_t element_ = -1;
  int64_t at_[base::kMaxDims] = {};
};

template <typename E>
void Write(const Tensor& x, const base::StridedLoop<1>& loop, int64_t begin,
           int64_t end, const Tensor& y, int64_t row, int64_t row_end) {
  int64_t* out = reinterpret_cast<int64_t*>(y.data);
  const int64_t row_step = y.strides[0], step = y.strides[1];
  const E bits = ValueBits<E>(x.dtype);
  const int64_t x_step = loop.inner_stride(0);
  Coordinates coordinates(x.sizes, x.rank);
  ForEachRun(loop, begin, end, [&](const auto& at, int64_t i, int64_t n) {
    const E* from = reinterpret_cast<const E*>(x.data) + at[0];
    for (int64_t j = 0; j < n && row < row_end; ++j) {
      if ((from[j * x_step] & bits) == 0) continue;
      int64_t* to = out + row++ * row_step;
      if (x.rank == 1) {
        *to = i + j;
        continue;
      }
      const int64_t* coordinate = coordinates.Of(i + j);
      for (int d = 0; d < x.rank; ++d) to[d * step] = coordinate[d];
    }
  });
}

template <typename E>
void Run(const Tensor& x, const Tensor& y, int64_t fill, ThreadPool& pool) {
  base::StridedLoop<1> loop(x.sizes, x.rank, {x.strides});
  loop.Coalesce();
  const Chunks chunks(x.numel());
  const E bits = ValueBits<E>(x.dtype);
  const int64_t step = loop.inner_stride(0);
  int64_t first[Chunks::kMost + 1];
  pool.ParallelFor(chunks.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      int64_t count = 0;
      ForEachRun(loop, chunks.begin(c), chunks.end(c),
                 [&](const auto& at, int64_t, int64_t n) {
                   count += CountRun(reinterpret_cast<const E*>(x.data) + at[0],
                                     step, n, bits);
                 });
      first[c + 1] = count;
    }
  });
  first[0] = 0;
  for (int64_t c = 0; c < chunks.count; ++c) first[c + 1] += first[c];
  const int64_t rows = y.sizes[0];
  pool.ParallelFor(chunks.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      Write<E>(x, loop, chunks.begin(c), chunks.end(c), y,
               std::min(first[c], rows), std::min(first[c + 1], rows));
    }
  });
  int64_t* out = reinterpret_cast<int64_t*>(y.data);
  for (int64_t row = first[chunks.count]; row < rows; ++row) {
    for (int d = 0; d < x.rank; ++d) {
      out[row * y.strides[0] + d * y.strides[1]] = fill;
    }
  }
}

}  // namespace

absl::Status RunNonzero(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  const Tensor& y = launch.dst[0];
  if (y.numel() == 0) return absl::OkStatus();
  switch (SizeOf(x.dtype)) {
    case 1:
      Run<uint8_t>(x, y, launch.ints[0], pool);
      break;
    case 2:
      Run<uint16_t>(x, y, launch.ints[0], pool);
      break;
    case 4:
      Run<uint32_t>(x, y, launch.ints[0], pool);
      break;
    default:
      Run<uint64_t>(x, y, launch.ints[0], pool);
      break;
  }
  return absl::OkStatus();
}

}  // namespace tvarant::host

#include "daemon/kernels/host/bit_copy.h"

#include <algorithm>
#include <cstring>

#include "daemon/kernels/host/transpose.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

using Loop = base::StridedLoop<2>;  // 0: dst, 1: src

constexpr int64_t kGrainBytes = 128 << 10;
// Results from here on don't stay in a core's caches.
constexpr int64_t kStreamedBytes = 4 << 20;

struct Bytes16 {
  uint64_t low;
  uint64_t high;
};

template <typename T>
void CopyRow(char* dst, int64_t dst_stride, const char* src, int64_t src_stride,
             int64_t n) {
  auto* y = reinterpret_cast<T*>(dst);
  auto* x = reinterpret_cast<const T*>(src);
  if (src_stride == 0) {
    const T value = *x;
    for (int64_t i = 0; i < n; ++i) y[i * dst_stride] = value;
  } else if (dst_stride == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i * src_stride];
  } else if (src_stride == 1) {
    for (int64_t i = 0; i < n; ++i) y[i * dst_stride] = x[i];
  } else {
    for (int64_t i = 0; i < n; ++i) y[i * dst_stride] = x[i * src_stride];
  }
}

using RowCopy = void (*)(char*, int64_t, const char*, int64_t, int64_t);

RowCopy RowCopyFor(int64_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return CopyRow<uint8_t>;
    case 2:
      return CopyRow<uint16_t>;
    case 4:
      return CopyRow<uint32_t>;
    case 8:
      return CopyRow<uint64_t>;
    default:
      return CopyRow<Bytes16>;
  }
}

// The dimension along which src's elements are neighbours, if dst's are along
// the innermost one and both are long enough for blocks; else -1.
int TransposedDim(const Loop& loop) {
  if (loop.inner_stride(0) != 1 || loop.inner_stride(1) <= 1 ||
      loop.inner_size() < 4) {
    return -1;
  }
  for (int dim = loop.rank() - 2; dim >= 0; --dim) {
    if (loop.stride(1, dim) == 1 && loop.size(dim) >= 4) return dim;
  }
  return -1;
}

// Bands of rows along `dim` over all other dimensions.
void TransposeCopy(const Loop& loop, int dim, int64_t bytes, char* dst,
                   const char* src, ThreadPool& pool) {
  constexpr int64_t kBand = 64;
  const int64_t height = loop.size(dim), width = loop.inner_size();
  const int64_t bands = (height + kBand - 1) / kBand;
  int64_t outer = 1;
  for (int i = 0; i < loop.rank() - 1; ++i) {
    if (i != dim) outer *= loop.size(i);
  }
  const int64_t band_bytes = std::max<int64_t>(kBand * width * bytes, 1);
  const auto transpose = GetTranspose();
  const bool stream = outer * height * width * bytes >= kStreamedBytes;
  pool.ParallelFor(
      outer * bands, std::max<int64_t>(kGrainBytes / band_bytes, 1),
      [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
          const int64_t row = at % bands * kBand;
          int64_t rest = at / bands;
          int64_t to = row * loop.stride(0, dim), from = row;
          for (int i = loop.rank() - 2; i >= 0; --i) {
            if (i == dim) continue;
            const int64_t index = rest % loop.size(i);
            rest /= loop.size(i);
            to += index * loop.stride(0, i);
            from += index * loop.stride(1, i);
          }
          transpose(dst + to * bytes, loop.stride(0, dim) * bytes,
                    src + from * bytes, loop.inner_stride(1) * bytes,
                    std::min(kBand, height - row), width, bytes, stream);
        }
      });
}

}  // namespace

void BitCopy(const Tensor& dst, const Tensor& src, ThreadPool& pool) {
  const int64_t bytes = static_cast<int64_t>(SizeOf(dst.dtype));
  if (dst.numel() == 0) return;
  Loop loop(dst.sizes, dst.rank, {dst.strides, src.strides});
  loop.SortByFirst();
  loop.Coalesce();
  const int64_t width = loop.inner_size();
  const bool dense = loop.inner_stride(0) == 1 && loop.inner_stride(1) == 1;
  if (dense && loop.rank() == 1) {
    pool.ParallelFor(width * bytes, kGrainBytes,
                     [&](int64_t begin, int64_t end) {
                       std::memcpy(dst.data + begin, src.data + begin,
                                   static_cast<size_t>(end - begin));
                     });
    return;
  }
  const int transposed = TransposedDim(loop);
  if (transposed >= 0) {
    TransposeCopy(loop, transposed, bytes, dst.data, src.data, pool);
    return;
  }
  // A single long row is cut, too.
  const RowCopy copy_row = RowCopyFor(bytes);
  const auto copy = [&](int64_t to, int64_t from, int64_t begin, int64_t n) {
    char* y = dst.data + (to + begin * loop.inner_stride(0)) * bytes;
    const char* x = src.data + (from + begin * loop.inner_stride(1)) * bytes;
    if (dense) {
      std::memcpy(y, x, static_cast<size_t>(n * bytes));
    } else {
      copy_row(y, loop.inner_stride(0), x, loop.inner_stride(1), n);
    }
  };
  const int64_t rows = loop.num_rows();
  if (rows == 1) {
    pool.ParallelFor(
        width, kGrainBytes / bytes,
        [&](int64_t begin, int64_t end) { copy(0, 0, begin, end - begin); });
    return;
  }
  pool.ParallelFor(rows, std::max<int64_t>(kGrainBytes / (width * bytes), 1),
                   [&](int64_t begin, int64_t end) {
                     loop.ForEachRow(begin, end, [&](const int64_t(&at)[2]) {
                       copy(at[0], at[1], 0, width);
                     });
                   });
}

}  // namespace tvarant::host

#include "daemon/kernels/host/transpose.h"

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tvarant::host::TVARANT_ISA {
namespace {

#define TVARANT_TRANSPOSE_INLINE [[gnu::always_inline]] inline

struct Bytes16 {
  uint64_t low;
  uint64_t high;
};

// A square of kSide x kSide elements through vector registers: log2(kSide)
// rounds, each of which interleaves rows i and i + kSide / 2.
template <typename T, int kSide>
struct Square {
  typedef T Row __attribute__((vector_size(kSide * sizeof(T))));
  typedef T LooseRow
      __attribute__((vector_size(kSide * sizeof(T)), aligned(1), may_alias));

  template <int... kLane>
  TVARANT_TRANSPOSE_INLINE static void Interleave(Row a, Row b, Row* low,
                                                  Row* high) {
#if defined(__clang__)
    *low = __builtin_shufflevector(a, b, ((kLane % 2) * kSide + kLane / 2)...);
    *high = __builtin_shufflevector(
        a, b, ((kLane % 2) * kSide + kLane / 2 + kSide / 2)...);
#else
    *low = __builtin_shuffle(a, b, Row{T((kLane % 2) * kSide + kLane / 2)...});
    *high = __builtin_shuffle(
        a, b, Row{T((kLane % 2) * kSide + kLane / 2 + kSide / 2)...});
#endif
  }

  template <int... kLane>
  TVARANT_TRANSPOSE_INLINE static void Run(char* dst, int64_t dst_stride,
                                           const char* src,
                                           int64_t src_stride) {
    Row rows[kSide];
    for (int i = 0; i < kSide; ++i) {
      rows[i] = *reinterpret_cast<const LooseRow*>(src + i * src_stride);
    }
    for (int round = 1; round < kSide; round *= 2) {
      Row next[kSide];
      for (int i = 0; i < kSide / 2; ++i) {
        Interleave<kLane...>(rows[i], rows[i + kSide / 2], &next[2 * i],
                             &next[2 * i + 1]);
      }
      for (int i = 0; i < kSide; ++i) rows[i] = next[i];
    }
    for (int i = 0; i < kSide; ++i) {
      *reinterpret_cast<LooseRow*>(dst + i * dst_stride) = rows[i];
    }
  }
};

// One element after the other; columns of src are read side by side.
template <typename T>
void Edge(char* dst, int64_t dst_stride, const char* src, int64_t src_stride,
          int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    auto* y = reinterpret_cast<T*>(dst + r * dst_stride);
    const char* x = src + r * static_cast<int64_t>(sizeof(T));
    for (int64_t c = 0; c < columns; ++c) {
      y[c] = *reinterpret_cast<const T*>(x + c * src_stride);
    }
  }
}

constexpr int64_t kLine = 64;  // bytes of a cache line

// A piece of a row of dst, from the buffer. What is not read soon doesn't have
// to be fetched before it is overwritten: 4 times the speed for large squares.
TVARANT_TRANSPOSE_INLINE void WriteRow(char* dst, const char* buffer,
                                       int64_t bytes,
                                       [[maybe_unused]] bool stream) {
#if defined(__SSE2__)
  if (stream && ((reinterpret_cast<uintptr_t>(dst) | bytes) % kLine) == 0) {
#if defined(__AVX512F__)
    for (int64_t i = 0; i < bytes; i += kLine) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(dst + i),
                          _mm512_load_si512(buffer + i));
    }
    return;
#endif
    for (int64_t i = 0; i < bytes; i += 16) {
      _mm_stream_si128(
          reinterpret_cast<__m128i*>(dst + i),
          _mm_load_si128(reinterpret_cast<const __m128i*>(buffer + i)));
    }
    return;
  }
#endif
  __builtin_memcpy(dst, buffer, static_cast<size_t>(bytes));
}

constexpr int64_t kPanel = 64;

// A panel of at most kPanel by kPanel. Squares go through a buffer of their
// own: lines of src are read to their end before the next ones, lines of dst
// written whole, and matrices whose strides are powers of two don't push their
// own lines out of the cache.
template <typename T, int kSide, int... kLane>
void Panel(char* dst, int64_t dst_stride, const char* src, int64_t src_stride,
           int64_t rows, int64_t columns, bool stream) {
  constexpr int64_t kBytes = sizeof(T);
  constexpr int64_t kBufferStride = kPanel * kBytes;
  const int64_t whole_rows = rows / kSide * kSide;
  const int64_t whole_columns = columns / kSide * kSide;
  alignas(64) char buffer[kPanel * kBufferStride];
  for (int64_t c = 0; c < whole_columns; c += kSide) {
    for (int64_t r = 0; r < whole_rows; r += kSide) {
      Square<T, kSide>::template Run<kLane...>(
          buffer + r * kBufferStride + c * kBytes, kBufferStride,
          src + r * kBytes + c * src_stride, src_stride);
    }
  }
  if (whole_columns > 0) {
    for (int64_t r = 0; r < whole_rows; ++r) {
      WriteRow(dst + r * dst_stride, buffer + r * kBufferStride,
               whole_columns * kBytes, stream);
    }
  }
  Edge<T>(dst + whole_columns * kBytes, dst_stride,
          src + whole_columns * src_stride, src_stride, whole_rows,
          columns - whole_columns);
  Edge<T>(dst + whole_rows * dst_stride, dst_stride, src + whole_rows * kBytes,
          src_stride, rows - whole_rows, columns);
}

// Panels down the columns of src, so that its lines follow each other.
template <typename Body>
TVARANT_TRANSPOSE_INLINE void ForEachPanel(int64_t rows, int64_t columns,
                                           const Body& body) {
  for (int64_t c = 0; c < columns; c += kPanel) {
    const int64_t width = columns - c < kPanel ? columns - c : kPanel;
    for (int64_t r = 0; r < rows; r += kPanel) {
      body(r, c, rows - r < kPanel ? rows - r : kPanel, width);
    }
  }
}

}  // namespace

void TransposeOfIsa(char* dst, int64_t dst_stride, const char* src,
                    int64_t src_stride, int64_t rows, int64_t columns,
                    int64_t element_bytes, bool stream) {
  ForEachPanel(
      rows, columns, [&](int64_t r, int64_t c, int64_t height, int64_t width) {
        char* y = dst + r * dst_stride + c * element_bytes;
        const char* x = src + r * element_bytes + c * src_stride;
        switch (element_bytes) {
          case 1:
            Panel<uint8_t, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                  15>(y, dst_stride, x, src_stride, height, width, stream);
            break;
          case 2:
            Panel<uint16_t, 8, 0, 1, 2, 3, 4, 5, 6, 7>(
                y, dst_stride, x, src_stride, height, width, stream);
            break;
          case 4:
#if defined(__AVX2__)
            Panel<uint32_t, 8, 0, 1, 2, 3, 4, 5, 6, 7>(
                y, dst_stride, x, src_stride, height, width, stream);
#else
            Panel<uint32_t, 4, 0, 1, 2, 3>(y, dst_stride, x, src_stride,
                                             height, width, stream);
#endif
            break;
          case 8:
#if defined(__AVX2__)
            Panel<uint64_t, 4, 0, 1, 2, 3>(y, dst_stride, x, src_stride, height,
                                           width, stream);
#else
            Panel<uint64_t, 2, 0, 1>(y, dst_stride, x, src_stride, height,
                                       width, stream);
#endif
            break;
          default:
            Edge<Bytes16>(y, dst_stride, x, src_stride, height, width);
            break;
        }
      });
#if defined(__SSE2__)
  if (stream) _mm_sfence();
#endif
}

}  // namespace tvarant::host::TVARANT_ISA

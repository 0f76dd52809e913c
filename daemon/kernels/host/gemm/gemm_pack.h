// Packing of operands into panels, with conversion to the computing type.
// Include only in SIMD sources.

#ifndef TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_PACK_H_
#define TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_PACK_H_

#include "daemon/kernels/host/gemm/gemm_element.h"
#include "daemon/kernels/host/gemm/gemm_tile.h"
#include "daemon/kernels/host/vec.h"

namespace tvarant::host::TVARANT_ISA {

#if defined(__AVX2__)

TVARANT_INLINE __m256 LoadEight(const float* p) { return _mm256_loadu_ps(p); }
TVARANT_INLINE __m256 LoadEight(const Half* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
TVARANT_INLINE __m256 LoadEight(const BFloat16* p) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}

// Eight values of `lines` (<= 8) lines side by side: dst[p * width + line]. If
// `lines` is less than eight, up to eight values are written at each p: rows
// in falling order of p must not follow.
template <typename S, int lines, int width>
TVARANT_INLINE void TransposeEight(const S* src, int64_t stride, float* dst) {
  __m256 r[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    r[i] = LoadEight(src + (i < lines ? i : 0) * stride);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
#pragma GCC unroll 8
  for (int p = 0; p < 8; ++p) {
#if defined(__AVX512F__)
    _mm256_mask_storeu_ps(dst + p * width, (1 << lines) - 1, t[p]);
#else
    _mm256_storeu_ps(dst + p * width, t[p]);
#endif
  }
}

// The first kc / 8 * 8 values of `width` lines; returns their number. A line
// of cache (two times eight floats) is used up before it may be evicted.
template <typename S, int width>
int64_t TransposeLines(const S* src, int64_t stride, int64_t kc, float* dst) {
  constexpr int kLast = width % 8;
#if !defined(__AVX512F__)
  // The eighth store of a narrow panel would reach beyond the panel.
  const int64_t end = kLast == 0 ? kc : kc - 1;
  static_assert(kLast == 0 || width < 8);
#else
  const int64_t end = kc;
#endif
  int64_t p = 0;
  for (; p + 16 <= end; p += 16) {
    for (int line = 0; line + 8 <= width; line += 8) {
      for (int half = 0; half < 16; half += 8) {
        TransposeEight<S, 8, width>(src + line * stride + p + half, stride,
                                    dst + (p + half) * width + line);
      }
    }
    if constexpr (kLast != 0) {
      constexpr int line = width - kLast;
      for (int half = 0; half < 16; half += 8) {
        TransposeEight<S, kLast, width>(src + line * stride + p + half, stride,
                                        dst + (p + half) * width + line);
      }
    }
  }
  return p;
}

#endif  // __AVX2__

// dst[p * width + line] for one panel of `width` lines, all there.
template <typename T, typename S, int width>
void PackPanel(const S* src, int64_t line_stride, int64_t step, int64_t kc,
               T* dst) {
  if (line_stride == 1) {
    for (int64_t p = 0; p < kc; ++p) {
      const S* line = src + p * step;
#pragma GCC unroll 4
      for (int i = 0; i < width; ++i) dst[p * width + i] = Widen<T>(line[i]);
    }
    return;
  }
  int64_t first = 0;
#if defined(__AVX2__)
  if constexpr (__is_same(T, float)) {
    if (step == 1) {
      first = TransposeLines<S, width>(src, line_stride, kc, dst);
    }
  }
#endif
  for (int64_t p = first; p < kc; ++p) {
    for (int i = 0; i < width; ++i) {
      dst[p * width + i] = Widen<T>(src[i * line_stride + p * step]);
    }
  }
}

// Panels of `width` lines: dst[panel][p][line] = src[line * line_stride +
// p * step], lines beyond `lines` zero. Serves both A (lines are rows) and B
// (lines are columns).
template <typename T, typename S, int width>
void PackPanels(const S* src, int64_t line_stride, int64_t step, int64_t lines,
                int64_t kc, T* dst) {
  for (int64_t first = 0; first < lines; first += width, dst += width * kc) {
    const S* panel = src + first * line_stride;
    if (lines - first >= width) {
      PackPanel<T, S, width>(panel, line_stride, step, kc, dst);
      continue;
    }
    for (int64_t p = 0; p < kc; ++p) {
      for (int64_t i = 0; i < width; ++i) {
        dst[p * width + i] = first + i < lines
                                 ? Widen<T>(panel[i * line_stride + p * step])
                                 : T(0);
      }
    }
  }
}

// Rows [row, row + rows), columns [p, p + kc) of A in panels of `height` rows.
template <typename T, int height>
void PackA(const GemmMatrix& a, int64_t row, int64_t rows, int64_t p,
           int64_t kc, T* dst) {
  ForStored<T>(a.dtype, [&](auto stored) {
    using S = decltype(stored);
    PackPanels<T, S, height>(reinterpret_cast<const S*>(a.data) +
                                 row * a.row_stride + p * a.col_stride,
                             a.row_stride, a.col_stride, rows, kc, dst);
  });
}

// Rows [p, p + kc), columns [col, col + cols) of B in panels of `width`
// columns.
template <typename T, int width>
void PackB(const GemmMatrix& b, int64_t col, int64_t cols, int64_t p,
           int64_t kc, T* dst) {
  ForStored<T>(b.dtype, [&](auto stored) {
    using S = decltype(stored);
    PackPanels<T, S, width>(reinterpret_cast<const S*>(b.data) +
                                p * b.row_stride + col * b.col_stride,
                            b.col_stride, b.row_stride, cols, kc, dst);
  });
}

}  // namespace tvarant::host::TVARANT_ISA

#endif  // TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_PACK_H_

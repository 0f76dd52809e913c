// Products of bfloat16 matrices with the instruction that multiplies pairs and
// adds them to a float (AVX512_BF16). Include only in SIMD sources.
//
// An element of a panel is a pair: the values at k and k + 1, the second one 0
// beyond the end. The products are exact; sums are floats, as without the
// instruction.

#ifndef TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_BFLOAT16_H_
#define TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_BFLOAT16_H_

#include <cstdint>
#include <cstring>

#include "daemon/kernels/host/gemm/gemm_pack.h"
#include "daemon/kernels/host/gemm/gemm_register.h"
#include "daemon/kernels/host/gemm/gemm_tile.h"

#if defined(__AVX512F__)

namespace tvarant::host::TVARANT_ISA {

struct BFloat16Pairs {
  using Sum = float;
  using Packed = uint32_t;
  static constexpr int kStep = 2;

  template <int lines>
  static void PackRows(const GemmMatrix& a, int64_t row, int64_t rows,
                       int64_t p, int64_t kc, uint32_t* dst) {
    Pack<lines>(a.data, a.row_stride, a.col_stride, row, rows, p, kc, dst);
  }
  template <int lines>
  static void PackCols(const GemmMatrix& b, int64_t col, int64_t cols,
                       int64_t p, int64_t kc, uint32_t* dst) {
    Pack<lines>(b.data, b.col_stride, b.row_stride, col, cols, p, kc, dst);
  }

  __attribute__((target("avx512bf16"))) static void Multiply(
      int64_t steps, const uint32_t* a, const uint32_t* b, int64_t b_step,
      const Target<float>& target) {
    static_assert(kCols<float> == 32);
    __m512 sum[kRows][2];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      sum[i][0] = sum[i][1] = _mm512_setzero_ps();
      if (target.add) __builtin_prefetch(target.data + i * target.stride, 1);
    }
    for (int64_t p = 0; p < steps; ++p) {
      const __m512bh b0 = (__m512bh)_mm512_loadu_si512(b);
      const __m512bh b1 = (__m512bh)_mm512_loadu_si512(b + 16);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const __m512bh x = (__m512bh)_mm512_set1_epi32(static_cast<int>(a[i]));
        sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, b0);
        sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, b1);
      }
      a += kRows;
      b += b_step;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      float* row = target.data + i * target.stride;
      if (target.add) {
        sum[i][0] = _mm512_add_ps(sum[i][0], _mm512_loadu_ps(row));
        sum[i][1] = _mm512_add_ps(sum[i][1], _mm512_loadu_ps(row + 16));
      }
      _mm512_storeu_ps(row, sum[i][0]);
      _mm512_storeu_ps(row + 16, sum[i][1]);
    }
  }

 private:
  // dst[panel][step][line]: line `first` + i at values p + 2 * step and the
  // next; lines beyond `count` are 0.
  template <int width>
  static void Pack(const char* data, int64_t line_stride, int64_t step,
                   int64_t first, int64_t count, int64_t p, int64_t kc,
                   uint32_t* dst) {
    const auto* src = reinterpret_cast<const uint16_t*>(data) +
                      first * line_stride + p * step;
    const int64_t steps = (kc + 1) / 2;
    for (int64_t line = 0; line < count; line += width, dst += width * steps) {
      PackPanel<width>(src + line * line_stride, line_stride, step,
                       Min(width, count - line), kc, dst);
    }
  }

  template <int width>
  static void PackPanel(const uint16_t* src, int64_t line_stride, int64_t step,
                        int64_t lines, int64_t kc, uint32_t* dst) {
    int64_t pair = 0;
    if (lines == width && line_stride == 1) {
      for (; 2 * pair + 1 < kc; ++pair) {
        const uint16_t* even = src + 2 * pair * step;
        const uint16_t* odd = even + step;
#pragma GCC unroll 4
        for (int i = 0; i < width; ++i) {
          dst[pair * width + i] = even[i] | static_cast<uint32_t>(odd[i]) << 16;
        }
      }
    } else if (lines == width && step == 1 && line_stride % 2 == 0) {
      // Pairs lie side by side: a transpose of 32-bit values. As floats they
      // are only moved.
      pair = TransposeLines<float, width>(reinterpret_cast<const float*>(src),
                                          line_stride / 2, kc / 2,
                                          reinterpret_cast<float*>(dst));
    }
    for (; 2 * pair < kc; ++pair) {
      const uint16_t* at = src + 2 * pair * step;
      const bool whole = 2 * pair + 1 < kc;
      for (int64_t i = 0; i < width; ++i) {
        uint32_t value = 0;
        if (i < lines) {
          value = at[i * line_stride];
          if (whole) {
            value |= static_cast<uint32_t>(at[i * line_stride + step]) << 16;
          }
        }
        dst[pair * width + i] = value;
      }
    }
  }
};

}  // namespace tvarant::host::TVARANT_ISA

#endif  // __AVX512F__

#endif  // TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_BFLOAT16_H_

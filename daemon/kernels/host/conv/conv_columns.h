// Columns of a convolution's product: where they lie in x and y. Include only
// in SIMD sources.

#ifndef TVARANT_DAEMON_KERNELS_HOST_CONV_CONV_COLUMNS_H_
#define TVARANT_DAEMON_KERNELS_HOST_CONV_CONV_COLUMNS_H_

#include "daemon/kernels/host/conv/conv_problem.h"
#include "daemon/kernels/host/gemm/gemm_element.h"
#include "daemon/kernels/host/gemm/gemm_pack.h"
#include "daemon/kernels/host/gemm/gemm_register.h"

namespace tvarant::host::TVARANT_ISA {

// Columns that follow on along w.
struct ConvRun {
  int64_t at, count;  // from the first of the panel
  int64_t n, a[3];    // batch item and grid point of the first
};

// The part of a run that meets x rather than its padding.
struct ConvSegment {
  int64_t at, count;
  int64_t offset;  // of its first element in x, in elements
};

// Columns [begin, begin + columns) as runs; returns their number, at most
// `columns`.
inline int64_t FindRuns(const ConvProblem& p, int64_t begin, int64_t columns,
                        ConvRun* runs) {
  ConvRun run;
  run.a[2] = begin % p.grid[2];
  int64_t rest = begin / p.grid[2];
  run.a[1] = rest % p.grid[1];
  rest /= p.grid[1];
  run.a[0] = rest % p.grid[0];
  run.n = rest / p.grid[0];
  int64_t count = 0;
  for (int64_t at = 0; at < columns; at += runs[count++].count) {
    run.at = at;
    run.count = Min(columns - at, p.grid[2] - run.a[2]);
    runs[count] = run;
    run.a[2] = 0;
    if (++run.a[1] == p.grid[1]) {
      run.a[1] = 0;
      if (++run.a[0] == p.grid[0]) {
        run.a[0] = 0;
        ++run.n;
      }
    }
  }
  return count;
}

// What a tap meets of these runs; `covered` counts the columns.
inline int64_t FindSegments(const ConvProblem& p, const ConvTap& tap,
                            const ConvRun* runs, int64_t num_runs,
                            ConvSegment* segments, int64_t* covered) {
  int64_t count = 0;
  *covered = 0;
  for (int64_t i = 0; i < num_runs; ++i) {
    const ConvRun& run = runs[i];
    const int64_t d = run.a[0] * p.step[0] + tap.start[0];
    const int64_t h = run.a[1] * p.step[1] + tap.start[1];
    if (d < 0 || d >= p.x_size[0] || h < 0 || h >= p.x_size[1]) continue;
    const int64_t step = p.step[2];
    const int64_t w = run.a[2] * step + tap.start[2];
    int64_t low = 0, high = run.count;
    if (w < 0) low = (step - 1 - w) / step;
    if (w + (run.count - 1) * step >= p.x_size[2]) {
      high = w >= p.x_size[2] ? 0 : (p.x_size[2] - 1 - w) / step + 1;
    }
    if (low >= high) continue;
    segments[count].at = run.at + low;
    segments[count].count = high - low;
    segments[count].offset = run.n * p.x.batch_stride + d * p.x.strides[0] +
                             h * p.x.strides[1] +
                             (w + low * step) * p.x.strides[2];
    *covered += high - low;
    ++count;
  }
  return count;
}

#if defined(__AVX512F__)
// Lanes [0, n) of a vector, n clamped to the lanes.
TVARANT_INLINE __mmask16 LanesBelow(int64_t n, float) {
  return n >= 16  ? static_cast<__mmask16>(0xFFFF)
         : n <= 0 ? static_cast<__mmask16>(0)
                  : static_cast<__mmask16>((1u << n) - 1);
}
TVARANT_INLINE __mmask8 LanesBelow(int64_t n, double) {
  return n >= 8   ? static_cast<__mmask8>(0xFF)
         : n <= 0 ? static_cast<__mmask8>(0)
                  : static_cast<__mmask8>((1u << n) - 1);
}
TVARANT_INLINE void CopyLanes(__mmask16 mask, const float* src, float* dst) {
  _mm512_mask_storeu_ps(dst, mask, _mm512_maskz_loadu_ps(mask, src));
}
TVARANT_INLINE void CopyLanes(__mmask8 mask, const double* src, double* dst) {
  _mm512_mask_storeu_pd(dst, mask, _mm512_maskz_loadu_pd(mask, src));
}
// Every second element of src.
TVARANT_INLINE void CopySecondLanes(int64_t n, const float* src, float* dst) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20,
                                         22, 24, 26, 28, 30);
  const __m512 a = _mm512_maskz_loadu_ps(LanesBelow(2 * n - 1, 0.0f), src);
  const __m512 b =
      _mm512_maskz_loadu_ps(LanesBelow(2 * n - 17, 0.0f), src + 16);
  _mm512_mask_storeu_ps(dst, LanesBelow(n, 0.0f),
                        _mm512_permutex2var_ps(a, even, b));
}
#endif

// dst[i] = src[i * step].
template <typename T, typename S>
TVARANT_INLINE void CopyLine(const S* src, int64_t step, int64_t count,
                             T* dst) {
#if defined(__AVX512F__)
  if constexpr (__is_same(T, S)) {
    constexpr int64_t kLanes = Vec<T>::kLanes;
    if (step == 1) {
      int64_t i = 0;
      for (; i + kLanes <= count; i += kLanes) {
        Vec<T>::Load(src + i).Store(dst + i);
      }
      if (i < count) CopyLanes(LanesBelow(count - i, T()), src + i, dst + i);
      return;
    }
    if constexpr (__is_same(T, float)) {
      if (step == 2) {
        for (int64_t i = 0; i < count; i += kLanes) {
          CopySecondLanes(Min(kLanes, count - i), src + 2 * i, dst + i);
        }
        return;
      }
    }
  }
#endif
  for (int64_t i = 0; i < count; ++i) dst[i] = Widen<T>(src[i * step]);
}

}  // namespace tvarant::host::TVARANT_ISA

#endif  // TVARANT_DAEMON_KERNELS_HOST_CONV_CONV_COLUMNS_H_

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
// Lanes [0, n) of a vector; none if n is negative.
TVARANT_INLINE __mmask16 LanesBelow(int64_t n, float) {
  return _mm512_cmpgt_epi32_mask(
      _mm512_set1_epi32(static_cast<int>(n)),
      _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
TVARANT_INLINE __mmask8 LanesBelow(int64_t n, double) {
  return _mm512_cmpgt_epi64_mask(_mm512_set1_epi64(n),
                                 _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
}
TVARANT_INLINE void CopyLanes(__mmask16 mask, const float* src, float* dst) {
  _mm512_mask_storeu_ps(dst, mask, _mm512_maskz_loadu_ps(mask, src));
}
TVARANT_INLINE void CopyLanes(__mmask8 mask, const double* src, double* dst) {
  _mm512_mask_storeu_pd(dst, mask, _mm512_maskz_loadu_pd(mask, src));
}
TVARANT_INLINE Vec<float> LoadLanes(uint16_t mask, const float* src) {
  return {_mm512_maskz_loadu_ps(mask, src)};
}
TVARANT_INLINE Vec<double> LoadLanes(uint16_t mask, const double* src) {
  return {_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), src)};
}
// The first n of every second element of src.
struct SecondLanes {
  explicit SecondLanes(int64_t n)
      : low(LanesBelow(2 * n - 1, 0.0f)),
        high(LanesBelow(2 * n - 17, 0.0f)),
        out(LanesBelow(n, 0.0f)) {}
  TVARANT_INLINE void Copy(const float* src, float* dst) const {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18,
                                           20, 22, 24, 26, 28, 30);
    _mm512_mask_storeu_ps(
        dst, out,
        _mm512_permutex2var_ps(_mm512_maskz_loadu_ps(low, src), even,
                               _mm512_maskz_loadu_ps(high, src + 16)));
  }
  __mmask16 low, high, out;
};
// Up to a vector of columns: lanes `load` of x at `offset`, zeros in the rest
// of lanes `store`.
struct ConvPiece {
  int64_t at, offset;
  uint16_t load, store;
};

template <typename T>
TVARANT_INLINE void CopyPiece(const ConvPiece& piece, const T* src, T* dst) {
  if constexpr (__is_same(T, float)) {
    _mm512_mask_storeu_ps(dst, piece.store,
                          _mm512_maskz_loadu_ps(piece.load, src));
  } else {
    _mm512_mask_storeu_pd(
        dst, static_cast<__mmask8>(piece.store),
        _mm512_maskz_loadu_pd(static_cast<__mmask8>(piece.load), src));
  }
}

// Whether the rows of a window follow on in x as those of the grid do, so that
// a tap is a shift of the whole image.
inline bool IsShift(const ConvProblem& p) {
  const auto& strides = p.x.strides;
  if (p.step[1] != 1 || p.grid[2] != p.x_size[2] || strides[1] != p.x_size[2]) {
    return false;
  }
  return p.grid[0] == 1 || (p.step[0] == 1 && p.grid[1] == p.x_size[1] &&
                            strides[0] == p.x_size[1] * strides[1]);
}

// As FindSegments for a step of 1 along w, where x is contiguous: pieces that
// write all columns. Returns their number, at most that of the columns.
template <typename T>
int64_t FindPieces(const ConvProblem& p, const ConvTap& tap,
                   const ConvRun* runs, int64_t num_runs, ConvPiece* pieces) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  constexpr uint32_t kAll = (1u << kLanes) - 1;
  const bool shift = IsShift(p);
  int64_t count = 0;
  for (int64_t i = 0; i < num_runs;) {
    const ConvRun& first = runs[i];
    const int64_t begin = first.at;
    const int64_t offset =
        first.n * p.x.batch_stride +
        (first.a[0] * p.step[0] + tap.start[0]) * p.x.strides[0] +
        (first.a[1] * p.step[1] + tap.start[1]) * p.x.strides[1] + first.a[2] +
        tap.start[2];
    const int64_t first_piece = count;
    int64_t end = begin, cleared = count;
    for (; i < num_runs && runs[i].n == first.n; ++i) {
      const ConvRun& run = runs[i];
      end = run.at + run.count;
      for (; first_piece + (end - begin + kLanes - 1) / kLanes > cleared;
           ++cleared) {
        pieces[cleared].load = 0;
      }
      const int64_t d = run.a[0] * p.step[0] + tap.start[0];
      const int64_t h = run.a[1] * p.step[1] + tap.start[1];
      const int64_t w = run.a[2] + tap.start[2];
      if (d >= 0 && d < p.x_size[0] && h >= 0 && h < p.x_size[1]) {
        int64_t low = run.at - begin + (w < 0 ? -w : 0);
        const int64_t high = run.at - begin + Min(run.count, p.x_size[2] - w);
        while (low < high) {
          const int64_t k = low / kLanes, lane = low % kLanes;
          const int64_t lanes = Min(kLanes - lane, high - low);
          pieces[first_piece + k].load |=
              static_cast<uint16_t>((kAll >> (kLanes - lanes)) << lane);
          low += lanes;
        }
      }
      if (!shift) {
        ++i;
        break;
      }
    }
    for (int64_t at = begin; at < end; at += kLanes, ++count) {
      pieces[count].at = at;
      pieces[count].offset = offset + at - begin;
      pieces[count].store = static_cast<uint16_t>(
          end - at >= kLanes ? kAll : (1u << (end - at)) - 1);
    }
  }
  return count;
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
          SecondLanes(count - i).Copy(src + 2 * i, dst + i);
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

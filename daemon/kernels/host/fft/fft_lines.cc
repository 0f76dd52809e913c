// Stockham's transform: each stage takes a factor r of the length, and writes
// in the order that the next one reads. With len = r m and s lines in step,
//   out[q + s (r p + k)] = w_len^(p k) * sum over j of
//                          in[q + s (p + m j)] w_r^(j k)

#include "daemon/kernels/host/fft/fft_lines.h"

#include <cmath>
#include <numbers>

namespace tvarant::host::TVARANT_ISA {
namespace {

#if defined(__clang__)
#define TVARANT_LOOP
#else
#define TVARANT_LOOP _Pragma("GCC ivdep")
#endif

template <typename T>
struct Number {
  T re, im;
};

// What one stage works on.
template <typename T>
struct Stage {
  const T* re;
  const T* im;
  T* out_re;
  T* out_im;
  int64_t width;  // numbers side by side: lines in step times lanes
  int64_t m;      // len / r
};

template <typename T>
void Radix2(const Stage<T>& s, int64_t p, Number<T> w) {
  const T *a = s.re + s.width * p, *b = s.im + s.width * p;
  const T *c = a + s.width * s.m, *d = b + s.width * s.m;
  T *x = s.out_re + s.width * 2 * p, *y = s.out_im + s.width * 2 * p;
  const int64_t width = s.width;
  TVARANT_LOOP
  for (int64_t q = 0; q < width; ++q) {
    const T re = a[q] - c[q], im = b[q] - d[q];
    x[q] = a[q] + c[q];
    y[q] = b[q] + d[q];
    x[width + q] = re * w.re - im * w.im;
    y[width + q] = re * w.im + im * w.re;
  }
}

template <typename T>
void Radix4(const Stage<T>& s, int64_t p, const Number<T> (&w)[4]) {
  const int64_t width = s.width, step = width * s.m;
  const T *a = s.re + width * p, *b = s.im + width * p;
  T *x = s.out_re + width * 4 * p, *y = s.out_im + width * 4 * p;
  TVARANT_LOOP
  for (int64_t q = 0; q < width; ++q) {
    const T sum02r = a[q] + a[q + 2 * step], sum02i = b[q] + b[q + 2 * step];
    const T dif02r = a[q] - a[q + 2 * step], dif02i = b[q] - b[q + 2 * step];
    const T sum13r = a[q + step] + a[q + 3 * step];
    const T sum13i = b[q + step] + b[q + 3 * step];
    const T dif13r = a[q + step] - a[q + 3 * step];
    const T dif13i = b[q + step] - b[q + 3 * step];
    x[q] = sum02r + sum13r;
    y[q] = sum02i + sum13i;
    // w_4 = -i
    const T r1 = dif02r + dif13i, i1 = dif02i - dif13r;
    const T r2 = sum02r - sum13r, i2 = sum02i - sum13i;
    const T r3 = dif02r - dif13i, i3 = dif02i + dif13r;
    x[q + width] = r1 * w[1].re - i1 * w[1].im;
    y[q + width] = r1 * w[1].im + i1 * w[1].re;
    x[q + 2 * width] = r2 * w[2].re - i2 * w[2].im;
    y[q + 2 * width] = r2 * w[2].im + i2 * w[2].re;
    x[q + 3 * width] = r3 * w[3].re - i3 * w[3].im;
    y[q + 3 * width] = r3 * w[3].im + i3 * w[3].re;
  }
}

// Any factor: output k is a sum over inputs with factors c[j] of its own.
template <typename T>
void RadixAny(const Stage<T>& s, int64_t r, int64_t p, int64_t k,
              const Number<T>* c) {
  const int64_t width = s.width, step = width * s.m;
  const T *a = s.re + width * p, *b = s.im + width * p;
  T* x = s.out_re + width * (r * p + k);
  T* y = s.out_im + width * (r * p + k);
  {
    const Number<T> f = c[0];
    TVARANT_LOOP
    for (int64_t q = 0; q < width; ++q) {
      x[q] = a[q] * f.re - b[q] * f.im;
      y[q] = a[q] * f.im + b[q] * f.re;
    }
  }
  for (int64_t j = 1; j < r; ++j) {
    const Number<T> f = c[j];
    const T *u = a + j * step, *v = b + j * step;
    TVARANT_LOOP
    for (int64_t q = 0; q < width; ++q) {
      x[q] += u[q] * f.re - v[q] * f.im;
      y[q] += u[q] * f.im + v[q] * f.re;
    }
  }
}

// exp(-2 pi i k / n), from the table of n.
template <typename T>
Number<T> Root(const T* table, int64_t n, int64_t k) {
  return {table[k], table[n + k]};
}

// Transforms a block; re and im trade places with out_re and out_im.
template <typename T>
T* Transform(const FftShape& shape, const T* roots, T* work, T* other,
             int64_t lanes) {
  const int64_t n = shape.inner, size = n * lanes;
  int64_t len = n, width = lanes;
  T *from = work, *to = other;
  for (int i = 0; i < shape.num_factors; ++i) {
    const int64_t r = shape.factors[i], m = len / r, scale = n / len;
    const Stage<T> stage{from, from + size, to, to + size, width, m};
    for (int64_t p = 0; p < m; ++p) {
      const auto twiddle = [&](int64_t k) {
        return Root(roots, n, p * k % len * scale);
      };
      if (r == 2) {
        Radix2(stage, p, twiddle(1));
      } else if (r == 4) {
        const Number<T> w[4] = {
            {T(1), T(0)}, twiddle(1), twiddle(2), twiddle(3)};
        Radix4(stage, p, w);
      } else {
        Number<T> c[kMaxFactor];
        for (int64_t k = 0; k < r; ++k) {
          for (int64_t j = 0; j < r; ++j) {
            c[j] = Root(roots, n, (p * k + j * k % r * m) % len * scale);
          }
          RadixAny(stage, r, p, k, c);
        }
      }
    }
    len = m;
    width *= r;
    T* const done = to;
    to = from;
    from = done;
  }
  return from;
}

// The table of roots: cosines, then sines.
template <typename T>
void FillRoots(int64_t n, T* table) {
  for (int64_t k = 0; k < n; ++k) {
    const double angle =
        -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    table[k] = static_cast<T>(std::cos(angle));
    table[n + k] = static_cast<T>(std::sin(angle));
  }
}

// Bluestein: with c[k] = exp(-pi i k^2 / n), y[k] = c[k] times the convolution
// of x c with the conjugate of c. Tables: roots, c, the transform of that.
template <typename T>
void Prepare(const FftShape& shape, T* tables, T* work) {
  const int64_t n = shape.n, m = shape.inner;
  FillRoots(m, tables);
  if (!shape.is_bluestein()) return;
  T* const chirp = tables + 2 * m;
  for (int64_t k = 0; k < n; ++k) {
    // k^2 modulo 2 n: the angle stays small.
    const int64_t square = static_cast<int64_t>(
        static_cast<unsigned __int128>(k) * static_cast<uint64_t>(k) %
        static_cast<uint64_t>(2 * n));
    const double angle = -std::numbers::pi * static_cast<double>(square) /
                         static_cast<double>(n);
    chirp[k] = static_cast<T>(std::cos(angle));
    chirp[n + k] = static_cast<T>(std::sin(angle));
  }
  for (int64_t k = 0; k < 2 * m; ++k) work[k] = T(0);
  for (int64_t k = 0; k < n; ++k) {
    const int64_t mirror = k == 0 ? 0 : m - k;
    work[k] = work[mirror] = chirp[k];
    work[m + k] = work[m + mirror] = -chirp[n + k];
  }
  const T* result = Transform(shape, tables, work, work + 2 * m, 1);
  T* const kernel = chirp + 2 * n;
  for (int64_t k = 0; k < 2 * m; ++k) {
    kernel[k] = result[k] / static_cast<T>(m);
  }
}

template <typename T>
T* Run(const FftShape& shape, const T* tables, T* work, int64_t lanes) {
  const int64_t n = shape.n, m = shape.inner, size = m * lanes;
  T* const other = work + 2 * size;
  if (!shape.is_bluestein()) {
    return Transform(shape, tables, work, other, lanes);
  }
  const T* const chirp = tables + 2 * m;
  const T* const kernel = chirp + 2 * n;
  const auto multiply = [&](T* block, const T* by, int64_t count, int64_t im,
                            bool conjugate) {
    for (int64_t k = 0; k < count; ++k) {
      const T c = by[k], s = by[im + k];
      T *x = block + k * lanes, *y = block + size + k * lanes;
      TVARANT_LOOP
      for (int64_t l = 0; l < lanes; ++l) {
        const T re = x[l] * c - y[l] * s, i = x[l] * s + y[l] * c;
        x[l] = re;
        y[l] = conjugate ? -i : i;
      }
    }
  };
  multiply(work, chirp, n, n, false);
  for (int64_t k = n * lanes; k < size; ++k) work[k] = work[size + k] = T(0);
  T* a = Transform(shape, tables, work, other, lanes);
  // The inverse transform is the conjugate of that of the conjugate.
  multiply(a, kernel, m, m, true);
  T* b = Transform(shape, tables, a, a == work ? other : work, lanes);
  for (int64_t k = 0; k < n * lanes; ++k) b[size + k] = -b[size + k];
  multiply(b, chirp, n, n, false);
  return b;
}

}  // namespace

FftLoops<float> FftLoopsF32() { return {Prepare<float>, Run<float>}; }
FftLoops<double> FftLoopsF64() { return {Prepare<double>, Run<double>}; }

}  // namespace tvarant::host::TVARANT_ISA

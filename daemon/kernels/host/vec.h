// Vectors of the instruction set a SIMD source is compiled for.
//
// Vec<float> and Vec<double> with the few operations that our kernels need;
// math functions come from SLEEF (1 ULP). Include only in sources of
// tvarant_simd_library. Everything is inlined and sits in namespace
// TVARANT_ISA.
//
// Example:
//   auto sum = V::Zero();
//   for (i = 0; i + V::kLanes <= n; i += V::kLanes)
//     sum = Fma(V::Load(a + i), V::Load(b + i), sum);

#ifndef TVARANT_DAEMON_KERNELS_HOST_VEC_H_
#define TVARANT_DAEMON_KERNELS_HOST_VEC_H_

// GCC 12 warns of its own _mm512_undefined_ps, in its headers (PR 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <sleef.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstdint>
#include <cstring>

#include "daemon/kernels/host/half.h"

namespace tvarant::host::TVARANT_ISA {

template <typename T>
struct Vec;

#if defined(__AVX512F__)

template <>
struct Vec<float> {
  static constexpr int kLanes = 16;
  using Raw = __m512;
  Raw v;
  TVARANT_INLINE static Vec Load(const float* p) {
    return {_mm512_loadu_ps(p)};
  }
  TVARANT_INLINE static Vec Load(const Half* p) {
    return {_mm512_cvtph_ps(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  TVARANT_INLINE static Vec Load(const BFloat16* p) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {
        _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))};
  }
  TVARANT_INLINE static Vec All(float x) { return {_mm512_set1_ps(x)}; }
  TVARANT_INLINE void Store(float* p) const { _mm512_storeu_ps(p, v); }
  TVARANT_INLINE void Store(Half* p) const {
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(p),
        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  TVARANT_INLINE void Store(BFloat16* p) const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd =
        _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(
        bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i rounded = _mm512_mask_mov_epi32(
        _mm512_srli_epi32(sum, 16), nan, _mm512_set1_epi32(0x7FC0));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(rounded));
  }
};

template <>
struct Vec<double> {
  static constexpr int kLanes = 8;
  using Raw = __m512d;
  Raw v;
  TVARANT_INLINE static Vec Load(const double* p) {
    return {_mm512_loadu_pd(p)};
  }
  TVARANT_INLINE static Vec All(double x) { return {_mm512_set1_pd(x)}; }
  TVARANT_INLINE void Store(double* p) const { _mm512_storeu_pd(p, v); }
};

#define TVARANT_VEC_FMA(T, suffix)                                       \
  TVARANT_INLINE Vec<T> Fma(Vec<T> a, Vec<T> b, Vec<T> c) {              \
    return {_mm512_fmadd_##suffix(a.v, b.v, c.v)};                       \
  }                                                                      \
  /* NaN wins, from either side. */                                      \
  TVARANT_INLINE Vec<T> Max(Vec<T> a, Vec<T> b) {                        \
    const auto max = _mm512_max_##suffix(a.v, b.v);                      \
    const auto nan = _mm512_cmp_##suffix##_mask(a.v, a.v, _CMP_UNORD_Q); \
    return {_mm512_mask_mov_##suffix(max, nan, a.v)};                    \
  }
TVARANT_VEC_FMA(float, ps)
TVARANT_VEC_FMA(double, pd)
#undef TVARANT_VEC_FMA

#elif defined(__AVX2__)

template <>
struct Vec<float> {
  static constexpr int kLanes = 8;
  using Raw = __m256;
  Raw v;
  TVARANT_INLINE static Vec Load(const float* p) {
    return {_mm256_loadu_ps(p)};
  }
  TVARANT_INLINE static Vec Load(const Half* p) {
    return {
        _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  TVARANT_INLINE static Vec Load(const BFloat16* p) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {
        _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16))};
  }
  TVARANT_INLINE static Vec All(float x) { return {_mm256_set1_ps(x)}; }
  TVARANT_INLINE void Store(float* p) const { _mm256_storeu_ps(p, v); }
  TVARANT_INLINE void Store(Half* p) const {
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(p),
        _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  TVARANT_INLINE void Store(BFloat16* p) const {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd =
        _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(
        bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i rounded = _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16),
                                               _mm256_set1_epi32(0x7FC0), nan);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packus_epi32(_mm256_castsi256_si128(rounded),
                                      _mm256_extracti128_si256(rounded, 1)));
  }
};

template <>
struct Vec<double> {
  static constexpr int kLanes = 4;
  using Raw = __m256d;
  Raw v;
  TVARANT_INLINE static Vec Load(const double* p) {
    return {_mm256_loadu_pd(p)};
  }
  TVARANT_INLINE static Vec All(double x) { return {_mm256_set1_pd(x)}; }
  TVARANT_INLINE void Store(double* p) const { _mm256_storeu_pd(p, v); }
};

#define TVARANT_VEC_FMA(T, suffix)                                \
  TVARANT_INLINE Vec<T> Fma(Vec<T> a, Vec<T> b, Vec<T> c) {       \
    return {_mm256_fmadd_##suffix(a.v, b.v, c.v)};                \
  }                                                               \
  /* NaN wins, from either side. */                               \
  TVARANT_INLINE Vec<T> Max(Vec<T> a, Vec<T> b) {                 \
    const auto max = _mm256_max_##suffix(a.v, b.v);               \
    const auto nan = _mm256_cmp_##suffix(a.v, a.v, _CMP_UNORD_Q); \
    return {_mm256_blendv_##suffix(max, a.v, nan)};               \
  }
TVARANT_VEC_FMA(float, ps)
TVARANT_VEC_FMA(double, pd)
#undef TVARANT_VEC_FMA

#else

namespace raw {
typedef float F __attribute__((vector_size(16), aligned(4), may_alias));
typedef double D __attribute__((vector_size(16), aligned(8), may_alias));
}  // namespace raw

template <>
struct Vec<float> {
  static constexpr int kLanes = 4;
  typedef float Raw __attribute__((vector_size(16)));
  Raw v;
  TVARANT_INLINE static Vec Load(const float* p) {
    return {*reinterpret_cast<const raw::F*>(p)};
  }
  template <typename H>
  TVARANT_INLINE static Vec Load(const H* p) {
    return {Raw{ToFloat(p[0]), ToFloat(p[1]), ToFloat(p[2]), ToFloat(p[3])}};
  }
  TVARANT_INLINE static Vec All(float x) { return {Raw{x, x, x, x}}; }
  TVARANT_INLINE void Store(float* p) const {
    *reinterpret_cast<raw::F*>(p) = v;
  }
  template <typename H>
  TVARANT_INLINE void Store(H* p) const {
    for (int i = 0; i < 4; ++i) p[i] = FromFloat<H>(v[i]);
  }
};

template <>
struct Vec<double> {
  static constexpr int kLanes = 2;
  typedef double Raw __attribute__((vector_size(16)));
  Raw v;
  TVARANT_INLINE static Vec Load(const double* p) {
    return {*reinterpret_cast<const raw::D*>(p)};
  }
  TVARANT_INLINE static Vec All(double x) { return {Raw{x, x}}; }
  TVARANT_INLINE void Store(double* p) const {
    *reinterpret_cast<raw::D*>(p) = v;
  }
};

template <typename T>
TVARANT_INLINE Vec<T> Fma(Vec<T> a, Vec<T> b, Vec<T> c) {
  return {a.v * b.v + c.v};
}

// NaN wins, from either side.
template <typename T>
TVARANT_INLINE Vec<T> Max(Vec<T> a, Vec<T> b) {
  for (int i = 0; i < Vec<T>::kLanes; ++i) {
    if (!(a.v[i] > b.v[i]) && a.v[i] == a.v[i]) a.v[i] = b.v[i];
  }
  return a;
}

#endif

template <typename T>
TVARANT_INLINE Vec<T> operator+(Vec<T> a, Vec<T> b) {
  return {a.v + b.v};
}
template <typename T>
TVARANT_INLINE Vec<T> operator-(Vec<T> a, Vec<T> b) {
  return {a.v - b.v};
}
template <typename T>
TVARANT_INLINE Vec<T> operator*(Vec<T> a, Vec<T> b) {
  return {a.v * b.v};
}
template <typename T>
TVARANT_INLINE Vec<T> operator/(Vec<T> a, Vec<T> b) {
  return {a.v / b.v};
}

#if defined(__AVX512F__)
// e^x = 2^k e^r, |r| <= log(2) / 2, with the polynomial of
// pointwise/fast_math.h (1.03 units in the last place). Inline: calls of a
// library's cost more than the arithmetic. NaN goes through, results vanish and
// overflow as they should.
TVARANT_INLINE Vec<float> Exp(Vec<float> x) {
  // Beyond these the result is 0 or infinite. min gives its second operand
  // where one is NaN. To come to 0 by underflow would take 100 times as long.
  const __mmask16 is_there =
      _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(-104.0f), _CMP_NLT_UQ);
  const __m512 v = _mm512_maskz_min_ps(is_there, _mm512_set1_ps(89.0f), x.v);
  const __m512 k = _mm512_roundscale_ps(
      _mm512_mul_ps(v, _mm512_set1_ps(1.4426950408889634f)),
      _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  // log(2) in two parts, the first so short that k times it is exact.
  __m512 r = _mm512_fmadd_ps(k, _mm512_set1_ps(-0.693359375f), v);
  r = _mm512_fmadd_ps(k, _mm512_set1_ps(2.12194440e-4f), r);
  __m512 p = _mm512_fmadd_ps(r, _mm512_set1_ps(1.39504869e-3f),
                             _mm512_set1_ps(8.36888794e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1666206e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.66665182e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r);
  return {_mm512_maskz_scalef_ps(is_there,
                                 _mm512_add_ps(p, _mm512_set1_ps(1.0f)), k)};
}
TVARANT_INLINE Vec<double> Exp(Vec<double> x) {
  return {Sleef_expd8_u10avx512f(x.v)};
}
#define TVARANT_VEC_MATH(Name, name)               \
  TVARANT_INLINE Vec<float> Name(Vec<float> x) {   \
    return {Sleef_##name##f16_u10avx512f(x.v)};    \
  }                                                \
  TVARANT_INLINE Vec<double> Name(Vec<double> x) { \
    return {Sleef_##name##d8_u10avx512f(x.v)};     \
  }
#elif defined(__AVX2__)
#define TVARANT_VEC_MATH(Name, name)               \
  TVARANT_INLINE Vec<float> Name(Vec<float> x) {   \
    return {Sleef_##name##f8_u10avx2(x.v)};        \
  }                                                \
  TVARANT_INLINE Vec<double> Name(Vec<double> x) { \
    return {Sleef_##name##d4_u10avx2(x.v)};        \
  }
#else
#define TVARANT_VEC_MATH(Name, name)                                  \
  TVARANT_INLINE Vec<float> Name(Vec<float> x) {                      \
    for (int i = 0; i < 4; ++i) x.v[i] = Sleef_##name##f_u10(x.v[i]); \
    return x;                                                         \
  }                                                                   \
  TVARANT_INLINE Vec<double> Name(Vec<double> x) {                    \
    for (int i = 0; i < 2; ++i) x.v[i] = Sleef_##name##_u10(x.v[i]);  \
    return x;                                                         \
  }
#endif
#if !defined(__AVX512F__)
TVARANT_VEC_MATH(Exp, exp)
#endif
TVARANT_VEC_MATH(Erf, erf)
TVARANT_VEC_MATH(Tanh, tanh)
#undef TVARANT_VEC_MATH

TVARANT_INLINE float Log(float x) { return Sleef_logf_u10(x); }
TVARANT_INLINE double Log(double x) { return Sleef_log_u10(x); }

// max(x, 0), NaN kept.
template <typename T>
TVARANT_INLINE Vec<T> Relu(Vec<T> x) {
  return Max(x, Vec<T>::All(T(0)));
}

// The lanes, added in a fixed order.
template <typename T>
TVARANT_INLINE T Sum(Vec<T> x) {
  T lanes[Vec<T>::kLanes];
  x.Store(lanes);
  for (int width = Vec<T>::kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

template <typename T>
TVARANT_INLINE T MaxLane(Vec<T> x) {
  T lanes[Vec<T>::kLanes];
  x.Store(lanes);
  T max = lanes[0];
  for (int i = 1; i < Vec<T>::kLanes; ++i) {
    max = lanes[i] > max || lanes[i] != lanes[i] ? lanes[i] : max;
  }
  return max;
}

}  // namespace tvarant::host::TVARANT_ISA

#endif  // TVARANT_DAEMON_KERNELS_HOST_VEC_H_

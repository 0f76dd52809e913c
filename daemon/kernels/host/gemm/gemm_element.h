// Elements of any dtype as a computing type, for the GEMM's packing and edges.
// Include only in SIMD sources.

#ifndef TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_ELEMENT_H_
#define TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_ELEMENT_H_

#include "daemon/kernels/host/gemm/gemm_tile.h"
#include "daemon/kernels/host/vec.h"

namespace tvarant::host::TVARANT_ISA {

// Integers multiply and add as unsigned numbers, so overflow wraps.
#if defined(__AVX512F__)
inline constexpr int kIntBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kIntBytes = 32;
#else
inline constexpr int kIntBytes = 16;
#endif

template <typename T>
struct IntVec {
  static constexpr int kLanes = kIntBytes / sizeof(T);
  typedef T Raw __attribute__((vector_size(kIntBytes)));
  Raw v;
  TVARANT_INLINE static Vec<T> Load(const T* p) {
    Vec<T> x;
    std::memcpy(&x.v, p, sizeof(x.v));
    return x;
  }
  TVARANT_INLINE static Vec<T> All(T x) {
    Vec<T> all;
    all.v = x - Raw{};
    return all;
  }
  TVARANT_INLINE void Store(T* p) const { std::memcpy(p, &v, sizeof(v)); }
};
template <>
struct Vec<uint32_t> : IntVec<uint32_t> {};
template <>
struct Vec<uint64_t> : IntVec<uint64_t> {};

#define TVARANT_INT_OPS(T)                                  \
  TVARANT_INLINE Vec<T> Fma(Vec<T> a, Vec<T> b, Vec<T> c) { \
    c.v += a.v * b.v;                                       \
    return c;                                               \
  }                                                         \
  TVARANT_INLINE Vec<T> operator+(Vec<T> a, Vec<T> b) {     \
    a.v += b.v;                                             \
    return a;                                               \
  }                                                         \
  TVARANT_INLINE Vec<T> operator*(Vec<T> a, Vec<T> b) {     \
    a.v *= b.v;                                             \
    return a;                                               \
  }
TVARANT_INT_OPS(uint32_t)
TVARANT_INT_OPS(uint64_t)
#undef TVARANT_INT_OPS

// Stored types of each computing type.
template <typename T>
inline constexpr bool kIsFloatType = false;
template <>
inline constexpr bool kIsFloatType<float> = true;
template <>
inline constexpr bool kIsFloatType<double> = true;

template <typename T, typename S>
TVARANT_INLINE T Widen(S x) {
  return static_cast<T>(x);
}
template <>
TVARANT_INLINE float Widen<float, Half>(Half x) {
  return ToFloat(x);
}
template <>
TVARANT_INLINE float Widen<float, BFloat16>(BFloat16 x) {
  return ToFloat(x);
}

// Calls body(S()) with the stored type S of a dtype that computes in T.
// Dtypes of other classes do nothing; the caller has refused them.
template <typename T, typename Body>
TVARANT_INLINE void ForStored(DType dtype, Body body) {
  if constexpr (__is_same(T, float)) {
    if (dtype == DType::kFloat32) body(float());
    if (dtype == DType::kFloat16) body(Half());
    if (dtype == DType::kBFloat16) body(BFloat16());
  } else if constexpr (__is_same(T, double)) {
    if (dtype == DType::kFloat64) body(double());
  } else if constexpr (__is_same(T, uint32_t)) {
    if (dtype == DType::kUInt8) body(uint8_t());
    if (dtype == DType::kInt8) body(int8_t());
    if (dtype == DType::kInt16) body(int16_t());
    if (dtype == DType::kInt32) body(int32_t());
  } else {
    if (dtype == DType::kInt64) body(int64_t());
  }
}

// The dtype whose stored form is the computing type itself.
template <typename T>
constexpr DType OwnDType() {
  if constexpr (__is_same(T, float)) return DType::kFloat32;
  if constexpr (__is_same(T, double)) return DType::kFloat64;
  if constexpr (__is_same(T, uint32_t)) return DType::kInt32;
  return DType::kInt64;
}

template <typename S, typename T>
TVARANT_INLINE S Narrow(T x) {
  if constexpr (__is_same(S, Half) || __is_same(S, BFloat16)) {
    return FromFloat<S>(x);
  } else {
    return static_cast<S>(x);
  }
}

}  // namespace tvarant::host::TVARANT_ISA

#endif  // TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_ELEMENT_H_

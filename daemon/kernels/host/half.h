// float16 and bfloat16 as bits, and their conversion to and from float.
//
// Round to nearest even; NaN stays NaN. Plain bit arithmetic that compilers
// vectorise, the same result on every instruction set.
//
// Example:
//   float x = ToFloat(Half{0x3C00});        // 1.0f
//   BFloat16 y = FromFloat<BFloat16>(1.0f);  // bits 0x3F80

#ifndef TVARANT_DAEMON_KERNELS_HOST_HALF_H_
#define TVARANT_DAEMON_KERNELS_HOST_HALF_H_

#include <cstdint>

namespace tvarant::host {

struct Half {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

// Inlined always: a SIMD source must not leave a copy for other sources.
#define TVARANT_INLINE [[gnu::always_inline]] inline

TVARANT_INLINE uint32_t FloatBits(float x) {
  return __builtin_bit_cast(uint32_t, x);
}

TVARANT_INLINE float FloatFromBits(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

TVARANT_INLINE float ToFloat(BFloat16 x) {
  return FloatFromBits(static_cast<uint32_t>(x.bits) << 16);
}

TVARANT_INLINE float ToFloat(Half x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16;
  const uint32_t rest = static_cast<uint32_t>(x.bits & 0x7FFF) << 13;
  // Moves the exponent from bias 15 to 127; infinity and NaN need all ones.
  const uint32_t wide = rest + (112u << 23);
  const uint32_t special = wide + (112u << 23);
  // Subnormal: the fraction counts units of 2^-24.
  const float subnormal = FloatFromBits(wide + (1u << 23)) - 0x1p-14f;
  uint32_t bits = rest >= (31u << 23) ? special : wide;
  bits = rest < (1u << 23) ? FloatBits(subnormal) : bits;
  return FloatFromBits(bits | sign);
}

// A value that is no half type stays as it is.
TVARANT_INLINE float ToFloat(float x) { return x; }
TVARANT_INLINE double ToFloat(double x) { return x; }

// Rounds to T; float and double stay as they are.
template <typename T>
T FromFloat(float x);
template <typename T>
T FromFloat(double x);

template <>
TVARANT_INLINE BFloat16 FromFloat<BFloat16>(float x) {
  const uint32_t bits = FloatBits(x);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  return {static_cast<uint16_t>(x != x ? 0x7FC0 : rounded)};
}

template <>
TVARANT_INLINE Half FromFloat<Half>(float x) {
  const uint32_t all = FloatBits(x);
  const uint32_t sign = (all >> 16) & 0x8000;
  const uint32_t bits = all & 0x7FFFFFFF;
  // Normal: drop 13 bits, rounded to even; the carry may reach infinity.
  const uint32_t normal =
      (bits - (112u << 23) + 0xFFF + ((bits >> 13) & 1)) >> 13;
  // Subnormal: adding 0.5 leaves units of 2^-24 in the low bits, rounded.
  const uint32_t subnormal =
      FloatBits(FloatFromBits(bits) + 0.5f) - (126u << 23);
  uint32_t result = bits < (113u << 23) ? subnormal : normal;
  result = bits >= (143u << 23) ? 0x7C00 : result;
  result = bits > (255u << 23) ? 0x7E00 : result;
  return {static_cast<uint16_t>(result | sign)};
}

template <>
TVARANT_INLINE float FromFloat<float>(float x) {
  return x;
}

template <>
TVARANT_INLINE double FromFloat<double>(double x) {
  return x;
}

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_HALF_H_

// Sums and products that say when they overflow, for sizes from outside.
//
// Example:
//   uint64_t bytes;
//   if (!base::CheckedMul(count, element_size, &bytes)) return TooLarge();

#ifndef TVARANT_PROTO_BASE_CHECKED_MATH_H_
#define TVARANT_PROTO_BASE_CHECKED_MATH_H_

#include <concepts>

namespace tvarant::base {

// False on overflow; *result is unspecified then. Any integer types of a, b
// and *result may be mixed: what counts is whether the exact value fits.
template <std::integral A, std::integral B, std::integral R>
[[nodiscard]] constexpr bool CheckedAdd(A a, B b, R* result) {
  return !__builtin_add_overflow(a, b, result);
}

template <std::integral A, std::integral B, std::integral R>
[[nodiscard]] constexpr bool CheckedSub(A a, B b, R* result) {
  return !__builtin_sub_overflow(a, b, result);
}

template <std::integral A, std::integral B, std::integral R>
[[nodiscard]] constexpr bool CheckedMul(A a, B b, R* result) {
  return !__builtin_mul_overflow(a, b, result);
}

// Smallest multiple of `multiple` (> 0) that is >= value; false on overflow.
template <std::unsigned_integral T>
[[nodiscard]] constexpr bool CheckedRoundUp(T value, T multiple, T* result) {
  const T rest = value % multiple;
  return rest == 0 ? (*result = value, true)
                   : CheckedAdd(value, multiple - rest, result);
}

// Whether [offset, offset + bytes) lies within [0, size), without overflow.
template <std::unsigned_integral T>
[[nodiscard]] constexpr bool InRange(T offset, T bytes, T size) {
  return offset <= size && bytes <= size - offset;
}

}  // namespace tvarant::base

#endif  // TVARANT_PROTO_BASE_CHECKED_MATH_H_

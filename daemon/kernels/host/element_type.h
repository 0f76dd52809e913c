// From a dtype to the C++ type of its elements.
//
// Example:
//   const bool known = ForElementType(dtype, [&](auto element) {
//     using T = decltype(element);
//     ...
//   });

#ifndef TVARANT_DAEMON_KERNELS_HOST_ELEMENT_TYPE_H_
#define TVARANT_DAEMON_KERNELS_HOST_ELEMENT_TYPE_H_

#include <cstdint>
#include <type_traits>

#include "daemon/kernels/host/half.h"
#include "proto/base/dtype.h"

namespace tvarant::host {

// A stored bool may hold any byte: not to be read as a bool.
struct BoolByte {
  uint8_t byte;
};

template <typename T>
inline constexpr bool kIsHalf =
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <typename T>
inline constexpr bool kIsFloat = kIsHalf<T> || std::is_floating_point_v<T>;

// The type that an element is computed in: float for the half types, bool for
// a stored one.
template <typename T>
using ValueType = std::conditional_t<
    kIsHalf<T>, float,
    std::conditional_t<std::is_same_v<T, BoolByte>, bool, T>>;

template <typename T>
TVARANT_INLINE ValueType<T> ToValue(T x) {
  if constexpr (kIsHalf<T>) {
    return ToFloat(x);
  } else if constexpr (std::is_same_v<T, BoolByte>) {
    return x.byte != 0;
  } else {
    return x;
  }
}

template <typename T>
TVARANT_INLINE T FromValue(ValueType<T> value) {
  if constexpr (kIsHalf<T>) {
    return FromFloat<T>(value);
  } else if constexpr (std::is_same_v<T, BoolByte>) {
    return BoolByte{value};
  } else {
    return value;
  }
}

template <typename T>
TVARANT_INLINE bool IsNan(T value) {
  if constexpr (std::is_floating_point_v<T>) return value != value;
  return false;
}

// Calls body(T()); false for a dtype that is not computed with.
template <typename Body>
bool ForElementType(DType dtype, Body body) {
  switch (dtype) {
    case DType::kBool:
      body(BoolByte());
      return true;
    case DType::kUInt8:
      body(uint8_t());
      return true;
    case DType::kInt8:
      body(int8_t());
      return true;
    case DType::kInt16:
      body(int16_t());
      return true;
    case DType::kInt32:
      body(int32_t());
      return true;
    case DType::kInt64:
      body(int64_t());
      return true;
    case DType::kFloat16:
      body(Half());
      return true;
    case DType::kBFloat16:
      body(BFloat16());
      return true;
    case DType::kFloat32:
      body(float());
      return true;
    case DType::kFloat64:
      body(double());
      return true;
    default:
      return false;
  }
}

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_ELEMENT_TYPE_H_

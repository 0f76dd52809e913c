// How a value that is put joins the one that stands there.

#ifndef TVARANT_DAEMON_KERNELS_HOST_INDEX_COMBINE_H_
#define TVARANT_DAEMON_KERNELS_HOST_INDEX_COMBINE_H_

#include <cstdint>
#include <type_traits>

#include "daemon/kernels/host/element_type.h"
#include "proto/ops/op_ids.h"

namespace tvarant::host {

// NaN wins, as in PyTorch. Integers wrap.
template <PutMode mode, typename T>
TVARANT_INLINE void Combine(T* target, T added) {
  if constexpr (mode == PutMode::kSet) {
    *target = added;
  } else {
    using V = ValueType<T>;
    const V a = ToValue(*target), b = ToValue(added);
    V result;
    if constexpr (mode == PutMode::kMax) {
      result = IsNan(a) || (!IsNan(b) && a >= b) ? a : b;
    } else if constexpr (mode == PutMode::kMin) {
      result = IsNan(a) || (!IsNan(b) && a <= b) ? a : b;
    } else if constexpr (std::is_same_v<V, bool>) {
      result = mode == PutMode::kAdd ? a || b : a && b;
    } else if constexpr (std::is_integral_v<V>) {
      const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
      result = static_cast<V>(mode == PutMode::kAdd ? x + y : x * y);
    } else {
      result = mode == PutMode::kAdd ? a + b : a * b;
    }
    *target = FromValue<T>(result);
  }
}

// Calls body with a PutMode as a constant.
template <typename Body>
void ForPutMode(PutMode mode, Body body) {
  switch (mode) {
    case PutMode::kSet:
      return body(std::integral_constant<PutMode, PutMode::kSet>());
    case PutMode::kAdd:
      return body(std::integral_constant<PutMode, PutMode::kAdd>());
    case PutMode::kMultiply:
      return body(std::integral_constant<PutMode, PutMode::kMultiply>());
    case PutMode::kMax:
      return body(std::integral_constant<PutMode, PutMode::kMax>());
    case PutMode::kMin:
      return body(std::integral_constant<PutMode, PutMode::kMin>());
  }
}

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_INDEX_COMBINE_H_

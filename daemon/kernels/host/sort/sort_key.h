// Keys: unsigned numbers in the order of the elements. NaN is above all, all
// NaNs are equal, and so are -0 and 0.

#ifndef TVARANT_DAEMON_KERNELS_HOST_SORT_SORT_KEY_H_
#define TVARANT_DAEMON_KERNELS_HOST_SORT_SORT_KEY_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "daemon/kernels/host/element_type.h"

namespace tvarant::host {

template <typename T>
using SortKey = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename K>
inline constexpr K kNanKey = std::numeric_limits<K>::max();

template <typename T>
TVARANT_INLINE SortKey<T> KeyOf(T element) {
  using K = SortKey<T>;
  constexpr K kSign = K{1} << (8 * sizeof(K) - 1);
  const ValueType<T> value = ToValue(element);
  if constexpr (kIsFloat<T>) {
    K bits = __builtin_bit_cast(K, value);
    bits = bits == kSign ? 0 : bits;
    const K key = (bits & kSign) != 0 ? static_cast<K>(~bits) : bits | kSign;
    return value != value ? kNanKey<K> : key;
  } else if constexpr (sizeof(T) == 1 && !std::is_signed_v<ValueType<T>>) {
    return static_cast<K>(value);
  } else if constexpr (sizeof(T) < sizeof(K)) {
    // Counted from the smallest, so that the upper digits are all 0.
    return static_cast<K>(static_cast<int64_t>(value) -
                          std::numeric_limits<T>::min());
  } else {
    return static_cast<K>(value) ^ kSign;
  }
}

// An element to sort: its key and where it stands. Two are never equal, so
// that any sort is a stable one. Keys of up to 32 bits and their index share
// one word.
struct Entry32 {
  using Key = uint32_t;
  static constexpr int kKeyBits = 32;
  static constexpr int64_t kMaxIndex = (int64_t{1} << 32) - 1;
  uint64_t bits;
  Entry32() = default;
  Entry32(uint32_t key, int64_t index)
      : bits(static_cast<uint64_t>(key) << 32 | static_cast<uint32_t>(index)) {}
  uint32_t key() const { return static_cast<uint32_t>(bits >> 32); }
  int64_t index() const { return static_cast<uint32_t>(bits); }
  bool operator<(const Entry32& other) const { return bits < other.bits; }
};

struct Entry64 {
  using Key = uint64_t;
  static constexpr int kKeyBits = 64;
  static constexpr int64_t kMaxIndex = std::numeric_limits<int64_t>::max();
  uint64_t key_bits;
  int64_t position;
  Entry64() = default;
  Entry64(uint64_t key, int64_t index) : key_bits(key), position(index) {}
  uint64_t key() const { return key_bits; }
  int64_t index() const { return position; }
  bool operator<(const Entry64& other) const {
    return key_bits != other.key_bits ? key_bits < other.key_bits
                                      : position < other.position;
  }
};

// Calls body(Entry32()) or body(Entry64()): what holds keys of T at places
// below count.
template <typename T, typename Body>
auto WithEntry(int64_t count, Body body) {
  if constexpr (sizeof(SortKey<T>) == 4) {
    if (count <= Entry32::kMaxIndex) return body(Entry32());
  }
  return body(Entry64());
}

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_SORT_SORT_KEY_H_

// The first index out of range that a launch met, over all threads.

#ifndef TVARANT_DAEMON_KERNELS_HOST_INDEX_BAD_INDEX_H_
#define TVARANT_DAEMON_KERNELS_HOST_INDEX_BAD_INDEX_H_

#include <cstdint>
#include <cstring>
#include <mutex>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/host_kernels.h"

namespace tvarant::host {

// Thread-safe. Locks only when something is wrong.
class BadIndex {
 public:
  // position: the row-major place of the index, so that the report does not
  // depend on which thread met its bad index first.
  void Report(int64_t position, int64_t value) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (found_ && position_ <= position) return;
    found_ = true;
    position_ = position;
    value_ = value;
  }

  absl::Status status(int64_t dim, int64_t size) const {
    if (!found_) return absl::OkStatus();
    return absl::OutOfRangeError(
        absl::StrCat("index ", value_, " is out of bounds for dimension ", dim,
                     " with size ", size));
  }

 private:
  std::mutex mutex_;
  bool found_ = false;
  int64_t position_ = 0;
  int64_t value_ = 0;
};

// Element `at` of an int32 or int64 tensor. Callers read an index once and
// use the value they checked: a client may write to the memory meanwhile.
inline int64_t IndexAt(const Tensor& index, int64_t at) {
  if (index.dtype == DType::kInt32) {
    return reinterpret_cast<const volatile int32_t*>(index.data)[at];
  }
  return reinterpret_cast<const volatile int64_t*>(index.data)[at];
}

// Reads n indices, `step` apart, into `to`; whether all are in [0, size).
inline bool LoadIndices(const Tensor& index, int64_t at, int64_t step,
                        int64_t n, int64_t size, int64_t* to) {
  if (index.dtype == DType::kInt32) {
    const auto* from = reinterpret_cast<const int32_t*>(index.data) + at;
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
  } else {
    const auto* from = reinterpret_cast<const int64_t*>(index.data) + at;
    if (step == 1) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(int64_t));
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
    }
  }
  // What is checked is the copy: no reading again from here on.
  asm volatile("" : : "r"(to) : "memory");
  // A sign bit for any that is below 0 or above size - 1; in unsigned
  // arithmetic, which wraps.
  uint64_t bad = 0;
  const auto last = static_cast<uint64_t>(size) - 1;
  for (int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<uint64_t>(to[i]);
    bad |= value | (last - value);
  }
  return n == 0 || (size > 0 && (bad >> 63) == 0);
}

inline bool IsIndexDType(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64;
}

// Calls body(E()) with an unsigned type of the given size (or a pair of
// uint64 for 16 bytes).
struct Bytes16 {
  uint64_t low, high;
};

template <typename Body>
void ForElementSize(size_t bytes, Body body) {
  switch (bytes) {
    case 1:
      return body(uint8_t());
    case 2:
      return body(uint16_t());
    case 4:
      return body(uint32_t());
    case 8:
      return body(uint64_t());
    default:
      return body(Bytes16());
  }
}

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_INDEX_BAD_INDEX_H_

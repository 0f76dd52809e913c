// How often each kernel ran on the host instead of the device.

#ifndef TVARANT_DAEMON_RUNTIME_OPENCL_HOST_RUN_COUNTS_H_
#define TVARANT_DAEMON_RUNTIME_OPENCL_HOST_RUN_COUNTS_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "proto/ops/op_ids.h"

namespace tvarant::opencl {

// Thread-safe.
class HostRunCounts {
 public:
  static constexpr int kSize = 256;  // kernels' ids are below

  // The count after this one.
  uint64_t Add(Kernel kernel) {
    return counts_[Index(kernel)].fetch_add(1, std::memory_order_relaxed) + 1;
  }
  uint64_t Get(Kernel kernel) const {
    return counts_[Index(kernel)].load(std::memory_order_relaxed);
  }

 private:
  static size_t Index(Kernel kernel) {
    return static_cast<size_t>(kernel) % kSize;
  }
  std::array<std::atomic<uint64_t>, kSize> counts_{};
};

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_RUNTIME_OPENCL_HOST_RUN_COUNTS_H_

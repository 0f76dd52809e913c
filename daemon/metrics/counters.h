// What the daemon counts, for AdminService and tests. The list is counters.inc.
//
// Example:
//   counters.Add(Counter::kBatches);

#ifndef TVARANT_DAEMON_METRICS_COUNTERS_H_
#define TVARANT_DAEMON_METRICS_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace tvarant {

enum class Counter : int {
#define TVARANT_COUNTER(Name, name, unit, doc) k##Name,
#include "daemon/metrics/counters.inc"
  kCount
};

inline constexpr size_t kNumCounters = static_cast<size_t>(Counter::kCount);

struct CounterInfo {
  const char* name;
  const char* unit;
  const char* doc;
};

// In the order of the enumerators.
absl::Span<const CounterInfo> CounterTable();

// Thread-safe.
class Counters {
 public:
  void Add(Counter counter, uint64_t amount = 1) {
    values_[static_cast<size_t>(counter)].fetch_add(amount,
                                                    std::memory_order_relaxed);
  }
  uint64_t Get(Counter counter) const {
    return values_[static_cast<size_t>(counter)].load(
        std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, kNumCounters> values_{};
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_METRICS_COUNTERS_H_

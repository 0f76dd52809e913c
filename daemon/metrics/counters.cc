#include "daemon/metrics/counters.h"

namespace tvarant {

absl::Span<const CounterInfo> CounterTable() {
  static constexpr CounterInfo kTable[] = {
#define TVARANT_COUNTER(Name, name, unit, doc) {#name, unit, doc},
#include "daemon/metrics/counters.inc"
  };
  static_assert(sizeof(kTable) / sizeof(kTable[0]) == kNumCounters);
  return kTable;
}

}  // namespace tvarant

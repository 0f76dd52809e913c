// The metrics of a daemon as Prometheus reads them: counters.inc and
// metrics.inc, under the names of docs/metrics.md.
//
// Example:
//   auto endpoint = MetricsEndpoint::Start("127.0.0.1:9464", source);
//   spdlog::info("port={}", (*endpoint)->port());

#ifndef TVARANT_DAEMON_METRICS_METRICS_H_
#define TVARANT_DAEMON_METRICS_METRICS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/metrics/counters.h"

namespace tvarant {

enum class Gauge : int {
#define TVARANT_GAUGE(Name, name, unit, doc) k##Name,
#include "daemon/metrics/metrics.inc"
  kCount
};

enum class SessionMetric : int {
#define TVARANT_SESSION_METRIC(Name, name, type, unit, doc) k##Name,
#include "daemon/metrics/metrics.inc"
  kCount
};

enum class MetricKind { kCounter, kGauge };

struct MetricInfo {
  std::string name;  // as exposed: "tvarant_launches_total"
  MetricKind kind;
  std::string unit;
  std::string doc;
  bool per_session;
};

// Every metric there is: counters, gauges, those of sessions, each in the order
// of its enumerators.
const std::vector<MetricInfo>& MetricTable();

// One reading of everything.
struct MetricValues {
  struct OfSession {
    uint64_t id;
    int64_t uid;
    std::string client;
    std::array<double, static_cast<size_t>(SessionMetric::kCount)> values;
  };
  double& operator[](Gauge gauge) { return gauges[static_cast<size_t>(gauge)]; }

  std::array<uint64_t, kNumCounters> counters{};
  std::array<double, static_cast<size_t>(Gauge::kCount)> gauges{};
  std::vector<OfSession> sessions;
};

// Where readings come from. Thread-safe; doesn't touch the device.
class MetricsSource {
 public:
  virtual ~MetricsSource() = default;
  virtual MetricValues ReadMetrics() = 0;
};

// Fills the gauges that are the process's own from /proc/self.
void ReadProcessGauges(MetricValues* values);

// INVALID_ARGUMENT unless `address` is HOST:PORT with a HOST of this machine
// alone: 127.*, [::1] or localhost. What it serves has no access control.
absl::Status CheckMetricsAddress(const std::string& address);

// Serves GET /metrics. Thread-safe.
class MetricsEndpoint {
 public:
  // Port 0: any. UNAVAILABLE if the address can't be had. The source must
  // outlive the endpoint.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& address, MetricsSource& source);
  virtual ~MetricsEndpoint() = default;
  virtual int port() const = 0;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_METRICS_METRICS_H_

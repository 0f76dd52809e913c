#include "daemon/metrics/metrics.h"

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "prometheus/client_metric.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"
#include "prometheus/metric_family.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

constexpr std::string_view kNsSuffix = "_ns";

bool IsNanoseconds(std::string_view name) {
  return name.size() > kNsSuffix.size() &&
         name.substr(name.size() - kNsSuffix.size()) == kNsSuffix;
}

std::string ExposedName(std::string name, MetricKind kind) {
  // Prometheus counts seconds.
  if (IsNanoseconds(name)) {
    name.resize(name.size() - kNsSuffix.size());
    name += "_seconds";
  }
  return "tvarant_" + name + (kind == MetricKind::kCounter ? "_total" : "");
}

std::vector<MetricInfo> MakeTable() {
  std::vector<MetricInfo> table;
  for (const CounterInfo& counter : CounterTable()) {
    table.push_back({ExposedName(counter.name, MetricKind::kCounter),
                     MetricKind::kCounter,
                     IsNanoseconds(counter.name) ? "seconds" : counter.unit,
                     counter.doc, false});
  }
#define TVARANT_GAUGE(Name, name, unit, doc)                                   \
  table.push_back({ExposedName(#name, MetricKind::kGauge), MetricKind::kGauge, \
                   unit, doc, false});
#define TVARANT_SESSION_METRIC(Name, name, type, unit, doc)                \
  table.push_back({ExposedName(#name, MetricKind::type), MetricKind::type, \
                   unit, doc, true});
#include "daemon/metrics/metrics.inc"
  return table;
}

prometheus::ClientMetric Value(MetricKind kind, double value) {
  prometheus::ClientMetric metric;
  if (kind == MetricKind::kCounter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return metric;
}

class Collector final : public prometheus::Collectable {
 public:
  explicit Collector(MetricsSource& source) : source_(source) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    const MetricValues values = source_.ReadMetrics();
    std::vector<prometheus::MetricFamily> families;
    size_t gauge = 0, of_session = 0;
    for (const MetricInfo& info : MetricTable()) {
      prometheus::MetricFamily family;
      family.name = info.name;
      family.help = info.doc;
      family.type = info.kind == MetricKind::kCounter
                        ? prometheus::MetricType::Counter
                        : prometheus::MetricType::Gauge;
      if (info.per_session) {
        for (const auto& session : values.sessions) {
          prometheus::ClientMetric metric =
              Value(info.kind, session.values[of_session]);
          metric.label = {{"session", std::to_string(session.id)},
                          {"uid", std::to_string(session.uid)},
                          {"client", session.client}};
          family.metric.push_back(std::move(metric));
        }
        ++of_session;
      } else if (families.size() < kNumCounters) {
        const size_t i = families.size();
        const double scale = IsNanoseconds(CounterTable()[i].name) ? 1e-9 : 1;
        family.metric.push_back(
            Value(info.kind, scale * static_cast<double>(values.counters[i])));
      } else {
        family.metric.push_back(Value(info.kind, values.gauges[gauge++]));
      }
      families.push_back(std::move(family));
    }
    return families;
  }

 private:
  MetricsSource& source_;
};

class Endpoint final : public MetricsEndpoint {
 public:
  Endpoint(const std::string& address, MetricsSource& source)
      : collector_(std::make_shared<Collector>(source)),
        exposer_(address, /*num_threads=*/1) {
    exposer_.RegisterCollectable(collector_);
  }
  int port() const override { return exposer_.GetListeningPorts().front(); }

 private:
  const std::shared_ptr<Collector> collector_;
  prometheus::Exposer exposer_;
};

}  // namespace

const std::vector<MetricInfo>& MetricTable() {
  static const auto& table = *new std::vector<MetricInfo>(MakeTable());
  return table;
}

void ReadProcessGauges(MetricValues* values) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) {
      (*values)[Gauge::kResidentBytes] =
          1024.0 * std::strtod(line.c_str() + 6, nullptr);
    } else if (line.rfind("Threads:", 0) == 0) {
      (*values)[Gauge::kThreads] = std::strtod(line.c_str() + 8, nullptr);
    }
  }
  std::error_code ignored;
  double count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", ignored), end;
       !ignored && it != end; it.increment(ignored)) {
    ++count;
  }
  // One of them reads the folder.
  (*values)[Gauge::kOpenDescriptors] = count > 0 ? count - 1 : 0;
}

absl::Status CheckMetricsAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  uint32_t port;
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port > std::numeric_limits<uint16_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metrics address \"", address, "\" is not of the form HOST:PORT"));
  }
  const bool is_ipv4_loopback =
      host.rfind("127.", 0) == 0 &&
      host.find_first_not_of("0123456789.") == std::string::npos;
  if (is_ipv4_loopback || host == "[::1]" || host == "localhost") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("metrics address \"", address,
                   "\" can be reached from other machines, and metrics have no "
                   "access control; use 127.0.0.1, [::1] or localhost"));
}

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, MetricsSource& source) {
  RETURN_IF_ERROR(CheckMetricsAddress(address));
  // civetweb takes "localhost:1" for a port of all interfaces.
  std::string bound = address;
  if (bound.rfind("localhost:", 0) == 0) bound.replace(0, 9, "127.0.0.1");
  try {
    std::unique_ptr<MetricsEndpoint> endpoint =
        std::make_unique<Endpoint>(bound, source);
    return endpoint;
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("can't serve metrics at ", address, ": ", error.what()));
  }
}

}  // namespace tvarant

// Prints docs/metrics.md.

#include <cstdio>

#include "daemon/metrics/metrics.h"

int main() {
  std::puts(
      "<!-- Made by //daemon/metrics:print_metrics_page; do not edit. -->\n"
      "# Metrics\n"
      "\n"
      "Served by `tvarantd --metrics 127.0.0.1:9464` (or `metrics = ...` in "
      "the\n"
      "configuration) as `GET /metrics`, in Prometheus's text format; by "
      "default\n"
      "nothing is served. Reading doesn't touch the device. `tvarantctl "
      "counters`\n"
      "shows the counters without the endpoint.\n"
      "\n"
      "Metrics of a session have the labels `session`, `uid` and `client` "
      "(what\n"
      "the client calls itself), and end with it.\n"
      "\n"
      "| Name | Type | Unit | What |\n"
      "|---|---|---|---|");
  for (const tvarant::MetricInfo& info : tvarant::MetricTable()) {
    std::printf(
        "| `%s`%s | %s | %s | %s |\n", info.name.c_str(),
        info.per_session ? " of a session" : "",
        info.kind == tvarant::MetricKind::kCounter ? "counter" : "gauge",
        info.unit.c_str(), info.doc.c_str());
  }
}

#include "tests/benchmarks/device/report.h"

#include <algorithm>
#include <cmath>

namespace tvarant::benchmarks {
namespace {

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string Duration(double seconds) {
  if (seconds < 1e-3) return Format("%.2f us", seconds * 1e6);
  if (seconds < 1) return Format("%.3f ms", seconds * 1e3);
  return Format("%.3f s", seconds);
}

std::string Bytes(int64_t bytes) {
  constexpr int64_t kKi = 1024;
  if (bytes % (kKi * kKi) == 0) {
    return std::to_string(bytes / kKi / kKi) + " MiB";
  }
  if (bytes % kKi == 0) return std::to_string(bytes / kKi) + " KiB";
  return std::to_string(bytes) + " B";
}

// Empty for what was not measured.
std::string Number(const char* format, double value) {
  return value > 0 ? Format(format, value) : std::string();
}

std::string Quote(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

void AddField(const char* name, const std::string& value, std::string* out) {
  if (value.empty()) return;
  if (out->back() != '{') *out += ", ";
  *out += Quote(name) + ": " + value;
}
void AddNumber(const char* name, double value, std::string* out) {
  AddField(name, Number("%.9g", value), out);
}
void AddText(const char* name, const std::string& text, std::string* out) {
  if (!text.empty()) AddField(name, Quote(text), out);
}

std::string RowJson(const Outcome& outcome) {
  const Row& row = outcome.row;
  std::string sizes = "[";
  for (const int64_t size : row.sizes) {
    if (sizes.size() > 1) sizes += ", ";
    sizes += std::to_string(size);
  }
  std::string json = "{";
  AddText("family", row.family, &json);
  AddText("name", row.name, &json);
  AddText("dtype", NameOf(row.dtype), &json);
  AddField("sizes", sizes + "]", &json);
  AddText(outcome.failed ? "error" : "skipped", outcome.problem, &json);
  AddNumber("median_seconds", outcome.ours.median_seconds, &json);
  AddNumber("min_seconds", outcome.ours.min_seconds, &json);
  AddNumber("samples", outcome.ours.samples, &json);
  AddNumber("bytes_per_second", outcome.bytes_per_second(), &json);
  AddNumber("flops_per_second", outcome.flops_per_second(), &json);
  AddNumber("of_copy", outcome.of_copy(), &json);
  AddNumber("torch_median_seconds", outcome.torch.median_seconds, &json);
  AddNumber("torch_min_seconds", outcome.torch.min_seconds, &json);
  AddNumber("speed_of_torch", outcome.speed(), &json);
  AddText("torch_error", outcome.torch_problem, &json);
  return json + "}";
}

}  // namespace

double Outcome::bytes_per_second() const {
  return ours.median_seconds > 0 ? row.bytes / ours.median_seconds : 0;
}
double Outcome::flops_per_second() const {
  return ours.median_seconds > 0 ? row.flops / ours.median_seconds : 0;
}
double Outcome::of_copy() const {
  return copy_bytes_per_second > 0 ? bytes_per_second() / copy_bytes_per_second
                                   : 0;
}
double Outcome::speed() const {
  return ours.median_seconds > 0 && torch.median_seconds > 0
             ? torch.median_seconds / ours.median_seconds
             : 0;
}

std::string ShapeOf(const Row& row) {
  if (row.dtype == DType::kUInt8) return Bytes(row.sizes[0]);
  std::string shape;
  for (const int64_t size : row.sizes) {
    if (!shape.empty()) shape += "x";
    shape += std::to_string(size);
  }
  return shape;
}

void PrintHead(std::FILE* file, bool with_torch) {
  std::fprintf(file, "%-10s %-24s %-9s %-20s %11s %11s %8s %6s %8s", "family",
               "what", "dtype", "size", "median", "min", "GB/s", "copy",
               "TFLOP/s");
  if (with_torch) std::fprintf(file, " %11s %6s", "torch", "speed");
  std::fprintf(file, "\n");
}

void PrintLine(const Outcome& outcome, bool with_torch, std::FILE* file) {
  const Row& row = outcome.row;
  std::fprintf(file, "%-10s %-24s %-9s %-20s", row.family.c_str(),
               row.name.c_str(), NameOf(row.dtype), ShapeOf(row).c_str());
  if (!outcome.problem.empty()) {
    std::fprintf(file, " %s: %s\n", outcome.failed ? "FAILED" : "skipped",
                 outcome.problem.c_str());
    return;
  }
  std::fprintf(file, " %11s %11s %8s %6s %8s",
               Duration(outcome.ours.median_seconds).c_str(),
               Duration(outcome.ours.min_seconds).c_str(),
               Number("%.1f", outcome.bytes_per_second() / 1e9).c_str(),
               Number("%.2f", outcome.of_copy()).c_str(),
               Number("%.3f", outcome.flops_per_second() / 1e12).c_str());
  if (with_torch && !outcome.torch_problem.empty()) {
    std::fprintf(file, "  %s", outcome.torch_problem.c_str());
  } else if (with_torch && outcome.speed() > 0) {
    std::fprintf(file, " %11s %6.2f",
                 Duration(outcome.torch.median_seconds).c_str(),
                 outcome.speed());
  }
  std::fprintf(file, "\n");
}

std::string ToJson(const client::DeviceProperties& properties,
                   const std::string& torch,
                   const std::vector<Outcome>& outcomes) {
  std::string device = "{";
  AddText("name", properties.name, &device);
  AddText("runtime", properties.runtime, &device);
  AddText("vendor", properties.vendor, &device);
  AddText("driver_version", properties.driver_version, &device);
  AddText("instruction_set", properties.instruction_set, &device);
  AddText("daemon_version", properties.daemon_version, &device);
  AddNumber("compute_units", properties.compute_units, &device);
  AddNumber("total_memory_bytes",
            static_cast<double>(properties.total_memory_bytes), &device);
  std::string json = "{";
  AddField("device", device + "}", &json);
  AddText("torch", torch, &json);
  std::string rows = "[";
  for (const Outcome& outcome : outcomes) {
    if (rows.size() > 1) rows += ",";
    rows += "\n  " + RowJson(outcome);
  }
  AddField("rows", rows + "\n]", &json);
  return json + "}\n";
}

}  // namespace tvarant::benchmarks

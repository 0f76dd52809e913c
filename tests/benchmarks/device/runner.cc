#include "tests/benchmarks/device/runner.h"

#include <algorithm>
#include <cstdio>

namespace tvarant::benchmarks {
namespace {

constexpr uint64_t kMi = 1 << 20;
constexpr double kLongestRowSeconds = 0.5;
constexpr double kShortestRowSeconds = 0.02;
// Turns that the least measurement takes: two to warm up, two to look at.
constexpr double kLeastTurns = 4;

std::string RateKey(const Row& row) {
  return row.family + " " + NameOf(row.dtype);
}

std::string MiB(double bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f MiB", bytes / kMi);
  return text;
}

uint64_t PowerOfTwoBelow(uint64_t value) {
  uint64_t power = 1;
  while (power <= value / 2) power *= 2;
  return power;
}

}  // namespace

Result<Scale> ChooseScale(Device& device, bool quick) {
  if (quick)
    return Scale{.array_bytes = kMi, .largest_product = 256, .quick = true};
  auto free_bytes = device.FreeBytes();
  if (!free_bytes.ok()) return free_bytes.status();

  // What a copy of 32 MiB gives decides how much a row of tenths of
  // milliseconds, and larger than any cache, moves.
  double rate = 0;
  {
    std::vector<Row> rows;
    AddCopyRows({.array_bytes = 32 * kMi}, &rows);
    Scope scope(device);
    Turn turn;
    Timing timing;
    Status status = rows[0].prepare(device, scope, &turn);
    if (status.ok()) status = TimeQueued(device, turn, 0.05, &timing);
    if (!status.ok()) return status;
    rate = rows[0].bytes / timing.min_seconds;
  }
  uint64_t array_bytes = rate > 1e12   ? 512 * kMi
                         : rate > 1e11 ? 256 * kMi
                                       : 32 * kMi;
  // Six arrays at once at most; no segment larger than the device allows.
  array_bytes = std::min(array_bytes, free_bytes.value() / 8);
  const uint64_t segment = device.session().properties().max_segment_bytes;
  if (segment != 0) array_bytes = std::min(array_bytes, segment);
  if (array_bytes < kMi) {
    return Status(Code::kResourceExhausted,
                  "the device has " +
                      MiB(static_cast<double>(free_bytes.value())) +
                      " free, want 8 MiB at least");
  }
  Scale scale;
  scale.array_bytes = PowerOfTwoBelow(array_bytes);
  // Rows that would take too long, or don't fit, are skipped one by one.
  scale.largest_product = 8192;
  return scale;
}

std::vector<Row> ChooseRows(const Scale& scale,
                            const std::vector<std::string>& only) {
  std::vector<Row> rows;
  AddCopyRows(scale, &rows);
  AddLaunchRows(scale, &rows);
  AddPointwiseRows(scale, &rows);
  AddRowwiseRows(scale, &rows);
  AddProductRows(scale, &rows);
  AddAttentionRows(scale, &rows);
  if (only.empty()) return rows;
  std::erase_if(rows, [&](const Row& row) {
    const std::string title = row.family + " " + row.name;
    return !row.is_reference &&
           std::none_of(only.begin(), only.end(), [&](const std::string& part) {
             return title.find(part) != std::string::npos;
           });
  });
  return rows;
}

Runner::Runner(Device& device, TorchPeer* torch, double seconds, int num_rows)
    : device_(device),
      torch_(torch),
      start_(Now()),
      seconds_(seconds),
      // Filling memory and warming up take about as long again.
      row_seconds_(std::clamp(
          seconds / std::max(num_rows, 1) / (torch == nullptr ? 2 : 4),
          kShortestRowSeconds, kLongestRowSeconds)) {}

std::string Runner::WhyNot(const Row& row) {
  const double left = seconds_ - seconds_used();
  if (left <= 0) return "no time left of --seconds";
  if (const auto rate = flops_per_second_.find(RateKey(row));
      rate != flops_per_second_.end() && row.flops > 0) {
    const double foreseen = kLeastTurns * row.flops / rate->second;
    if (foreseen > std::min(left, seconds_ / 10)) {
      char text[80];
      std::snprintf(text, sizeof(text), "would take %.0f s of --seconds=%.0f",
                    foreseen, seconds_);
      return text;
    }
  }
  auto free_bytes = device_.FreeBytes();
  if (!free_bytes.ok()) return free_bytes.status().message();
  if (row.memory_bytes > free_bytes.value() / 10 * 9) {
    return "needs " + MiB(static_cast<double>(row.memory_bytes)) + ", " +
           MiB(static_cast<double>(free_bytes.value())) + " are free";
  }
  return std::string();
}

Outcome Runner::Run(const Row& row) {
  Outcome outcome;
  outcome.row = row;
  outcome.problem = WhyNot(row);
  if (!outcome.problem.empty()) return outcome;
  {
    Scope scope(device_);
    Status status;
    if (row.measure != nullptr) {
      status = row.measure(device_, scope, row_seconds_, &outcome.ours);
    } else {
      Turn turn;
      status = row.prepare(device_, scope, &turn);
      if (status.ok()) {
        status = TimeQueued(device_, turn, row_seconds_, &outcome.ours);
      }
    }
    if (!status.ok()) {
      outcome.problem = status.message();
      outcome.failed = true;
      outcome.ours = Timing();
      return outcome;
    }
  }
  const double seconds = outcome.ours.median_seconds;
  if (row.is_reference) {
    copy_bytes_per_second_ =
        std::max(copy_bytes_per_second_, row.bytes / seconds);
  }
  // Bytes from and to the host travel another way.
  if (row.is_reference || row.dtype != DType::kUInt8) {
    outcome.copy_bytes_per_second = copy_bytes_per_second_;
  }
  if (row.flops > 0) {
    double& best = flops_per_second_[RateKey(row)];
    best = std::max(best, row.flops / seconds);
  }
  if (torch_ != nullptr && !row.peer.empty()) {
    const Status status = torch_->Time(row, row_seconds_, &outcome.torch);
    if (!status.ok()) {
      outcome.torch_problem = status.message();
      if (status.code() == Code::kUnavailable) torch_ = nullptr;
    }
  }
  return outcome;
}

}  // namespace tvarant::benchmarks

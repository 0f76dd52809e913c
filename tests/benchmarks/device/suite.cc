#include "tests/benchmarks/device/suite.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tvarant::benchmarks {
namespace {

constexpr int kMinSamples = 2;
constexpr int kMaxSamples = 25;
constexpr int64_t kMaxTurns = 2000;

}  // namespace

double Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Timing Summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  Timing timing;
  timing.median_seconds = samples.size() % 2 == 1
                              ? samples[middle]
                              : (samples[middle - 1] + samples[middle]) / 2;
  timing.min_seconds = samples.front();
  timing.samples = static_cast<int>(samples.size());
  return timing;
}

Status TimeTurns(const std::function<Status(int64_t turns)>& once,
                 double seconds, Timing* timing) {
  // The first turn may compile the kernel.
  if (Status status = once(1); !status.ok()) return status;

  // Long samples hide what the wait for their end costs; ten of them show what
  // else the machine did.
  const double wanted = std::max(seconds / 10, 1e-4);
  int64_t turns = 1;
  double start = 0;
  while (true) {
    start = Now();
    if (Status status = once(turns); !status.ok()) return status;
    const double took = std::max(Now() - start, 1e-7);
    if (took >= wanted / 2 || turns == kMaxTurns) break;
    const double factor = std::clamp(wanted / took, 2.0, 10.0);
    turns = std::min(static_cast<int64_t>(static_cast<double>(turns) * factor),
                     kMaxTurns);
  }
  std::vector<double> samples;
  const double end = Now() + seconds;
  while (static_cast<int>(samples.size()) < kMaxSamples) {
    start = Now();
    if (Status status = once(turns); !status.ok()) return status;
    const double now = Now();
    samples.push_back((now - start) / static_cast<double>(turns));
    if (now >= end && static_cast<int>(samples.size()) >= kMinSamples) break;
  }
  *timing = Summarise(std::move(samples));
  return Status();
}

Status TimeQueued(Device& device, const Turn& turn, double seconds,
                  Timing* timing) {
  return TimeTurns(
      [&](int64_t turns) {
        for (int64_t i = 0; i < turns; ++i) {
          if (Status status = turn(); !status.ok()) return status;
        }
        return device.stream().Synchronize();
      },
      seconds, timing);
}

}  // namespace tvarant::benchmarks

// Runs rows one after the other within a time budget. Thread-compatible.

#ifndef TVARANT_TESTS_BENCHMARKS_DEVICE_RUNNER_H_
#define TVARANT_TESTS_BENCHMARKS_DEVICE_RUNNER_H_

#include <map>
#include <string>
#include <vector>

#include "tests/benchmarks/device/report.h"
#include "tests/benchmarks/device/suite.h"
#include "tests/benchmarks/device/torch_peer.h"

namespace tvarant::benchmarks {

// Sizes that suit the device: by its free memory, and by what a copy of a few
// megabytes shows of its speed.
Result<Scale> ChooseScale(Device& device, bool quick);

// Every row, or those whose "family name" contains one of `only`. Rows that the
// others are compared with are always among them.
std::vector<Row> ChooseRows(const Scale& scale,
                            const std::vector<std::string>& only);

class Runner {
 public:
  // `torch` may be null. `seconds` is for all rows together.
  Runner(Device& device, TorchPeer* torch, double seconds, int num_rows);

  // Measures a row, or says why not. A failing row costs no other.
  Outcome Run(const Row& row);
  double seconds_used() const { return Now() - start_; }

 private:
  std::string WhyNot(const Row& row);

  Device& device_;
  TorchPeer* torch_;
  const double start_;
  const double seconds_;
  const double row_seconds_;
  double copy_bytes_per_second_ = 0;
  // Best seen by family and dtype, to foresee what a larger row takes.
  std::map<std::string, double> flops_per_second_;
};

}  // namespace tvarant::benchmarks

#endif  // TVARANT_TESTS_BENCHMARKS_DEVICE_RUNNER_H_

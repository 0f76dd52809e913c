// What the rows gave: a table as they are done, and JSON.

#ifndef TVARANT_TESTS_BENCHMARKS_DEVICE_REPORT_H_
#define TVARANT_TESTS_BENCHMARKS_DEVICE_REPORT_H_

#include <cstdio>
#include <string>
#include <vector>

#include "tests/benchmarks/device/suite.h"

namespace tvarant::benchmarks {

struct Outcome {
  Row row;
  std::string problem;  // why there are no times; else empty
  bool failed = false;  // not merely skipped
  Timing ours;
  Timing torch;  // no samples: not measured
  std::string torch_problem;
  double copy_bytes_per_second = 0;  // of the device, as measured so far

  double bytes_per_second() const;  // 0: not shown
  double flops_per_second() const;
  double of_copy() const;
  // Times as fast as PyTorch; 0: unknown.
  double speed() const;
};

// "1024x4096"; bytes as "16 MiB" for rows of bytes.
std::string ShapeOf(const Row& row);

void PrintHead(std::FILE* file, bool with_torch);
void PrintLine(const Outcome& outcome, bool with_torch, std::FILE* file);

// One object: "device", "torch", "rows". Numbers that were not measured are
// absent.
std::string ToJson(const client::DeviceProperties& properties,
                   const std::string& torch,
                   const std::vector<Outcome>& outcomes);

}  // namespace tvarant::benchmarks

#endif  // TVARANT_TESTS_BENCHMARKS_DEVICE_REPORT_H_

// What is measured: rows, grouped in families, and how one is timed.
//
// A row prepares its tensors in a scope, and gives a function that queues one
// turn of the work. To add one: a line in the rows_*.cc of its family, and, to
// compare with PyTorch, the same work under the same `peer` name in
// torch_rows.py.

#ifndef TVARANT_TESTS_BENCHMARKS_DEVICE_SUITE_H_
#define TVARANT_TESTS_BENCHMARKS_DEVICE_SUITE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/benchmarks/device/device.h"

namespace tvarant::benchmarks {

// Queues one turn. It is called many times, and Synchronize follows.
using Turn = std::function<Status()>;

// What one turn takes.
struct Timing {
  double median_seconds = 0;
  double min_seconds = 0;
  int samples = 0;
};

struct Row {
  std::string family{};
  std::string name{};
  DType dtype = DType::kInvalid;
  Dims sizes{};  // shown, and given to torch_rows.py
  // The function of torch_rows.py that does the same; empty: none.
  std::string peer{};
  double bytes = 0;  // that one turn must read and write; 0: not shown
  double flops = 0;  // 0: not shown
  uint64_t memory_bytes = 0;
  // One of the two. `measure` times itself, for what is no queue of launches.
  std::function<Status(Device&, Scope&, Turn*)> prepare{};
  std::function<Status(Device&, Scope&, double seconds, Timing*)> measure{};
  // Copies whose rate is what the others are compared with.
  bool is_reference = false;
};

// What the device is like, for the choice of sizes.
struct Scale {
  uint64_t array_bytes = 32 << 20;  // of one array of a memory-bound row
  int64_t largest_product = 2048;   // m, n and k of a GEMM
  bool quick = false;
};

// Each appends its family's rows.
void AddLaunchRows(const Scale& scale, std::vector<Row>* rows);
void AddCopyRows(const Scale& scale, std::vector<Row>* rows);
void AddPointwiseRows(const Scale& scale, std::vector<Row>* rows);
void AddRowwiseRows(const Scale& scale, std::vector<Row>* rows);
void AddProductRows(const Scale& scale, std::vector<Row>* rows);
void AddAttentionRows(const Scale& scale, std::vector<Row>* rows);

// Times `once`, which runs `turns` turns and waits for them. Warms up,
// then takes samples for about `seconds`; at least two.
Status TimeTurns(const std::function<Status(int64_t turns)>& once,
                 double seconds, Timing* timing);

// Times turns that are queued, then waited for together.
Status TimeQueued(Device& device, const Turn& turn, double seconds,
                  Timing* timing);

// Median and least of samples that the caller took. Not empty.
Timing Summarise(std::vector<double> samples);

double Now();  // seconds, of a steady clock

}  // namespace tvarant::benchmarks

#endif  // TVARANT_TESTS_BENCHMARKS_DEVICE_SUITE_H_

// A client of the benchmark: what one process does to a daemon for some time.

#ifndef TVARANT_TESTS_BENCHMARKS_NOISY_NEIGHBOUR_ROLE_H_
#define TVARANT_TESTS_BENCHMARKS_NOISY_NEIGHBOUR_ROLE_H_

#include <chrono>
#include <functional>
#include <string>

#include "client/client.h"

namespace tvarant::benchmarks {

struct RoleResult {
  double per_second = 0;  // requests, or launches of a flood
  double p50_us = 0;      // of a small client's requests; 0 of a flood
  double p99_us = 0;
  double max_us = 0;
};

// "small": an addition of 16 floats, whose result is read; then a pause of a
// millisecond. "pointwise": additions of 64 MiB arrays, "medium": of 4 MiB,
// "gemm": products of 1024 x 1024 matrices, as fast as they go on one stream;
// "streams": as pointwise, on eight streams.
//
// Warms up, calls `ready`, which returns when all clients are, and works for
// `time`.
client::Result<RoleResult> RunRole(const std::string& role,
                                   const std::string& endpoint,
                                   std::chrono::duration<double> time,
                                   const std::function<void()>& ready);

}  // namespace tvarant::benchmarks

#endif  // TVARANT_TESTS_BENCHMARKS_NOISY_NEIGHBOUR_ROLE_H_

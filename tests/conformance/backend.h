// What the conformance suite runs on: a device that takes launches on tensors.
//
// A runtime joins with one file in backends/: MakeBackend() and what it can't
// do. RuntimeBackend (runtime_backend.h) adapts any TvarantRuntime.

#ifndef TVARANT_TESTS_CONFORMANCE_BACKEND_H_
#define TVARANT_TESTS_CONFORMANCE_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/ops/program.h"
#include "proto/wire/launch_params.h"
#include "tests/conformance/tensor.h"

namespace tvarant::conformance {

// A launch on tensors of the suite. A null tensor is an absent operand; the
// same tensor as dst and src is written in place.
struct Launch {
  explicit Launch(Kernel kernel) { params.kernel = kernel; }

  LaunchParams params;  // but operands, ints and floats
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<Tensor*> dst;
  std::vector<const Tensor*> src;
  const Program* program = nullptr;
};

// Cases by the start of their names, with the reason.
struct Exception {
  std::string case_prefix;
  std::string reason;
};

struct BackendTraits {
  std::string name;
  // Not on this runtime, for ever: every launch must say UNIMPLEMENTED.
  std::vector<Exception> unsupported;
  // Known defects: a case that passes fails the suite, so the list shrinks.
  std::vector<Exception> expected_failures;
};

// Thread-compatible.
class Backend {
 public:
  virtual ~Backend() = default;

  // Uploads the tensors, runs the launch, waits and reads every dst back.
  absl::Status Run(Launch& launch);

 private:
  // `params` is complete; operand k of dst (then src) stands at the arena
  // address of its tensor. Gets the tensors once each.
  virtual absl::Status DoRun(const LaunchParams& params, const Program* program,
                             const std::vector<Tensor*>& tensors,
                             const std::vector<uint64_t>& addresses) = 0;
};

// Every tensor of a launch lies in one segment of this size, under this
// handle.
inline constexpr uint64_t kArenaBytes = 64 << 20;
inline constexpr uint64_t kArenaSegment = 1;

// Defined by the backend's file.
const BackendTraits& GetBackendTraits();
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend();

}  // namespace tvarant::conformance

#endif  // TVARANT_TESTS_CONFORMANCE_BACKEND_H_

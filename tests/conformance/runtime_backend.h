// Runs the suite on a TvarantRuntime in process, through the daemon's own
// checks: record, parser, resolver.

#ifndef TVARANT_TESTS_CONFORMANCE_RUNTIME_BACKEND_H_
#define TVARANT_TESTS_CONFORMANCE_RUNTIME_BACKEND_H_

#include <memory>
#include <string>
#include <vector>

#include "daemon/runtime/runtime.h"
#include "daemon/server/launch_resolver.h"
#include "tests/conformance/backend.h"

namespace tvarant::conformance {

class RuntimeBackend : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> Make(
      std::unique_ptr<TvarantRuntime> runtime);

 private:
  RuntimeBackend() = default;
  absl::Status DoRun(const LaunchParams& params, const Program* program,
                     const std::vector<Tensor*>& tensors,
                     const std::vector<uint64_t>& addresses) override;
  absl::Status LaunchRecorded(const LaunchParams& params,
                              const Program* program);
  absl::Status WaitUntilDone();

  std::unique_ptr<TvarantRuntime> runtime_;
  std::unique_ptr<DeviceBuffer> arena_;
  std::unique_ptr<DeviceStream> stream_;
  LaunchResolver resolver_;
  uint64_t next_program_key_ = 1;
};

}  // namespace tvarant::conformance

#endif  // TVARANT_TESTS_CONFORMANCE_RUNTIME_BACKEND_H_

// The CPU simulator, in process.

#include "daemon/runtime/cpu_sim_runtime.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/runtime_backend.h"

namespace tvarant::conformance {

const BackendTraits& GetBackendTraits() {
  static const BackendTraits* const kTraits = new BackendTraits{
      .name = "cpu_sim",
      .unsupported = {},
      .expected_failures = {},
  };
  return *kTraits;
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend() {
  ASSIGN_OR_RETURN(auto runtime,
                   MakeCpuSimRuntime({.memory_bytes = 4 * kArenaBytes}));
  return RuntimeBackend::Make(std::move(runtime));
}

}  // namespace tvarant::conformance

// The OpenCL runtime on whatever device the loader gives, in process. On CI
// that is PoCL.

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "daemon/runtime/opencl/opencl_runtime.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/runtime_backend.h"

namespace tvarant::conformance {

const BackendTraits& GetBackendTraits() {
  static const BackendTraits* const kTraits = new BackendTraits{
      .name = "opencl",
      .unsupported = {},
      .expected_failures = {},
  };
  return *kTraits;
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend() {
  OpenClOptions options;
  options.memory_bytes = 4 * kArenaBytes;
  // As on devices with other numbers of lanes.
  if (const char* size = std::getenv("TVARANT_CONFORMANCE_GROUP_SIZE")) {
    if (!absl::SimpleAtoi(size, &options.choice.group_size)) {
      return absl::InvalidArgumentError(
          "TVARANT_CONFORMANCE_GROUP_SIZE is no number");
    }
  }
  if (const char* folder = std::getenv("TVARANT_KERNEL_CACHE_DIR")) {
    options.cache_folder = folder;
  }
  ASSIGN_OR_RETURN(auto runtime, MakeOpenClRuntime(options));
  return RuntimeBackend::Make(std::move(runtime));
}

}  // namespace tvarant::conformance

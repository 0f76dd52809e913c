// CpuSimRuntime: the device simulated on the host's processors.
//
// Device memory is host memory, one sealed memfd for each buffer, so that a
// local client can map it. Kernels are daemon/kernels/host, run at once on the
// thread that calls, with the help of one pool for the whole process.

#ifndef TVARANT_DAEMON_RUNTIME_CPU_SIM_RUNTIME_H_
#define TVARANT_DAEMON_RUNTIME_CPU_SIM_RUNTIME_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/runtime/runtime.h"

namespace tvarant {

struct CpuSimOptions {
  // Size of the simulated device's memory. 0: three quarters of what this
  // process may use. Staging memory counts, too.
  uint64_t memory_bytes = 0;
  // Threads that a kernel may use. 0: one for each usable processor.
  int num_threads = 0;
};

absl::StatusOr<std::unique_ptr<TvarantRuntime>> MakeCpuSimRuntime(
    const CpuSimOptions& options);

}  // namespace tvarant

#endif  // TVARANT_DAEMON_RUNTIME_CPU_SIM_RUNTIME_H_

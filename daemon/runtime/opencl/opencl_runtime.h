// OpenClRuntime: devices reached through OpenCL's ICD loader.
//
// Device memory is cl_mem, each stream an in-order queue. What the device has
// no kernel for runs on the host over mapped memory (host_run.h), counted by
// kernel. Compiled programs are kept in a folder from one start to the next.

#ifndef TVARANT_DAEMON_RUNTIME_OPENCL_OPENCL_RUNTIME_H_
#define TVARANT_DAEMON_RUNTIME_OPENCL_OPENCL_RUNTIME_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/runtime/opencl/device.h"
#include "daemon/runtime/runtime.h"

namespace tvarant {

struct OpenClOptions {
  opencl::DeviceChoice choice = {};
  // Device memory to hand out, of each device. 0: nearly all there is; of a
  // CPU, which shares the host's memory, half of what this process may use.
  uint64_t memory_bytes = 0;
  // Where compiled programs are kept. Empty: nowhere. A folder that can't be
  // used is a warning.
  std::string cache_folder = {};
  uint64_t cache_bytes = uint64_t{1} << 30;
  // Threads for what runs on the host. 0: one for each usable processor.
  int num_threads = 0;
};

// NOT_FOUND, with a list of what there is, if no device is chosen.
absl::StatusOr<std::unique_ptr<TvarantRuntime>> MakeOpenClRuntime(
    const OpenClOptions& options);

}  // namespace tvarant

#endif  // TVARANT_DAEMON_RUNTIME_OPENCL_OPENCL_RUNTIME_H_

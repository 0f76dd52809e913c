// Runs a launch on the host's processors, over device memory in its reach.
//
// For what the device has no kernel for: right, and slow where memory has to
// travel. Every such launch is counted by its kernel.

#ifndef TVARANT_DAEMON_RUNTIME_OPENCL_HOST_RUN_H_
#define TVARANT_DAEMON_RUNTIME_OPENCL_HOST_RUN_H_

#include <CL/cl.h>

#include <atomic>

#include "absl/status/status.h"
#include "daemon/kernels/host/thread_pool.h"
#include "daemon/runtime/runtime.h"

namespace tvarant::opencl {

// Waits for the queue, runs, and gives the memory back to the device: the bytes
// between the first and the last element of each operand. `shares_memory`: the
// device's memory is the host's, and is mapped; else it is copied.
absl::Status RunOnHost(cl_command_queue queue, bool shares_memory,
                       const ResolvedLaunch& launch, host::ThreadPool& pool,
                       const std::atomic<bool>* cancelled);

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_RUNTIME_OPENCL_HOST_RUN_H_

// The folders that drivers want for themselves.

#ifndef TVARANT_DAEMON_RUNTIME_OPENCL_DRIVER_FOLDERS_H_
#define TVARANT_DAEMON_RUNTIME_OPENCL_DRIVER_FOLDERS_H_

#include <string>

namespace tvarant::opencl {

// PoCL ends the process if it can't write to its cache folder, and trusts what
// it finds there. So each process gets a fresh one: pocl/PID under `parent`, or
// under a folder of this user's in /tmp where `parent` is empty or of no use.
// It goes with the process; those of processes that are gone are removed.
// Nothing if POCL_CACHE_DIR is set. Call before the first OpenCL call.
void GivePoclAFolder(const std::string& parent);

// NVIDIA's driver makes machine code of its own programs (PTX) and keeps that:
// 170 ms or 3 ms for a program. Puts its cache under `parent`, where the
// service's user has no home. Nothing if CUDA_CACHE_PATH is set.
void GiveNvidiaAFolder(const std::string& parent);

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_RUNTIME_OPENCL_DRIVER_FOLDERS_H_

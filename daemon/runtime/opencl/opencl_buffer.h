// Device memory and staging memory of the OpenCL runtime.

#ifndef TVARANT_DAEMON_RUNTIME_OPENCL_OPENCL_BUFFER_H_
#define TVARANT_DAEMON_RUNTIME_OPENCL_OPENCL_BUFFER_H_

#include <CL/cl.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/base/sealed_memory.h"
#include "daemon/jit/cl_handle.h"
#include "daemon/runtime/host_backed.h"
#include "daemon/runtime/runtime.h"

namespace tvarant::opencl {

class OpenClBuffer : public DeviceBuffer {
 public:
  OpenClBuffer(uint64_t size_bytes, std::shared_ptr<void> charge,
               ClHandle<cl_mem> memory)
      : DeviceBuffer(size_bytes),
        charge_(std::move(charge)),
        memory_(std::move(memory)) {}

  cl_mem memory() const { return memory_.get(); }

 private:
  std::shared_ptr<void> charge_;  // ends after the memory is free
  ClHandle<cl_mem> memory_;
};

// A sealed memfd that the driver has pinned, where it can.
class OpenClStaging : public StagingBuffer {
 public:
  OpenClStaging(uint64_t size_bytes, std::shared_ptr<void> charge,
                SealedMemory memory, ClHandle<cl_mem> pinned)
      : StagingBuffer(size_bytes),
        charge_(std::move(charge)),
        memory_(std::move(memory)),
        pinned_(std::move(pinned)) {}

  int shareable_fd() const override { return memory_.fd(); }
  char* data() const { return memory_.data(); }

 private:
  std::shared_ptr<void> charge_;
  SealedMemory memory_;
  ClHandle<cl_mem> pinned_;  // ends before the memory it lies over
};

inline cl_mem MemoryOf(const DeviceBuffer& buffer) {
  return static_cast<const OpenClBuffer&>(buffer).memory();
}

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_RUNTIME_OPENCL_OPENCL_BUFFER_H_

// An operand in the stream's scratch memory, for kernels that other kernels
// are made of.
//
//   ScratchOperand columns;
//   RETURN_IF_ERROR(columns.Take(context, bytes, slot));
//   problem.a = columns.As(DType::kFloat32);

#ifndef TVARANT_DAEMON_KERNELS_OPENCL_SCRATCH_OPERAND_H_
#define TVARANT_DAEMON_KERNELS_OPENCL_SCRATCH_OPERAND_H_

#include <CL/cl.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "daemon/runtime/opencl/kernel_context.h"
#include "daemon/runtime/opencl/opencl_buffer.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {

// Thread-compatible. Lives as long as its operands are passed around.
class ScratchOperand {
 public:
  absl::Status Take(KernelContext& context, uint64_t bytes, int slot) {
    ASSIGN_OR_RETURN(const cl_mem memory, context.Scratch(bytes, slot));
    clRetainMemObject(memory);
    buffer_.emplace(bytes, nullptr, ClHandle<cl_mem>(memory));
    return absl::OkStatus();
  }

  // Without sizes: whoever takes it has its own.
  ResolvedOperand As(DType dtype) {
    ResolvedOperand operand;
    operand.buffer = &*buffer_;
    operand.dtype = dtype;
    return operand;
  }
  cl_mem memory() const { return buffer_->memory(); }

 private:
  std::optional<OpenClBuffer> buffer_;
};

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_KERNELS_OPENCL_SCRATCH_OPERAND_H_

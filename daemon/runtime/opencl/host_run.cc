#include "daemon/runtime/opencl/host_run.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/jit/cl_status.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/runtime/host_launch.h"
#include "daemon/runtime/opencl/opencl_buffer.h"
#include "proto/base/status_macros.h"
#include "proto/base/strided.h"

namespace tvarant::opencl {
namespace {

// Bytes of one buffer that operands use, mapped as one.
struct Span {
  cl_mem memory;
  uint64_t begin, end;
  char* data = nullptr;
};

absl::StatusOr<Span> SpanOf(const ResolvedOperand& operand) {
  Span span{MemoryOf(*operand.buffer), operand.offset_bytes,
            operand.offset_bytes};
  uint64_t bytes = 0;
  if (!base::CheckedExtentBytes(operand.sizes, operand.strides, operand.rank,
                                SizeOf(operand.dtype), &bytes)) {
    return absl::InvalidArgumentError("an operand's extent overflows");
  }
  span.end += bytes;
  return span;
}

// Joins spans of one buffer that touch: a mapping of a part can't be seen
// through another.
void Join(std::vector<Span>* spans) {
  std::sort(spans->begin(), spans->end(), [](const Span& a, const Span& b) {
    return a.memory != b.memory ? std::less<cl_mem>()(a.memory, b.memory)
                                : a.begin < b.begin;
  });
  size_t kept = 0;
  for (size_t i = 1; i < spans->size(); ++i) {
    Span& last = (*spans)[kept];
    const Span& span = (*spans)[i];
    if (span.memory == last.memory && span.begin <= last.end) {
      last.end = std::max(last.end, span.end);
    } else {
      (*spans)[++kept] = span;
    }
  }
  if (!spans->empty()) spans->resize(kept + 1);
}

class Mappings {
 public:
  explicit Mappings(cl_command_queue queue) : queue_(queue) {}
  ~Mappings() { Unmap().IgnoreError(); }

  absl::Status Map(const ResolvedLaunch& launch) {
    for (const auto operands : {launch.dst, launch.src}) {
      for (const ResolvedOperand& operand : operands) {
        if (operand.buffer == nullptr) continue;
        ASSIGN_OR_RETURN(const Span span, SpanOf(operand));
        if (span.end > span.begin) spans_.push_back(span);
      }
    }
    Join(&spans_);
    for (Span& span : spans_) {
      cl_int error = CL_SUCCESS;
      span.data = static_cast<char*>(clEnqueueMapBuffer(
          queue_, span.memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, span.begin,
          span.end - span.begin, 0, nullptr, nullptr, &error));
      RETURN_IF_ERROR(ClStatus(error, "clEnqueueMapBuffer"));
    }
    return absl::OkStatus();
  }

  absl::Status Unmap() {
    absl::Status status;
    for (Span& span : spans_) {
      if (span.data == nullptr) continue;
      status.Update(
          ClStatus(clEnqueueUnmapMemObject(queue_, span.memory, span.data, 0,
                                           nullptr, nullptr),
                   "clEnqueueUnmapMemObject"));
      span.data = nullptr;
    }
    return status;
  }

  // Null for an empty operand.
  char* Address(const ResolvedOperand& operand) const {
    if (operand.buffer == nullptr) return nullptr;
    const cl_mem memory = MemoryOf(*operand.buffer);
    for (const Span& span : spans_) {
      if (span.memory == memory && operand.offset_bytes >= span.begin &&
          operand.offset_bytes < span.end) {
        return span.data + (operand.offset_bytes - span.begin);
      }
    }
    return nullptr;
  }

 private:
  const cl_command_queue queue_;
  std::vector<Span> spans_;
};

}  // namespace

absl::Status RunOnHost(cl_command_queue queue, const ResolvedLaunch& launch,
                       host::ThreadPool& pool,
                       const std::atomic<bool>* cancelled) {
  Mappings mappings(queue);
  RETURN_IF_ERROR(mappings.Map(launch));
  std::vector<host::Tensor> tensors;
  for (const auto operands : {launch.dst, launch.src}) {
    for (const ResolvedOperand& operand : operands) {
      tensors.push_back(ToHostTensor(operand, mappings.Address(operand)));
    }
  }
  const host::HostLaunch host_launch = ToHostLaunch(launch, tensors);
  const host::CancelScope scope(cancelled);
  absl::Status status = host::RunHostKernel(host_launch, pool);
  status.Update(mappings.Unmap());
  return status;
}

}  // namespace tvarant::opencl

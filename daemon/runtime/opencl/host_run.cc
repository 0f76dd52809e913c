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

// Bytes of one buffer that operands use, had as one.
struct Span {
  cl_mem memory;
  uint64_t begin, end;
  bool written;
  char* data = nullptr;
  std::vector<char> copy = {};  // where the memory is not mapped
};

absl::StatusOr<Span> SpanOf(const ResolvedOperand& operand, bool written) {
  Span span{MemoryOf(*operand.buffer), operand.offset_bytes,
            operand.offset_bytes, written};
  uint64_t bytes = 0;
  if (!base::CheckedExtentBytes(operand.sizes, operand.strides, operand.rank,
                                SizeOf(operand.dtype), &bytes)) {
    return absl::InvalidArgumentError("an operand's extent overflows");
  }
  span.end += bytes;
  return span;
}

// Joins spans of one buffer that touch: what one operand writes, another may
// read.
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
      last.written |= span.written;
    } else {
      (*spans)[++kept] = span;
    }
  }
  if (!spans->empty()) spans->resize(kept + 1);
}

// The operands' bytes in the host's reach. Where the device's memory is the
// host's it is mapped; else it is copied, and what is written copied back
// (NVIDIA's driver loses writes when several parts of a buffer are mapped).
class HostBytes {
 public:
  HostBytes(cl_command_queue queue, bool mapped)
      : queue_(queue), mapped_(mapped) {}
  ~HostBytes() { Unmap().IgnoreError(); }

  absl::Status Take(const ResolvedLaunch& launch) {
    for (const auto operands : {launch.dst, launch.src}) {
      for (const ResolvedOperand& operand : operands) {
        if (operand.buffer == nullptr) continue;
        ASSIGN_OR_RETURN(Span span,
                         SpanOf(operand, operands.data() == launch.dst.data()));
        if (span.end > span.begin) spans_.push_back(std::move(span));
      }
    }
    Join(&spans_);
    for (Span& span : spans_) {
      RETURN_IF_ERROR(mapped_ ? Map(&span) : Copy(&span));
    }
    return absl::OkStatus();
  }

  absl::Status GiveBack() {
    if (mapped_) return Unmap();
    for (const Span& span : spans_) {
      if (!span.written) continue;
      RETURN_IF_CL_ERROR(clEnqueueWriteBuffer(
          queue_, span.memory, CL_TRUE, span.begin, span.copy.size(),
          span.copy.data(), 0, nullptr, nullptr));
    }
    return absl::OkStatus();
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
  absl::Status Map(Span* span) {
    cl_int error = CL_SUCCESS;
    span->data = static_cast<char*>(clEnqueueMapBuffer(
        queue_, span->memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, span->begin,
        span->end - span->begin, 0, nullptr, nullptr, &error));
    return ClStatus(error, "clEnqueueMapBuffer");
  }

  absl::Status Copy(Span* span) {
    span->copy.resize(span->end - span->begin);
    span->data = span->copy.data();
    RETURN_IF_CL_ERROR(clEnqueueReadBuffer(queue_, span->memory, CL_TRUE,
                                           span->begin, span->copy.size(),
                                           span->data, 0, nullptr, nullptr));
    return absl::OkStatus();
  }

  absl::Status Unmap() {
    absl::Status status;
    for (Span& span : spans_) {
      if (!mapped_ || span.data == nullptr) continue;
      status.Update(
          ClStatus(clEnqueueUnmapMemObject(queue_, span.memory, span.data, 0,
                                           nullptr, nullptr),
                   "clEnqueueUnmapMemObject"));
      span.data = nullptr;
    }
    return status;
  }

  const cl_command_queue queue_;
  const bool mapped_;
  std::vector<Span> spans_;
};

}  // namespace

absl::Status RunOnHost(cl_command_queue queue, bool shares_memory,
                       const ResolvedLaunch& launch, host::ThreadPool& pool,
                       const std::atomic<bool>* cancelled) {
  HostBytes bytes(queue, shares_memory);
  RETURN_IF_ERROR(bytes.Take(launch));
  std::vector<host::Tensor> tensors;
  for (const auto operands : {launch.dst, launch.src}) {
    for (const ResolvedOperand& operand : operands) {
      tensors.push_back(ToHostTensor(operand, bytes.Address(operand)));
    }
  }
  const host::HostLaunch host_launch = ToHostLaunch(launch, tensors);
  const host::CancelScope scope(cancelled);
  absl::Status status = host::RunHostKernel(host_launch, pool);
  status.Update(bytes.GiveBack());
  return status;
}

}  // namespace tvarant::opencl

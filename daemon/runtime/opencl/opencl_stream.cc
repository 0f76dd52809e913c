#include "daemon/runtime/opencl/opencl_stream.h"

#include <chrono>
#include <utility>

#include "absl/memory/memory.h"
#include "daemon/jit/cl_status.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/runtime/opencl/host_run.h"
#include "proto/base/logging.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {

absl::StatusOr<std::unique_ptr<OpenClStream>> OpenClStream::Create(
    const DeviceState& state, const HostFallback& fallback) {
  ASSIGN_OR_RETURN(ClHandle<cl_command_queue> queue, state.device.MakeQueue());
  auto stream = absl::WrapUnique(new OpenClStream(std::move(queue), fallback));
  ASSIGN_OR_RETURN(stream->context_,
                   KernelContext::Create(state, stream->queue_.get()));
  return stream;
}

OpenClStream::~OpenClStream() { clFinish(queue_.get()); }

absl::Status OpenClStream::DoLaunch(const ResolvedLaunch& launch) {
  if (cancelled() != nullptr && cancelled()->load(std::memory_order_relaxed)) {
    return absl::CancelledError("nobody waits for this any more");
  }
  context_->BeginLaunch();
  absl::Status status = RunOpenClKernel(*context_, launch);
  if (!absl::IsUnimplemented(status)) return status;
  if (fallback_.counts.Add(launch.kernel) == 1) {
    spdlog::warn("event=runs_on_host kernel={} reason={}",
                 NameOf(launch.kernel),
                 base::LogValue(std::string(status.message())));
  }
  return RunOnHost(queue_.get(), context_->traits().is_cpu, launch,
                   fallback_.pool, cancelled());
}

absl::Status OpenClStream::DoWrite(DeviceBuffer& dst, uint64_t offset_bytes,
                                   absl::Span<const char> bytes) {
  RETURN_IF_CL_ERROR(clEnqueueWriteBuffer(queue_.get(), MemoryOf(dst), CL_FALSE,
                                          offset_bytes, bytes.size(),
                                          bytes.data(), 0, nullptr, nullptr));
  return absl::OkStatus();
}

absl::Status OpenClStream::DoRead(DeviceBuffer& src, uint64_t offset_bytes,
                                  absl::Span<char> bytes) {
  RETURN_IF_CL_ERROR(clEnqueueReadBuffer(queue_.get(), MemoryOf(src), CL_FALSE,
                                         offset_bytes, bytes.size(),
                                         bytes.data(), 0, nullptr, nullptr));
  return absl::OkStatus();
}

absl::Status OpenClStream::DoCopyFromStaging(DeviceBuffer& dst,
                                             uint64_t dst_offset_bytes,
                                             StagingBuffer& src,
                                             uint64_t src_offset_bytes,
                                             uint64_t bytes) {
  // By the address, not by the pinned buffer: this is the fast way of NVIDIA's
  // driver, which else keeps a copy on the device.
  const auto& staging = static_cast<const OpenClStaging&>(src);
  RETURN_IF_CL_ERROR(clEnqueueWriteBuffer(
      queue_.get(), MemoryOf(dst), CL_FALSE, dst_offset_bytes, bytes,
      staging.data() + src_offset_bytes, 0, nullptr, nullptr));
  return absl::OkStatus();
}

absl::Status OpenClStream::DoCopyToStaging(StagingBuffer& dst,
                                           uint64_t dst_offset_bytes,
                                           DeviceBuffer& src,
                                           uint64_t src_offset_bytes,
                                           uint64_t bytes) {
  const auto& staging = static_cast<const OpenClStaging&>(dst);
  RETURN_IF_CL_ERROR(clEnqueueReadBuffer(
      queue_.get(), MemoryOf(src), CL_FALSE, src_offset_bytes, bytes,
      staging.data() + dst_offset_bytes, 0, nullptr, nullptr));
  return absl::OkStatus();
}

absl::Status OpenClStream::DoCopyBytes(DeviceBuffer& dst,
                                       uint64_t dst_offset_bytes,
                                       DeviceBuffer& src,
                                       uint64_t src_offset_bytes,
                                       uint64_t bytes) {
  if (&dst == &src && dst_offset_bytes == src_offset_bytes) {
    return absl::OkStatus();
  }
  RETURN_IF_CL_ERROR(clEnqueueCopyBuffer(
      queue_.get(), MemoryOf(src), MemoryOf(dst), src_offset_bytes,
      dst_offset_bytes, bytes, 0, nullptr, nullptr));
  return absl::OkStatus();
}

void OpenClStream::WhenDone(std::function<void(absl::Status)> done) {
  absl::Status status = context_->TakeFault();
  if (context_->cache().has_new()) context_->cache().SaveNew();
  done(std::move(status));
}

uint64_t OpenClStream::SynchronizeAndGetTimeNs() {
  clFinish(queue_.get());
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace tvarant::opencl

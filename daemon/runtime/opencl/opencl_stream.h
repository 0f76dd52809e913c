// OpenClStream: an in-order queue of one device, with its kernels.

#ifndef TVARANT_DAEMON_RUNTIME_OPENCL_OPENCL_STREAM_H_
#define TVARANT_DAEMON_RUNTIME_OPENCL_OPENCL_STREAM_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/kernels/host/thread_pool.h"
#include "daemon/runtime/opencl/host_run_counts.h"
#include "daemon/runtime/opencl/kernel_context.h"
#include "daemon/runtime/runtime.h"

namespace tvarant::opencl {

// What the streams of one device share besides its kernels. Outlives them.
struct HostFallback {
  host::ThreadPool& pool;
  HostRunCounts& counts;
};

class OpenClStream : public DeviceStream {
 public:
  static absl::StatusOr<std::unique_ptr<OpenClStream>> Create(
      const DeviceState& state, const HostFallback& fallback);
  ~OpenClStream() override;

  void WhenDone(std::function<void(absl::Status)> done) override;
  uint64_t SynchronizeAndGetTimeNs() override;

  KernelContext& context() { return *context_; }

 private:
  OpenClStream(ClHandle<cl_command_queue> queue, const HostFallback& fallback)
      : queue_(std::move(queue)), fallback_(fallback) {}

  absl::Status DoLaunch(const ResolvedLaunch& launch) override;
  absl::Status DoWrite(DeviceBuffer& dst, uint64_t offset_bytes,
                       absl::Span<const char> bytes) override;
  absl::Status DoRead(DeviceBuffer& src, uint64_t offset_bytes,
                      absl::Span<char> bytes) override;
  absl::Status DoCopyFromStaging(DeviceBuffer& dst, uint64_t dst_offset_bytes,
                                 StagingBuffer& src, uint64_t src_offset_bytes,
                                 uint64_t bytes) override;
  absl::Status DoCopyToStaging(StagingBuffer& dst, uint64_t dst_offset_bytes,
                               DeviceBuffer& src, uint64_t src_offset_bytes,
                               uint64_t bytes) override;
  absl::Status DoCopyBytes(DeviceBuffer& dst, uint64_t dst_offset_bytes,
                           DeviceBuffer& src, uint64_t src_offset_bytes,
                           uint64_t bytes) override;

  const ClHandle<cl_command_queue> queue_;
  const HostFallback fallback_;
  std::unique_ptr<KernelContext> context_;
};

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_RUNTIME_OPENCL_OPENCL_STREAM_H_

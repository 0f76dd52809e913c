#include "daemon/runtime/fake_runtime.h"

#include <cstring>
#include <utility>
#include <vector>

#include "daemon/runtime/host_backed.h"

namespace tvarant {
namespace {

class FakeStream : public HostBackedStream {
 public:
  explicit FakeStream(const FakeRuntimeOptions& options) : options_(options) {}

  bool is_synchronous() const override { return options_.synchronous; }
  void WhenDone(std::function<void(absl::Status)> done) override {
    absl::Status first;
    for (const auto& work : queued_) first.Update(work());
    queued_.clear();
    done(first);
  }

 private:
  absl::Status Do(std::function<absl::Status()> work) {
    if (options_.synchronous) return work();
    queued_.push_back(std::move(work));
    return absl::OkStatus();
  }
  absl::Status Copy(char* dst, const char* src, uint64_t bytes) override {
    return Do([=] {
      std::memmove(dst, src, bytes);
      return absl::OkStatus();
    });
  }

  // The operands of a launch live only while it is queued, so it is not put
  // off.
  absl::Status DoLaunch(const ResolvedLaunch& launch) override {
    if (options_.on_launch == nullptr) return absl::OkStatus();
    absl::Status status = options_.on_launch(launch);
    return Do([status] { return status; });
  }

  const FakeRuntimeOptions& options_;
  std::vector<std::function<absl::Status()>> queued_;
};

}  // namespace

char* FakeData(const ResolvedOperand& operand) {
  return HostAddress(*operand.buffer, operand.offset_bytes);
}

KernelCacheCleared FakeRuntime::ClearKernelCache() {
  base::MutexLock lock(mutex_);
  KernelCacheCleared cleared;
  for (const KernelCacheInfo::Entry& entry : kernel_cache_.entries) {
    ++cleared.entries;
    cleared.bytes += entry.bytes;
  }
  kernel_cache_.entries.clear();
  return cleared;
}

RuntimeDeviceProperties FakeRuntime::DoGetProperties(int) const {
  RuntimeDeviceProperties properties;
  properties.name = "fake device";
  properties.vendor = "test";
  properties.total_memory_bytes = options_.memory_bytes;
  properties.max_buffer_bytes = options_.memory_bytes;
  return properties;
}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> FakeRuntime::DoCreateBuffer(
    int, uint64_t size_bytes) {
  return HostBackedBuffer::Create(size_bytes, *account_);
}

absl::StatusOr<std::unique_ptr<StagingBuffer>> FakeRuntime::DoCreateStaging(
    uint64_t size_bytes) {
  return HostBackedStaging::Create(size_bytes, *account_);
}

absl::StatusOr<std::unique_ptr<DeviceStream>> FakeRuntime::DoCreateStream(int) {
  return std::make_unique<FakeStream>(options_);
}

}  // namespace tvarant

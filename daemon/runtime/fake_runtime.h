// FakeRuntime: a runtime for tests of what is around a runtime.
//
// Memory is real; launches do what the test says. Either every call is done at
// once, or (asynchronous) work waits until WhenDone.
//
// Example:
//   FakeRuntime runtime({.on_launch = [](const ResolvedLaunch&) {
//     return absl::OutOfRangeError("index 7");
//   }});

#ifndef TVARANT_DAEMON_RUNTIME_FAKE_RUNTIME_H_
#define TVARANT_DAEMON_RUNTIME_FAKE_RUNTIME_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/runtime/host_backed.h"
#include "daemon/runtime/runtime.h"
#include "proto/base/mutex.h"

namespace tvarant {

struct FakeRuntimeOptions {
  uint64_t memory_bytes = 64 << 20;
  bool synchronous = true;
  // What a launch does, on the stream's thread. Null: nothing, successfully.
  std::function<absl::Status(const ResolvedLaunch&)> on_launch = nullptr;
  // What it says to have on disk, until that is cleared.
  KernelCacheInfo kernel_cache = {};
};

// Host address of an operand of a launch on a FakeRuntime.
char* FakeData(const ResolvedOperand& operand);

// Thread-safe.
class FakeRuntime : public TvarantRuntime {
 public:
  explicit FakeRuntime(FakeRuntimeOptions options)
      : options_(std::move(options)), kernel_cache_(options_.kernel_cache) {}

  std::string name() const override { return "fake"; }
  int device_count() const override { return 1; }
  bool memory_is_mappable() const override { return true; }
  uint64_t free_memory_bytes(int) const override {
    return account_->free_bytes();
  }
  KernelCacheInfo kernel_cache() const override {
    base::MutexLock lock(mutex_);
    return kernel_cache_;
  }
  KernelCacheCleared ClearKernelCache() override;

 private:
  RuntimeDeviceProperties DoGetProperties(int device) const override;
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> DoCreateBuffer(
      int device, uint64_t size_bytes) override;
  absl::StatusOr<std::unique_ptr<StagingBuffer>> DoCreateStaging(
      uint64_t size_bytes) override;
  absl::StatusOr<std::unique_ptr<DeviceStream>> DoCreateStream(
      int device) override;

  const FakeRuntimeOptions options_;
  mutable base::Mutex mutex_;
  KernelCacheInfo kernel_cache_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<MemoryAccount> account_ =
      std::make_shared<MemoryAccount>(options_.memory_bytes);
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_RUNTIME_FAKE_RUNTIME_H_

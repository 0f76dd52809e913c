#include "daemon/runtime/cpu_sim_runtime.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/thread_pool.h"
#include "daemon/kernels/host/yield_scope.h"
#include "daemon/runtime/host_backed.h"
#include "daemon/runtime/host_launch.h"
#include "daemon/runtime/host_memory.h"

namespace tvarant {
namespace {

class CpuSimStream : public HostBackedStream {
 public:
  explicit CpuSimStream(host::ThreadPool& pool) : pool_(pool) {}

  bool is_synchronous() const override { return true; }
  void WhenDone(std::function<void(absl::Status)> done) override {
    done(absl::OkStatus());
  }

 private:
  // Copies of this size and more are shared out over the pool.
  static constexpr int64_t kCopyGrainBytes = 1 << 20;

  static host::Tensor ToTensor(const ResolvedOperand& operand) {
    // An empty tensor may have no buffer; no kernel looks at its data.
    return ToHostTensor(
        operand, operand.buffer == nullptr
                     ? nullptr
                     : HostAddress(*operand.buffer, operand.offset_bytes));
  }

  absl::Status DoLaunch(const ResolvedLaunch& launch) override {
    tensors_.clear();
    for (const auto& operand : launch.dst)
      tensors_.push_back(ToTensor(operand));
    for (const auto& operand : launch.src)
      tensors_.push_back(ToTensor(operand));
    const host::HostLaunch host_launch = ToHostLaunch(launch, tensors_);
    const host::CancelScope scope(cancelled());
    const host::YieldScope yield_scope(yield_point());
    return host::RunHostKernel(host_launch, pool_);
  }

  absl::Status Copy(char* dst, const char* src, uint64_t bytes) override {
    const host::YieldScope yield_scope(yield_point());
    pool_.ParallelFor(static_cast<int64_t>(bytes), kCopyGrainBytes,
                      [&](int64_t begin, int64_t end) {
                        std::memcpy(dst + begin, src + begin, end - begin);
                      });
    return absl::OkStatus();
  }

  host::ThreadPool& pool_;
  std::vector<host::Tensor> tensors_;  // kept for its capacity
};

class CpuSimRuntime : public TvarantRuntime {
 public:
  CpuSimRuntime(uint64_t memory_bytes, int num_threads)
      : account_(std::make_shared<MemoryAccount>(memory_bytes)),
        pool_(num_threads) {}

  std::string name() const override { return "sim"; }
  int device_count() const override { return 1; }
  bool memory_is_mappable() const override { return true; }
  uint64_t free_memory_bytes(int) const override {
    return account_->free_bytes();
  }

 private:
  RuntimeDeviceProperties DoGetProperties(int) const override {
    RuntimeDeviceProperties properties;
    properties.name = "Tvarant CPU simulator";
    properties.vendor = "Tvarant";
    properties.driver_version = "sim";
    properties.instruction_set = host::InstructionSetName();
    properties.total_memory_bytes = account_->total_bytes();
    properties.max_buffer_bytes = account_->total_bytes();
    properties.compute_units = static_cast<uint32_t>(pool_.num_threads());
    properties.simt_width = 32;
    return properties;
  }
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> DoCreateBuffer(
      int, uint64_t size_bytes) override {
    return HostBackedBuffer::Create(size_bytes, *account_);
  }
  absl::StatusOr<std::unique_ptr<StagingBuffer>> DoCreateStaging(
      uint64_t size_bytes) override {
    return HostBackedStaging::Create(size_bytes, *account_);
  }
  absl::StatusOr<std::unique_ptr<DeviceStream>> DoCreateStream(int) override {
    return std::make_unique<CpuSimStream>(pool_);
  }

  std::shared_ptr<MemoryAccount> account_;
  host::ThreadPool pool_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TvarantRuntime>> MakeCpuSimRuntime(
    const CpuSimOptions& options) {
  const uint64_t usable = UsableMemoryBytes();
  const uint64_t memory_bytes =
      options.memory_bytes != 0 ? options.memory_bytes : usable / 4 * 3;
  if (memory_bytes > usable) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory of ", memory_bytes, " bytes asked for, but only ",
                     usable, " bytes can be used on this machine"));
  }
  const int num_threads =
      options.num_threads > 0 ? options.num_threads : UsableProcessors();
  return std::make_unique<CpuSimRuntime>(memory_bytes, num_threads);
}

}  // namespace tvarant

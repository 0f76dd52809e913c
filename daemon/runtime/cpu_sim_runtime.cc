#include "daemon/runtime/cpu_sim_runtime.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/sealed_memory.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/thread_pool.h"
#include "daemon/runtime/host_memory.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

// Bytes handed out, shared with every buffer: one may outlive the runtime.
class MemoryAccount {
 public:
  explicit MemoryAccount(uint64_t total_bytes) : total_bytes_(total_bytes) {}

  bool Take(uint64_t bytes) {
    uint64_t used = used_bytes_.load(std::memory_order_relaxed);
    do {
      if (bytes > total_bytes_ - used) return false;
    } while (!used_bytes_.compare_exchange_weak(used, used + bytes,
                                                std::memory_order_relaxed));
    return true;
  }
  void GiveBack(uint64_t bytes) {
    used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t free_bytes() const {
    return total_bytes_ - used_bytes_.load(std::memory_order_relaxed);
  }

 private:
  const uint64_t total_bytes_;
  std::atomic<uint64_t> used_bytes_{0};
};

absl::Status OutOfMemory(uint64_t asked, const MemoryAccount& account) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "out of memory: asked for ", asked, " bytes, ", account.free_bytes(),
      " bytes are free of ", account.total_bytes()));
}

// Accounted, sealed memory; what buffers and staging have in common.
class Memory {
 public:
  static absl::StatusOr<Memory> Create(const char* name, uint64_t size_bytes,
                                       std::shared_ptr<MemoryAccount> account) {
    if (!account->Take(size_bytes)) return OutOfMemory(size_bytes, *account);
    Memory memory;
    memory.account_ = std::move(account);
    memory.accounted_bytes_ = size_bytes;
    auto sealed = SealedMemory::Create(name, size_bytes);
    if (!sealed.ok()) {
      if (!absl::IsResourceExhausted(sealed.status())) return sealed.status();
      return absl::ResourceExhaustedError(
          absl::StrCat(OutOfMemory(size_bytes, *memory.account_).message(),
                       "; ", sealed.status().message()));
    }
    memory.sealed_ = *std::move(sealed);
    return memory;
  }
  Memory(Memory&& other) noexcept
      : account_(std::move(other.account_)),
        accounted_bytes_(std::exchange(other.accounted_bytes_, 0)),
        sealed_(std::move(other.sealed_)) {}
  ~Memory() {
    if (accounted_bytes_ == 0) return;
    sealed_ = SealedMemory();  // free before saying that it is
    account_->GiveBack(accounted_bytes_);
  }

  char* data() const { return sealed_.data(); }
  int fd() const { return sealed_.fd(); }

 private:
  Memory() = default;
  std::shared_ptr<MemoryAccount> account_;
  uint64_t accounted_bytes_ = 0;
  SealedMemory sealed_;
};

class CpuSimBuffer : public DeviceBuffer {
 public:
  CpuSimBuffer(uint64_t size_bytes, Memory memory)
      : DeviceBuffer(size_bytes), memory_(std::move(memory)) {}
  int shareable_fd() const override { return memory_.fd(); }
  char* data() const { return memory_.data(); }

 private:
  Memory memory_;
};

class CpuSimStaging : public StagingBuffer {
 public:
  CpuSimStaging(uint64_t size_bytes, Memory memory)
      : StagingBuffer(size_bytes), memory_(std::move(memory)) {}
  int shareable_fd() const override { return memory_.fd(); }
  char* data() const { return memory_.data(); }

 private:
  Memory memory_;
};

char* At(DeviceBuffer& buffer, uint64_t offset_bytes) {
  return static_cast<CpuSimBuffer&>(buffer).data() + offset_bytes;
}
char* At(StagingBuffer& buffer, uint64_t offset_bytes) {
  return static_cast<CpuSimStaging&>(buffer).data() + offset_bytes;
}

class CpuSimStream : public DeviceStream {
 public:
  explicit CpuSimStream(host::ThreadPool& pool) : pool_(pool) {}

  bool is_synchronous() const override { return true; }
  void WhenDone(std::function<void(absl::Status)> done) override {
    done(absl::OkStatus());
  }
  uint64_t SynchronizeAndGetTimeNs() override {
    return static_cast<uint64_t>(
        std::chrono::nanoseconds(
            std::chrono::steady_clock::now().time_since_epoch())
            .count());
  }

 private:
  // Copies of this size and more are shared out over the pool.
  static constexpr int64_t kCopyGrainBytes = 1 << 20;

  static host::Tensor ToTensor(const ResolvedOperand& operand) {
    host::Tensor tensor;
    // An empty tensor may have no buffer; no kernel looks at its data.
    if (operand.buffer != nullptr) {
      tensor.data = At(*operand.buffer, operand.offset_bytes);
    }
    tensor.dtype = operand.dtype;
    tensor.rank = operand.rank;
    tensor.sizes = operand.sizes;
    tensor.strides = operand.strides;
    return tensor;
  }

  absl::Status DoLaunch(const ResolvedLaunch& launch) override {
    tensors_.clear();
    for (const auto& operand : launch.dst)
      tensors_.push_back(ToTensor(operand));
    for (const auto& operand : launch.src)
      tensors_.push_back(ToTensor(operand));
    const host::HostLaunch host_launch{
        .kernel = launch.kernel,
        .act = launch.act,
        .flags = launch.flags,
        .program = launch.program,
        .program_key = launch.program_key,
        .m = launch.m,
        .n = launch.n,
        .k = launch.k,
        .batch = launch.batch,
        .alpha = launch.alpha,
        .beta = launch.beta,
        .scalar = launch.scalar,
        .ints = launch.ints,
        .floats = launch.floats,
        .dst = absl::MakeConstSpan(tensors_).first(launch.dst.size()),
        .src = absl::MakeConstSpan(tensors_).subspan(launch.dst.size()),
    };
    return host::RunHostKernel(host_launch, pool_);
  }

  absl::Status Copy(char* dst, const char* src, uint64_t bytes) {
    pool_.ParallelFor(static_cast<int64_t>(bytes), kCopyGrainBytes,
                      [&](int64_t begin, int64_t end) {
                        std::memcpy(dst + begin, src + begin, end - begin);
                      });
    return absl::OkStatus();
  }

  absl::Status DoWrite(DeviceBuffer& dst, uint64_t offset_bytes,
                       absl::Span<const char> bytes) override {
    return Copy(At(dst, offset_bytes), bytes.data(), bytes.size());
  }
  absl::Status DoRead(DeviceBuffer& src, uint64_t offset_bytes,
                      absl::Span<char> bytes) override {
    return Copy(bytes.data(), At(src, offset_bytes), bytes.size());
  }
  absl::Status DoCopyFromStaging(DeviceBuffer& dst, uint64_t dst_offset_bytes,
                                 StagingBuffer& src, uint64_t src_offset_bytes,
                                 uint64_t bytes) override {
    return Copy(At(dst, dst_offset_bytes), At(src, src_offset_bytes), bytes);
  }
  absl::Status DoCopyToStaging(StagingBuffer& dst, uint64_t dst_offset_bytes,
                               DeviceBuffer& src, uint64_t src_offset_bytes,
                               uint64_t bytes) override {
    return Copy(At(dst, dst_offset_bytes), At(src, src_offset_bytes), bytes);
  }
  absl::Status DoCopyBytes(DeviceBuffer& dst, uint64_t dst_offset_bytes,
                           DeviceBuffer& src, uint64_t src_offset_bytes,
                           uint64_t bytes) override {
    return Copy(At(dst, dst_offset_bytes), At(src, src_offset_bytes), bytes);
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
    ASSIGN_OR_RETURN(Memory memory,
                     Memory::Create("tvarant-segment", size_bytes, account_));
    return std::make_unique<CpuSimBuffer>(size_bytes, std::move(memory));
  }
  absl::StatusOr<std::unique_ptr<StagingBuffer>> DoCreateStaging(
      uint64_t size_bytes) override {
    ASSIGN_OR_RETURN(Memory memory,
                     Memory::Create("tvarant-staging", size_bytes, account_));
    return std::make_unique<CpuSimStaging>(size_bytes, std::move(memory));
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

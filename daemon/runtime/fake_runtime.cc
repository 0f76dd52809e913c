#include "daemon/runtime/fake_runtime.h"

#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/sealed_memory.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

class FakeBuffer : public DeviceBuffer {
 public:
  FakeBuffer(uint64_t size_bytes, SealedMemory memory,
             std::shared_ptr<std::atomic<uint64_t>> used_bytes)
      : DeviceBuffer(size_bytes),
        memory_(std::move(memory)),
        used_bytes_(std::move(used_bytes)) {}
  ~FakeBuffer() override { used_bytes_->fetch_sub(size_bytes()); }
  int shareable_fd() const override { return memory_.fd(); }
  char* data() const { return memory_.data(); }

 private:
  SealedMemory memory_;
  std::shared_ptr<std::atomic<uint64_t>> used_bytes_;
};

class FakeStaging : public StagingBuffer {
 public:
  FakeStaging(uint64_t size_bytes, SealedMemory memory)
      : StagingBuffer(size_bytes), memory_(std::move(memory)) {}
  int shareable_fd() const override { return memory_.fd(); }
  char* data() const { return memory_.data(); }

 private:
  SealedMemory memory_;
};

char* At(DeviceBuffer& buffer, uint64_t offset_bytes) {
  return static_cast<FakeBuffer&>(buffer).data() + offset_bytes;
}
char* At(StagingBuffer& buffer, uint64_t offset_bytes) {
  return static_cast<FakeStaging&>(buffer).data() + offset_bytes;
}

class FakeStream : public DeviceStream {
 public:
  explicit FakeStream(const FakeRuntimeOptions& options) : options_(options) {}

  bool is_synchronous() const override { return options_.synchronous; }
  void WhenDone(std::function<void(absl::Status)> done) override {
    absl::Status first;
    for (const auto& work : queued_) first.Update(work());
    queued_.clear();
    done(first);
  }
  uint64_t SynchronizeAndGetTimeNs() override {
    return static_cast<uint64_t>(
        std::chrono::nanoseconds(
            std::chrono::steady_clock::now().time_since_epoch())
            .count());
  }

 private:
  absl::Status Do(std::function<absl::Status()> work) {
    if (options_.synchronous) return work();
    queued_.push_back(std::move(work));
    return absl::OkStatus();
  }
  absl::Status Copy(char* dst, const char* src, uint64_t bytes) {
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

  const FakeRuntimeOptions& options_;
  std::vector<std::function<absl::Status()>> queued_;
};

}  // namespace

char* FakeData(const ResolvedOperand& operand) {
  return At(*operand.buffer, operand.offset_bytes);
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
  if (used_bytes_->fetch_add(size_bytes) + size_bytes > options_.memory_bytes) {
    used_bytes_->fetch_sub(size_bytes);
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory: asked for ", size_bytes, " bytes, ",
                     free_memory_bytes(0), " bytes are free"));
  }
  auto memory = SealedMemory::Create("fake", size_bytes);
  if (!memory.ok()) {
    used_bytes_->fetch_sub(size_bytes);
    return memory.status();
  }
  return std::make_unique<FakeBuffer>(size_bytes, *std::move(memory),
                                      used_bytes_);
}

absl::StatusOr<std::unique_ptr<StagingBuffer>> FakeRuntime::DoCreateStaging(
    uint64_t size_bytes) {
  ASSIGN_OR_RETURN(SealedMemory memory,
                   SealedMemory::Create("fake", size_bytes));
  return std::make_unique<FakeStaging>(size_bytes, std::move(memory));
}

absl::StatusOr<std::unique_ptr<DeviceStream>> FakeRuntime::DoCreateStream(int) {
  return std::make_unique<FakeStream>(options_);
}

}  // namespace tvarant

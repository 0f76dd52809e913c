// What runtimes have in common whose device memory is host memory: accounted,
// sealed buffers, and a stream that copies by address.

#ifndef TVARANT_DAEMON_RUNTIME_HOST_BACKED_H_
#define TVARANT_DAEMON_RUNTIME_HOST_BACKED_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/base/sealed_memory.h"
#include "daemon/runtime/runtime.h"

namespace tvarant {

// Memory of a device that is handed out. Shared with what was handed out, which
// may outlive the runtime. Thread-safe.
class MemoryAccount : public std::enable_shared_from_this<MemoryAccount> {
 public:
  explicit MemoryAccount(uint64_t total_bytes) : total_bytes_(total_bytes) {}

  // Takes bytes until the returned object ends. RESOURCE_EXHAUSTED, with the
  // asked and free bytes, if there are not so many.
  absl::StatusOr<std::shared_ptr<void>> Take(uint64_t bytes);

  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t free_bytes() const {
    return total_bytes_ - used_bytes_.load(std::memory_order_relaxed);
  }

 private:
  const uint64_t total_bytes_;
  std::atomic<uint64_t> used_bytes_{0};
};

class HostBackedBuffer : public DeviceBuffer {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceBuffer>> Create(
      uint64_t size_bytes, MemoryAccount& account);
  int shareable_fd() const override { return memory_.fd(); }
  char* data() const { return memory_.data(); }

 private:
  HostBackedBuffer(uint64_t size_bytes, std::shared_ptr<void> charge,
                   SealedMemory memory)
      : DeviceBuffer(size_bytes),
        charge_(std::move(charge)),
        memory_(std::move(memory)) {}

  std::shared_ptr<void> charge_;  // ends after the memory is free
  SealedMemory memory_;
};

class HostBackedStaging : public StagingBuffer {
 public:
  static absl::StatusOr<std::unique_ptr<StagingBuffer>> Create(
      uint64_t size_bytes, MemoryAccount& account);
  int shareable_fd() const override { return memory_.fd(); }
  char* data() const { return memory_.data(); }

 private:
  HostBackedStaging(uint64_t size_bytes, std::shared_ptr<void> charge,
                    SealedMemory memory)
      : StagingBuffer(size_bytes),
        charge_(std::move(charge)),
        memory_(std::move(memory)) {}

  std::shared_ptr<void> charge_;
  SealedMemory memory_;
};

// The address of a byte of a HostBackedBuffer or HostBackedStaging.
inline char* HostAddress(DeviceBuffer& buffer, uint64_t offset_bytes) {
  return static_cast<HostBackedBuffer&>(buffer).data() + offset_bytes;
}
inline char* HostAddress(StagingBuffer& buffer, uint64_t offset_bytes) {
  return static_cast<HostBackedStaging&>(buffer).data() + offset_bytes;
}

// A stream over such buffers: every transfer is a copy of bytes between two
// addresses, its clock is the host's.
class HostBackedStream : public DeviceStream {
 public:
  uint64_t SynchronizeAndGetTimeNs() override;

 private:
  // The ranges overlap only if they are the same.
  virtual absl::Status Copy(char* dst, const char* src, uint64_t bytes) = 0;

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
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_RUNTIME_HOST_BACKED_H_

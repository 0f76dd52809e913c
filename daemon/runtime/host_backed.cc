#include "daemon/runtime/host_backed.h"

#include <chrono>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

absl::Status OutOfMemory(uint64_t asked, const MemoryAccount& account) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "out of memory: asked for ", asked, " bytes, ", account.free_bytes(),
      " bytes are free of ", account.total_bytes()));
}

// As SealedMemory::Create, with the account's figures where memory is short.
absl::StatusOr<SealedMemory> Seal(const char* name, uint64_t size_bytes,
                                  const MemoryAccount& account) {
  auto sealed = SealedMemory::Create(name, size_bytes);
  if (!absl::IsResourceExhausted(sealed.status())) return sealed;
  return absl::ResourceExhaustedError(
      absl::StrCat(OutOfMemory(size_bytes, account).message(), "; ",
                   sealed.status().message()));
}

}  // namespace

absl::StatusOr<std::shared_ptr<void>> MemoryAccount::Take(uint64_t bytes) {
  uint64_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > total_bytes_ - used) return OutOfMemory(bytes, *this);
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes,
                                              std::memory_order_relaxed));
  return std::shared_ptr<void>(
      nullptr, [account = shared_from_this(), bytes](void*) {
        account->used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
      });
}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> HostBackedBuffer::Create(
    uint64_t size_bytes, MemoryAccount& account) {
  ASSIGN_OR_RETURN(std::shared_ptr<void> charge, account.Take(size_bytes));
  ASSIGN_OR_RETURN(SealedMemory memory,
                   Seal("tvarant-segment", size_bytes, account));
  return absl::WrapUnique(
      new HostBackedBuffer(size_bytes, std::move(charge), std::move(memory)));
}

absl::StatusOr<std::unique_ptr<StagingBuffer>> HostBackedStaging::Create(
    uint64_t size_bytes, MemoryAccount& account) {
  ASSIGN_OR_RETURN(std::shared_ptr<void> charge, account.Take(size_bytes));
  ASSIGN_OR_RETURN(SealedMemory memory,
                   Seal("tvarant-staging", size_bytes, account));
  return absl::WrapUnique(
      new HostBackedStaging(size_bytes, std::move(charge), std::move(memory)));
}

uint64_t HostBackedStream::SynchronizeAndGetTimeNs() {
  return static_cast<uint64_t>(
      std::chrono::nanoseconds(
          std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

absl::Status HostBackedStream::DoWrite(DeviceBuffer& dst, uint64_t offset_bytes,
                                       absl::Span<const char> bytes) {
  return Copy(HostAddress(dst, offset_bytes), bytes.data(), bytes.size());
}

absl::Status HostBackedStream::DoRead(DeviceBuffer& src, uint64_t offset_bytes,
                                      absl::Span<char> bytes) {
  return Copy(bytes.data(), HostAddress(src, offset_bytes), bytes.size());
}

absl::Status HostBackedStream::DoCopyFromStaging(DeviceBuffer& dst,
                                                 uint64_t dst_offset_bytes,
                                                 StagingBuffer& src,
                                                 uint64_t src_offset_bytes,
                                                 uint64_t bytes) {
  return Copy(HostAddress(dst, dst_offset_bytes),
              HostAddress(src, src_offset_bytes), bytes);
}

absl::Status HostBackedStream::DoCopyToStaging(StagingBuffer& dst,
                                               uint64_t dst_offset_bytes,
                                               DeviceBuffer& src,
                                               uint64_t src_offset_bytes,
                                               uint64_t bytes) {
  return Copy(HostAddress(dst, dst_offset_bytes),
              HostAddress(src, src_offset_bytes), bytes);
}

absl::Status HostBackedStream::DoCopyBytes(DeviceBuffer& dst,
                                           uint64_t dst_offset_bytes,
                                           DeviceBuffer& src,
                                           uint64_t src_offset_bytes,
                                           uint64_t bytes) {
  return Copy(HostAddress(dst, dst_offset_bytes),
              HostAddress(src, src_offset_bytes), bytes);
}

}  // namespace tvarant

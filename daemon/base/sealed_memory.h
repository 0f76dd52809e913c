// SealedMemory: shared memory that neither side can shrink under the other.
//
// An anonymous file (memfd), really allocated, sealed against any change of
// its size, mapped into this process, left out of core dumps. Other processes
// get its descriptor over a socket; there is no name that anybody could open.
// A mapping that another process made can't be taken back, so memory is never
// given to a second owner: the destructor punches out the pages and closes.
//
// Example:
//   ASSIGN_OR_RETURN(SealedMemory page, SealedMemory::Create("page", 4096));
//   SendDescriptor(page.fd());

#ifndef TVARANT_DAEMON_BASE_SEALED_MEMORY_H_
#define TVARANT_DAEMON_BASE_SEALED_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/base/unique_fd.h"

namespace tvarant {

// Thread-compatible.
class SealedMemory {
 public:
  // What a process that still maps the memory finds there after our end.
  enum class AtEnd {
    kFree,  // zeros: its pages are back at once
    kKeep,  // the last bytes: for a page of state that it may look at again
  };

  // Zeroed. The size is rounded up to whole pages. `name` shows up in
  // /proc/PID/maps only. RESOURCE_EXHAUSTED when the system has not that much
  // memory or address space; INVALID_ARGUMENT for 0 bytes.
  static absl::StatusOr<SealedMemory> Create(const char* name,
                                             uint64_t size_bytes,
                                             AtEnd at_end = AtEnd::kFree);

  SealedMemory() = default;
  SealedMemory(SealedMemory&& other) noexcept;
  SealedMemory& operator=(SealedMemory&& other) noexcept;
  ~SealedMemory();

  char* data() const { return data_; }
  uint64_t size_bytes() const { return size_bytes_; }
  int fd() const { return fd_.get(); }

 private:
  base::UniqueFd fd_;
  char* data_ = nullptr;
  uint64_t size_bytes_ = 0;
  AtEnd at_end_ = AtEnd::kFree;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_BASE_SEALED_MEMORY_H_

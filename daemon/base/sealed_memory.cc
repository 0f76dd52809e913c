#include "daemon/base/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/base/checked_math.h"

namespace tvarant {
namespace {

// Page tables of larger mappings are filled on first touch, so that making one
// doesn't take seconds.
constexpr uint64_t kPopulateLimitBytes = uint64_t{256} << 20;

absl::Status SystemError(const char* what, int error, uint64_t size_bytes) {
  if (error == ENOMEM || error == ENOSPC || error == EFBIG) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the system has no ", size_bytes, " bytes of memory left"));
  }
  return absl::ErrnoToStatus(error, what);
}

// Smaller takings are not worth asking for.
constexpr uint64_t kAskLimitBytes = uint64_t{16} << 20;

// What the system can give without swapping or killing; all, if unknown.
uint64_t AvailableBytes() {
  std::ifstream info("/proc/meminfo");
  std::string word;
  while (info >> word) {
    uint64_t kilobytes = 0;
    if (word == "MemAvailable:" && info >> kilobytes) return kilobytes * 1024;
  }
  return std::numeric_limits<uint64_t>::max();
}

}  // namespace

absl::StatusOr<SealedMemory> SealedMemory::Create(const char* name,
                                                  uint64_t size_bytes,
                                                  AtEnd at_end) {
  if (size_bytes == 0) {
    return absl::InvalidArgumentError("memory of 0 bytes");
  }
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  uint64_t rounded;
  if (!base::CheckedRoundUp(size_bytes, page, &rounded) ||
      rounded > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) {
    return SystemError("", ENOMEM, size_bytes);
  }
  // fallocate() of more than there is does not fail: the kernel kills processes
  // to find the pages.
  if (rounded >= kAskLimitBytes && rounded > AvailableBytes()) {
    return SystemError("", ENOMEM, size_bytes);
  }
  SealedMemory memory;
  memory.at_end_ = at_end;
  memory.fd_.reset(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.fd_.ok()) return SystemError("memfd_create", errno, size_bytes);
  const int fd = memory.fd_.get();
  if (::ftruncate(fd, static_cast<off_t>(rounded)) != 0) {
    return SystemError("ftruncate", errno, size_bytes);
  }
  // Takes the pages now: a full system is an error here, not a SIGBUS later.
  int result;
  do {
    result = ::fallocate(fd, 0, 0, static_cast<off_t>(rounded));
  } while (result != 0 && errno == EINTR);
  if (result != 0) return SystemError("fallocate", errno, size_bytes);
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
      0) {
    return SystemError("fcntl(F_ADD_SEALS)", errno, size_bytes);
  }
  const int populate = rounded <= kPopulateLimitBytes ? MAP_POPULATE : 0;
  void* data = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE,
                      MAP_SHARED | populate, fd, 0);
  if (data == MAP_FAILED) return SystemError("mmap", errno, size_bytes);
  memory.data_ = static_cast<char*>(data);
  memory.size_bytes_ = rounded;
  if (::madvise(data, rounded, MADV_DONTDUMP) != 0) {
    return SystemError("madvise(MADV_DONTDUMP)", errno, size_bytes);
  }
  return memory;
}

SealedMemory::SealedMemory(SealedMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      at_end_(other.at_end_) {}

SealedMemory& SealedMemory::operator=(SealedMemory&& other) noexcept {
  if (this != &other) {
    std::swap(fd_, other.fd_);
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(at_end_, other.at_end_);
  }
  return *this;
}

SealedMemory::~SealedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_bytes_);
  if (fd_.ok() && size_bytes_ > 0 && at_end_ == AtEnd::kFree) {
    ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(size_bytes_));
  }
}

}  // namespace tvarant

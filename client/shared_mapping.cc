#include "client/shared_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace tvarant::client {
namespace {

// Filling in page tables ahead costs about 0.1 us a page and saves a fault of
// 0.5 us when the page is touched; large segments are rarely touched whole.
constexpr uint64_t kMaxPopulateBytes = uint64_t{64} << 20;

}  // namespace

Result<void*> MapSealed(int fd, uint64_t size_bytes, void* at) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Status(Code::kInternal,
                  "the daemon passed memory that is not sealed");
  }
  struct stat info;
  if (::fstat(fd, &info) != 0 || info.st_size < 0 ||
      static_cast<uint64_t>(info.st_size) < size_bytes || size_bytes == 0) {
    return Status(Code::kInternal,
                  "the daemon passed memory of another size than asked for");
  }
  int flags = MAP_SHARED;
  if (at != nullptr) flags |= MAP_FIXED;
  if (size_bytes <= kMaxPopulateBytes) flags |= MAP_POPULATE;
  void* data = ::mmap(at, size_bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (data == MAP_FAILED) {
    return Status(Code::kResourceExhausted,
                  "can't map " + std::to_string(size_bytes) +
                      " bytes of device memory: " + std::strerror(errno));
  }
  // A child that inherits the mapping could overwrite the parent's tensors.
  ::madvise(data, size_bytes, MADV_DONTFORK);
  return data;
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) ::munmap(data_, size_bytes_);
}

}  // namespace tvarant::client

#include "client/fork_guard.h"

#include <sys/mman.h>

#include <new>

namespace tvarant::client {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

ForkGuard::ForkGuard() {
  void* page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, kPageBytes, MADV_WIPEONFORK) != 0) {
    ::munmap(page, kPageBytes);
    return;
  }
  page_ = page;
  word_ = new (page) std::atomic<uint32_t>(1);
}

ForkGuard::~ForkGuard() {
  if (page_ != nullptr) ::munmap(page_, kPageBytes);
}

Status ForkedStatus() {
  return Status(Code::kFailedPrecondition,
                "tvarant can't be used in a forked process; use the spawn "
                "start method");
}

}  // namespace tvarant::client

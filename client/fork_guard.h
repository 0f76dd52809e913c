// ForkGuard: tells a process from the children it forks.
//
// gRPC's threads do not exist in a forked child, and a mutex that one of them
// held stays locked there for ever; so every public call asks first.
//
// Example:
//   if (guard.in_child()) return ForkedStatus();

#ifndef TVARANT_CLIENT_FORK_GUARD_H_
#define TVARANT_CLIENT_FORK_GUARD_H_

#include <atomic>
#include <cstdint>

#include "client/client.h"

namespace tvarant::client {

// Thread-safe. One load to ask. The kernel clears the word in a forked child
// (MADV_WIPEONFORK); MarkChild() does the same where the kernel can't, and is
// async-signal-safe.
class ForkGuard {
 public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  bool in_child() const { return word_->load(std::memory_order_relaxed) == 0; }
  void MarkChild() { word_->store(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> fallback_{1};
  std::atomic<uint32_t>* word_ = &fallback_;
  void* page_ = nullptr;
};

// What every call returns in a forked child.
Status ForkedStatus();

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_FORK_GUARD_H_

// Lifeline: whether a session still has its daemon, and if not, why.
//
// Waits look at it at least every kWaitSlice, so that each of them ends soon
// after the daemon did, whoever noticed it.

#ifndef TVARANT_CLIENT_LIFELINE_H_
#define TVARANT_CLIENT_LIFELINE_H_

#include <atomic>
#include <chrono>
#include <utility>

#include "client/client.h"
#include "proto/base/mutex.h"

namespace tvarant::client {

inline constexpr std::chrono::milliseconds kWaitSlice{100};

// Thread-safe.
class Lifeline {
 public:
  bool alive() const { return alive_.load(std::memory_order_acquire); }

  // OK while alive.
  Status death() const {
    if (alive()) return Status();
    base::MutexLock lock(mutex_);
    return death_;
  }

  // The first cause stays. `cause` must not be OK.
  void Die(Status cause) {
    base::MutexLock lock(mutex_);
    if (!alive_.load(std::memory_order_relaxed)) return;
    death_ = std::move(cause);
    alive_.store(false, std::memory_order_release);
  }

 private:
  std::atomic<bool> alive_{true};
  mutable base::Mutex mutex_;
  Status death_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_LIFELINE_H_

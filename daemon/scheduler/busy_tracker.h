// BusyTracker: tells every client how many other sessions use the device.
//
// A client spins for a short while before it sleeps, but only while nobody else
// wants the processors. A session counts as busy from its first command until
// it has been idle for kIdleAfter; clients read the number in their shared
// page.

#ifndef TVARANT_DAEMON_SCHEDULER_BUSY_TRACKER_H_
#define TVARANT_DAEMON_SCHEDULER_BUSY_TRACKER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "proto/base/mutex.h"

namespace tvarant {

// Thread-safe.
class BusyTracker {
 public:
  static constexpr std::chrono::milliseconds kIdleAfter{100};

  // One per session. Owned by the caller; must outlive its registration.
  class Member {
   public:
    // `hint` may be null (a session without a shared page).
    explicit Member(std::atomic<uint32_t>* hint) : hint_(hint) {}
    // How many others are busy; 0 without a hint.
    uint32_t others() const {
      return hint_ == nullptr ? 0 : hint_->load(std::memory_order_relaxed);
    }

   private:
    friend class BusyTracker;
    std::atomic<uint32_t>* const hint_;
    std::atomic<bool> busy_{false};
    std::atomic<int64_t> last_ns_{0};
  };

  void Add(Member* member);
  void Remove(Member* member);

  // The member has work now. Cheap while it counts as busy already.
  void Touch(Member* member, int64_t now_ns) {
    member->last_ns_.store(now_ns, std::memory_order_relaxed);
    if (!member->busy_.load(std::memory_order_relaxed)) BecomeBusy(member);
  }

  // Stops counting members that have been idle. True while any is busy, so
  // that the caller knows whether to come back.
  bool Sweep(int64_t now_ns);

 private:
  void BecomeBusy(Member* member);
  void PublishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  std::vector<Member*> members_ ABSL_GUARDED_BY(mutex_);
  uint32_t busy_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SCHEDULER_BUSY_TRACKER_H_

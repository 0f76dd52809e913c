#include "daemon/scheduler/busy_tracker.h"

#include <algorithm>

namespace tvarant {

void BusyTracker::Add(Member* member) {
  base::MutexLock lock(mutex_);
  members_.push_back(member);
  PublishLocked();
}

void BusyTracker::Remove(Member* member) {
  base::MutexLock lock(mutex_);
  const auto found = std::find(members_.begin(), members_.end(), member);
  if (found == members_.end()) return;
  members_.erase(found);
  if (member->busy_.exchange(false)) --busy_count_;
  PublishLocked();
}

void BusyTracker::BecomeBusy(Member* member) {
  base::MutexLock lock(mutex_);
  // A member that has just been removed stays uncounted.
  if (std::find(members_.begin(), members_.end(), member) == members_.end()) {
    return;
  }
  if (member->busy_.exchange(true)) return;
  ++busy_count_;
  PublishLocked();
}

bool BusyTracker::Sweep(int64_t now_ns) {
  const int64_t idle_ns = std::chrono::nanoseconds(kIdleAfter).count();
  base::MutexLock lock(mutex_);
  bool changed = false;
  for (Member* member : members_) {
    if (member->busy_.load(std::memory_order_relaxed) &&
        now_ns - member->last_ns_.load(std::memory_order_relaxed) > idle_ns) {
      member->busy_.store(false, std::memory_order_relaxed);
      --busy_count_;
      changed = true;
    }
  }
  if (changed) PublishLocked();
  return busy_count_ > 0;
}

void BusyTracker::PublishLocked() {
  for (Member* member : members_) {
    if (member->hint_ == nullptr) continue;
    const bool self = member->busy_.load(std::memory_order_relaxed);
    member->hint_->store(busy_count_ - (self ? 1 : 0),
                         std::memory_order_relaxed);
  }
}

}  // namespace tvarant

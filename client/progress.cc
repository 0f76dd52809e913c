#include "client/progress.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "client/futex.h"
#include "client/lifeline.h"

namespace tvarant::client {
namespace {

// A hand-off between threads costs 10-35 us; looking for longer than a few of
// those only takes the processor away from the one that computes.
constexpr std::chrono::microseconds kSpin{50};

bool HasSeveralProcessors() {
  static const bool several = [] {
    cpu_set_t set;
    return ::sched_getaffinity(0, sizeof(set), &set) != 0 ||
           CPU_COUNT(&set) > 1;
  }();
  return several;
}

}  // namespace

void Progress::Advance(uint64_t completed) {
  if (slot_ != nullptr) return;
  base::MutexLock lock(mutex_);
  if (completed > completed_.load(std::memory_order_relaxed)) {
    completed_.store(completed, std::memory_order_release);
  }
  advanced_.NotifyAll();
}

void Progress::WaitSlice(uint64_t sequence, bool may_spin) {
  if (slot_ == nullptr) {
    base::MutexLock lock(mutex_);
    if (completed() < sequence) advanced_.WaitFor(mutex_, kWaitSlice);
    return;
  }
  if (may_spin && HasSeveralProcessors() &&
      page_->busy_sessions.load(std::memory_order_relaxed) == 0) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    do {
      if (completed() >= sequence) return;
      ::sched_yield();
    } while (std::chrono::steady_clock::now() < end);
  }
  SleepOnPage(sequence);
}

void Progress::SleepOnPage(uint64_t sequence) {
  {
    base::MutexLock lock(mutex_);
    wake_at_ = waiters_ == 0 ? sequence : std::min(wake_at_, sequence);
    slot_->wake_at.store(wake_at_);
    slot_->waiters.store(++waiters_);
  }
  // The daemon writes `completed`, then changes the futex, then looks whether
  // somebody waits; we announced ourselves first, so one of the two sees the
  // other.
  const uint32_t seen = slot_->progress_futex.load();
  if (completed() < sequence && page_->dead.load() == 0) {
    FutexWait(&slot_->progress_futex, seen,
              std::chrono::nanoseconds(kWaitSlice).count());
  }
  base::MutexLock lock(mutex_);
  slot_->waiters.store(--waiters_);
}

void Progress::Wake() {
  if (slot_ == nullptr) {
    base::MutexLock lock(mutex_);
    advanced_.NotifyAll();
    return;
  }
  // The word is the daemon's to change. Who goes to sleep just now wakes up
  // after a slice.
  FutexWakeAll(&slot_->progress_futex);
}

}  // namespace tvarant::client

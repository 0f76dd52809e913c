#include "daemon/scheduler/device_gate.h"

namespace tvarant {
namespace {

int64_t NowNs() {
  return std::chrono::nanoseconds(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void DeviceGate::Pass::Enter() {
  if (inside_) return;
  gate_.Enter(member_);
  inside_ = true;
  entered_ns_ = NowNs();
}

void DeviceGate::Pass::Leave() {
  if (!inside_) return;
  inside_ = false;
  gate_.Leave(member_, static_cast<uint64_t>(NowNs() - entered_ns_));
}

bool DeviceGate::Pass::ShouldYield() const {
  return inside_ && gate_.waiting() > 0 &&
         NowNs() - entered_ns_ > kQuantum.count();
}

void DeviceGate::Enter(Member& member) {
  uint64_t state = state_.load(std::memory_order_relaxed);
  while (Waiting(state) == 0 && Running(state) < width_) {
    if (state_.compare_exchange_weak(state, state + kOneRunning,
                                     std::memory_order_acquire)) {
      return;
    }
  }
  EnterSlow(member);
}

void DeviceGate::EnterSlow(Member& member) {
  base::MutexLock lock(mutex_);
  // Either there is room after all, or the state says that somebody waits:
  // from then on each leaver comes to the mutex and finds the ticket.
  uint64_t state = state_.load(std::memory_order_relaxed);
  for (;;) {
    const bool room = Waiting(state) == 0 && Running(state) < width_;
    if (state_.compare_exchange_weak(state,
                                     state + (room ? kOneRunning : kOneWaiting),
                                     std::memory_order_acquire)) {
      if (room) return;
      break;
    }
  }
  Ticket ticket;
  if (member.waiting_.empty()) turns_.push_back(&member);
  member.waiting_.push_back(&ticket);
  while (!ticket.granted) ticket.granted_changed.Wait(mutex_);
}

void DeviceGate::Leave(Member& member, uint64_t busy_ns) {
  member.busy_ns_.fetch_add(busy_ns, std::memory_order_relaxed);
  total_busy_ns_.fetch_add(busy_ns, std::memory_order_relaxed);
  uint64_t state = state_.load(std::memory_order_relaxed);
  while (Waiting(state) == 0) {
    if (state_.compare_exchange_weak(state, state - kOneRunning,
                                     std::memory_order_release)) {
      return;
    }
  }
  base::MutexLock lock(mutex_);
  // The number of waiting streams changes under the mutex only, but one may
  // have come and been let in since.
  Ticket* next = TakeNextLocked();
  if (next == nullptr) {
    state_.fetch_sub(kOneRunning, std::memory_order_release);
    return;
  }
  // The place passes on: `running` stays as it is.
  state_.fetch_sub(kOneWaiting, std::memory_order_acq_rel);
  next->granted = true;
  next->granted_changed.NotifyOne();
}

DeviceGate::Ticket* DeviceGate::TakeNextLocked() {
  if (turns_.empty()) return nullptr;
  Member* member = turns_.front();
  turns_.pop_front();
  Ticket* ticket = member->waiting_.front();
  member->waiting_.pop_front();
  if (!member->waiting_.empty()) turns_.push_back(member);
  return ticket;
}

}  // namespace tvarant

#include "daemon/scheduler/device_gate.h"

#include <algorithm>

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
  gate_.Enter(*this);
  inside_ = true;
  entered_ns_ = NowNs();
}

void DeviceGate::Pass::Leave() {
  if (!inside_) return;
  inside_ = false;
  gate_.Leave(*this, NowNs());
}

bool DeviceGate::Pass::ShouldYield() const {
  if (!inside_ || gate_.waiting() == 0) return false;
  const int64_t inside_ns = NowNs() - entered_ns_;
  if (inside_ns > kQuantum.count()) return true;
  return inside_ns > kSlice.count() &&
         (gate_.fresh_.load(std::memory_order_relaxed) ||
          (gate_.high_.load(std::memory_order_relaxed) &&
           member_.user_.priority() != Priority::kHigh));
}

void DeviceGate::Pass::Yield() {
  if (!inside_) return;
  gate_.Yield(*this, NowNs());
  entered_ns_ = NowNs();
}

void DeviceGate::Configure(User& user, uint32_t weight, Priority priority) {
  base::MutexLock lock(mutex_);
  FairQueue& before = ClassOf(user);
  before.SetWeight(user, weight);
  if (user.priority() == priority) return;
  before.Remove(user);
  user.priority_.store(priority, std::memory_order_relaxed);
  ClassOf(user).Insert(user);
  PublishHintsLocked();
}

void DeviceGate::Enter(Pass& pass) {
  pass.granted_ = false;
  uint64_t state = state_.load(std::memory_order_relaxed);
  while (Waiting(state) == 0 && Running(state) < width_) {
    if (state_.compare_exchange_weak(state, state + kOneRunning,
                                     std::memory_order_acquire)) {
      return;
    }
  }
  EnterSlow(pass);
}

void DeviceGate::EnterSlow(Pass& pass) {
  const int64_t now_ns = NowNs();
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
  if (Waiting(state) == 0) contended_since_ns_ = now_ns;
  Ticket ticket;
  ArriveLocked(pass, ticket, FairQueue::Arrival::kNew, now_ns);
  while (!ticket.granted) ticket.granted_changed.Wait(mutex_);
}

void DeviceGate::Leave(Pass& pass, int64_t now_ns) {
  CountBusy(pass, now_ns - pass.entered_ns_);
  uint64_t state = state_.load(std::memory_order_relaxed);
  // A turn that was granted is to be settled.
  while (!pass.granted_ && Waiting(state) == 0) {
    if (state_.compare_exchange_weak(state, state - kOneRunning,
                                     std::memory_order_release)) {
      return;
    }
  }
  base::MutexLock lock(mutex_);
  FinishLocked(pass, now_ns);
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

void DeviceGate::Yield(Pass& pass, int64_t now_ns) {
  CountBusy(pass, now_ns - pass.entered_ns_);
  base::MutexLock lock(mutex_);
  if (Waiting(state_.load(std::memory_order_relaxed)) == 0) return;
  FinishLocked(pass, now_ns);
  Ticket ticket;
  ArriveLocked(pass, ticket, FairQueue::Arrival::kYielded, now_ns);
  // The place goes to whoever is next, which may be itself.
  Ticket* next = TakeNextLocked();
  next->granted = true;
  if (next != &ticket) next->granted_changed.NotifyOne();
  while (!ticket.granted) ticket.granted_changed.Wait(mutex_);
}

void DeviceGate::CountBusy(Pass& pass, int64_t busy_ns) {
  const auto time = static_cast<uint64_t>(busy_ns);
  pass.member_.busy_ns_.fetch_add(time, std::memory_order_relaxed);
  pass.member_.user_.busy_ns_.fetch_add(time, std::memory_order_relaxed);
  total_busy_ns_.fetch_add(time, std::memory_order_relaxed);
}

void DeviceGate::ArriveLocked(Pass& pass, Ticket& ticket,
                              FairQueue::Arrival arrival, int64_t now_ns) {
  Member& member = pass.member_;
  User& user = member.user_;
  member.waiting_.push_back(&ticket);
  const size_t fresh_before = user.members_.fresh_size();
  user.members_.Arrive(member, arrival, now_ns);
  fresh_members_ += user.members_.fresh_size() - fresh_before;
  ClassOf(user).Arrive(user, arrival, now_ns);
  pass.granted_ = true;  // by the time it is inside
  PublishHintsLocked();
}

void DeviceGate::FinishLocked(Pass& pass, int64_t now_ns) {
  User& user = pass.member_.user_;
  // Time in which nobody waited costs nothing.
  const int64_t busy_ns =
      now_ns -
      std::min(now_ns, std::max(pass.entered_ns_, contended_since_ns_));
  user.members_.Finish(pass.member_, busy_ns, pass.granted_, now_ns);
  ClassOf(user).Finish(user, busy_ns, pass.granted_, now_ns);
  if (user.priority() == Priority::kHigh) high_ns_ += busy_ns;
}

DeviceGate::Ticket* DeviceGate::TakeNextLocked() {
  FairQueue& normal = classes_[static_cast<int>(Priority::kNormal)];
  FairQueue& high = classes_[static_cast<int>(Priority::kHigh)];
  const bool normal_next =
      high.size() == 0 || (normal.size() > 0 && high_ns_ >= kHighShare.count());
  if (normal_next || normal.size() == 0) high_ns_ = 0;
  User* user = static_cast<User*>((normal_next ? normal : high).Next());
  if (user == nullptr) return nullptr;
  Member* member = static_cast<Member*>(user->members_.Next());
  Ticket* ticket = member->waiting_.front();
  member->waiting_.pop_front();
  const size_t fresh_before = user->members_.fresh_size();
  user->members_.Grant(*member);
  fresh_members_ -= fresh_before - user->members_.fresh_size();
  ClassOf(*user).Grant(*user);
  PublishHintsLocked();
  return ticket;
}

void DeviceGate::PublishHintsLocked() {
  fresh_.store(fresh_members_ > 0, std::memory_order_relaxed);
  high_.store(classes_[static_cast<int>(Priority::kHigh)].size() > 0,
              std::memory_order_relaxed);
}

}  // namespace tvarant

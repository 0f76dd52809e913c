// DeviceGate: at most `width` streams run commands at a time; who is next is
// decided by measured device time.
//
// A stream enters before it runs commands and stays inside for a batch, unless
// others wait and its time is over. Entering and leaving a gate that nobody
// waits for is one atomic operation each. When the gate is full, streams queue:
// users share the device by their weights, the sessions of a user share what
// the user gets, and within a session streams are first come, first served. So
// opening many sessions gives a user no more. FairQueue says how.
//
// Users of high priority go before the others, who still get a turn now and
// then. What a stream does while inside is charged to its session and user as
// device time, but only time in which somebody waited counts against them.
//
// Example:
//   DeviceGate gate(UsableProcessors());
//   DeviceGate::User user;            // one per user
//   DeviceGate::Member member(&user);  // one per session
//   DeviceGate::Pass pass(gate, member);
//   pass.Enter();
//   Run(command);
//   if (pass.ShouldYield()) pass.Yield();

#ifndef TVARANT_DAEMON_SCHEDULER_DEVICE_GATE_H_
#define TVARANT_DAEMON_SCHEDULER_DEVICE_GATE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>

#include "daemon/scheduler/fair_queue.h"
#include "proto/base/mutex.h"

namespace tvarant {

enum class Priority : uint8_t { kNormal, kHigh };

// Thread-safe.
class DeviceGate {
 private:
  struct Ticket {
    base::CondVar granted_changed;
    bool granted = false;
  };

 public:
  // What a stream may keep the device for while others wait.
  static constexpr std::chrono::nanoseconds kQuantum{kQuantumNs};
  // The same while one waits that asks now and then only. Measured on two
  // workers: a small client's p99 is 1.2 to 2.7 times that alone with it, 2.4
  // to 4.8 times with 500 us.
  static constexpr std::chrono::nanoseconds kSlice{200000};
  // A turn of normal priority comes after so much of high priority.
  static constexpr std::chrono::nanoseconds kHighShare{20 * kQuantumNs};

  // What the gate knows of a user. Must outlive the user's members.
  class User : private FairEntry {
   public:
    User() = default;
    User(const User&) = delete;
    User& operator=(const User&) = delete;
    uint64_t busy_ns() const {
      return busy_ns_.load(std::memory_order_relaxed);
    }
    Priority priority() const {
      return priority_.load(std::memory_order_relaxed);
    }

   private:
    friend class DeviceGate;
    std::atomic<uint64_t> busy_ns_{0};
    std::atomic<Priority> priority_{Priority::kNormal};
    FairQueue members_;  // guarded by the gate's mutex
  };

  // What the gate knows of a session. Must outlive the session's passes.
  class Member : private FairEntry {
   public:
    // Null: a user of its own.
    explicit Member(User* user = nullptr)
        : own_(user == nullptr ? std::make_unique<User>() : nullptr),
          user_(user == nullptr ? *own_ : *user) {}
    uint64_t busy_ns() const {
      return busy_ns_.load(std::memory_order_relaxed);
    }
    User& user() { return user_; }

   private:
    friend class DeviceGate;
    const std::unique_ptr<User> own_;  // null if it is somebody else's
    User& user_;
    std::atomic<uint64_t> busy_ns_{0};
    std::deque<Ticket*> waiting_;  // guarded by the gate's mutex
  };

  // One stream's way through the gate. Thread-compatible.
  class Pass {
   public:
    Pass(DeviceGate& gate, Member& member) : gate_(gate), member_(member) {}
    ~Pass() { Leave(); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    // Waits until the gate lets the stream in. Nothing if it is inside.
    void Enter();
    void Leave();
    bool inside() const { return inside_; }
    // True when others wait and the stream's time is over.
    bool ShouldYield() const;
    // Lets others in and waits for its next turn.
    void Yield();
    // When the stream entered, on the steady clock.
    int64_t entered_ns() const { return entered_ns_; }

   private:
    friend class DeviceGate;
    DeviceGate& gate_;
    Member& member_;
    bool inside_ = false;
    bool granted_ = false;  // entered by its turn; else nobody waited
    int64_t entered_ns_ = 0;
  };

  explicit DeviceGate(int width) : width_(static_cast<uint32_t>(width)) {}

  // From now on. A weight is 1 or more.
  void Configure(User& user, uint32_t weight, Priority priority);

  uint32_t width() const { return width_; }
  // Streams inside and waiting, now.
  uint32_t running() const {
    return Running(state_.load(std::memory_order_relaxed));
  }
  uint32_t waiting() const {
    return Waiting(state_.load(std::memory_order_relaxed));
  }
  uint64_t total_busy_ns() const {
    return total_busy_ns_.load(std::memory_order_relaxed);
  }

 private:
  static uint32_t Running(uint64_t state) {
    return static_cast<uint32_t>(state);
  }
  static uint32_t Waiting(uint64_t state) {
    return static_cast<uint32_t>(state >> 32);
  }
  static constexpr uint64_t kOneRunning = 1;
  static constexpr uint64_t kOneWaiting = uint64_t{1} << 32;

  void Enter(Pass& pass);
  void EnterSlow(Pass& pass);
  void Leave(Pass& pass, int64_t now_ns);
  void Yield(Pass& pass, int64_t now_ns);
  void CountBusy(Pass& pass, int64_t busy_ns);
  void ArriveLocked(Pass& pass, Ticket& ticket, FairQueue::Arrival arrival,
                    int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishLocked(Pass& pass, int64_t now_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Ticket* TakeNextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishHintsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FairQueue& ClassOf(const User& user) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return classes_[static_cast<int>(user.priority())];
  }

  const uint32_t width_;
  // Low half: streams inside; high half: streams queued. While any is queued
  // nobody enters but by a grant, so nobody is overtaken.
  std::atomic<uint64_t> state_{0};
  std::atomic<uint64_t> total_busy_ns_{0};
  // Whether sessions wait that ask now and then only, and users of high
  // priority: hints for ShouldYield.
  std::atomic<bool> fresh_{false};
  std::atomic<bool> high_{false};
  base::Mutex mutex_;
  FairQueue classes_[2] ABSL_GUARDED_BY(mutex_);  // by Priority
  size_t fresh_members_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t contended_since_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  // Time of high priority since the last turn of a normal one that waits.
  int64_t high_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SCHEDULER_DEVICE_GATE_H_

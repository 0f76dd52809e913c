// DeviceGate: at most `width` streams run commands at a time, sessions in turn.
//
// A stream enters before it runs commands and stays inside for a batch, unless
// others wait and its quantum is over. When the gate is full, streams queue:
// sessions take turns, and within a session streams are first come, first
// served. Entering and leaving a gate that is not full is one atomic operation
// each. What a stream does while inside is charged to its session as device
// time.
//
// Which session comes next is decided in one place, TakeNextLocked: weights
// and deficits go there.
//
// Example:
//   DeviceGate gate(UsableProcessors());
//   DeviceGate::Member member;  // one per session
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

#include "proto/base/mutex.h"

namespace tvarant {

// Thread-safe.
class DeviceGate {
 private:
  struct Ticket {
    base::CondVar granted_changed;
    bool granted = false;
  };

 public:
  static constexpr std::chrono::nanoseconds kQuantum{1000000};

  // What the gate knows of a session. Must outlive the session's passes.
  class Member {
   public:
    uint64_t busy_ns() const {
      return busy_ns_.load(std::memory_order_relaxed);
    }

   private:
    friend class DeviceGate;
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
    // True when others wait and the quantum is used up.
    bool ShouldYield() const;
    void Yield() {
      Leave();
      Enter();
    }
    // When the stream entered, on the steady clock.
    int64_t entered_ns() const { return entered_ns_; }

   private:
    DeviceGate& gate_;
    Member& member_;
    bool inside_ = false;
    int64_t entered_ns_ = 0;
  };

  explicit DeviceGate(int width) : width_(static_cast<uint32_t>(width)) {}

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

  void Enter(Member& member);
  void EnterSlow(Member& member);
  void Leave(Member& member, uint64_t busy_ns);
  Ticket* TakeNextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t width_;
  // Low half: streams inside; high half: streams queued. While any is queued
  // nobody enters but by a grant, so nobody is overtaken.
  std::atomic<uint64_t> state_{0};
  std::atomic<uint64_t> total_busy_ns_{0};
  base::Mutex mutex_;
  // Members with waiting streams, in the order of their turns.
  std::deque<Member*> turns_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SCHEDULER_DEVICE_GATE_H_

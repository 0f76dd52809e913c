#include "client/flusher.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "client/futex.h"

namespace tvarant::client {
namespace {

constexpr int64_t kIntervalNs = 50 * 1000;
// Rounds without work before it sleeps: a loop in Python speaks more often.
constexpr int kIdleRounds = 8;
constexpr int64_t kSleepNs = int64_t{60} * 1000 * 1000 * 1000;

void Pause(int64_t ns) {
  const timespec pause{0, ns};
  ::nanosleep(&pause, nullptr);
}

}  // namespace

Status Flusher::Start() {
  return thread_.Start("tvarant-flush", [this] { Loop(); });
}

void Flusher::Stop() {
  stop_.store(true, std::memory_order_seq_cst);
  Wake();
  thread_.Join();
  base::MutexLock lock(mutex_);
  streams_.clear();
}

void Flusher::Add(std::shared_ptr<Flushable> stream) {
  base::MutexLock lock(mutex_);
  streams_.push_back(std::move(stream));
  version_.fetch_add(1, std::memory_order_release);
}

void Flusher::Remove(const Flushable* stream) {
  base::MutexLock lock(mutex_);
  std::erase_if(streams_,
                [&](const auto& entry) { return entry.get() == stream; });
  version_.fetch_add(1, std::memory_order_release);
}

void Flusher::Wake() {
  if (asleep_.exchange(0, std::memory_order_seq_cst) != 0) {
    FutexWakeAll(&asleep_);
  }
}

bool Flusher::AnyPending() {
  base::MutexLock lock(mutex_);
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& stream) { return stream->HasPending(); });
}

void Flusher::Loop() {
  // The kernel's default slack would double the interval.
  ::prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  std::vector<std::shared_ptr<Flushable>> streams;
  uint64_t version = ~uint64_t{0};
  int idle = 0;
  while (!stop_.load(std::memory_order_seq_cst)) {
    if (version != version_.load(std::memory_order_acquire)) {
      base::MutexLock lock(mutex_);
      version = version_.load(std::memory_order_acquire);
      streams = streams_;
    }
    bool busy = false;
    for (const auto& stream : streams) busy |= stream->Visit();
    idle = busy ? 0 : idle + 1;
    if (idle < kIdleRounds) {
      Pause(kIntervalNs);
      continue;
    }
    idle = 0;
    asleep_.store(1, std::memory_order_seq_cst);
    // What became pending before the store is seen here; what comes later
    // sees the store and wakes us.
    if (AnyPending() || stop_.load(std::memory_order_seq_cst)) {
      asleep_.store(0, std::memory_order_seq_cst);
      continue;
    }
    while (asleep_.load(std::memory_order_seq_cst) != 0) {
      FutexWait(&asleep_, 1, kSleepNs);
    }
  }
}

}  // namespace tvarant::client

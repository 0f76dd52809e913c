// MemoryQuota: how many bytes of memory a session may hold, and holds.
//
// Memory counts until it is really free, which may be later than its release:
// queued work may still use it. Who is refused while released memory is on its
// way back can wait for that, so that a client near its limit that frees and
// asks again is not told that it is out of memory.
//
// Example:
//   auto quota = std::make_shared<MemoryQuota>(limit_bytes);
//   auto charge = MemoryQuota::Take(quota, 4096);  // null: over the limit
//   charge->MarkReleased();  // its memory will be freed, later maybe
//   charge.reset();          // the memory is free

#ifndef TVARANT_DAEMON_SERVER_MEMORY_QUOTA_H_
#define TVARANT_DAEMON_SERVER_MEMORY_QUOTA_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "proto/base/mutex.h"

namespace tvarant {

// Thread-safe. Shared by the session and its charges, which may outlive it.
class MemoryQuota {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Bytes taken from a quota; given back by the destructor, which the owner
  // runs after it has freed the memory. Thread-safe.
  class Charge {
   public:
    ~Charge();
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;
    // Says that the memory is on its way back. More than once is once.
    void MarkReleased();

   private:
    friend class MemoryQuota;
    Charge(std::shared_ptr<MemoryQuota> quota, uint64_t size_bytes)
        : quota_(std::move(quota)), size_bytes_(size_bytes) {}

    const std::shared_ptr<MemoryQuota> quota_;
    const uint64_t size_bytes_;
    bool released_ = false;  // guarded by the quota's mutex
  };

  explicit MemoryQuota(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Null if that would be over the limit.
  static std::shared_ptr<Charge> Take(const std::shared_ptr<MemoryQuota>& quota,
                                      uint64_t size_bytes);

  // How often released memory has become free. Read it before an attempt, and
  // wait for more after the attempt has failed.
  uint64_t returns();
  // Waits until returns() is above `seen`. False when the time is over or
  // nothing is on its way back.
  bool WaitForReturn(uint64_t seen, TimePoint deadline);

  uint64_t used_bytes();
  uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  const uint64_t limit_bytes_;
  base::Mutex mutex_;
  base::CondVar returned_;
  uint64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t releasing_ ABSL_GUARDED_BY(mutex_) = 0;  // charges
  uint64_t returns_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_MEMORY_QUOTA_H_

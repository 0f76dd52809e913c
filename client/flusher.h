// Flusher: sends what the application's threads left pending.
//
// A launch that goes out alone costs 5 us, in a batch of 32 a tenth of that.
// So the application sends full batches only, and this thread the rest: when
// the daemon is about to run dry, or when the application has turned to other
// things. It looks every kInterval while there is something to do and sleeps
// otherwise; waking it costs the application a system call, so that happens
// only when a batch goes from empty to not empty while it sleeps.

#ifndef TVARANT_CLIENT_FLUSHER_H_
#define TVARANT_CLIENT_FLUSHER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/client.h"
#include "client/thread.h"
#include "proto/base/mutex.h"

namespace tvarant::client {

// What a flusher serves: one stream.
class Flushable {
 public:
  virtual ~Flushable() = default;
  // True when something is pending and not on its way.
  virtual bool HasPending() const = 0;
  // Looks whether it is time to send, and sends then. True when something was
  // pending.
  virtual bool Visit() = 0;
};

// Thread-safe.
class Flusher {
 public:
  Flusher() = default;
  ~Flusher() { Stop(); }

  Status Start();
  void Stop();

  // Shared: a stream may go while its last batch is being sent.
  void Add(std::shared_ptr<Flushable> stream);
  void Remove(const Flushable* stream);

  // After a batch became not empty.
  void Notify() {
    if (asleep_.load(std::memory_order_seq_cst) != 0) Wake();
  }

 private:
  void Wake();
  void Loop();
  bool AnyPending();

  std::atomic<uint32_t> asleep_{0};
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> version_{0};  // changes with streams_
  base::Mutex mutex_;
  std::vector<std::shared_ptr<Flushable>> streams_ ABSL_GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_FLUSHER_H_

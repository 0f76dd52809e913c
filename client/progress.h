// Progress: how far the device has come on one stream.
//
// With a shared page the daemon writes it there and a wait is one futex; else
// it comes with completions, and the reading thread reports it here.

#ifndef TVARANT_CLIENT_PROGRESS_H_
#define TVARANT_CLIENT_PROGRESS_H_

#include <atomic>
#include <cstdint>

#include "proto/base/mutex.h"
#include "proto/wire/shared_page.h"

namespace tvarant::client {

// Thread-safe.
class Progress {
 public:
  // page may be null; it must outlive this.
  Progress(SharedPage* page, int stream)
      : page_(page),
        slot_(page == nullptr ? nullptr : &page->streams[stream]) {}

  bool has_page() const { return slot_ != nullptr; }

  // All up to this sequence number are done.
  uint64_t completed() const {
    return (slot_ != nullptr ? slot_->completed : completed_)
        .load(std::memory_order_acquire);
  }

  // Failure messages that have been or will be sent; 0 without a page.
  uint64_t errors() const {
    return slot_ != nullptr ? slot_->errors.load(std::memory_order_acquire) : 0;
  }

  // From a completion; for streams without a page.
  void Advance(uint64_t completed);

  // Waits until completed() >= sequence, Wake() or one kWaitSlice. With
  // may_spin it first looks again and again for a moment, if nobody else wants
  // the processors.
  void WaitSlice(uint64_t sequence, bool may_spin);

  // Ends waits early; their callers look again at what they wait for.
  void Wake();

 private:
  void SleepOnPage(uint64_t sequence);

  SharedPage* const page_;
  StreamSlot* const slot_;
  std::atomic<uint64_t> completed_{0};
  base::Mutex mutex_;
  base::CondVar advanced_;
  uint32_t waiters_ ABSL_GUARDED_BY(mutex_) = 0;  // of the page's futex
  uint64_t wake_at_ ABSL_GUARDED_BY(mutex_) = 0;  // the least they wait for
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_PROGRESS_H_

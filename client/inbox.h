// Inbox: what the daemon's messages on one stream brought.
//
// Failures (the first one latches until a waiting call takes it), bytes of
// reads by message, times of markers. The stream's reading thread delivers.

#ifndef TVARANT_CLIENT_INBOX_H_
#define TVARANT_CLIENT_INBOX_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "client/client.h"
#include "client/lifeline.h"
#include "client/progress.h"
#include "proto/base/mutex.h"
#include "proto/tvarant/v1/device.pb.h"

namespace tvarant::client {

// Thread-safe.
class Inbox {
 public:
  Inbox(const Lifeline& life, const Progress& progress)
      : life_(life), progress_(progress) {}

  void Deliver(const v1::Completion& completion);
  // No more messages will come; every wait ends.
  void Close();

  // The daemon's answer to the opening of the stream. False: none came in
  // time, or the inbox was closed.
  bool WaitOpened(std::chrono::milliseconds timeout);

  // The first failure among the commands that are done, once; OK if there is
  // none. Waits for its text when the shared page says that there is one.
  Status TakeFailure();

  // A read by message puts its bytes at `data`. Announced before its record is
  // sent. Cancel it before `data` ends its life.
  void ExpectRead(uint64_t sequence, void* data, uint64_t bytes);
  // False: it was not answered though it is done, or the inbox was closed.
  bool WaitRead(uint64_t sequence);
  void CancelRead(uint64_t sequence);

  void ExpectMarker(uint64_t sequence);
  // INVALID_ARGUMENT for a number that is no marker or one long past.
  Result<uint64_t> WaitMarker(uint64_t sequence);

 private:
  struct Read {
    char* data;
    uint64_t bytes;
    bool done = false;
    bool failed = false;
  };

  struct Marker {
    std::optional<uint64_t> time_ns;
    bool is_asked = false;  // then it stands in asked_markers_
  };

  // One slice of a wait; false when nothing will come any more.
  bool WaitSlice() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Lifeline& life_;
  const Progress& progress_;
  // Failure messages that came or that we stopped waiting for.
  std::atomic<uint64_t> failures_accounted_{0};
  std::atomic<bool> has_latched_{false};

  base::Mutex mutex_;
  base::CondVar changed_;
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Status latched_ ABSL_GUARDED_BY(mutex_);
  // Failures up to here belong to one that was already raised.
  uint64_t raised_until_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t highest_seen_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Read> reads_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Marker> markers_ ABSL_GUARDED_BY(mutex_);
  std::deque<uint64_t> asked_markers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_INBOX_H_

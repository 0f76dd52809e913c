// ProgressBoard: how far each stream of a session is, and who waits for that.
//
// Executors publish here; it writes the session's shared page, wakes the
// client, lets waiting streams go on, and runs what was put off until a point
// is passed (freeing segments).

#ifndef TVARANT_DAEMON_SERVER_PROGRESS_BOARD_H_
#define TVARANT_DAEMON_SERVER_PROGRESS_BOARD_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/sealed_memory.h"
#include "proto/base/mutex.h"
#include "proto/wire/shared_page.h"

namespace tvarant {

// A place in a stream: everything up to `sequence`.
struct ProgressPoint {
  uint32_t stream = 0;  // below kMaxStreamsPerSession
  uint64_t sequence = 0;
};

// Thread-safe; Publish and AddError of one stream come from one thread.
class ProgressBoard {
 public:
  static absl::StatusOr<std::unique_ptr<ProgressBoard>> Create();

  // Descriptor of the page to pass to the client, and its idle hint.
  int page_fd() const { return page_memory_.fd(); }
  std::atomic<uint32_t>* busy_hint() { return &page_->busy_sessions; }

  // Takes a stream number below kMaxStreamsPerSession into use. False if it is
  // in use, or the session has ended.
  bool Open(uint32_t stream);
  // All points of the stream count as passed from now on.
  void Close(uint32_t stream);

  // One more failure message is about to be sent. Before Publish of it.
  void AddError(uint32_t stream);
  // Everything up to `sequence` is done. Wakes who waits for it.
  void Publish(uint32_t stream, uint64_t sequence);

  // Waits until the point is passed. False when the session ends first. A
  // stream that was never opened may still come, so its points are waited for.
  bool Wait(ProgressPoint point);
  bool IsPassed(ProgressPoint point);

  // Runs `action` once when all points are passed: now, or on the thread of
  // the executor that passes the last of them. Not at all after End().
  void WhenPassed(std::vector<ProgressPoint> points,
                  std::function<void()> action);

  // The session is over: marks the page dead and ends all waits.
  void End();

 private:
  enum class Phase { kNever, kOpen, kClosed };
  struct Deferred {
    std::vector<ProgressPoint> points;
    std::function<void()> action;
  };

  explicit ProgressBoard(SealedMemory page_memory);
  bool IsPassedLocked(ProgressPoint point) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnProgress();

  const SealedMemory page_memory_;
  SharedPage* const page_;

  // The daemon's own copies: what the page says is never read back.
  std::array<std::atomic<uint64_t>, kMaxStreamsPerSession> completed_{};
  std::array<uint64_t, kMaxStreamsPerSession> errors_{};
  std::array<uint32_t, kMaxStreamsPerSession> changes_{};
  // Waits and deferred actions; executors look at the mutex only if not 0.
  std::atomic<int> interested_{0};

  base::Mutex mutex_;
  base::CondVar progress_;
  std::array<Phase, kMaxStreamsPerSession> phases_ ABSL_GUARDED_BY(mutex_){};
  std::vector<Deferred> deferred_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_PROGRESS_BOARD_H_

#include "daemon/server/progress_board.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <iterator>
#include <new>
#include <utility>

#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

void WakeAll(std::atomic<uint32_t>* word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT_MAX,
            nullptr, nullptr, 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgressBoard>> ProgressBoard::Create() {
  ASSIGN_OR_RETURN(SealedMemory memory,
                   SealedMemory::Create("tvarant-page", kSharedPageBytes,
                                        SealedMemory::AtEnd::kKeep));
  return std::unique_ptr<ProgressBoard>(new ProgressBoard(std::move(memory)));
}

ProgressBoard::ProgressBoard(SealedMemory page_memory)
    : page_memory_(std::move(page_memory)),
      page_(new (page_memory_.data()) SharedPage{}) {
  page_->magic = kSharedPageMagic;
  page_->version = 1;
}

bool ProgressBoard::Open(uint32_t stream) {
  base::MutexLock lock(mutex_);
  if (ended_ || phases_[stream] == Phase::kOpen) return false;
  phases_[stream] = Phase::kOpen;
  completed_[stream].store(0, std::memory_order_relaxed);
  errors_[stream] = 0;
  StreamSlot& slot = page_->streams[stream];
  slot.errors.store(0, std::memory_order_relaxed);
  slot.completed.store(0, std::memory_order_release);
  return true;
}

void ProgressBoard::Close(uint32_t stream) {
  {
    base::MutexLock lock(mutex_);
    phases_[stream] = Phase::kClosed;
  }
  OnProgress();
}

void ProgressBoard::AddError(uint32_t stream) {
  page_->streams[stream].errors.store(++errors_[stream],
                                      std::memory_order_relaxed);
}

void ProgressBoard::Publish(uint32_t stream, uint64_t sequence) {
  StreamSlot& slot = page_->streams[stream];
  completed_[stream].store(sequence, std::memory_order_release);
  slot.completed.store(sequence, std::memory_order_release);
  slot.progress_futex.store(++changes_[stream], std::memory_order_release);
  // A waiter announces itself and then looks at the progress; here the
  // progress is made and then the announcement looked for. With both in one
  // total order no waiter is missed.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (slot.waiters.load(std::memory_order_relaxed) != 0 &&
      slot.wake_at.load(std::memory_order_relaxed) <= sequence) {
    WakeAll(&slot.progress_futex);
  }
  if (interested_.load(std::memory_order_relaxed) != 0) OnProgress();
}

bool ProgressBoard::IsPassedLocked(ProgressPoint point) const {
  if (point.sequence == 0) return true;
  switch (phases_[point.stream]) {
    case Phase::kNever:
      return false;
    case Phase::kClosed:
      return true;
    case Phase::kOpen:
      return completed_[point.stream].load(std::memory_order_acquire) >=
             point.sequence;
  }
  return false;
}

bool ProgressBoard::IsPassed(ProgressPoint point) {
  base::MutexLock lock(mutex_);
  return IsPassedLocked(point);
}

bool ProgressBoard::Wait(ProgressPoint point) {
  interested_.fetch_add(1, std::memory_order_seq_cst);
  bool passed;
  {
    base::MutexLock lock(mutex_);
    while (!(passed = IsPassedLocked(point)) && !ended_) {
      progress_.Wait(mutex_);
    }
    passed = passed && !ended_;
  }
  interested_.fetch_sub(1, std::memory_order_relaxed);
  return passed;
}

void ProgressBoard::WhenPassed(std::vector<ProgressPoint> points,
                               std::function<void()> action) {
  {
    base::MutexLock lock(mutex_);
    if (ended_) return;
    deferred_.push_back({std::move(points), std::move(action)});
    interested_.fetch_add(1, std::memory_order_seq_cst);
  }
  OnProgress();
}

void ProgressBoard::OnProgress() {
  std::vector<Deferred> ready;
  {
    base::MutexLock lock(mutex_);
    progress_.NotifyAll();
    const auto first = std::stable_partition(
        deferred_.begin(), deferred_.end(), [this](const Deferred& deferred) {
          mutex_.AssertHeld();
          return !std::all_of(deferred.points.begin(), deferred.points.end(),
                              [this](ProgressPoint point) {
                                mutex_.AssertHeld();
                                return IsPassedLocked(point);
                              });
        });
    std::move(first, deferred_.end(), std::back_inserter(ready));
    deferred_.erase(first, deferred_.end());
    interested_.fetch_sub(static_cast<int>(ready.size()),
                          std::memory_order_relaxed);
  }
  for (Deferred& deferred : ready) deferred.action();
}

void ProgressBoard::End() {
  std::vector<Deferred> dropped;
  {
    base::MutexLock lock(mutex_);
    if (ended_) return;
    ended_ = true;
    dropped.swap(deferred_);
    interested_.fetch_sub(static_cast<int>(dropped.size()),
                          std::memory_order_relaxed);
    progress_.NotifyAll();
  }
  page_->dead.store(1, std::memory_order_release);
  for (StreamSlot& slot : page_->streams) {
    // The word must change, or a client about to sleep would miss the wake.
    // Whatever an executor stores into it now is a change as well.
    slot.progress_futex.fetch_add(1, std::memory_order_seq_cst);
    WakeAll(&slot.progress_futex);
  }
}

}  // namespace tvarant

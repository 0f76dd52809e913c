#include "client/inbox.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace tvarant::client {
namespace {

// Text of a failure is on its way when the page tells of it.
constexpr std::chrono::seconds kFailureTimeout{5};

// Markers whose times are kept. Past that, those that somebody has asked for
// are forgotten first, then the oldest.
constexpr size_t kMaxMarkers = 1 << 16;

Code KnownCode(int32_t code) {
  switch (code) {
    case 1:
    case 3:
    case 4:
    case 5:
    case 7:
    case 8:
    case 9:
    case 11:
    case 12:
    case 13:
    case 14:
      return static_cast<Code>(code);
    default:
      return Code::kInternal;
  }
}

Status FailureStatus(const v1::Failure& failure) {
  // A daemon that already names the op in its text is not made to stutter.
  if (failure.op().empty() ||
      failure.message().rfind(failure.op() + ":", 0) == 0) {
    return Status(KnownCode(failure.code()), failure.message());
  }
  return Status(KnownCode(failure.code()),
                failure.op() + ": " + failure.message());
}

}  // namespace

void Inbox::Deliver(const v1::Completion& completion) {
  base::MutexLock lock(mutex_);
  opened_ = true;
  highest_seen_ =
      std::max<uint64_t>(highest_seen_, completion.completed_sequence());
  for (const v1::ReadResult& result : completion.reads()) {
    const auto found = reads_.find(result.sequence());
    if (found == reads_.end()) continue;
    Read& read = found->second;
    if (result.data().size() != read.bytes) continue;
    std::memcpy(read.data, result.data().data(), read.bytes);
    read.done = true;
  }
  for (const v1::MarkerTime& time : completion.marker_times()) {
    const auto found = markers_.find(time.sequence());
    if (found != markers_.end()) found->second.time_ns = time.time_ns();
  }
  for (const v1::Failure& failure : completion.failures()) {
    if (failure.sequence() > raised_until_ && latched_.ok()) {
      latched_ = FailureStatus(failure);
      has_latched_.store(true, std::memory_order_release);
    }
    const auto read = reads_.find(failure.sequence());
    if (read != reads_.end()) read->second.failed = true;
    failures_accounted_.fetch_add(1, std::memory_order_release);
  }
  changed_.NotifyAll();
}

void Inbox::Close() {
  base::MutexLock lock(mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

bool Inbox::WaitSlice() {
  if (closed_ || !life_.alive()) return false;
  changed_.WaitFor(mutex_, kWaitSlice);
  return true;
}

bool Inbox::WaitOpened(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  base::MutexLock lock(mutex_);
  while (!opened_ && std::chrono::steady_clock::now() < deadline) {
    if (!WaitSlice()) break;
  }
  return opened_;
}

Status Inbox::TakeFailure() {
  const uint64_t errors = progress_.errors();
  if (failures_accounted_.load(std::memory_order_acquire) >= errors &&
      !has_latched_.load(std::memory_order_acquire)) {
    return Status();
  }
  const auto deadline = std::chrono::steady_clock::now() + kFailureTimeout;
  base::MutexLock lock(mutex_);
  while (failures_accounted_.load(std::memory_order_relaxed) < errors &&
         std::chrono::steady_clock::now() < deadline) {
    if (!WaitSlice()) break;
  }
  if (failures_accounted_.load(std::memory_order_relaxed) < errors) {
    if (!life_.alive()) return life_.death();
    failures_accounted_.store(errors, std::memory_order_release);
    if (latched_.ok()) {
      return Status(Code::kInternal,
                    "a command failed on the device, but the daemon did not "
                    "say which");
    }
  }
  Status failure = std::exchange(latched_, Status());
  has_latched_.store(false, std::memory_order_release);
  if (!failure.ok()) raised_until_ = progress_.completed();
  return failure;
}

void Inbox::ExpectRead(uint64_t sequence, void* data, uint64_t bytes) {
  base::MutexLock lock(mutex_);
  reads_[sequence] = Read{static_cast<char*>(data), bytes};
}

bool Inbox::WaitRead(uint64_t sequence) {
  base::MutexLock lock(mutex_);
  const auto found = reads_.find(sequence);
  if (found == reads_.end()) return false;
  while (!found->second.done) {
    // Completions come in order: when a later point has been reported and the
    // bytes are not here, the read failed.
    if (found->second.failed || highest_seen_ >= sequence) break;
    if (!WaitSlice()) break;
  }
  const bool done = found->second.done;
  reads_.erase(found);
  return done;
}

void Inbox::CancelRead(uint64_t sequence) {
  base::MutexLock lock(mutex_);
  reads_.erase(sequence);
}

void Inbox::ExpectMarker(uint64_t sequence) {
  base::MutexLock lock(mutex_);
  markers_[sequence] = {};
  while (markers_.size() > kMaxMarkers) {
    if (asked_markers_.empty()) {
      markers_.erase(markers_.begin());
    } else {
      markers_.erase(asked_markers_.front());
      asked_markers_.pop_front();
    }
  }
}

Result<uint64_t> Inbox::WaitMarker(uint64_t sequence) {
  base::MutexLock lock(mutex_);
  while (true) {
    const auto found = markers_.find(sequence);
    if (found == markers_.end()) {
      return Status(Code::kInvalidArgument, "sequence number " +
                                                std::to_string(sequence) +
                                                " is no marker of this stream");
    }
    Marker& marker = found->second;
    if (marker.time_ns.has_value()) {
      if (!std::exchange(marker.is_asked, true)) {
        asked_markers_.push_back(sequence);
      }
      return *marker.time_ns;
    }
    if (!WaitSlice()) {
      if (!life_.alive()) return life_.death();
      return Status(Code::kUnavailable, "the stream has ended");
    }
  }
}

}  // namespace tvarant::client

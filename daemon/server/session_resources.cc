#include "daemon/server/session_resources.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

absl::Status Limit(const char* what, uint64_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the session has its limit of ", limit, " ", what));
}

// A shared_ptr to memory that takes its share of the quota back with it, after
// the memory is free.
template <typename T>
std::shared_ptr<T> WithQuota(std::unique_ptr<T> memory,
                             std::shared_ptr<void> quota) {
  return std::shared_ptr<T>(memory.release(),
                            [quota = std::move(quota)](T* object) mutable {
                              delete object;
                              quota.reset();
                            });
}

}  // namespace

absl::Status SessionResources::CheckNewHandleLocked(uint64_t handle) const {
  if (cleared_) return absl::UnavailableError("the session has ended");
  if (handle == 0) return absl::InvalidArgumentError("handle 0");
  if (segments_.contains(handle) || staging_.contains(handle)) {
    return absl::InvalidArgumentError(
        absl::StrCat("handle ", handle, " is in use"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<void>> SessionResources::TakeQuota(
    uint64_t size_bytes) {
  uint64_t used = used_bytes_->load(std::memory_order_relaxed);
  do {
    if (size_bytes > limits_.max_bytes ||
        used > limits_.max_bytes - size_bytes) {
      const uint64_t quota_left =
          used < limits_.max_bytes ? limits_.max_bytes - used : 0;
      return absl::ResourceExhaustedError(absl::StrCat(
          "out of memory: asked for ", size_bytes, " bytes, ",
          std::min(quota_left, runtime_.free_memory_bytes(device_)),
          " bytes are free for this session, which may hold ",
          limits_.max_bytes, " and holds ", used));
    }
  } while (!used_bytes_->compare_exchange_weak(used, used + size_bytes,
                                               std::memory_order_relaxed));
  return std::shared_ptr<void>(
      nullptr, [used_bytes = used_bytes_, size_bytes](void*) {
        used_bytes->fetch_sub(size_bytes, std::memory_order_relaxed);
      });
}

absl::StatusOr<std::shared_ptr<DeviceBuffer>> SessionResources::CreateSegment(
    uint64_t handle, uint64_t size_bytes) {
  {
    base::MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckNewHandleLocked(handle));
    if (segments_.size() >= limits_.max_segments) {
      return Limit("segments", limits_.max_segments);
    }
  }
  ASSIGN_OR_RETURN(std::shared_ptr<void> quota, TakeQuota(size_bytes));
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> buffer,
                   runtime_.CreateBuffer(device_, size_bytes));
  auto shared = WithQuota(std::move(buffer), std::move(quota));
  base::MutexLock lock(mutex_);
  // Making it took a while; the table may have changed.
  RETURN_IF_ERROR(CheckNewHandleLocked(handle));
  if (segments_.size() >= limits_.max_segments) {
    return Limit("segments", limits_.max_segments);
  }
  segments_.emplace(handle, Segment{shared});
  return shared;
}

absl::StatusOr<std::shared_ptr<StagingBuffer>> SessionResources::CreateStaging(
    uint64_t handle, uint64_t size_bytes) {
  {
    base::MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckNewHandleLocked(handle));
    if (staging_.size() >= limits_.max_staging) {
      return Limit("staging buffers", limits_.max_staging);
    }
  }
  ASSIGN_OR_RETURN(std::shared_ptr<void> quota, TakeQuota(size_bytes));
  ASSIGN_OR_RETURN(std::unique_ptr<StagingBuffer> buffer,
                   runtime_.CreateStaging(size_bytes));
  auto shared = WithQuota(std::move(buffer), std::move(quota));
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckNewHandleLocked(handle));
  if (staging_.size() >= limits_.max_staging) {
    return Limit("staging buffers", limits_.max_staging);
  }
  staging_.emplace(handle, shared);
  return shared;
}

std::shared_ptr<DeviceBuffer> SessionResources::FindSegment(uint64_t handle) {
  base::MutexLock lock(mutex_);
  const auto found = segments_.find(handle);
  return found == segments_.end() ? nullptr : found->second.buffer;
}

std::shared_ptr<StagingBuffer> SessionResources::FindStaging(uint64_t handle) {
  base::MutexLock lock(mutex_);
  const auto found = staging_.find(handle);
  return found == staging_.end() ? nullptr : found->second;
}

absl::Status SessionResources::MarkReleased(
    absl::Span<const uint64_t> handles) {
  base::MutexLock lock(mutex_);
  for (size_t i = 0; i < handles.size(); ++i) {
    const auto found = segments_.find(handles[i]);
    if (found == segments_.end() || found->second.released) {
      for (size_t k = 0; k < i; ++k) segments_[handles[k]].released = false;
      return absl::InvalidArgumentError(
          absl::StrCat("segment ", handles[i],
                       " is not known, or released "
                       "already"));
    }
    found->second.released = true;
  }
  return absl::OkStatus();
}

void SessionResources::DropSegments(absl::Span<const uint64_t> handles) {
  std::vector<std::shared_ptr<DeviceBuffer>> dropped;  // freed without the lock
  base::MutexLock lock(mutex_);
  for (const uint64_t handle : handles) {
    const auto found = segments_.find(handle);
    if (found == segments_.end()) continue;
    dropped.push_back(std::move(found->second.buffer));
    segments_.erase(found);
  }
}

void SessionResources::DropStaging(uint64_t handle) {
  std::shared_ptr<StagingBuffer> dropped;
  base::MutexLock lock(mutex_);
  const auto found = staging_.find(handle);
  if (found == staging_.end()) return;
  dropped = std::move(found->second);
  staging_.erase(found);
}

absl::Status SessionResources::DefineProgram(
    uint64_t handle, std::shared_ptr<const CachedProgram> program) {
  if (handle == 0) return absl::InvalidArgumentError("program handle 0");
  base::MutexLock lock(mutex_);
  if (cleared_) return absl::UnavailableError("the session has ended");
  const auto found = programs_.find(handle);
  if (found != programs_.end()) {
    if (found->second == program) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("program handle ", handle, " stands for another program"));
  }
  if (programs_.size() >= limits_.max_programs) {
    return Limit("programs", limits_.max_programs);
  }
  programs_.emplace(handle, std::move(program));
  return absl::OkStatus();
}

std::shared_ptr<const CachedProgram> SessionResources::FindProgram(
    uint64_t handle) {
  base::MutexLock lock(mutex_);
  const auto found = programs_.find(handle);
  return found == programs_.end() ? nullptr : found->second;
}

absl::Status SessionResources::RecordEvent(uint64_t handle, ProgressPoint point,
                                           ProgressBoard& board) {
  if (handle == 0) return absl::InvalidArgumentError("event handle 0");
  base::MutexLock lock(mutex_);
  if (events_.size() >= limits_.max_events && !events_.contains(handle)) {
    absl::erase_if(events_, [&board](const auto& item) {
      return board.IsPassed(item.second);
    });
    if (events_.size() >= limits_.max_events) {
      return Limit("events", limits_.max_events);
    }
  }
  events_[handle] = point;
  return absl::OkStatus();
}

std::optional<ProgressPoint> SessionResources::FindEvent(uint64_t handle) {
  base::MutexLock lock(mutex_);
  const auto found = events_.find(handle);
  if (found == events_.end()) return std::nullopt;
  return found->second;
}

void SessionResources::Clear() {
  // Moved out, so that nothing is freed under the lock.
  absl::flat_hash_map<uint64_t, Segment> segments;
  absl::flat_hash_map<uint64_t, std::shared_ptr<StagingBuffer>> staging;
  absl::flat_hash_map<uint64_t, std::shared_ptr<const CachedProgram>> programs;
  base::MutexLock lock(mutex_);
  cleared_ = true;
  segments.swap(segments_);
  staging.swap(staging_);
  programs.swap(programs_);
  events_.clear();
}

size_t SessionResources::segment_count() {
  base::MutexLock lock(mutex_);
  return segments_.size();
}

}  // namespace tvarant

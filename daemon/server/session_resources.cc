#include "daemon/server/session_resources.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

absl::Status Full(const char* what, uint64_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the session has its limit of ", limit, " ", what));
}

absl::Status Full(Limit limit, uint64_t value) {
  return absl::ResourceExhaustedError(OverLimit("the session", limit, value));
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

absl::StatusOr<SessionResources::Charges> SessionResources::TakeQuota(
    uint64_t size_bytes) {
  Charges charges;
  charges.session = MemoryQuota::Take(quota_, size_bytes);
  if (charges.session == nullptr) {
    const uint64_t used = quota_->used_bytes();
    const uint64_t limit = quota_->limit_bytes();
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory: asked for ", size_bytes, " bytes, ",
                     std::min(limit - std::min(used, limit),
                              runtime_.free_memory_bytes(device_)),
                     " bytes are free for this session, which may hold ", limit,
                     " and holds ", used));
  }
  ASSIGN_OR_RETURN(charges.user,
                   UserClaim::Take(user_, Limit::kUserBytes, size_bytes));
  return charges;
}

// A shared_ptr to memory that ends the charges after the memory is free: the
// session's last, which wakes those who wait for memory.
template <typename T>
std::shared_ptr<T> SessionResources::WithCharges(std::unique_ptr<T> memory,
                                                 Charges charges) {
  auto held = std::make_shared<Charges>(std::move(charges));
  return std::shared_ptr<T>(memory.release(),
                            [held = std::move(held)](T* object) mutable {
                              delete object;
                              held->user = UserClaim();
                              held.reset();
                            });
}

template <typename Make>
auto SessionResources::WithReleased(Make make) -> decltype(make()) {
  const auto deadline = std::chrono::steady_clock::now() + kReleaseWait;
  for (;;) {
    const uint64_t seen = quota_->returns();
    auto made = make();
    if (!absl::IsResourceExhausted(made.status()) ||
        !quota_->WaitForReturn(seen, deadline)) {
      return made;
    }
  }
}

absl::StatusOr<std::shared_ptr<DeviceBuffer>> SessionResources::CreateSegment(
    uint64_t handle, uint64_t size_bytes) {
  return WithReleased([&] { return TryCreateSegment(handle, size_bytes); });
}

absl::StatusOr<std::shared_ptr<StagingBuffer>> SessionResources::CreateStaging(
    uint64_t handle, uint64_t size_bytes) {
  return WithReleased([&] { return TryCreateStaging(handle, size_bytes); });
}

absl::StatusOr<std::shared_ptr<DeviceBuffer>>
SessionResources::TryCreateSegment(uint64_t handle, uint64_t size_bytes) {
  {
    base::MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckNewHandleLocked(handle));
    if (segments_.size() >= limits_.max_segments) {
      return Full(Limit::kSessionSegments, limits_.max_segments);
    }
  }
  ASSIGN_OR_RETURN(Charges charges, TakeQuota(size_bytes));
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> buffer,
                   runtime_.CreateBuffer(device_, size_bytes));
  MemoryQuota::Charge* const charge = charges.session.get();
  auto shared = WithCharges(std::move(buffer), std::move(charges));
  base::MutexLock lock(mutex_);
  // Making it took a while; the table may have changed.
  RETURN_IF_ERROR(CheckNewHandleLocked(handle));
  if (segments_.size() >= limits_.max_segments) {
    return Full(Limit::kSessionSegments, limits_.max_segments);
  }
  segments_.emplace(handle, Memory<DeviceBuffer>{shared, charge});
  return shared;
}

absl::StatusOr<std::shared_ptr<StagingBuffer>>
SessionResources::TryCreateStaging(uint64_t handle, uint64_t size_bytes) {
  {
    base::MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckNewHandleLocked(handle));
    if (staging_.size() >= limits_.max_staging) {
      return Full("staging buffers", limits_.max_staging);
    }
  }
  ASSIGN_OR_RETURN(Charges charges, TakeQuota(size_bytes));
  ASSIGN_OR_RETURN(std::unique_ptr<StagingBuffer> buffer,
                   runtime_.CreateStaging(size_bytes));
  MemoryQuota::Charge* const charge = charges.session.get();
  auto shared = WithCharges(std::move(buffer), std::move(charges));
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckNewHandleLocked(handle));
  if (staging_.size() >= limits_.max_staging) {
    return Full("staging buffers", limits_.max_staging);
  }
  staging_.emplace(handle, Memory<StagingBuffer>{shared, charge});
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
  return found == staging_.end() ? nullptr : found->second.buffer;
}

bool SessionResources::SetReleasedLocked(uint64_t handle, bool released) {
  const auto set = [=](auto& table) {
    const auto found = table.find(handle);
    if (found == table.end() || found->second.released == released) {
      return false;
    }
    found->second.released = released;
    return true;
  };
  return set(segments_) || set(staging_);
}

absl::Status SessionResources::MarkReleased(
    absl::Span<const uint64_t> handles) {
  base::MutexLock lock(mutex_);
  for (size_t i = 0; i < handles.size(); ++i) {
    if (SetReleasedLocked(handles[i], true)) continue;
    for (size_t k = 0; k < i; ++k) SetReleasedLocked(handles[k], false);
    return absl::InvalidArgumentError(absl::StrCat(
        "segment ", handles[i], " is not known, or released already"));
  }
  for (const uint64_t handle : handles) {
    const auto segment = segments_.find(handle);
    (segment != segments_.end() ? segment->second.charge
                                : staging_.find(handle)->second.charge)
        ->MarkReleased();
  }
  return absl::OkStatus();
}

void SessionResources::Drop(absl::Span<const uint64_t> handles) {
  std::vector<std::shared_ptr<void>> dropped;  // freed without the lock
  base::MutexLock lock(mutex_);
  const auto drop = [&](auto& table, uint64_t handle) {
    const auto found = table.find(handle);
    if (found == table.end()) return;
    dropped.push_back(std::move(found->second.buffer));
    table.erase(found);
  };
  for (const uint64_t handle : handles) {
    drop(segments_, handle);
    drop(staging_, handle);
  }
}

absl::Status SessionResources::DefineProgram(
    uint64_t handle, std::shared_ptr<const CachedProgram> program) {
  if (handle == 0) return absl::InvalidArgumentError("program handle 0");
  base::MutexLock lock(mutex_);
  if (cleared_) return absl::UnavailableError("the session has ended");
  const auto found = programs_.find(handle);
  if (found != programs_.end()) {
    if (found->second.program == program) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("program handle ", handle, " stands for another program"));
  }
  if (programs_.size() >= limits_.max_programs) {
    return Full(Limit::kSessionPrograms, limits_.max_programs);
  }
  ASSIGN_OR_RETURN(UserClaim claim,
                   UserClaim::Take(user_, Limit::kUserPrograms, 1));
  programs_.emplace(handle,
                    DefinedProgram{std::move(program), std::move(claim)});
  return absl::OkStatus();
}

std::shared_ptr<const CachedProgram> SessionResources::FindProgram(
    uint64_t handle) {
  base::MutexLock lock(mutex_);
  const auto found = programs_.find(handle);
  return found == programs_.end() ? nullptr : found->second.program;
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
      return Full("events", limits_.max_events);
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
  MemoryTable<DeviceBuffer> segments;
  MemoryTable<StagingBuffer> staging;
  absl::flat_hash_map<uint64_t, DefinedProgram> programs;
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

// SessionResources: what a session holds under handles that its client made.
//
// Segments, staging memory, programs, events, each with a limit. Memory counts
// against the session until it is really free, which may be later than its
// release: an executor that still uses it keeps it alive.

#ifndef TVARANT_DAEMON_SERVER_SESSION_RESOURCES_H_
#define TVARANT_DAEMON_SERVER_SESSION_RESOURCES_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/runtime/runtime.h"
#include "daemon/server/memory_quota.h"
#include "daemon/server/program_cache.h"
#include "daemon/server/progress_board.h"
#include "daemon/server/user_table.h"
#include "proto/base/mutex.h"

namespace tvarant {

struct ResourceLimits {
  uint64_t max_bytes = 0;  // 0: all of the device
  uint64_t max_segments = 65536;
  uint64_t max_staging = 256;
  uint64_t max_programs = 65536;
  uint64_t max_events = 65536;
  uint64_t max_streams = 64;
};

// Thread-safe. The shared_ptrs it gives are shared with executors, which may
// be using what another call releases.
class SessionResources {
 public:
  static constexpr std::chrono::seconds kReleaseWait{10};

  SessionResources(TvarantRuntime& runtime, int device,
                   const ResourceLimits& limits,
                   std::shared_ptr<UserAccount> user)
      : runtime_(runtime),
        device_(device),
        limits_(limits),
        user_(std::move(user)),
        quota_(std::make_shared<MemoryQuota>(limits.max_bytes)) {}

  // INVALID_ARGUMENT for a handle of 0 or in use, RESOURCE_EXHAUSTED for memory
  // or a limit, UNAVAILABLE after Clear(). Where memory or a place in the table
  // is missing that the session has released and that queued work still uses,
  // waits for it, kReleaseWait at most.
  absl::StatusOr<std::shared_ptr<DeviceBuffer>> CreateSegment(
      uint64_t handle, uint64_t size_bytes);
  absl::StatusOr<std::shared_ptr<StagingBuffer>> CreateStaging(
      uint64_t handle, uint64_t size_bytes);

  // Null if not known.
  std::shared_ptr<DeviceBuffer> FindSegment(uint64_t handle);
  std::shared_ptr<StagingBuffer> FindStaging(uint64_t handle);

  // Marks segments and staging memory for release: they can still be found, but
  // not released again. INVALID_ARGUMENT, and nothing changed, for an unknown
  // handle, one given twice or one already marked.
  absl::Status MarkReleased(absl::Span<const uint64_t> handles);
  // Forgets memory (and frees it, if no executor uses it).
  void Drop(absl::Span<const uint64_t> handles);

  // The same program again under the same handle is fine.
  absl::Status DefineProgram(uint64_t handle,
                             std::shared_ptr<const CachedProgram> program);
  std::shared_ptr<const CachedProgram> FindProgram(uint64_t handle);

  // Passed events are forgotten when there are many: that changes nothing for
  // who waits for them.
  absl::Status RecordEvent(uint64_t handle, ProgressPoint point,
                           ProgressBoard& board);
  std::optional<ProgressPoint> FindEvent(uint64_t handle);

  // Forgets everything; nothing can be made afterwards.
  void Clear();

  uint64_t used_bytes() const { return quota_->used_bytes(); }
  size_t segment_count();

 private:
  template <typename Buffer>
  struct Memory {
    std::shared_ptr<Buffer> buffer;
    MemoryQuota::Charge* charge;  // lives as long as the buffer
    bool released = false;
  };
  template <typename Buffer>
  using MemoryTable = absl::flat_hash_map<uint64_t, Memory<Buffer>>;

  absl::Status CheckNewHandleLocked(uint64_t handle) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<DeviceBuffer>> TryCreateSegment(
      uint64_t handle, uint64_t size_bytes);
  absl::StatusOr<std::shared_ptr<StagingBuffer>> TryCreateStaging(
      uint64_t handle, uint64_t size_bytes);
  // Sets the mark; false if there is no such memory or the mark is `released`.
  bool SetReleasedLocked(uint64_t handle, bool released)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls `make` again while it lacks what is on its way back.
  template <typename Make>
  auto WithReleased(Make make) -> decltype(make());
  // What memory counts as, for the session and for its user.
  struct Charges {
    std::shared_ptr<MemoryQuota::Charge> session;
    UserClaim user;
  };
  absl::StatusOr<Charges> TakeQuota(uint64_t size_bytes);
  template <typename T>
  static std::shared_ptr<T> WithCharges(std::unique_ptr<T> memory,
                                        Charges charges);

  TvarantRuntime& runtime_;
  const int device_;
  const ResourceLimits limits_;
  const std::shared_ptr<UserAccount> user_;  // may be null
  // Shared with the memory, which may outlive the table by a moment.
  const std::shared_ptr<MemoryQuota> quota_;

  base::Mutex mutex_;
  MemoryTable<DeviceBuffer> segments_ ABSL_GUARDED_BY(mutex_);
  MemoryTable<StagingBuffer> staging_ ABSL_GUARDED_BY(mutex_);
  struct DefinedProgram {
    std::shared_ptr<const CachedProgram> program;
    UserClaim claim;
  };
  absl::flat_hash_map<uint64_t, DefinedProgram> programs_
      ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, ProgressPoint> events_ ABSL_GUARDED_BY(mutex_);
  bool cleared_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_SESSION_RESOURCES_H_

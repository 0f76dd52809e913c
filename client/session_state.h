// SessionState: all that a session is, behind the public interface.
//
// Session and Stream objects of the application share it; in a forked child
// they let it leak, since destroying gRPC's objects there hangs.

#ifndef TVARANT_CLIENT_SESSION_STATE_H_
#define TVARANT_CLIENT_SESSION_STATE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "client/bulk_channel.h"
#include "client/client.h"
#include "client/host_memory.h"
#include "client/remote_options.h"
#include "client/session_context.h"
#include "client/side_connection.h"
#include "client/staging_ring.h"
#include "client/stream_core.h"
#include "proto/base/mutex.h"

namespace tvarant::client {

// Thread-safe.
class SessionState : public std::enable_shared_from_this<SessionState> {
 public:
  static Result<std::shared_ptr<SessionState>> Connect(
      const ConnectOptions& options, const RemoteOptions& remote);
  ~SessionState();

  SessionContext& context() { return context_; }
  const DeviceProperties& properties() const { return properties_; }
  bool memory_is_mapped() const { return memory_is_mapped_; }

  uint64_t NewHandle() {
    return next_handle_.fetch_add(1, std::memory_order_relaxed);
  }

  // A unary call: counted, bounded, and the session's end if nobody answers.
  template <typename Request, typename Response>
  Status Call(grpc::Status (Rpc::Stub::*method)(grpc::ClientContext*,
                                                const Request&, Response*),
              const Request& request, Response* response) {
    if (!context_.life.alive()) return context_.life.death();
    Count(context_.counters.round_trips);
    return AfterCall(
        context_.rpc->Call(method, request, response, kCallTimeout));
  }

  Result<std::shared_ptr<StreamCore>> CreateStream(bool high_priority);
  Result<uint64_t> CreateSegment(uint64_t size_bytes, void* map_at);
  Status ReleaseSegments(const uint64_t* segments, int count);

  // A ring fit for transfers of this size, made at first use; null where bytes
  // must go by messages.
  Result<StagingRing*> Staging(uint64_t bytes);

  Result<std::shared_ptr<HostBlock>> CreateHostMemory(uint64_t size_bytes);
  HostBlockList& host_blocks() { return host_blocks_; }

  // For transfers too large for a record, where there is no shared memory; made
  // at first use. Null where the daemon has no such call.
  Result<BulkChannel*> Bulk();

  // Where an event was recorded last.
  struct EventPoint {
    std::shared_ptr<StreamCore> stream;  // null: nowhere, or long passed
    uint64_t sequence = 0;
  };
  void NoteEvent(uint64_t event, std::shared_ptr<StreamCore> stream,
                 uint64_t sequence);
  EventPoint FindEvent(uint64_t event);

 private:
  // Zeroing and filling in very much memory takes the daemon a while.
  static constexpr std::chrono::milliseconds kCallTimeout{120000};

  SessionState(std::unique_ptr<Rpc> rpc, uint64_t max_programs)
      : context_(std::move(rpc), max_programs) {}
  Status Start(const ConnectOptions& options, const Endpoint& endpoint,
               const v1::OpenSessionResponse& response, Deadline deadline);
  Status AfterCall(Status status);
  void OnDaemonEnd();
  void CancelStreams();
  // Memory of the daemon for bytes of ours, under a new handle.
  Result<base::UniqueFd> ReceiveStaging(uint64_t handle, uint64_t size_bytes);
  Result<std::unique_ptr<StagingRing>> MakeStaging(uint64_t size_bytes);
  // Makes it unless it is there.
  Status MakeRing(uint64_t size_bytes, std::unique_ptr<StagingRing>* ring)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(staging_mutex_);

  SessionContext context_;
  DeviceProperties properties_;
  bool memory_is_mapped_ = false;
  int max_streams_ = 0;
  std::atomic<uint64_t> next_handle_{1};
  std::unique_ptr<SideConnection> side_;  // null: everything by messages

  // Held while a stream is opened: numbers are given out one at a time.
  base::Mutex open_mutex_;
  base::Mutex mutex_;
  std::vector<std::shared_ptr<StreamCore>> streams_ ABSL_GUARDED_BY(mutex_);

  base::Mutex staging_mutex_;
  std::unique_ptr<StagingRing> small_staging_ ABSL_GUARDED_BY(staging_mutex_);
  std::unique_ptr<StagingRing> large_staging_ ABSL_GUARDED_BY(staging_mutex_);

  HostBlockList host_blocks_;

  uint64_t bulk_credit_bytes_ = 0;
  base::Mutex bulk_mutex_;
  std::unique_ptr<BulkChannel> bulk_ ABSL_GUARDED_BY(bulk_mutex_);

  base::Mutex events_mutex_;
  std::unordered_map<uint64_t, EventPoint> events_
      ABSL_GUARDED_BY(events_mutex_);
  size_t prune_events_at_ ABSL_GUARDED_BY(events_mutex_) = 1024;
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_SESSION_STATE_H_

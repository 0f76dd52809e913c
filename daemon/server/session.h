// Session: one client process on one device.
//
// Made by OpenSession. It ends, once, when its side connection does, when the
// client closes it, when its last command stream ends and it has no side
// connection, or with the daemon. The end cancels its streams; what it holds is
// freed when the last of their executors has left.

#ifndef TVARANT_DAEMON_SERVER_SESSION_H_
#define TVARANT_DAEMON_SERVER_SESSION_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/runtime/runtime.h"
#include "daemon/scheduler/busy_tracker.h"
#include "daemon/scheduler/device_gate.h"
#include "daemon/server/bulk_exchange.h"
#include "daemon/server/flight_recorder.h"
#include "daemon/server/peer_table.h"
#include "daemon/server/progress_board.h"
#include "daemon/server/session_resources.h"
#include "daemon/server/side_channel.h"
#include "daemon/server/user_table.h"
#include "proto/base/mutex.h"

namespace tvarant {

using SessionToken = std::array<uint8_t, 32>;

struct SessionOptions {
  uint64_t id = 0;
  SessionToken token{};
  PeerCredentials peer;
  std::string client_name;
  int device = 0;
  ResourceLimits limits;
  // Whose it is, shared with all that is the user's. Null: nothing counts.
  std::shared_ptr<UserAccount> user{};
};

// Thread-safe.
class Session {
 public:
  using Clock = std::chrono::steady_clock;

  static absl::StatusOr<std::unique_ptr<Session>> Create(
      SessionOptions options, TvarantRuntime& runtime, BusyTracker& busy);
  // Only after End(), when no stream is left.
  ~Session();

  uint64_t id() const { return options_.id; }
  const SessionToken& token() const { return options_.token; }
  const PeerCredentials& peer() const { return options_.peer; }
  const ResourceLimits& limits() const { return options_.limits; }
  // May be null.
  const std::shared_ptr<UserAccount>& user() const { return options_.user; }
  const std::string& client_name() const { return options_.client_name; }
  Clock::time_point opened_at() const { return opened_at_; }
  int device() const { return options_.device; }

  SessionResources& resources() { return resources_; }
  ProgressBoard& board() { return *board_; }
  BulkExchange& bulk() { return bulk_; }
  DeviceGate::Member& gate_member() { return gate_member_; }
  BusyTracker::Member& busy_member() { return busy_member_; }
  std::atomic<uint64_t>& command_count() { return command_count_; }

  // Takes the side connection and sends the shared page over it.
  // FAILED_PRECONDITION if there is one already or the session has ended.
  absl::Status Attach(std::shared_ptr<SideChannel> side);
  bool attached();

  // Memory for the client; with `map` its descriptor goes over the side
  // connection before this returns.
  absl::Status CreateSegment(uint64_t handle, uint64_t size_bytes, bool map);
  absl::Status CreateStaging(uint64_t handle, uint64_t size_bytes);
  // Frees segments when all points are passed. INVALID_ARGUMENT, and nothing
  // changed, for wrong handles or stream numbers.
  absl::Status ReleaseSegments(std::vector<uint64_t> handles,
                               std::vector<ProgressPoint> after);

  // A command stream's call on the session: from before its first message to
  // its end. `cancel` makes its blocking calls return; it may be called on any
  // thread while the call exists.
  class StreamCall {
   public:
    StreamCall() = default;
    StreamCall(StreamCall&& other) noexcept;
    StreamCall& operator=(StreamCall&& other) noexcept;
    ~StreamCall();
    // Takes the stream number into use. INVALID_ARGUMENT or
    // FAILED_PRECONDITION (in use).
    absl::Status Open(uint32_t stream);

   private:
    friend class Session;
    Session* session_ = nullptr;
    UserClaim claim_;
    uint64_t call_ = 0;
    int stream_ = -1;
  };
  // RESOURCE_EXHAUSTED beyond the limits of the session and its user;
  // UNAVAILABLE when the session has ended. `is_cancelled` tells that the
  // client has given the call up; both may be called until the StreamCall's
  // end.
  absl::StatusOr<StreamCall> BeginStreamCall(
      std::function<void()> cancel,
      std::function<bool()> is_cancelled = nullptr);

  // Ends the session. True for the first call.
  bool End();
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // For those who watch it; becomes true once.
  const std::atomic<bool>& ended_flag() const { return ended_; }

  // True if the session should end by itself: no side connection, and either
  // its last stream has ended, or been given up by a client that has died, or
  // it never had one and is older than `grace`.
  bool IsAbandoned(Clock::time_point now, Clock::duration grace);
  bool opened_streams();

  int stream_count();

  // Bytes of batches that its streams have read and not executed.
  std::atomic<uint64_t>& queued_bytes() { return queued_bytes_; }

  // What its streams did last; each as long as its stream lives.
  void AddRecorder(const std::shared_ptr<FlightRecorder>& recorder);
  std::vector<std::shared_ptr<FlightRecorder>> recorders();

 private:
  struct Call {
    uint64_t id;
    std::function<void()> cancel;
    std::function<bool()> is_cancelled;  // may be null
  };

  Session(SessionOptions options, TvarantRuntime& runtime, BusyTracker& busy,
          std::unique_ptr<ProgressBoard> board);
  void EndStreamCall(uint64_t call, int stream);
  std::shared_ptr<SideChannel> side();

  const SessionOptions options_;
  const Clock::time_point opened_at_ = Clock::now();
  BusyTracker& busy_;
  const std::unique_ptr<ProgressBoard> board_;
  SessionResources resources_;
  BulkExchange bulk_;
  DeviceGate::Member gate_member_;
  BusyTracker::Member busy_member_;
  std::atomic<uint64_t> command_count_{0};
  std::atomic<uint64_t> queued_bytes_{0};
  std::atomic<bool> ended_{false};

  base::Mutex mutex_;
  // Shared with the listener, which watches it.
  std::shared_ptr<SideChannel> side_ ABSL_GUARDED_BY(mutex_);
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_call_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::weak_ptr<FlightRecorder>> recorders_ ABSL_GUARDED_BY(mutex_);
  bool opened_streams_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_SESSION_H_

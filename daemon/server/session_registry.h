// SessionRegistry: all sessions of the daemon, found by their tokens.

#ifndef TVARANT_DAEMON_SERVER_SESSION_REGISTRY_H_
#define TVARANT_DAEMON_SERVER_SESSION_REGISTRY_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/metrics/counters.h"
#include "daemon/runtime/runtime.h"
#include "daemon/scheduler/busy_tracker.h"
#include "daemon/server/session.h"
#include "daemon/server/user_table.h"
#include "proto/base/mutex.h"

namespace tvarant {

struct SessionLimits {
  uint64_t max_sessions = 256;
  // A session that its client never used ends after this.
  std::chrono::milliseconds grace{30000};
};

// Thread-safe. Sessions are shared with the calls that use them.
class SessionRegistry {
 public:
  // The references must outlive the registry.
  SessionRegistry(TvarantRuntime& runtime, BusyTracker& busy,
                  Counters& counters, UserTable& users,
                  const SessionLimits& limits);
  // Ends all sessions.
  ~SessionRegistry();

  // RESOURCE_EXHAUSTED at a limit; UNAVAILABLE after Drain() and while paused;
  // INVALID_ARGUMENT for an unknown device.
  absl::StatusOr<std::shared_ptr<Session>> Open(const PeerCredentials& peer,
                                                std::string client_name,
                                                int device);

  // The session of a token, for a connection of its user. UNAUTHENTICATED,
  // with one text for every reason, otherwise. Takes the same time whatever
  // part of a token is right.
  absl::StatusOr<std::shared_ptr<Session>> Find(std::string_view token,
                                                const PeerCredentials& peer);

  // Ends the session; `reason` is for the log. Nothing if it has ended.
  void End(const std::shared_ptr<Session>& session, const char* reason);

  // Ends the session if nothing holds it any more.
  void EndIfAbandoned(const std::shared_ptr<Session>& session);

  // To be called now and then: ends abandoned sessions.
  void Sweep();

  // While paused, new sessions are refused and those that are go on.
  void SetPaused(bool paused);
  bool paused();

  // Refuses new sessions from now on. EndAll ends those that are.
  void Drain();
  void EndAll(const char* reason);

  std::vector<std::shared_ptr<Session>> List();
  size_t size();

 private:
  TvarantRuntime& runtime_;
  BusyTracker& busy_;
  Counters& counters_;
  UserTable& users_;
  const SessionLimits limits_;

  base::Mutex mutex_;
  struct Entry {
    std::shared_ptr<Session> session;
    UserClaim claim;
  };
  // By the first eight bytes of the token, which are as good as public: the
  // time of a look-up may tell them. The rest is compared in constant time.
  absl::flat_hash_map<uint64_t, Entry> sessions_ ABSL_GUARDED_BY(mutex_);
  uint64_t opening_ ABSL_GUARDED_BY(mutex_) = 0;  // counted, not yet listed
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_SESSION_REGISTRY_H_

// Janitor: the daemon's one background thread.
//
// Ends sessions whose client is gone (freeing gigabytes takes a while, and the
// listener must not wait for it) and does what has to be done now and then:
// idle hints, abandoned sessions.

#ifndef TVARANT_DAEMON_SERVER_JANITOR_H_
#define TVARANT_DAEMON_SERVER_JANITOR_H_

#include <memory>
#include <thread>
#include <vector>

#include "daemon/scheduler/busy_tracker.h"
#include "daemon/server/session_registry.h"
#include "proto/base/mutex.h"

namespace tvarant {

// Thread-safe.
class Janitor {
 public:
  // The references must outlive the janitor.
  Janitor(SessionRegistry& sessions, BusyTracker& busy);
  ~Janitor();

  // Ends the session soon. Each session comes here once at most, so the queue
  // is bounded by their number.
  void EndSoon(std::shared_ptr<Session> session);

 private:
  void Run();

  SessionRegistry& sessions_;
  BusyTracker& busy_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::shared_ptr<Session>> gone_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_JANITOR_H_

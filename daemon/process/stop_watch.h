// StopWatch: waits for the reason to end: a signal, or the end of the parent.
//
// A private daemon serves one process and ends with it. PR_SET_PDEATHSIG would
// fire when the thread that started the daemon ends, and the end of a socket is
// held up by forked children; so the parent is watched through a pidfd, which
// shows the end of the whole process and can't be confused by a reused number.

#ifndef TVARANT_DAEMON_PROCESS_STOP_WATCH_H_
#define TVARANT_DAEMON_PROCESS_STOP_WATCH_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/base/unique_fd.h"

namespace tvarant {

// Thread-compatible.
class StopWatch {
 public:
  // Blocks SIGTERM, SIGINT and SIGHUP in the calling thread; call it before
  // other threads start, so that they inherit that. parent 0: no parent to
  // watch. FAILED_PRECONDITION if `parent` is not (or no longer) the parent.
  static absl::StatusOr<std::unique_ptr<StopWatch>> Create(pid_t parent);

  // Waits for SIGTERM, SIGINT or the parent's end, and returns which it was:
  // "SIGTERM", "SIGINT", "parent_ended", "clients_gone". The last is a second
  // sign where the kernel has no pidfd: with a parent to watch, `clients` (may
  // be null) has been above 0 and then 0 for some time.
  // At SIGHUP calls on_reload and waits on.
  std::string Wait(const std::function<size_t()>& clients,
                   const std::function<void()>& on_reload);

 private:
  StopWatch() = default;

  base::UniqueFd signals_;
  base::UniqueFd parent_fd_;  // none: no parent, or no pidfd on this kernel
  pid_t parent_ = 0;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_PROCESS_STOP_WATCH_H_

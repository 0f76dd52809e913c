// Watchdog: tells systemd that the daemon lives, as long as it proves it.
//
// A timer alone would say "alive" while the device hangs. So before each sign a
// probe runs; the daemon's passes the scheduler's gate as a command would
// (Server::PassGate). A probe that does not come back is not followed by a
// sign, and systemd ends the process (SIGABRT, which logs what was running).
//
// Example:
//   Watchdog watchdog(WatchdogTimeout(), [&] { server->PassGate(); });

#ifndef TVARANT_DAEMON_PROCESS_WATCHDOG_H_
#define TVARANT_DAEMON_PROCESS_WATCHDOG_H_

#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "proto/base/mutex.h"

namespace tvarant {

// Thread-compatible.
class Watchdog {
 public:
  // Runs `probe` four times in `timeout` on a thread of its own, from now on;
  // nothing without a timeout.
  Watchdog(std::optional<std::chrono::microseconds> timeout,
           std::function<void()> probe);
  // Waits for a probe that runs.
  ~Watchdog();

 private:
  void Run(std::chrono::microseconds period);

  const std::function<void()> probe_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_PROCESS_WATCHDOG_H_

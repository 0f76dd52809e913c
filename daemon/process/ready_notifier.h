// ReadyNotifier: tells whoever started the daemon that it serves, or why not.
//
// Two ways: systemd's notify socket ($NOTIFY_SOCKET), and a descriptor that the
// starting process gave (--ready-fd), on which one line arrives: "ready", or
// "error: " and a sentence.

#ifndef TVARANT_DAEMON_PROCESS_READY_NOTIFIER_H_
#define TVARANT_DAEMON_PROCESS_READY_NOTIFIER_H_

#include <chrono>
#include <string>
#include <string_view>

#include "proto/base/unique_fd.h"

namespace tvarant {

// Thread-compatible.
class ReadyNotifier {
 public:
  // Owns the descriptor unless it is -1.
  explicit ReadyNotifier(int ready_fd) : ready_fd_(ready_fd) {}

  void Ready();
  void Failed(std::string_view sentence);
  // `at_most`: how long the end may take; systemd waits that long.
  void Stopping(std::chrono::seconds at_most);

 private:
  void WriteLine(std::string line);

  base::UniqueFd ready_fd_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_PROCESS_READY_NOTIFIER_H_

// ReadyNotifier: tells whoever started the daemon that it serves, or why not.
//
// Two ways: systemd's notify socket ($NOTIFY_SOCKET), and a descriptor that the
// starting process gave (--ready-fd), on which one line arrives: "ready", or
// "error: " and a sentence.

#ifndef TVARANT_DAEMON_PROCESS_READY_NOTIFIER_H_
#define TVARANT_DAEMON_PROCESS_READY_NOTIFIER_H_

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
  void Stopping();

 private:
  void WriteLine(std::string line);

  base::UniqueFd ready_fd_;
};

// Sends one state ("READY=1") to $NOTIFY_SOCKET. False if there is none or it
// does not take it.
bool NotifySystemd(std::string_view state);

}  // namespace tvarant

#endif  // TVARANT_DAEMON_PROCESS_READY_NOTIFIER_H_

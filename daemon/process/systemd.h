// What systemd gives to a service, and what it wants to hear from it: sockets
// that it has bound ("socket activation"), states, the watchdog.
//
// Spoken here without libsystemd, as sd_listen_fds(3) and sd_notify(3) suggest:
// the protocol is three environment variables and a datagram, and a private
// daemon in a Python wheel should not need that library's dependencies. Without
// systemd there are no sockets, no watchdog, and states go nowhere.
//
// Example:
//   ASSIGN_OR_RETURN(auto sockets, TakeActivatedSockets());
//   NotifySystemd("READY=1");

#ifndef TVARANT_DAEMON_PROCESS_SYSTEMD_H_
#define TVARANT_DAEMON_PROCESS_SYSTEMD_H_

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/unique_fd.h"

namespace tvarant {

// The sockets passed to this process ($LISTEN_PID, $LISTEN_FDS), close-on-exec;
// none if they are meant for another process. Forgets the variables, so that
// children don't take them for theirs, and so that a second call gives none:
// call it once, before there are other threads. INVALID_ARGUMENT for variables
// that are no numbers, descriptors that are not open, or more than 64 of them.
absl::StatusOr<std::vector<base::UniqueFd>> TakeActivatedSockets();

// Sends states ("READY=1", several separated by '\n') to $NOTIFY_SOCKET. False
// if there is none or it does not take them. Thread-safe.
bool NotifySystemd(std::string_view state);

// How long the watchdog ($WATCHDOG_USEC) waits for a sign of life from this
// process; nullopt if nobody watches it.
std::optional<std::chrono::microseconds> WatchdogTimeout();

}  // namespace tvarant

#endif  // TVARANT_DAEMON_PROCESS_SYSTEMD_H_

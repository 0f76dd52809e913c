// Server: everything between the sockets and a runtime.
//
// Example:
//   ASSIGN_OR_RETURN(auto server, Server::Start({.listen = {"unix:/tmp/s"}},
//                                               *runtime));
//   WaitForSignal();
//   server->Drain(std::chrono::seconds(5));

#ifndef TVARANT_DAEMON_SERVER_SERVER_H_
#define TVARANT_DAEMON_SERVER_SERVER_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/metrics/counters.h"
#include "daemon/runtime/runtime.h"
#include "daemon/server/listener.h"
#include "daemon/server/session_registry.h"

namespace tvarant {

struct ServerOptions {
  std::vector<std::string> listen;  // "unix:PATH"
  mode_t socket_mode = 0660;
  std::string socket_group;
  ListenerOptions connections;
  SessionLimits sessions;
  uint64_t max_streams = 1024;
  int device_width = 1;  // streams that may run commands at a time
};

class Server {
 public:
  // Serves until Drain. The runtime must outlive the server. Errors: those of
  // ListeningSocket; INTERNAL if gRPC does not start.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ServerOptions& options, TvarantRuntime& runtime);
  virtual ~Server() = default;

  // Stops accepting and removes the sockets; lets commands that run finish
  // within `timeout`; ends all sessions and calls. Waits for all that, bounded
  // by the timeout and a short while. Once.
  virtual void Drain(std::chrono::milliseconds timeout) = 0;

  // Clients that are attached by a side connection.
  virtual size_t attached_clients() const = 0;
  virtual const Counters& counters() const = 0;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_SERVER_H_

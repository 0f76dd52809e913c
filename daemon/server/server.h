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
#include "daemon/server/tcp_server.h"
#include "daemon/server/user_table.h"

namespace tvarant {

struct ServerOptions {
  std::vector<std::string> listen;  // "unix:PATH"
  // Sockets that are bound already; one whose path is in `listen` stands for
  // that endpoint. Taken by Start.
  std::vector<ListeningSocket> adopted;
  mode_t socket_mode = 0660;
  std::string socket_group;
  ListenerOptions connections;
  TcpOptions tcp;
  SessionLimits sessions;
  UserPolicies users;
  uint64_t max_streams = 1024;
  std::string admin_group;  // empty: none
  std::string metrics;   // "127.0.0.1:PORT" of the metrics; empty: not served
  int device_width = 1;  // streams that may run commands at a time
};

class Server {
 public:
  // Serves until Drain. The runtime must outlive the server. Errors: those of
  // ListeningSocket; INTERNAL if gRPC does not start.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options,
                                                       TvarantRuntime& runtime);
  virtual ~Server() = default;

  // Stops accepting and removes the sockets; lets commands that run finish
  // within `timeout`; ends all sessions and calls. Waits for all that, bounded
  // by the timeout and a short while. Once.
  virtual void Drain(std::chrono::milliseconds timeout) = 0;

  // Enters and leaves the device's gate as a command would: returns soon unless
  // the device hangs. Of one thread at a time.
  virtual void PassGate() = 0;

  // Limits and shares of users from now on. Sessions that are open keep their
  // own limits.
  virtual void SetUsers(UserPolicies users) = 0;

  // Clients that are attached by a side connection.
  virtual size_t attached_clients() const = 0;
  virtual const Counters& counters() const = 0;

  // "tcp://HOST:PORT", with the ports that the system chose for 0.
  virtual std::vector<std::string> tcp_endpoints() const = 0;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_SERVER_H_

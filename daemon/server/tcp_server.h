// TcpServer: DeviceService for peers on other machines.
//
// A gRPC server of its own on gRPC's own TCP listener, apart from the one that
// serves the Unix sockets: it has no admin calls, wants TLS, and finds dead
// peers by keepalive, since no side connection tells of them.
//
// Example:
//   ASSIGN_OR_RETURN(auto server, TcpServer::Start(options, service, 1024));
//   server->Shutdown(std::chrono::milliseconds(500));

#ifndef TVARANT_DAEMON_SERVER_TCP_SERVER_H_
#define TVARANT_DAEMON_SERVER_TCP_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace tvarant {

struct TcpOptions {
  std::vector<std::string> listen;  // "HOST:PORT"; empty: no TCP
  std::string cert_file;            // PEM: the daemon's, then its issuers'
  std::string key_file;             // PEM; not open to every user
  std::string client_ca_file;       // PEM: who signs clients' certificates
  std::string token_file;           // see RemotePeers
  // Without TLS, on loopback addresses alone.
  bool allow_plain = false;

  bool is_plain() const { return cert_file.empty() && allow_plain; }
};

// What can be said of the options before anything is opened. INVALID_ARGUMENT
// where anybody could come in, or something is missing.
absl::Status CheckTcpOptions(const TcpOptions& options);

class TcpServer {
 public:
  // `service` must outlive the server. UNAVAILABLE for an address that can't be
  // bound, INVALID_ARGUMENT for files that can't be used.
  static absl::StatusOr<std::unique_ptr<TcpServer>> Start(
      const TcpOptions& options, grpc::Service& service, uint64_t max_threads);

  // Refuses new calls, and ends those that are after the timeout. Once.
  void Shutdown(std::chrono::milliseconds timeout);

  // "tcp://HOST:PORT", with the ports that the system chose for 0.
  const std::vector<std::string>& endpoints() const { return endpoints_; }

 private:
  TcpServer() = default;

  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> endpoints_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_TCP_SERVER_H_

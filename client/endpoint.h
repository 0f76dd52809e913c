// Where a daemon listens, and the way to it.
//
// Example:
//   auto endpoint = Endpoint::Parse("unix:/run/tvarant/tvarant.sock");
//   auto fd = endpoint.value().Connect(deadline);
//
// A tcp endpoint is connected by gRPC (client/remote.h).

#ifndef TVARANT_CLIENT_ENDPOINT_H_
#define TVARANT_CLIENT_ENDPOINT_H_

#include <chrono>
#include <string>

#include "client/client.h"
#include "proto/base/unique_fd.h"

namespace tvarant::client {

using Deadline = std::chrono::steady_clock::time_point;

class Endpoint {
 public:
  Endpoint() = default;

  // "unix:PATH", "unix:///PATH" or "tcp://HOST:PORT", an IPv6 address in
  // brackets. INVALID_ARGUMENT for anything else and for a path that is empty
  // or too long for a socket.
  static Result<Endpoint> Parse(const std::string& text);

  bool is_tcp() const { return !address_.empty(); }
  const std::string& path() const { return path_; }        // of a socket
  const std::string& address() const { return address_; }  // "HOST:PORT"
  // This machine by its address, or "localhost".
  bool is_loopback() const;
  // As a person writes it.
  std::string text() const {
    return is_tcp() ? "tcp://" + address_ : "unix:" + path_;
  }

  // A connected stream socket, close-on-exec, blocking. UNAVAILABLE when
  // nobody listens, PERMISSION_DENIED when the file's mode forbids it, each
  // with one sentence that names the path. At most until the deadline. Not
  // for tcp.
  Result<base::UniqueFd> Connect(Deadline deadline) const;

 private:
  static Result<Endpoint> ParseTcp(const std::string& text);

  std::string path_;
  std::string address_;
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_ENDPOINT_H_

// Where a daemon listens, and the way to it.
//
// Example:
//   auto endpoint = Endpoint::Parse("unix:/run/tvarant/tvarant.sock");
//   auto fd = endpoint.value().Connect(deadline);

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

  // "unix:PATH" or "unix:///PATH". INVALID_ARGUMENT for anything else and for
  // a path that is empty or too long for a socket.
  static Result<Endpoint> Parse(const std::string& text);

  const std::string& path() const { return path_; }
  // As a person writes it: "unix:PATH".
  std::string text() const { return "unix:" + path_; }

  // A connected stream socket, close-on-exec, blocking. UNAVAILABLE when
  // nobody listens, PERMISSION_DENIED when the file's mode forbids it, each
  // with one sentence that names the path. At most until the deadline.
  Result<base::UniqueFd> Connect(Deadline deadline) const;

 private:
  std::string path_;
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_ENDPOINT_H_

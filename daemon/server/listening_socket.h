// ListeningSocket: a Unix socket that only one daemon can serve.
//
// A lock on PATH.lock decides who serves PATH; the lock goes with its process,
// however that ends, so a socket that is left over is known to be stale and is
// replaced, and one that is in use is left alone. A socket that systemd has
// bound is served in the same way, under the same lock, and left where it is.

#ifndef TVARANT_DAEMON_SERVER_LISTENING_SOCKET_H_
#define TVARANT_DAEMON_SERVER_LISTENING_SOCKET_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "proto/base/unique_fd.h"

namespace tvarant {

// Thread-compatible. The destructor removes the lock, and a socket that was
// bound here.
class ListeningSocket {
 public:
  struct Options {
    std::string path;
    mode_t mode = 0660;
    std::string group = {};  // empty: the process's
  };

  // "unix:PATH" -> PATH. INVALID_ARGUMENT for other schemes and for paths that
  // are empty or do not fit a socket's address.
  static absl::StatusOr<std::string> ParsePath(const std::string& endpoint);

  // UNAVAILABLE when another process serves the path (its pid is in the text);
  // FAILED_PRECONDITION when something that is no socket is in the way; other
  // errors from the system. Non-blocking.
  static absl::StatusOr<ListeningSocket> Bind(const Options& options);

  // A listening Unix stream socket with a path, bound by another process.
  // INVALID_ARGUMENT for any other; UNAVAILABLE as with Bind.
  static absl::StatusOr<ListeningSocket> Adopt(base::UniqueFd socket);

  ListeningSocket(ListeningSocket&&) noexcept = default;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  int fd() const { return socket_.get(); }
  const std::string& path() const { return path_; }

 private:
  ListeningSocket() = default;

  std::string path_;
  base::UniqueFd lock_;
  base::UniqueFd socket_;
  bool bound_here_ = false;
  dev_t device_ = 0;  // of the socket's file, to remove no other
  ino_t inode_ = 0;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_LISTENING_SOCKET_H_

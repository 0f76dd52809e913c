// NotifySocket: systemd's end of $NOTIFY_SOCKET, in a test.
//
//   NotifySocket socket(folder + "/notify");
//   ... a process with NOTIFY_SOCKET=socket.path() ...
//   EXPECT_EQ(socket.Receive(10s), "READY=1\nSTATUS=serving");

#ifndef TVARANT_DAEMON_PROCESS_NOTIFY_SOCKET_H_
#define TVARANT_DAEMON_PROCESS_NOTIFY_SOCKET_H_

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <string>

#include "proto/base/unique_fd.h"

namespace tvarant {

// Thread-compatible.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path)
      : path_(path), fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address),
               sizeof(address)) != 0) {
      fd_.reset();
    }
  }

  const std::string& path() const { return path_; }

  // The next message; empty when none comes in time.
  std::string Receive(std::chrono::milliseconds timeout) {
    pollfd entry{fd_.get(), POLLIN, 0};
    char text[512];
    if (::poll(&entry, 1, static_cast<int>(timeout.count())) <= 0) return "";
    const ssize_t got = ::recv(fd_.get(), text, sizeof(text), 0);
    return got <= 0 ? "" : std::string(text, static_cast<size_t>(got));
  }

 private:
  const std::string path_;
  base::UniqueFd fd_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_PROCESS_NOTIFY_SOCKET_H_

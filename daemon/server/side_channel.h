// SideChannel: the daemon's end of a side connection (proto/wire/
// side_protocol.h), for sending descriptors to a local client.

#ifndef TVARANT_DAEMON_SERVER_SIDE_CHANNEL_H_
#define TVARANT_DAEMON_SERVER_SIDE_CHANNEL_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "proto/base/mutex.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/side_protocol.h"

namespace tvarant {

// Thread-safe. The listener watches the descriptor for the connection's end.
class SideChannel {
 public:
  explicit SideChannel(base::UniqueFd fd) : fd_(std::move(fd)) {}

  // Sends one message, with passed_fd unless it is -1. A client that does not
  // take it within two seconds gets UNAVAILABLE, as does one that is gone.
  absl::Status Send(SideKind kind, uint64_t handle, uint64_t size_bytes,
                    int passed_fd);

  // Ends the connection; the listener notices and forgets it.
  void Shutdown();

  int fd() const { return fd_.get(); }

 private:
  const base::UniqueFd fd_;
  base::Mutex send_mutex_;  // messages don't mix
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_SIDE_CHANNEL_H_

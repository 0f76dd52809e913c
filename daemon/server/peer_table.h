// PeerTable: which user is behind a gRPC call.
//
// gRPC says of a connection that was handed to it only "fd:N". The listener
// notes here whose connection descriptor N is, until it ends.

#ifndef TVARANT_DAEMON_SERVER_PEER_TABLE_H_
#define TVARANT_DAEMON_SERVER_PEER_TABLE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "proto/base/mutex.h"

namespace tvarant {

// From SO_PEERCRED: who connected, at that moment.
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
  // Over TCP: the name that the peer has proved; uid is a number for it. Empty:
  // a user of this machine.
  std::string remote_user{};

  bool is_remote() const { return !remote_user.empty(); }
};

// Thread-safe.
class PeerTable {
 public:
  // A descriptor number is used again once it is closed, so an entry is taken
  // out only by the connection that put it in.
  void Add(int fd, uint64_t connection, const PeerCredentials& credentials);
  void Remove(int fd, uint64_t connection);

  // `peer` is ServerContext::peer(). Nothing for any other kind of peer.
  std::optional<PeerCredentials> Find(const std::string& peer) const;

 private:
  struct Entry {
    uint64_t connection;
    PeerCredentials credentials;
  };
  mutable base::Mutex mutex_;
  absl::flat_hash_map<int, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_PEER_TABLE_H_

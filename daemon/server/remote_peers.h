// RemotePeers: which user is behind a call that came over TCP.
//
// A client certificate names the user (first subject alternative name, else
// common name), or a token that the call brings as "authorization: Bearer".
// Each name gets a number of its own, from a range that no system gives to its
// users, so that limits by user hold for it as for a local one.
//
// Example:
//   ASSIGN_OR_RETURN(auto peers, RemotePeers::Create({.token_file = path}));
//   ASSIGN_OR_RETURN(PeerCredentials peer, peers->Authenticate(call));

#ifndef TVARANT_DAEMON_SERVER_REMOTE_PEERS_H_
#define TVARANT_DAEMON_SERVER_REMOTE_PEERS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/server/peer_table.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/mutex.h"

namespace tvarant {

// Numbers of remote users start here.
inline constexpr uid_t kFirstRemoteUid = 0xF0000000;

struct RemotePeersOptions {
  std::string token_file;  // empty: no tokens
  // Connections without TLS: who has no token is user "plain", if there are no
  // tokens at all.
  bool is_plain = false;
};

// Thread-safe.
class RemotePeers {
 public:
  // INVALID_ARGUMENT, with file and line, for a token file that can't be used.
  static absl::StatusOr<std::unique_ptr<RemotePeers>> Create(
      const RemotePeersOptions& options);

  // UNAUTHENTICATED, with one text for every reason, if nobody known calls.
  absl::StatusOr<PeerCredentials> Authenticate(const grpc::ServerContext& call);

  // As Authenticate, from what a call shows: the names of its certificate, and
  // the value of its "authorization".
  absl::StatusOr<PeerCredentials> Identify(
      const std::vector<std::string_view>& certificate_names,
      std::string_view authorization);

 private:
  struct Token {
    std::string user;
    std::string secret;
  };

  explicit RemotePeers(bool is_plain) : is_plain_(is_plain) {}
  absl::Status ReadTokens(const std::string& file);
  absl::StatusOr<PeerCredentials> Numbered(std::string_view user);

  const bool is_plain_;
  std::vector<Token> tokens_;

  base::Mutex mutex_;
  absl::flat_hash_map<std::string, uid_t> numbers_ ABSL_GUARDED_BY(mutex_);
};

// The whole of a file of at most `max_bytes`. INVALID_ARGUMENT that names it;
// with `is_secret` also if others than owner and group may read it.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path,
                                          size_t max_bytes, bool is_secret);

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_REMOTE_PEERS_H_

// What a daemon on another machine is told of who calls, and how we know that
// it is the right one.
//
// Session::Connect takes all of this from the environment; ConnectRemote is for
// programs that would rather say it.
//
// Example:
//   auto session = ConnectRemote({.endpoint = "tcp://card.example:7000"},
//                                {.ca_file = "ca.pem",
//                                 .cert_file = "alice.pem",
//                                 .key_file = "alice.key"});

#ifndef TVARANT_CLIENT_REMOTE_OPTIONS_H_
#define TVARANT_CLIENT_REMOTE_OPTIONS_H_

#include <memory>
#include <string>

#include "client/client.h"

namespace tvarant::client {

// What is empty comes from the environment variable beside it.
struct RemoteOptions {
  std::string ca_file{};      // TVARANT_TLS_CA; neither: the system's
  std::string cert_file{};    // TVARANT_TLS_CERT: ours, PEM
  std::string key_file{};     // TVARANT_TLS_KEY
  std::string token{};        // TVARANT_TOKEN
  std::string token_file{};   // TVARANT_TOKEN_FILE
  std::string server_name{};  // TVARANT_TLS_SERVER_NAME; neither: the host
  bool allow_plain = false;   // TVARANT_ALLOW_PLAIN_TCP=1: loopback alone
};

// As Session::Connect, which takes "unix:PATH" and "tcp://HOST:PORT". Besides
// its errors: INVALID_ARGUMENT for files that can't be used, PERMISSION_DENIED
// where the daemon does not know the token.
Result<std::shared_ptr<Session>> ConnectRemote(const ConnectOptions& options,
                                               const RemoteOptions& remote);

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_REMOTE_OPTIONS_H_

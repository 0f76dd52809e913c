// Credentials for a daemon on another machine, from files and environment.
//
// Example:
//   auto remote = RemoteCredentials::Load(endpoint, options.remote);
//   auto channel = remote.value().MakeChannel(endpoint);

#ifndef TVARANT_CLIENT_REMOTE_H_
#define TVARANT_CLIENT_REMOTE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "client/client.h"
#include "client/endpoint.h"
#include "client/remote_options.h"

namespace tvarant::client {

// Thread-compatible.
class RemoteCredentials {
 public:
  // Reads each file once. INVALID_ARGUMENT that names file and variable, for
  // what can't be read, is no PEM, is too large or does not fit together.
  static Result<RemoteCredentials> Load(const Endpoint& endpoint,
                                        const RemoteOptions& options);

  // A connection of its own. It is made at the first call.
  std::shared_ptr<grpc::Channel> MakeChannel(
      const Endpoint& endpoint, grpc::ChannelArguments arguments) const;

  // Adds the token, if there is one.
  void AddTo(grpc::ClientContext* context) const;

  // What the daemon has been shown, for the text of a refusal.
  const char* Describe() const;

 private:
  std::shared_ptr<grpc::ChannelCredentials> channel_;
  bool is_plain_ = false;
  bool has_certificate_ = false;
  std::string authorization_;  // empty: no token
  std::string server_name_;    // empty: that of the endpoint
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_REMOTE_H_

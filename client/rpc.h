// Rpc: the gRPC connection of one session.
//
// A Unix socket is connected by us and handed to gRPC, so that a missing or
// dead socket is known at once, nothing is resolved or proxied, and gRPC never
// reconnects behind the session's back. TCP with TLS is gRPC's own; should it
// reconnect, the session's token is what the daemon goes by.

#ifndef TVARANT_CLIENT_RPC_H_
#define TVARANT_CLIENT_RPC_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "client/client.h"
#include "client/endpoint.h"
#include "client/remote.h"
#include "proto/tvarant/v1/device.grpc.pb.h"

namespace tvarant::client {

// A status with the same code (those that client::Code has not become
// INTERNAL or PERMISSION_DENIED).
Status FromGrpc(const grpc::Status& status);

// Thread-safe.
class Rpc {
 public:
  using Stub = v1::DeviceService::Stub;

  // `remote` is for a tcp endpoint, which is connected by the first call.
  static Result<std::unique_ptr<Rpc>> Connect(const Endpoint& endpoint,
                                              const RemoteOptions& remote,
                                              Deadline deadline);

  // The first call; keeps the token. Every fault that means "this is no
  // tvarantd" is UNAVAILABLE with one sentence.
  Status OpenSession(const v1::OpenSessionRequest& request,
                     v1::OpenSessionResponse* response, Deadline deadline);

  // A unary call. `method` is a member of Stub.
  template <typename Request, typename Response>
  Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                           Response*),
              const Request& request, Response* response,
              std::chrono::milliseconds timeout) {
    grpc::ClientContext context;
    AddToken(&context);
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    return FromGrpc((stub_.get()->*method)(&context, request, response));
  }

  // Calls on a connection of its own, to the same daemon.
  Result<std::unique_ptr<Stub>> MakeBulkStub(Deadline deadline) const;

  // The error of a session whose daemon is gone: one sentence, which begins
  // with DEVICE_LOST. `why` may be empty.
  Status Lost(const std::string& why) const;

  void AddToken(grpc::ClientContext* context) const;
  Stub& stub() { return *stub_; }
  const std::string& token() const { return token_; }

 private:
  explicit Rpc(const Endpoint& endpoint) : endpoint_(endpoint) {}

  Status ConnectTcp(const RemoteOptions& remote);

  Endpoint endpoint_;
  RemoteCredentials credentials_;  // of a tcp endpoint
  std::unique_ptr<Stub> stub_;
  std::string token_;
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_RPC_H_

// AdminClient: tvarantctl's connection to a daemon.
//
// Example:
//   auto client = AdminClient::Connect("unix:/run/tvarant/tvarant.sock", 5s);
//   auto status = client.value()->GetStatus();

#ifndef TVARANT_CLIENT_CTL_ADMIN_CLIENT_H_
#define TVARANT_CLIENT_CTL_ADMIN_CLIENT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "client/client.h"
#include "proto/tvarant/v1/admin.grpc.pb.h"

namespace tvarant::client {

// Thread-compatible. Each call takes as long as the timeout at most.
class AdminClient {
 public:
  using Stub = v1::AdminService::Stub;

  // Errors: those of Endpoint::Parse and Endpoint::Connect.
  static Result<std::unique_ptr<AdminClient>> Connect(
      const std::string& endpoint, std::chrono::milliseconds timeout);

  // A call of the service. `method` is a member of Stub.
  template <typename Request, typename Response>
  Result<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                     const Request&, Response*),
                        const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout_);
    Response response;
    const Status status =
        Explain((stub_.get()->*method)(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }

  // Reads a trace for so long; `on_response` is called for each part.
  Status Trace(
      std::chrono::milliseconds duration,
      const std::function<void(const v1::TraceResponse&)>& on_response);

 private:
  AdminClient() = default;
  // The status, with the endpoint in its text.
  Status Explain(const grpc::Status& status) const;

  std::string endpoint_;
  std::chrono::milliseconds timeout_{};
  std::unique_ptr<Stub> stub_;
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_CTL_ADMIN_CLIENT_H_

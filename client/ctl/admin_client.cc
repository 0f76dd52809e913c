#include "client/ctl/admin_client.h"

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include <utility>

#include "client/endpoint.h"
#include "client/rpc.h"

namespace tvarant::client {

Result<std::unique_ptr<AdminClient>> AdminClient::Connect(
    const std::string& endpoint, std::chrono::milliseconds timeout) {
  Result<Endpoint> parsed = Endpoint::Parse(endpoint);
  if (!parsed.ok()) return parsed.status();
  if (parsed.value().is_tcp()) {
    return Status(Code::kInvalidArgument,
                  "a daemon is asked and steered on its own machine: give its "
                  "unix:PATH, not " +
                      endpoint);
  }
  Result<base::UniqueFd> fd =
      parsed.value().Connect(std::chrono::steady_clock::now() + timeout);
  if (!fd.ok()) return fd.status();
  std::unique_ptr<AdminClient> client(new AdminClient);
  client->endpoint_ = parsed.value().text();
  client->timeout_ = timeout;
  // gRPC owns the descriptor from here on.
  client->stub_ = v1::AdminService::NewStub(
      grpc::CreateInsecureChannelFromFd("tvarantd", fd.value().release()));
  return client;
}

Status AdminClient::Explain(const grpc::Status& status) const {
  const Status plain = FromGrpc(status);
  switch (plain.code()) {
    case Code::kOk:
    case Code::kNotFound:
    case Code::kPermissionDenied:
    case Code::kResourceExhausted:
    case Code::kInvalidArgument:
      return plain;
    case Code::kDeadlineExceeded:
      return Status(Code::kUnavailable,
                    "what listens at " + endpoint_ + " does not answer");
    case Code::kUnimplemented:
      return Status(Code::kUnimplemented,
                    "tvarantd at " + endpoint_ +
                        " is older than this tvarantctl: " + plain.message());
    default:
      return Status(plain.code(),
                    "tvarantd at " + endpoint_ + ": " + plain.message());
  }
}

Status AdminClient::Trace(
    std::chrono::milliseconds duration,
    const std::function<void(const v1::TraceResponse&)>& on_response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + duration);
  const auto reader = stub_->Trace(&context, v1::TraceRequest());
  v1::TraceResponse response;
  while (reader->Read(&response)) on_response(response);
  const grpc::Status status = reader->Finish();
  // The deadline is the end that was asked for.
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return Status();
  }
  return Explain(status);
}

}  // namespace tvarant::client

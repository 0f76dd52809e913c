#include "client/rpc.h"

#include <grpcpp/create_channel_posix.h>

#include "proto/wire/channel.h"

namespace tvarant::client {
namespace {

Code ToCode(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return Code::kOk;
    case grpc::StatusCode::CANCELLED:
      return Code::kCancelled;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return Code::kInvalidArgument;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Code::kDeadlineExceeded;
    case grpc::StatusCode::NOT_FOUND:
      return Code::kNotFound;
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return Code::kPermissionDenied;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Code::kResourceExhausted;
    case grpc::StatusCode::FAILED_PRECONDITION:
      return Code::kFailedPrecondition;
    case grpc::StatusCode::OUT_OF_RANGE:
      return Code::kOutOfRange;
    case grpc::StatusCode::UNIMPLEMENTED:
      return Code::kUnimplemented;
    case grpc::StatusCode::UNAVAILABLE:
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Probing the bandwidth-delay product costs pings; a local socket has none.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  return arguments;
}

}  // namespace

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return Status();
  return Status(ToCode(status.error_code()), status.error_message());
}

Result<std::unique_ptr<Rpc>> Rpc::Connect(const Endpoint& endpoint,
                                          Deadline deadline) {
  Result<base::UniqueFd> fd = endpoint.Connect(deadline);
  if (!fd.ok()) return fd.status();
  std::unique_ptr<Rpc> rpc(new Rpc(endpoint));
  // gRPC owns the descriptor from here on.
  rpc->stub_ =
      v1::DeviceService::NewStub(grpc::CreateCustomInsecureChannelFromFd(
          "tvarantd", fd.value().release(), Arguments()));
  return rpc;
}

Status Rpc::OpenSession(const v1::OpenSessionRequest& request,
                        v1::OpenSessionResponse* response, Deadline deadline) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       (deadline - std::chrono::steady_clock::now()));
  const Status status =
      FromGrpc(stub_->OpenSession(&context, request, response));
  if (status.ok()) {
    if (response->token().size() != kSessionTokenBytes) {
      return Status(Code::kUnavailable,
                    "what answers at " + endpoint_.text() + " is not tvarantd");
    }
    token_ = response->token();
    return status;
  }
  switch (status.code()) {
    case Code::kDeadlineExceeded:
      return Status(Code::kUnavailable, "what listens at " + endpoint_.text() +
                                            " does not answer as tvarantd "
                                            "would");
    case Code::kUnavailable:
    case Code::kUnimplemented:
    case Code::kInternal:
    case Code::kCancelled:
      return Status(
          Code::kUnavailable,
          "what answers at " + endpoint_.text() +
              " is not tvarantd, or it is ending: " + status.message());
    default:
      return Status(status.code(), "tvarantd at " + endpoint_.text() +
                                       " refused: " + status.message());
  }
}

void Rpc::AddToken(grpc::ClientContext* context) const {
  context->AddMetadata(kSessionMetadataKey, token_);
}

}  // namespace tvarant::client

#include "client/rpc.h"

#include <grpcpp/create_channel_posix.h>

#include <algorithm>
#include <utility>

#include "client/status_macros.h"
#include "proto/wire/bulk.h"
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

grpc::ChannelArguments CommonArguments(int keepalive_time_ms,
                                       int keepalive_timeout_ms) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_time_ms);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_timeout_ms);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

grpc::ChannelArguments LocalArguments() {
  grpc::ChannelArguments arguments =
      CommonArguments(kKeepaliveTimeMs, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Probing the bandwidth-delay product costs pings; a local socket has none.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  return arguments;
}

// Between machines the window must hold what is under way, which gRPC learns
// from the bandwidth and delay that it measures.
grpc::ChannelArguments RemoteArguments() {
  grpc::ChannelArguments arguments =
      CommonArguments(kRemoteKeepaliveTimeMs, kRemoteKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  return arguments;
}

// gRPC's reports may have several lines.
std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return Status();
  return Status(ToCode(status.error_code()), status.error_message());
}

Result<std::unique_ptr<Rpc>> Rpc::Connect(const Endpoint& endpoint,
                                          const RemoteOptions& remote,
                                          Deadline deadline) {
  if (endpoint.is_tcp()) {
    std::unique_ptr<Rpc> rpc(new Rpc(endpoint));
    TVARANT_RETURN_IF_ERROR(rpc->ConnectTcp(remote));
    return rpc;
  }
  Result<base::UniqueFd> fd = endpoint.Connect(deadline);
  if (!fd.ok()) return fd.status();
  std::unique_ptr<Rpc> rpc(new Rpc(endpoint));
  // gRPC owns the descriptor from here on.
  rpc->stub_ =
      v1::DeviceService::NewStub(grpc::CreateCustomInsecureChannelFromFd(
          "tvarantd", fd.value().release(), LocalArguments()));
  return rpc;
}

Status Rpc::ConnectTcp(const RemoteOptions& remote) {
  Result<RemoteCredentials> credentials =
      RemoteCredentials::Load(endpoint_, remote);
  if (!credentials.ok()) return credentials.status();
  credentials_ = std::move(credentials.value());
  stub_ = v1::DeviceService::NewStub(
      credentials_.MakeChannel(endpoint_, RemoteArguments()));
  return Status();
}

Status Rpc::OpenSession(const v1::OpenSessionRequest& request,
                        v1::OpenSessionResponse* response, Deadline deadline) {
  grpc::ClientContext context;
  credentials_.AddTo(&context);
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
  if (endpoint_.is_tcp() && (status.code() == Code::kUnavailable ||
                             status.code() == Code::kPermissionDenied)) {
    const bool is_refused = status.code() == Code::kPermissionDenied;
    return Status(
        status.code(),
        (is_refused ? "tvarantd at " + endpoint_.text() + " refused"
                    : "no tvarantd to be reached at " + endpoint_.text()) +
            " (asked " + credentials_.Describe() +
            "): " + OneLine(status.message()));
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

Result<std::unique_ptr<Rpc::Stub>> Rpc::MakeBulkStub(Deadline deadline) const {
  if (endpoint_.is_tcp()) {
    return v1::DeviceService::NewStub(
        credentials_.MakeChannel(endpoint_, RemoteArguments()));
  }
  Result<base::UniqueFd> fd = endpoint_.Connect(deadline);
  if (!fd.ok()) return fd.status();
  return v1::DeviceService::NewStub(grpc::CreateCustomInsecureChannelFromFd(
      "tvarantd", fd.value().release(), LocalArguments()));
}

Status Rpc::Lost(const std::string& why) const {
  std::string text = "DEVICE_LOST: the daemon at " + endpoint_.text() +
                     " is lost: it ended, it ended this session";
  if (endpoint_.is_tcp()) text += ", or the way to it broke";
  if (!why.empty()) text += " (" + OneLine(why) + ")";
  return Status(Code::kUnavailable, std::move(text));
}

void Rpc::AddToken(grpc::ClientContext* context) const {
  context->AddMetadata(kSessionMetadataKey, token_);
  credentials_.AddTo(context);
}

}  // namespace tvarant::client

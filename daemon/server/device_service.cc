#include "daemon/server/device_service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/server/grpc_status.h"
#include "proto/base/logging.h"
#include "proto/base/status_macros.h"
#include "proto/ops/op_table_hash.h"
#include "proto/ops/op_table_rows.h"
#include "tvarant_version.h"

namespace tvarant {
namespace {

constexpr char kTokenKey[] = "tvarant-session-bin";
constexpr size_t kMaxNameBytes = 256;

// Whether the daemon understands all that the client may send.
absl::Status CheckOpTables(const v1::OpenSessionRequest& request) {
  static const auto& known = *[] {
    auto* rows = new absl::flat_hash_set<uint64_t>;
    for (const OpTableRow& row : OpTableRows()) rows->insert(row.Packed());
    return rows;
  }();
  if (request.op_table_hash() == kOpTableHash) return absl::OkStatus();
  const auto& rows = request.op_rows();
  if (!rows.empty() && std::all_of(rows.begin(), rows.end(), [](uint64_t row) {
        return known.contains(row);
      })) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "tvarantd %s has op tables %016x, the client (version %s) has %016x, "
      "with ops that the daemon doesn't have: install the same version on both "
      "sides",
      kVersion, kOpTableHash, request.client_version(),
      request.op_table_hash()));
}

absl::Status CheckOpenRequest(const v1::OpenSessionRequest& request) {
  if (request.client_name().size() > kMaxNameBytes ||
      request.client_version().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "client name or version is longer than ", kMaxNameBytes, " bytes"));
  }
  if (request.min_protocol() > request.max_protocol() ||
      request.max_protocol() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("protocol range ", request.min_protocol(), " to ",
                     request.max_protocol(), " is empty"));
  }
  if (request.min_protocol() > kMaxProtocol ||
      request.max_protocol() < kMinProtocol) {
    return absl::FailedPreconditionError(absl::StrCat(
        "tvarantd ", kVersion, " speaks protocol ", kMinProtocol, " to ",
        kMaxProtocol, ", the client (version ", request.client_version(),
        ") speaks ", request.min_protocol(), " to ", request.max_protocol(),
        ": install the same version on both sides"));
  }
  return CheckOpTables(request);
}

void FillProperties(const TvarantRuntime& runtime,
                    const RuntimeDeviceProperties& from,
                    v1::DeviceProperties* to) {
  to->set_name(from.name);
  to->set_runtime(runtime.name());
  to->set_vendor(from.vendor);
  to->set_driver_version(from.driver_version);
  to->set_total_memory_bytes(from.total_memory_bytes);
  to->set_max_segment_bytes(from.max_buffer_bytes);
  to->set_compute_units(from.compute_units);
  to->set_simt_width(from.simt_width);
  to->set_instruction_set(from.instruction_set);
  to->set_device_count(runtime.device_count());
}

}  // namespace

absl::StatusOr<PeerCredentials> DeviceService::PeerOf(
    const grpc::ServerContext& call) const {
  const std::string name = call.peer();
  if (const auto peer = peers_.Find(name)) return *peer;
  // A connection of our own listener that has ended is no remote one.
  if (name.rfind("ipv4:", 0) == 0 || name.rfind("ipv6:", 0) == 0) {
    return remote_peers_.Authenticate(call);
  }
  return absl::UnauthenticatedError("the connection is not known");
}

absl::StatusOr<std::shared_ptr<Session>> DeviceService::SessionOf(
    const grpc::ServerContext& call) {
  ASSIGN_OR_RETURN(const PeerCredentials peer, PeerOf(call));
  const auto& metadata = call.client_metadata();
  const auto token = metadata.find(kTokenKey);
  if (token == metadata.end()) return sessions_.Find({}, peer);
  return sessions_.Find(
      std::string_view(token->second.data(), token->second.size()), peer);
}

grpc::Status DeviceService::OpenSession(grpc::ServerContext* call,
                                        const v1::OpenSessionRequest* request,
                                        v1::OpenSessionResponse* response) {
  const absl::Status status = Open(*call, *request, response);
  if (!status.ok()) {
    context_.counters.Add(Counter::kSessionsRefused);
    static base::LogLimiter limiter(10, 1.0);
    if (limiter.Allow()) {
      const std::string text(status.message());
      spdlog::warn("event=session_refused client={} error={}",
                   base::LogValue(request->client_name()),
                   base::LogValue(text));
    }
  }
  return ToGrpc(status);
}

absl::Status DeviceService::Open(const grpc::ServerContext& call,
                                 const v1::OpenSessionRequest& request,
                                 v1::OpenSessionResponse* response) {
  ASSIGN_OR_RETURN(const PeerCredentials peer, PeerOf(call));
  RETURN_IF_ERROR(CheckOpenRequest(request));
  const int device = request.device_index();
  ASSIGN_OR_RETURN(const RuntimeDeviceProperties properties,
                   context_.runtime.GetProperties(device));
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                   sessions_.Open(peer, request.client_name(), device));
  response->set_protocol(std::min(request.max_protocol(), kMaxProtocol));
  response->set_token(session->token().data(), session->token().size());
  FillProperties(context_.runtime, properties, response->mutable_properties());
  const ResourceLimits& resources = session->limits();
  v1::Limits* limits = response->mutable_limits();
  limits->set_max_batch_bytes(kMaxBatchBytes);
  limits->set_max_streams(static_cast<uint32_t>(resources.max_streams));
  limits->set_max_programs(resources.max_programs);
  limits->set_max_segments(resources.max_segments);
  limits->set_max_session_bytes(resources.max_bytes);
  response->set_daemon_version(kVersion);
  response->set_memory_is_mappable(context_.runtime.memory_is_mappable());
  response->set_bulk_credit_bytes(BulkExchange::kCreditBytes);
  spdlog::info(
      "event=session_opened id={} pid={} uid={} remote_user={} client={} "
      "version={}",
      session->id(), peer.pid, peer.uid, base::LogValue(peer.remote_user),
      base::LogValue(request.client_name()),
      base::LogValue(request.client_version()));
  return absl::OkStatus();
}

grpc::Status DeviceService::CloseSession(grpc::ServerContext* call,
                                         const v1::CloseSessionRequest*,
                                         v1::CloseSessionResponse*) {
  const auto session = SessionOf(*call);
  if (!session.ok()) return ToGrpc(session.status());
  sessions_.End(*session, "closed");
  return grpc::Status::OK;
}

grpc::Status DeviceService::CreateSegment(
    grpc::ServerContext* call, const v1::CreateSegmentRequest* request,
    v1::CreateSegmentResponse*) {
  const auto session = SessionOf(*call);
  if (!session.ok()) return ToGrpc(session.status());
  const absl::Status status = (*session)->CreateSegment(
      request->segment(), request->size_bytes(), request->map_memory());
  context_.counters.Add(status.ok() ? Counter::kSegmentsCreated
                                    : Counter::kSegmentsRefused);
  return ToGrpc(status);
}

grpc::Status DeviceService::ReleaseSegments(
    grpc::ServerContext* call, const v1::ReleaseSegmentsRequest* request,
    v1::ReleaseSegmentsResponse*) {
  const auto session = SessionOf(*call);
  if (!session.ok()) return ToGrpc(session.status());
  // Bounded by the size of the message.
  std::vector<uint64_t> handles(request->segments().begin(),
                                request->segments().end());
  if (request->after_size() > kMaxStreamsPerSession) {
    return ToGrpc(absl::InvalidArgumentError(absl::StrCat(
        request->after_size(), " points, at most ", kMaxStreamsPerSession)));
  }
  std::vector<ProgressPoint> after;
  for (const v1::StreamPoint& point : request->after()) {
    after.push_back({point.stream(), point.sequence()});
  }
  return ToGrpc(
      (*session)->ReleaseSegments(std::move(handles), std::move(after)));
}

grpc::Status DeviceService::CreateStaging(
    grpc::ServerContext* call, const v1::CreateStagingRequest* request,
    v1::CreateStagingResponse*) {
  const auto session = SessionOf(*call);
  if (!session.ok()) return ToGrpc(session.status());
  return ToGrpc(
      (*session)->CreateStaging(request->staging(), request->size_bytes()));
}

grpc::Status DeviceService::GetMemoryInfo(grpc::ServerContext* call,
                                          const v1::GetMemoryInfoRequest*,
                                          v1::GetMemoryInfoResponse* response) {
  const auto session = SessionOf(*call);
  if (!session.ok()) return ToGrpc(session.status());
  const int device = (*session)->device();
  const auto properties = context_.runtime.GetProperties(device);
  if (!properties.ok()) return ToGrpc(properties.status());
  response->set_free_bytes(context_.runtime.free_memory_bytes(device));
  response->set_total_bytes(properties->total_memory_bytes);
  response->set_session_bytes((*session)->resources().used_bytes());
  return grpc::Status::OK;
}

grpc::Status DeviceService::RunStream(grpc::ServerContext* call, StreamIo* io) {
  // Both limits come before the first wait for the client.
  const uint64_t streams = streams_.fetch_add(1, std::memory_order_relaxed);
  absl::Cleanup leave = [this] {
    streams_.fetch_sub(1, std::memory_order_relaxed);
  };
  const auto session = SessionOf(*call);
  if (!session.ok()) return ToGrpc(session.status());
  absl::Status status = streams < max_streams_
                            ? ServeStream(*call, **session, *io)
                            : absl::ResourceExhaustedError(OverLimit(
                                  "the daemon", Limit::kStreams, max_streams_));
  sessions_.EndIfAbandoned(*session);
  return ToGrpc(status);
}

grpc::Status DeviceService::RunBulk(
    grpc::ServerContext* call,
    grpc::ServerReaderWriter<v1::BulkToClient, v1::BulkToDaemon>* io) {
  // It has a thread as a command stream has, and counts as one.
  const uint64_t streams = streams_.fetch_add(1, std::memory_order_relaxed);
  absl::Cleanup leave = [this] {
    streams_.fetch_sub(1, std::memory_order_relaxed);
  };
  const auto session = SessionOf(*call);
  if (!session.ok()) return ToGrpc(session.status());
  const absl::Status status =
      streams < max_streams_
          ? ServeBulk(*call, **session, *io)
          : absl::ResourceExhaustedError(absl::StrCat(
                "the daemon has its limit of ", max_streams_, " streams"));
  sessions_.EndIfAbandoned(*session);
  return ToGrpc(status);
}

absl::Status DeviceService::ServeBulk(
    grpc::ServerContext& call, Session& session,
    grpc::ServerReaderWriter<v1::BulkToClient, v1::BulkToDaemon>& io) {
  ASSIGN_OR_RETURN(
      auto stream_call,
      session.BeginStreamCall([&call] { call.TryCancel(); },
                              [&call] { return call.IsCancelled(); }));
  RETURN_IF_ERROR(session.bulk().Open(
      [&io](const v1::BulkToClient& message) { return io.Write(message); }));
  absl::Cleanup close = [&session] { session.bulk().Close(); };
  v1::BulkToDaemon message;
  while (io.Read(&message)) {
    const absl::Status status = session.bulk().Receive(&message);
    if (status.ok()) continue;
    context_.counters.Add(Counter::kStreamsBroken);
    return status;
  }
  return absl::OkStatus();
}

absl::Status DeviceService::ServeStream(grpc::ServerContext& call,
                                        Session& session, StreamIo& io) {
  auto stream_call = session.BeginStreamCall(
      [&call] { call.TryCancel(); }, [&call] { return call.IsCancelled(); });
  if (!stream_call.ok()) {
    context_.counters.Add(Counter::kStreamsRefused);
    return stream_call.status();
  }
  v1::CommandBatch batch;
  if (!io.Read(&batch)) {
    return absl::CancelledError("the stream ended before it was opened");
  }
  const uint32_t stream = batch.open().stream();
  absl::Status opened =
      !batch.has_open() || !batch.records().empty()
          ? absl::InvalidArgumentError(
                "the first message of a stream must open it, and do nothing "
                "else")
          : stream_call->Open(stream);
  if (!opened.ok()) {
    context_.counters.Add(Counter::kStreamsRefused);
    return opened;
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<StreamExecutor> executor,
                   StreamExecutor::Create(context_, session, stream));
  context_.counters.Add(Counter::kStreamsOpened);
  if (!io.Write(v1::Completion())) {
    return absl::CancelledError("the client is gone");
  }
  const absl::Status status = RunBatches(*executor, io, batch);
  if (absl::IsInvalidArgument(status)) {
    static base::LogLimiter limiter(10, 1.0);
    if (limiter.Allow()) {
      const std::string text(status.message());
      spdlog::warn("event=stream_broken session={} stream={} error={}",
                   session.id(), stream, base::LogValue(text));
      executor->LogFault("stream_broken");
    }
  }
  return status;
}

absl::Status DeviceService::RunBatches(StreamExecutor& executor, StreamIo& io,
                                       v1::CommandBatch& batch) {
  const auto send = [&io](const v1::Completion& completion) {
    return io.Write(completion);
  };
  while (io.Read(&batch)) {
    if (batch.has_open()) {
      return absl::InvalidArgumentError("the stream is open already");
    }
    executor.NoteArrival(batch.first_sequence(), batch.sent_ns());
    RETURN_IF_ERROR(
        executor.RunBatch(batch.first_sequence(), batch.records(), send));
  }
  return absl::OkStatus();
}

}  // namespace tvarant

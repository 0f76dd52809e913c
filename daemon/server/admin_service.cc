#include "daemon/server/admin_service.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/server/device_service.h"
#include "daemon/server/grpc_status.h"
#include "daemon/server/trace_reader.h"
#include "proto/base/logging.h"
#include "proto/base/status_macros.h"
#include "proto/ops/op_table_hash.h"
#include "tvarant_version.h"

namespace tvarant {
namespace {

// Each trace has a thread and holds up nobody.
constexpr int kMaxTraces = 4;
constexpr std::chrono::milliseconds kTracePeriod{10};

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

double Seconds(uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

absl::StatusOr<PeerCredentials> AdminService::PeerOf(
    const grpc::ServerContext& call) const {
  const std::optional<PeerCredentials> peer = context_.peers.Find(call.peer());
  if (!peer.has_value()) {
    return absl::PermissionDeniedError("who calls is not known");
  }
  return *peer;
}

absl::Status AdminService::CheckMayChange(const grpc::ServerContext& call,
                                          const char* what) const {
  ASSIGN_OR_RETURN(const PeerCredentials peer, PeerOf(call));
  const absl::Status status = policy_.Check(peer);
  static base::LogLimiter limiter(10, 1.0);
  if (limiter.Allow()) {
    spdlog::info("event=admin what={} pid={} uid={} allowed={}", what, peer.pid,
                 peer.uid, status.ok());
  }
  return status;
}

grpc::Status AdminService::GetStatus(grpc::ServerContext*,
                                     const v1::GetStatusRequest*,
                                     v1::GetStatusResponse* response) {
  const auto properties = context_.runtime.GetProperties(0);
  if (!properties.ok()) return ToGrpc(properties.status());
  response->set_daemon_version(kVersion);
  response->set_min_protocol(kMinProtocol);
  response->set_max_protocol(kMaxProtocol);
  response->set_runtime(context_.runtime.name());
  response->set_device_name(properties->name);
  response->set_pid(::getpid());
  response->set_uptime_seconds(SecondsSince(started_at_));
  response->set_free_bytes(context_.runtime.free_memory_bytes(0));
  response->set_total_bytes(properties->total_memory_bytes);
  response->set_sessions(static_cast<uint32_t>(context_.sessions.size()));
  response->set_draining(context_.sessions.paused());
  response->set_op_tables(absl::StrFormat("%016x", kOpTableHash));
  return grpc::Status::OK;
}

grpc::Status AdminService::ListDevices(grpc::ServerContext*,
                                       const v1::ListDevicesRequest*,
                                       v1::ListDevicesResponse* response) {
  for (int i = 0; i < context_.runtime.device_count(); ++i) {
    const auto properties = context_.runtime.GetProperties(i);
    if (!properties.ok()) return ToGrpc(properties.status());
    v1::DeviceInfo* info = response->add_devices();
    info->set_index(i);
    info->set_name(properties->name);
    info->set_vendor(properties->vendor);
    info->set_driver_version(properties->driver_version);
    info->set_instruction_set(properties->instruction_set);
    info->set_free_bytes(context_.runtime.free_memory_bytes(i));
    info->set_total_bytes(properties->total_memory_bytes);
    info->set_compute_units(properties->compute_units);
    info->set_simt_width(properties->simt_width);
    info->set_streams_running(context_.gate.running());
    info->set_streams_waiting(context_.gate.waiting());
    info->set_streams_at_a_time(context_.gate.width());
    info->set_busy_seconds(Seconds(context_.gate.total_busy_ns()));
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::ListSessions(grpc::ServerContext*,
                                        const v1::ListSessionsRequest*,
                                        v1::ListSessionsResponse* response) {
  for (const auto& session : context_.sessions.List()) {
    v1::SessionInfo* info = response->add_sessions();
    info->set_id(session->id());
    info->set_pid(session->peer().pid);
    info->set_uid(session->peer().uid);
    info->set_client_name(session->client_name());
    info->set_memory_bytes(session->resources().used_bytes());
    info->set_segments(
        static_cast<uint32_t>(session->resources().segment_count()));
    info->set_streams(static_cast<uint32_t>(session->stream_count()));
    info->set_commands(session->command_count().load());
    info->set_age_seconds(SecondsSince(session->opened_at()));
    info->set_busy_seconds(Seconds(session->gate_member().busy_ns()));
    info->set_queued_bytes(session->queued_bytes().load());
    info->set_local(session->attached());
    info->set_remote_user(session->peer().remote_user);
    info->set_memory_limit_bytes(session->limits().max_bytes);
    info->set_streams_limit(
        static_cast<uint32_t>(session->limits().max_streams));
    if (const auto& user = session->user(); user != nullptr) {
      const UserPolicy policy = user->policy();
      info->set_weight(policy.weight);
      info->set_high_priority(policy.priority == Priority::kHigh);
      info->set_user_memory_bytes(user->used(Limit::kUserBytes));
      info->set_user_memory_limit_bytes(policy.limits[Limit::kUserBytes]);
    }
  }
  std::sort(response->mutable_sessions()->begin(),
            response->mutable_sessions()->end(),
            [](const v1::SessionInfo& a, const v1::SessionInfo& b) {
              return a.id() < b.id();
            });
  return grpc::Status::OK;
}

grpc::Status AdminService::GetCounters(grpc::ServerContext*,
                                       const v1::GetCountersRequest*,
                                       v1::GetCountersResponse* response) {
  const auto table = CounterTable();
  for (size_t i = 0; i < table.size(); ++i) {
    const Counter id = static_cast<Counter>(i);
    v1::Counter* counter = response->add_counters();
    counter->set_name(table[i].name);
    counter->set_unit(table[i].unit);
    counter->set_doc(table[i].doc);
    // Kept by the gate, which is on the path of every command.
    counter->set_value(static_cast<double>(id == Counter::kDeviceBusyNs
                                               ? context_.gate.total_busy_ns()
                                               : context_.counters.Get(id)));
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::ListCache(grpc::ServerContext*,
                                     const v1::ListCacheRequest*,
                                     v1::ListCacheResponse* response) {
  for (const auto& entry : context_.runtime.kernel_cache().entries) {
    v1::CacheEntry* out = response->add_entries();
    out->set_key(entry.key);
    out->set_name(entry.key.substr(0, entry.key.rfind('-')));
    out->set_size_bytes(entry.bytes);
    out->set_last_used_s(entry.last_used_s);
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::Trace(
    grpc::ServerContext* call, const v1::TraceRequest*,
    grpc::ServerWriter<v1::TraceResponse>* writer) {
  const int others = traces_.fetch_add(1);
  absl::Cleanup leave = [this] { traces_.fetch_sub(1); };
  if (others >= kMaxTraces) {
    return ToGrpc(absl::ResourceExhaustedError(
        absl::StrCat("there are ", kMaxTraces, " traces already")));
  }
  const absl::StatusOr<PeerCredentials> peer = PeerOf(*call);
  if (!peer.ok()) return ToGrpc(peer.status());
  std::optional<uid_t> only_user;
  if (!policy_.Check(*peer).ok()) only_user = peer->uid;
  TraceReader reader(context_.sessions, only_user);
  // The first message says that the trace has begun.
  v1::TraceResponse response;
  while (!call->IsCancelled() && writer->Write(response)) {
    do {
      std::this_thread::sleep_for(kTracePeriod);
      response.Clear();
      reader.Read(&response);
    } while (!call->IsCancelled() && response.events().empty());
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::EndSession(grpc::ServerContext* call,
                                      const v1::EndSessionRequest* request,
                                      v1::EndSessionResponse*) {
  const absl::Status allowed = CheckMayChange(*call, "end_session");
  if (!allowed.ok()) return ToGrpc(allowed);
  for (const auto& session : context_.sessions.List()) {
    if (session->id() != request->id()) continue;
    context_.sessions.End(session, "ended_by_operator");
    return grpc::Status::OK;
  }
  return ToGrpc(
      absl::NotFoundError(absl::StrCat("there is no session ", request->id())));
}

grpc::Status AdminService::SetDraining(grpc::ServerContext* call,
                                       const v1::SetDrainingRequest* request,
                                       v1::SetDrainingResponse* response) {
  const absl::Status allowed = CheckMayChange(*call, "set_draining");
  if (!allowed.ok()) return ToGrpc(allowed);
  context_.sessions.SetPaused(request->draining());
  context_.on_draining(request->draining());
  response->set_sessions(static_cast<uint32_t>(context_.sessions.size()));
  return grpc::Status::OK;
}

grpc::Status AdminService::ClearCache(grpc::ServerContext* call,
                                      const v1::ClearCacheRequest*,
                                      v1::ClearCacheResponse* response) {
  const absl::Status allowed = CheckMayChange(*call, "clear_cache");
  if (!allowed.ok()) return ToGrpc(allowed);
  const KernelCacheCleared cleared = context_.runtime.ClearKernelCache();
  response->set_entries(cleared.entries);
  response->set_freed_bytes(cleared.bytes);
  return grpc::Status::OK;
}

}  // namespace tvarant

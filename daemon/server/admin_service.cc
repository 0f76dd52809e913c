#include "daemon/server/admin_service.h"

#include <unistd.h>

#include <string>

#include "daemon/server/device_service.h"
#include "daemon/server/grpc_status.h"
#include "tvarant_version.h"

namespace tvarant {
namespace {

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

grpc::Status AdminService::GetStatus(grpc::ServerContext*,
                                     const v1::GetStatusRequest*,
                                     v1::GetStatusResponse* response) {
  const auto properties = runtime_.GetProperties(0);
  if (!properties.ok()) return ToGrpc(properties.status());
  response->set_daemon_version(kVersion);
  response->set_min_protocol(kMinProtocol);
  response->set_max_protocol(kMaxProtocol);
  response->set_runtime(runtime_.name());
  response->set_device_name(properties->name);
  response->set_pid(::getpid());
  response->set_uptime_seconds(SecondsSince(started_at_));
  response->set_free_bytes(runtime_.free_memory_bytes(0));
  response->set_total_bytes(properties->total_memory_bytes);
  response->set_sessions(static_cast<uint32_t>(sessions_.size()));
  return grpc::Status::OK;
}

grpc::Status AdminService::ListSessions(grpc::ServerContext*,
                                        const v1::ListSessionsRequest*,
                                        v1::ListSessionsResponse* response) {
  for (const auto& session : sessions_.List()) {
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
  }
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
                                               ? gate_.total_busy_ns()
                                               : counters_.Get(id)));
  }
  return grpc::Status::OK;
}

}  // namespace tvarant

// AdminService: what an operator may ask (proto/tvarant/v1/admin.proto).
// Reading never touches the device.

#ifndef TVARANT_DAEMON_SERVER_ADMIN_SERVICE_H_
#define TVARANT_DAEMON_SERVER_ADMIN_SERVICE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "daemon/metrics/counters.h"
#include "daemon/runtime/runtime.h"
#include "daemon/scheduler/device_gate.h"
#include "daemon/server/admin_policy.h"
#include "daemon/server/peer_table.h"
#include "daemon/server/session_registry.h"
#include "proto/tvarant/v1/admin.grpc.pb.h"

namespace tvarant {

// What the service looks at. The references must outlive it.
struct AdminContext {
  TvarantRuntime& runtime;
  DeviceGate& gate;
  SessionRegistry& sessions;
  const Counters& counters;
  const PeerTable& peers;
  // Called when new sessions are refused, or taken again.
  std::function<void(bool draining)> on_draining;
};

// Thread-safe.
class AdminService final : public v1::AdminService::Service {
 public:
  AdminService(AdminContext context, AdminPolicy policy)
      : context_(std::move(context)), policy_(std::move(policy)) {}

  grpc::Status GetStatus(grpc::ServerContext* call,
                         const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;
  grpc::Status ListDevices(grpc::ServerContext* call,
                           const v1::ListDevicesRequest* request,
                           v1::ListDevicesResponse* response) override;
  grpc::Status ListSessions(grpc::ServerContext* call,
                            const v1::ListSessionsRequest* request,
                            v1::ListSessionsResponse* response) override;
  grpc::Status GetCounters(grpc::ServerContext* call,
                           const v1::GetCountersRequest* request,
                           v1::GetCountersResponse* response) override;
  grpc::Status ListCache(grpc::ServerContext* call,
                         const v1::ListCacheRequest* request,
                         v1::ListCacheResponse* response) override;
  grpc::Status Trace(grpc::ServerContext* call, const v1::TraceRequest* request,
                     grpc::ServerWriter<v1::TraceResponse>* writer) override;
  grpc::Status EndSession(grpc::ServerContext* call,
                          const v1::EndSessionRequest* request,
                          v1::EndSessionResponse* response) override;
  grpc::Status SetDraining(grpc::ServerContext* call,
                           const v1::SetDrainingRequest* request,
                           v1::SetDrainingResponse* response) override;
  grpc::Status ClearCache(grpc::ServerContext* call,
                          const v1::ClearCacheRequest* request,
                          v1::ClearCacheResponse* response) override;

 private:
  // Who calls. PERMISSION_DENIED if that is not known.
  absl::StatusOr<PeerCredentials> PeerOf(const grpc::ServerContext& call) const;
  // OK if the caller may change something; logs who does what.
  absl::Status CheckMayChange(const grpc::ServerContext& call,
                              const char* what) const;

  const AdminContext context_;
  const AdminPolicy policy_;
  const std::chrono::steady_clock::time_point started_at_ =
      std::chrono::steady_clock::now();
  std::atomic<int> traces_{0};
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_ADMIN_SERVICE_H_

// AdminService: what an operator may ask. Reading never touches the device.

#ifndef TVARANT_DAEMON_SERVER_ADMIN_SERVICE_H_
#define TVARANT_DAEMON_SERVER_ADMIN_SERVICE_H_

#include <chrono>

#include "daemon/metrics/counters.h"
#include "daemon/runtime/runtime.h"
#include "daemon/scheduler/device_gate.h"
#include "daemon/server/session_registry.h"
#include "proto/tvarant/v1/admin.grpc.pb.h"

namespace tvarant {

// Thread-safe. The references must outlive the service.
class AdminService final : public v1::AdminService::Service {
 public:
  AdminService(TvarantRuntime& runtime, DeviceGate& gate,
               SessionRegistry& sessions, const Counters& counters)
      : runtime_(runtime),
        gate_(gate),
        sessions_(sessions),
        counters_(counters) {}

  grpc::Status GetStatus(grpc::ServerContext* call,
                         const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;
  grpc::Status ListSessions(grpc::ServerContext* call,
                            const v1::ListSessionsRequest* request,
                            v1::ListSessionsResponse* response) override;
  grpc::Status GetCounters(grpc::ServerContext* call,
                           const v1::GetCountersRequest* request,
                           v1::GetCountersResponse* response) override;

 private:
  TvarantRuntime& runtime_;
  DeviceGate& gate_;
  SessionRegistry& sessions_;
  const Counters& counters_;
  const std::chrono::steady_clock::time_point started_at_ =
      std::chrono::steady_clock::now();
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_ADMIN_SERVICE_H_

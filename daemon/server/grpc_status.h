// absl::Status as gRPC's: the codes have the same numbers.

#ifndef TVARANT_DAEMON_SERVER_GRPC_STATUS_H_
#define TVARANT_DAEMON_SERVER_GRPC_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace tvarant {

inline grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(status.message()));
}

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_GRPC_STATUS_H_

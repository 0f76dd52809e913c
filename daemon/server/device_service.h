// DeviceService: the calls of proto/tvarant/v1/device.proto.
//
// Synchronous: a command stream has the thread that serves it to itself, and
// that thread executes its commands. How many streams there may be is limited
// before one is begun, below the number of threads, so that streams never take
// the threads that other calls need.

#ifndef TVARANT_DAEMON_SERVER_DEVICE_SERVICE_H_
#define TVARANT_DAEMON_SERVER_DEVICE_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/server/peer_table.h"
#include "daemon/server/remote_peers.h"
#include "daemon/server/session_registry.h"
#include "daemon/server/stream_executor.h"
#include "proto/tvarant/v1/device.grpc.pb.h"

namespace tvarant {

inline constexpr uint32_t kMinProtocol = 1;
inline constexpr uint32_t kMaxProtocol = 1;
inline constexpr int kMaxMessageBytes = 2 << 20;
inline constexpr uint64_t kMaxBatchBytes = 1 << 20;

// Thread-safe.
class DeviceService final : public v1::DeviceService::Service {
 public:
  // The references must outlive the service. max_streams: of all sessions.
  DeviceService(const ExecutorContext& context, SessionRegistry& sessions,
                const PeerTable& peers, RemotePeers& remote_peers,
                uint64_t max_streams)
      : context_(context),
        sessions_(sessions),
        peers_(peers),
        remote_peers_(remote_peers),
        max_streams_(max_streams) {}

  grpc::Status OpenSession(grpc::ServerContext* call,
                           const v1::OpenSessionRequest* request,
                           v1::OpenSessionResponse* response) override;
  grpc::Status CloseSession(grpc::ServerContext* call,
                            const v1::CloseSessionRequest* request,
                            v1::CloseSessionResponse* response) override;
  grpc::Status CreateSegment(grpc::ServerContext* call,
                             const v1::CreateSegmentRequest* request,
                             v1::CreateSegmentResponse* response) override;
  grpc::Status ReleaseSegments(grpc::ServerContext* call,
                               const v1::ReleaseSegmentsRequest* request,
                               v1::ReleaseSegmentsResponse* response) override;
  grpc::Status CreateStaging(grpc::ServerContext* call,
                             const v1::CreateStagingRequest* request,
                             v1::CreateStagingResponse* response) override;
  grpc::Status GetMemoryInfo(grpc::ServerContext* call,
                             const v1::GetMemoryInfoRequest* request,
                             v1::GetMemoryInfoResponse* response) override;
  grpc::Status RunStream(
      grpc::ServerContext* call,
      grpc::ServerReaderWriter<v1::Completion, v1::CommandBatch>* stream)
      override;
  grpc::Status RunBulk(grpc::ServerContext* call,
                       grpc::ServerReaderWriter<v1::BulkToClient,
                                                v1::BulkToDaemon>* io) override;

 private:
  using StreamIo = grpc::ServerReaderWriter<v1::Completion, v1::CommandBatch>;

  // Whose connection the call is on. UNAUTHENTICATED if that is not known.
  absl::StatusOr<PeerCredentials> PeerOf(const grpc::ServerContext& call) const;
  // The session whose token the call carries.
  absl::StatusOr<std::shared_ptr<Session>> SessionOf(
      const grpc::ServerContext& call);

  absl::Status Open(const grpc::ServerContext& call,
                    const v1::OpenSessionRequest& request,
                    v1::OpenSessionResponse* response);
  absl::Status ServeStream(grpc::ServerContext& call, Session& session,
                           StreamIo& io);
  absl::Status ServeBulk(
      grpc::ServerContext& call, Session& session,
      grpc::ServerReaderWriter<v1::BulkToClient, v1::BulkToDaemon>& io);
  absl::Status RunBatches(StreamExecutor& executor, StreamIo& io,
                          v1::CommandBatch& batch);

  const ExecutorContext context_;
  SessionRegistry& sessions_;
  const PeerTable& peers_;
  RemotePeers& remote_peers_;
  const uint64_t max_streams_;
  std::atomic<uint64_t> streams_{0};
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_DEVICE_SERVICE_H_

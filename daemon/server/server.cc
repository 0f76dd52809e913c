#include "daemon/server/server.h"

#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/metrics/metrics.h"
#include "daemon/scheduler/busy_tracker.h"
#include "daemon/scheduler/device_gate.h"
#include "daemon/server/admin_policy.h"
#include "daemon/server/admin_service.h"
#include "daemon/server/device_service.h"
#include "daemon/server/janitor.h"
#include "daemon/server/peer_table.h"
#include "daemon/server/program_cache.h"
#include "daemon/server/remote_peers.h"
#include "grpc/grpc.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server_posix.h"
#include "proto/base/logging.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

// Threads beyond those of streams: for calls that end by themselves.
constexpr uint64_t kUnaryThreads = 256;
// Calls of one connection at a time: its streams, and some.
constexpr int kMaxCallsPerConnection = kMaxStreamsPerSession + 36;
// A call carries a token and what gRPC adds.
constexpr int kMaxMetadataBytes = 8 << 10;

class ServerImpl final : public Server, private MetricsSource {
 public:
  ServerImpl(const ServerOptions& options, AdminPolicy policy,
             std::unique_ptr<RemotePeers> remote_peers, TvarantRuntime& runtime)
      : runtime_(runtime),
        remote_peers_(std::move(remote_peers)),
        gate_(options.device_width),
        users_(gate_, options.users),
        sessions_(runtime, busy_, counters_, users_, options.sessions),
        device_service_(
            ExecutorContext{runtime, gate_, busy_, programs_, counters_},
            sessions_, peers_, *remote_peers_, options.max_streams),
        admin_service_(
            AdminContext{runtime, gate_, sessions_, counters_, peers_,
                         [this](bool draining) { SetServing(!draining); }},
            std::move(policy)) {}

  ~ServerImpl() override { Drain(std::chrono::milliseconds(0)); }

  absl::Status Start(ServerOptions& options) {
    gate_.Configure(gate_prober_, 1, Priority::kHigh);
    std::vector<ListeningSocket> sockets = std::move(options.adopted);
    std::set<std::string> adopted, paths;
    for (const ListeningSocket& socket : sockets) {
      if (!adopted.insert(socket.path()).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("socket ", socket.path(), " is passed twice"));
      }
    }
    for (const std::string& endpoint : options.listen) {
      ASSIGN_OR_RETURN(std::string path, ListeningSocket::ParsePath(endpoint));
      if (!paths.insert(path).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("endpoint ", endpoint, " is given twice"));
      }
      if (adopted.count(path) > 0) continue;
      ASSIGN_OR_RETURN(ListeningSocket socket,
                       ListeningSocket::Bind({.path = std::move(path),
                                              .mode = options.socket_mode,
                                              .group = options.socket_group}));
      sockets.push_back(std::move(socket));
    }
    RETURN_IF_ERROR(StartGrpc(options));
    janitor_ = std::make_unique<Janitor>(sessions_, busy_);
    auto listener = Listener::Start(
        std::move(sockets), options.connections, peers_, users_, sessions_,
        counters_,
        [this](int fd) { grpc::AddInsecureChannelFromFd(grpc_.get(), fd); },
        [this](std::shared_ptr<Session> session) {
          janitor_->EndSoon(std::move(session));
        });
    if (!listener.ok()) return listener.status();
    listener_ = *std::move(listener);
    if (!options.tcp.listen.empty()) {
      ASSIGN_OR_RETURN(tcp_,
                       TcpServer::Start(options.tcp, device_service_,
                                        options.max_streams + kUnaryThreads));
    }
    if (options.metrics.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(metrics_, MetricsEndpoint::Start(options.metrics, *this));
    spdlog::info("event=metrics address={} port={}",
                 base::LogValue(options.metrics), metrics_->port());
    return absl::OkStatus();
  }

  void Drain(std::chrono::milliseconds timeout) override {
    if (grpc_ == nullptr) return;
    sessions_.Drain();
    SetServing(false);
    // It looks at the rest.
    metrics_.reset();
    if (listener_ != nullptr) listener_->StopAccepting();
    WaitForIdleGate(std::chrono::steady_clock::now() + timeout);
    sessions_.EndAll("drain");
    // Before gRPC, which must not be given connections any more.
    listener_.reset();
    if (tcp_ != nullptr) tcp_->Shutdown(std::chrono::milliseconds(500));
    tcp_.reset();
    grpc_->Shutdown(std::chrono::system_clock::now() +
                    std::chrono::milliseconds(500));
    grpc_->Wait();
    janitor_.reset();
    grpc_.reset();
  }

  void SetUsers(UserPolicies users) override {
    users_.SetPolicies(std::move(users));
  }

  void PassGate() override {
    DeviceGate::Pass pass(gate_, gate_probe_);
    pass.Enter();
  }

  size_t attached_clients() const override {
    return listener_ == nullptr ? 0 : listener_->attached_count();
  }
  const Counters& counters() const override { return counters_; }
  std::vector<std::string> tcp_endpoints() const override {
    return tcp_ == nullptr ? std::vector<std::string>() : tcp_->endpoints();
  }

 private:
  absl::Status StartGrpc(const ServerOptions& options) {
    // gRPC is never shut down as a whole: that waits for a poller of its own,
    // up to ten seconds after a large write.
    [[maybe_unused]] static const bool kept = (::grpc_init(), true);
    [[maybe_unused]] static const bool reflecting =
        (grpc::reflection::InitProtoReflectionServerBuilderPlugin(), true);
    grpc::ServerBuilder builder;
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ResourceQuota quota("tvarantd");
    quota.SetMaxThreads(static_cast<int>(options.max_streams + kUnaryThreads));
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.SetMaxSendMessageSize(kMaxMessageBytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                               kMaxCallsPerConnection);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
    builder.AddChannelArgument(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    // Clients may ping as often as they like: a ping costs them as much. The
    // daemon does not ping on a Unix socket: the kernel tells when the other
    // end dies, and one that stands at a debugger's breakpoint keeps its
    // session.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.RegisterService(&device_service_);
    builder.RegisterService(&admin_service_);
    grpc_ = builder.BuildAndStart();
    if (grpc_ == nullptr) return absl::InternalError("gRPC did not start");
    SetServing(true);
    return absl::OkStatus();
  }

  // What the health service says of new sessions.
  void SetServing(bool serving) {
    auto* const health = grpc_->GetHealthCheckService();
    if (health == nullptr) return;
    for (const char* name : {"", v1::DeviceService::service_full_name()}) {
      health->SetServingStatus(name, serving);
    }
  }

  MetricValues ReadMetrics() override {
    MetricValues values;
    for (size_t i = 0; i < kNumCounters; ++i) {
      values.counters[i] = counters_.Get(static_cast<Counter>(i));
    }
    values.counters[static_cast<size_t>(Counter::kDeviceBusyNs)] =
        gate_.total_busy_ns();
    const auto sessions = sessions_.List();
    values[Gauge::kSessions] = static_cast<double>(sessions.size());
    values[Gauge::kAttachedClients] = static_cast<double>(attached_clients());
    values[Gauge::kStreamsRunning] = gate_.running();
    values[Gauge::kStreamsWaiting] = gate_.waiting();
    for (int i = 0; i < runtime_.device_count(); ++i) {
      values[Gauge::kMemoryFreeBytes] +=
          static_cast<double>(runtime_.free_memory_bytes(i));
      const auto properties = runtime_.GetProperties(i);
      if (properties.ok()) {
        values[Gauge::kMemoryTotalBytes] +=
            static_cast<double>(properties->total_memory_bytes);
      }
    }
    values[Gauge::kDraining] = sessions_.paused() ? 1 : 0;
    values[Gauge::kUptimeSeconds] =
        std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                      started_at_)
            .count();
    ReadProcessGauges(&values);
    for (const auto& session : sessions) {
      values.sessions.push_back(
          {session->id(),
           session->peer().uid,
           session->client_name(),
           {static_cast<double>(session->resources().used_bytes()),
            1e-9 * static_cast<double>(session->gate_member().busy_ns()),
            static_cast<double>(session->command_count().load()),
            static_cast<double>(session->queued_bytes().load())}});
    }
    return values;
  }

  // Until no command has run for a moment: batches that have arrived are
  // executed, those of clients that go on and on are not.
  void WaitForIdleGate(std::chrono::steady_clock::time_point deadline) {
    constexpr std::chrono::milliseconds kStep{5};
    int idle_steps = 0;
    while (sessions_.size() > 0 && idle_steps < 4 &&
           std::chrono::steady_clock::now() < deadline) {
      idle_steps =
          gate_.running() == 0 && gate_.waiting() == 0 ? idle_steps + 1 : 0;
      std::this_thread::sleep_for(kStep);
    }
  }

  TvarantRuntime& runtime_;
  const std::unique_ptr<RemotePeers> remote_peers_;
  const std::chrono::steady_clock::time_point started_at_ =
      std::chrono::steady_clock::now();
  Counters counters_;
  BusyTracker busy_;
  DeviceGate gate_;
  // Of high priority: it tells whether the device hangs, not who uses it.
  DeviceGate::User gate_prober_;
  DeviceGate::Member gate_probe_{&gate_prober_};
  UserTable users_;
  ProgramCache programs_;
  PeerTable peers_;
  SessionRegistry sessions_;
  DeviceService device_service_;
  AdminService admin_service_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<Janitor> janitor_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<TcpServer> tcp_;
  std::unique_ptr<MetricsEndpoint> metrics_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options,
                                                      TvarantRuntime& runtime) {
  ASSIGN_OR_RETURN(AdminPolicy policy,
                   AdminPolicy::Create(options.admin_group));
  ASSIGN_OR_RETURN(std::unique_ptr<RemotePeers> remote_peers,
                   RemotePeers::Create({.token_file = options.tcp.token_file,
                                        .is_plain = options.tcp.is_plain()}));
  auto server = std::make_unique<ServerImpl>(options, std::move(policy),
                                             std::move(remote_peers), runtime);
  RETURN_IF_ERROR(server->Start(options));
  return server;
}

}  // namespace tvarant

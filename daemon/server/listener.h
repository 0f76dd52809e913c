// Listener: accepts connections, learns who is behind each and what it speaks.
//
// One thread, one epoll. The first bytes decide: HTTP/2 goes to gRPC, the side
// protocol is served here, anything else is closed. Connections that have not
// said what they are cost a table entry and no thread, are few, and have a
// deadline.

#ifndef TVARANT_DAEMON_SERVER_LISTENER_H_
#define TVARANT_DAEMON_SERVER_LISTENER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/metrics/counters.h"
#include "daemon/server/listening_socket.h"
#include "daemon/server/peer_table.h"
#include "daemon/server/session_registry.h"
#include "daemon/server/side_channel.h"
#include "daemon/server/user_table.h"
#include "proto/base/unique_fd.h"

namespace tvarant {

struct ListenerOptions {
  size_t max_connections = 1024;
  size_t max_undecided = 128;
  std::chrono::milliseconds decide_timeout{5000};
};

class Listener {
 public:
  // Takes a connection that speaks HTTP/2; owns the descriptor from then on.
  using Adopt = std::function<void(int fd)>;
  // Called when a client's side connection has ended. Must not block.
  using OnClientGone = std::function<void(std::shared_ptr<Session>)>;

  // Serves the sockets on a thread of its own until Stop(). The references
  // must outlive the listener.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(
      std::vector<ListeningSocket> sockets, const ListenerOptions& options,
      PeerTable& peers, UserTable& users, SessionRegistry& sessions,
      Counters& counters, Adopt adopt, OnClientGone on_client_gone);
  ~Listener();

  // Stops accepting and removes the sockets. Connections that are there stay,
  // and are watched on, until the destructor. Once.
  void StopAccepting();

  // Attached side connections now.
  size_t attached_count() const {
    return attached_.load(std::memory_order_relaxed);
  }

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { kUndecided, kSideHandshake, kSideAttached, kGrpc };
  // Has not shown yet that it is a client of ours.
  static bool IsUndecided(State state) {
    return state == State::kUndecided || state == State::kSideHandshake;
  }

  struct Connection {
    uint64_t id = 0;
    State state = State::kUndecided;
    PeerCredentials peer;
    UserClaim claim;
    Clock::time_point deadline;  // until attached or adopted
    // Ours; of a gRPC connection, a duplicate that shows its end.
    base::UniqueFd fd;
    int grpc_fd = -1;
    SideMessage message{};
    size_t received = 0;
    std::shared_ptr<SideChannel> side;  // owns the descriptor then
    std::shared_ptr<Session> session;
    int watched_fd() const { return side != nullptr ? side->fd() : fd.get(); }
  };

  Listener(const ListenerOptions& options, PeerTable& peers, UserTable& users,
           SessionRegistry& sessions, Counters& counters, Adopt adopt,
           OnClientGone on_client_gone);

  absl::Status Watch(int fd, uint64_t id, uint32_t events);
  void Run();
  void StopAcceptingOnThread();
  int TimeoutMs() const;
  void HandleListening(size_t index);
  void Accept(base::UniqueFd fd);
  void HandleConnection(uint64_t id, uint32_t events);
  void Decide(Connection& connection, uint32_t events);
  void GiveToGrpc(Connection& connection);
  void ReadSideMessage(Connection& connection);
  void AttachSide(Connection& connection);
  void ExpireUndecided();
  void Close(uint64_t id);
  void Refuse(const PeerCredentials& peer, Counter counter, const char* reason);

  const ListenerOptions options_;
  PeerTable& peers_;
  UserTable& users_;
  SessionRegistry& sessions_;
  Counters& counters_;
  const Adopt adopt_;
  const OnClientGone on_client_gone_;

  base::UniqueFd epoll_;
  base::UniqueFd wake_;  // eventfd
  std::atomic<bool> stop_accepting_{false};
  std::atomic<bool> stop_{false};
  std::atomic<size_t> attached_{0};

  // Of the thread alone, once it runs.
  std::vector<ListeningSocket> sockets_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Connection>> connections_;
  size_t undecided_ = 0;  // connections that IsUndecided
  uint64_t last_id_;
  Clock::time_point accept_again_at_{};  // after running out of descriptors
  std::thread thread_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_LISTENER_H_

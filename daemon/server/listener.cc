#include "daemon/server/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/logging.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

// What epoll events carry: 0 wakes the thread, then come the sockets, then
// connections, whose numbers are never used again.
constexpr uint64_t kWakeId = 0;
constexpr uint64_t kFirstConnectionId = 1 << 16;
constexpr std::string_view kHttp2Magic = "PRI";
const std::string_view kSideMagicView(kSideMagic, sizeof(kSideMagic));
// Out of descriptors: nothing is accepted for so long.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr uint32_t kClosedEvents = EPOLLRDHUP | EPOLLHUP | EPOLLERR;

bool IsPrefixOf(std::string_view a, std::string_view b) {
  return b.substr(0, a.size()) == a;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(
    std::vector<ListeningSocket> sockets, const ListenerOptions& options,
    PeerTable& peers, UserTable& users, SessionRegistry& sessions,
    Counters& counters, Adopt adopt, OnClientGone on_client_gone) {
  std::unique_ptr<Listener> listener(
      new Listener(options, peers, users, sessions, counters, std::move(adopt),
                   std::move(on_client_gone)));
  listener->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!listener->epoll_.ok()) {
    return absl::ErrnoToStatus(errno, "epoll_create1");
  }
  listener->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener->wake_.ok()) return absl::ErrnoToStatus(errno, "eventfd");
  RETURN_IF_ERROR(listener->Watch(listener->wake_.get(), kWakeId, EPOLLIN));
  listener->sockets_ = std::move(sockets);
  for (size_t i = 0; i < listener->sockets_.size(); ++i) {
    RETURN_IF_ERROR(
        listener->Watch(listener->sockets_[i].fd(), i + 1, EPOLLIN));
  }
  listener->thread_ = std::thread([raw = listener.get()] { raw->Run(); });
  return listener;
}

Listener::Listener(const ListenerOptions& options, PeerTable& peers,
                   UserTable& users, SessionRegistry& sessions,
                   Counters& counters, Adopt adopt, OnClientGone on_client_gone)
    : options_(options),
      peers_(peers),
      users_(users),
      sessions_(sessions),
      counters_(counters),
      adopt_(std::move(adopt)),
      on_client_gone_(std::move(on_client_gone)),
      last_id_(kFirstConnectionId) {}

Listener::~Listener() {
  stop_.store(true);
  const uint64_t one = 1;
  if (wake_.ok()) {
    [[maybe_unused]] const ssize_t written =
        ::write(wake_.get(), &one, sizeof(one));
  }
  if (thread_.joinable()) thread_.join();
}

void Listener::StopAccepting() {
  stop_accepting_.store(true);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written =
      ::write(wake_.get(), &one, sizeof(one));
}

absl::Status Listener::Watch(int fd, uint64_t id, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return absl::ErrnoToStatus(errno, "epoll_ctl");
  }
  return absl::OkStatus();
}

void Listener::Run() {
  std::array<epoll_event, 64> events;
  while (!stop_.load()) {
    const int count =
        ::epoll_wait(epoll_.get(), events.data(),
                     static_cast<int>(events.size()), TimeoutMs());
    if (count < 0 && errno != EINTR) {
      spdlog::critical("event=listener_failed error={}",
                       base::LogValue(std::strerror(errno)));
      return;
    }
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[i].data.u64;
      if (id == kWakeId) {
        uint64_t value;
        [[maybe_unused]] const ssize_t got =
            ::read(wake_.get(), &value, sizeof(value));
      } else if (id < kFirstConnectionId) {
        HandleListening(id - 1);
      } else {
        HandleConnection(id, events[i].events);
      }
    }
    if (stop_accepting_.load() && !sockets_.empty()) StopAcceptingOnThread();
    ExpireUndecided();
    if (accept_again_at_ != Clock::time_point{} &&
        Clock::now() >= accept_again_at_) {
      accept_again_at_ = {};
      for (size_t i = 0; i < sockets_.size(); ++i) HandleListening(i);
    }
  }
}

void Listener::StopAcceptingOnThread() {
  for (const ListeningSocket& socket : sockets_) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.fd(), nullptr);
  }
  sockets_.clear();
}

int Listener::TimeoutMs() const {
  if (undecided_ == 0 && accept_again_at_ == Clock::time_point{}) return -1;
  return static_cast<int>(kAcceptPause.count());
}

void Listener::HandleListening(size_t index) {
  // A bound, so that a flood of connections doesn't keep the others waiting;
  // the socket stays readable.
  for (int i = 0; i < 64 && index < sockets_.size(); ++i) {
    base::UniqueFd fd(::accept4(sockets_[index].fd(), nullptr, nullptr,
                                SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.ok()) {
      Accept(std::move(fd));
      continue;
    }
    if (errno == ECONNABORTED || errno == EINTR) continue;
    if (errno != EAGAIN) {
      // Out of descriptors or memory: the event would come back at once.
      static base::LogLimiter limiter(3, 0.1);
      if (limiter.Allow()) {
        spdlog::error("event=accept_failed error={}",
                      base::LogValue(std::strerror(errno)));
      }
      accept_again_at_ = Clock::now() + kAcceptPause;
    }
    break;
  }
  if (index >= sockets_.size()) return;
  epoll_event event{};
  if (accept_again_at_ == Clock::time_point{}) event.events = EPOLLIN;
  event.data.u64 = index + 1;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, sockets_[index].fd(), &event);
}

void Listener::Accept(base::UniqueFd fd) {
  counters_.Add(Counter::kConnections);
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) !=
      0) {
    return;
  }
  const PeerCredentials peer{credentials.pid, credentials.uid, credentials.gid};
  if (connections_.size() >= options_.max_connections) {
    return Refuse(peer, Counter::kConnectionsRefused, "too_many_connections");
  }
  if (undecided_ >= options_.max_undecided) {
    return Refuse(peer, Counter::kConnectionsRefused, "too_many_undecided");
  }
  auto claim = UserClaim::Take(users_.Find(peer), Limit::kUserConnections, 1);
  if (!claim.ok()) {
    return Refuse(peer, Counter::kConnectionsRefused,
                  "too_many_connections_of_user");
  }
  auto connection = std::make_unique<Connection>();
  connection->claim = *std::move(claim);
  connection->id = ++last_id_;
  connection->peer = peer;
  connection->deadline = Clock::now() + options_.decide_timeout;
  connection->fd = std::move(fd);
  // Edge-triggered: bytes are only looked at, and stay in the socket.
  if (!Watch(connection->fd.get(), connection->id,
             EPOLLIN | EPOLLRDHUP | EPOLLET)
           .ok()) {
    return;
  }
  ++undecided_;
  connections_.emplace(connection->id, std::move(connection));
}

void Listener::HandleConnection(uint64_t id, uint32_t events) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;  // closed by an earlier event
  Connection& connection = *found->second;
  switch (connection.state) {
    case State::kUndecided:
      return Decide(connection, events);
    case State::kSideHandshake:
      return ReadSideMessage(connection);
    case State::kSideAttached:
      // Nothing may come any more but the end.
      if ((events & kClosedEvents) == 0) {
        Refuse(connection.peer, Counter::kSideFaults, "unexpected_message");
      }
      return Close(id);
    case State::kGrpc:
      if ((events & kClosedEvents) != 0) Close(id);
      return;
  }
}

void Listener::Decide(Connection& connection, uint32_t events) {
  char bytes[sizeof(kSideMagic)];
  ssize_t got;
  do {
    got = ::recv(connection.fd.get(), bytes, sizeof(bytes),
                 MSG_PEEK | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) return Close(connection.id);
  const std::string_view start(bytes, static_cast<size_t>(got));
  if (IsPrefixOf(kHttp2Magic, start)) return GiveToGrpc(connection);
  if (start == kSideMagicView) {
    connection.state = State::kSideHandshake;
    return ReadSideMessage(connection);
  }
  // Too short to tell, and more may come.
  if ((events & kClosedEvents) == 0 &&
      (IsPrefixOf(start, kHttp2Magic) || IsPrefixOf(start, kSideMagicView))) {
    return;
  }
  Refuse(connection.peer, Counter::kConnectionsForeign, "unknown_protocol");
  Close(connection.id);
}

void Listener::GiveToGrpc(Connection& connection) {
  // gRPC gets the accepted descriptor. A duplicate shows when it is shut down,
  // by either side, so that the connection is counted for as long as it lives.
  base::UniqueFd watched(::fcntl(connection.fd.get(), F_DUPFD_CLOEXEC, 3));
  if (!watched.ok()) {
    Refuse(connection.peer, Counter::kConnectionsRefused, "no_descriptors");
    return Close(connection.id);
  }
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.fd.get(), nullptr);
  if (!Watch(watched.get(), connection.id, EPOLLRDHUP | EPOLLET).ok()) {
    return Close(connection.id);
  }
  --undecided_;
  connection.state = State::kGrpc;
  const int fd = connection.fd.release();
  connection.fd = std::move(watched);
  connection.grpc_fd = fd;
  counters_.Add(Counter::kGrpcConnections);
  peers_.Add(fd, connection.id, connection.peer);
  adopt_(fd);
}

void Listener::ReadSideMessage(Connection& connection) {
  char* const message = reinterpret_cast<char*>(&connection.message);
  while (connection.received < sizeof(SideMessage)) {
    const ssize_t got =
        ::recv(connection.fd.get(), message + connection.received,
               sizeof(SideMessage) - connection.received, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      Refuse(connection.peer, Counter::kSideFaults, "short_message");
      return Close(connection.id);
    }
    connection.received += static_cast<size_t>(got);
  }
  AttachSide(connection);
}

void Listener::AttachSide(Connection& connection) {
  const SideMessage& message = connection.message;
  const std::string_view token(reinterpret_cast<const char*>(message.token),
                               sizeof(message.token));
  absl::StatusOr<std::shared_ptr<Session>> session;
  if (message.version == kSideVersion && message.kind == SideKind::kAttach) {
    session = sessions_.Find(token, connection.peer);
  } else {
    session = absl::InvalidArgumentError("no attach message");
  }
  auto side = std::make_shared<SideChannel>(std::move(connection.fd));
  connection.side = side;
  absl::Status attached = session.status();
  if (session.ok()) attached = (*session)->Attach(side);
  if (!attached.ok()) {
    Refuse(connection.peer, Counter::kSideFaults, "attach_refused");
    // Best effort: the connection ends in any case.
    side->Send(SideKind::kRefused, 0, 0, -1).IgnoreError();
    return Close(connection.id);
  }
  connection.session = *session;
  connection.state = State::kSideAttached;
  --undecided_;
  attached_.fetch_add(1, std::memory_order_relaxed);
  counters_.Add(Counter::kSideConnections);
  // What came in before is not announced again by the edge.
  char byte;
  const ssize_t more = ::recv(side->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (more >= 0 || (errno != EAGAIN && errno != EINTR)) Close(connection.id);
}

void Listener::ExpireUndecided() {
  if (undecided_ == 0) return;
  const Clock::time_point now = Clock::now();
  std::vector<uint64_t> late;
  for (const auto& [id, connection] : connections_) {
    if (IsUndecided(connection->state) && now >= connection->deadline) {
      late.push_back(id);
    }
  }
  for (const uint64_t id : late) {
    Refuse(connections_[id]->peer, Counter::kConnectionsSilent, "silent");
    Close(id);
  }
}

void Listener::Close(uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const std::unique_ptr<Connection> connection = std::move(found->second);
  connections_.erase(found);
  if (IsUndecided(connection->state)) --undecided_;
  // A session may keep the descriptor of its side connection open for a while.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->watched_fd(), nullptr);
  if (connection->state == State::kGrpc) {
    peers_.Remove(connection->grpc_fd, connection->id);
  }
  if (connection->side != nullptr) connection->side->Shutdown();
  if (connection->state == State::kSideAttached) {
    attached_.fetch_sub(1, std::memory_order_relaxed);
    on_client_gone_(connection->session);
  }
}

void Listener::Refuse(const PeerCredentials& peer, Counter counter,
                      const char* reason) {
  counters_.Add(counter);
  static base::LogLimiter limiter(10, 1.0);
  if (!limiter.Allow()) return;
  spdlog::warn("event=connection_refused reason={} pid={} uid={} unlogged={}",
               reason, peer.pid, peer.uid, limiter.TakeSuppressed());
}

}  // namespace tvarant

#include "daemon/server/session_registry.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/base/logging.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

absl::StatusOr<SessionToken> RandomToken() {
  SessionToken token;
  size_t filled = 0;
  while (filled < token.size()) {
    const ssize_t got =
        ::getrandom(token.data() + filled, token.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::ErrnoToStatus(errno, "getrandom");
    filled += static_cast<size_t>(got);
  }
  return token;
}

uint64_t KeyOf(const void* token) {
  uint64_t key;
  std::memcpy(&key, token, sizeof(key));
  return key;
}

ResourceLimits ResourceLimitsOf(const Limits& limits) {
  ResourceLimits resources;
  resources.max_bytes = limits[Limit::kSessionBytes];
  resources.max_segments = limits[Limit::kSessionSegments];
  resources.max_programs = limits[Limit::kSessionPrograms];
  resources.max_streams = limits[Limit::kSessionStreams];
  return resources;
}

bool EqualInConstantTime(const SessionToken& a, const char* b) {
  unsigned char different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    different |=
        static_cast<unsigned char>(a[i] ^ static_cast<unsigned char>(b[i]));
  }
  return different == 0;
}

}  // namespace

SessionRegistry::SessionRegistry(TvarantRuntime& runtime, BusyTracker& busy,
                                 Counters& counters, UserTable& users,
                                 const SessionLimits& limits)
    : runtime_(runtime),
      busy_(busy),
      counters_(counters),
      users_(users),
      limits_(limits) {}

SessionRegistry::~SessionRegistry() { EndAll("shutdown"); }

absl::StatusOr<std::shared_ptr<Session>> SessionRegistry::Open(
    const PeerCredentials& peer, std::string client_name, int device) {
  SessionOptions options;
  {
    base::MutexLock lock(mutex_);
    if (draining_) return absl::UnavailableError("the daemon is shutting down");
    if (paused_) {
      return absl::UnavailableError(
          "the daemon is being drained: it takes no new sessions");
    }
    if (sessions_.size() + opening_ >= limits_.max_sessions) {
      return absl::ResourceExhaustedError(
          OverLimit("the daemon", Limit::kSessions, limits_.max_sessions));
    }
    ++opening_;
    options.id = ++last_id_;
  }
  absl::Cleanup undo = [&] {
    base::MutexLock lock(mutex_);
    --opening_;
  };
  options.user = users_.Find(peer);
  ASSIGN_OR_RETURN(UserClaim claim,
                   UserClaim::Take(options.user, Limit::kUserSessions, 1));
  ASSIGN_OR_RETURN(options.token, RandomToken());
  options.peer = peer;
  options.client_name = std::move(client_name);
  options.device = device;
  options.limits = ResourceLimitsOf(options.user->policy().limits);
  ASSIGN_OR_RETURN(const RuntimeDeviceProperties properties,
                   runtime_.GetProperties(device));
  if (options.limits.max_bytes == 0) {
    options.limits.max_bytes = properties.total_memory_bytes;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Session> made,
                   Session::Create(std::move(options), runtime_, busy_));
  std::shared_ptr<Session> session = std::move(made);
  {
    base::MutexLock lock(mutex_);
    if (draining_) {
      session->End();
      return absl::UnavailableError("the daemon is shutting down");
    }
    if (!sessions_
             .emplace(KeyOf(session->token().data()),
                      Entry{session, std::move(claim)})
             .second) {
      session->End();  // once in 2^64 sessions
      return absl::UnavailableError("try again");
    }
    --opening_;
  }
  std::move(undo).Cancel();
  counters_.Add(Counter::kSessionsOpened);
  return session;
}

absl::StatusOr<std::shared_ptr<Session>> SessionRegistry::Find(
    std::string_view token, const PeerCredentials& peer) {
  if (token.size() == std::tuple_size_v<SessionToken>) {
    base::MutexLock lock(mutex_);
    const auto found = sessions_.find(KeyOf(token.data()));
    if (found != sessions_.end() &&
        EqualInConstantTime(found->second.session->token(), token.data()) &&
        found->second.session->peer().uid == peer.uid) {
      return found->second.session;
    }
  }
  counters_.Add(Counter::kCallsUnauthenticated);
  return absl::UnauthenticatedError("no session with this token");
}

void SessionRegistry::End(const std::shared_ptr<Session>& session,
                          const char* reason) {
  if (!session->End()) return;
  {
    base::MutexLock lock(mutex_);
    const auto found = sessions_.find(KeyOf(session->token().data()));
    if (found != sessions_.end() && found->second.session == session) {
      sessions_.erase(found);
    }
  }
  counters_.Add(Counter::kSessionsEnded);
  spdlog::info("event=session_ended id={} pid={} reason={} commands={}",
               session->id(), session->peer().pid, reason,
               session->command_count().load());
}

void SessionRegistry::EndIfAbandoned(const std::shared_ptr<Session>& session) {
  if (!session->IsAbandoned(Session::Clock::now(), limits_.grace)) return;
  const bool used = session->opened_streams();
  if (!used) counters_.Add(Counter::kSessionsExpired);
  End(session, used ? "last_stream_ended" : "never_used");
}

void SessionRegistry::Sweep() {
  for (const auto& session : List()) EndIfAbandoned(session);
}

void SessionRegistry::SetPaused(bool paused) {
  base::MutexLock lock(mutex_);
  paused_ = paused;
}

bool SessionRegistry::paused() {
  base::MutexLock lock(mutex_);
  return paused_;
}

void SessionRegistry::Drain() {
  base::MutexLock lock(mutex_);
  draining_ = true;
}

void SessionRegistry::EndAll(const char* reason) {
  for (const auto& session : List()) End(session, reason);
}

std::vector<std::shared_ptr<Session>> SessionRegistry::List() {
  base::MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Session>> sessions;
  sessions.reserve(sessions_.size());
  for (const auto& [key, entry] : sessions_) sessions.push_back(entry.session);
  return sessions;
}

size_t SessionRegistry::size() {
  base::MutexLock lock(mutex_);
  return sessions_.size();
}

}  // namespace tvarant

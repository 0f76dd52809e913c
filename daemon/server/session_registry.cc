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
                                 Counters& counters,
                                 const SessionLimits& limits)
    : runtime_(runtime), busy_(busy), counters_(counters), limits_(limits) {}

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
      return absl::ResourceExhaustedError(absl::StrCat(
          "the daemon has its limit of ", limits_.max_sessions, " sessions"));
    }
    uint64_t& of_user = per_user_[peer.uid];
    if (of_user >= limits_.max_sessions_per_user) {
      return absl::ResourceExhaustedError(
          absl::StrCat("user ", peer.uid, " has the limit of ",
                       limits_.max_sessions_per_user, " sessions"));
    }
    ++of_user;
    ++opening_;
    options.id = ++last_id_;
  }
  const auto forget_user = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = per_user_.find(peer.uid);
    if (--found->second == 0) per_user_.erase(found);
  };
  absl::Cleanup undo = [&] {
    base::MutexLock lock(mutex_);
    --opening_;
    forget_user();
  };
  ASSIGN_OR_RETURN(options.token, RandomToken());
  options.peer = peer;
  options.client_name = std::move(client_name);
  options.device = device;
  options.limits = limits_.resources;
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
    if (!sessions_.emplace(KeyOf(session->token().data()), session).second) {
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
        EqualInConstantTime(found->second->token(), token.data()) &&
        found->second->peer().uid == peer.uid) {
      return found->second;
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
    if (found != sessions_.end() && found->second == session) {
      sessions_.erase(found);
      const auto user = per_user_.find(session->peer().uid);
      if (user != per_user_.end() && --user->second == 0) per_user_.erase(user);
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
  for (const auto& [key, session] : sessions_) sessions.push_back(session);
  return sessions;
}

size_t SessionRegistry::size() {
  base::MutexLock lock(mutex_);
  return sessions_.size();
}

}  // namespace tvarant

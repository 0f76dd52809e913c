#include "daemon/base/limits.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace tvarant {
namespace {

constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();

// clang-format off
constexpr LimitRow kTable[kNumLimits] = {
    {Limit::kSessions, LimitScope::kDaemon, "max-sessions", "sessions",
     256, 1, 65536, "sessions at a time"},
    {Limit::kConnections, LimitScope::kDaemon, "max-connections", "connections",
     1024, 2, 65536, "connections at a time"},
    {Limit::kStreams, LimitScope::kDaemon, "max-streams", "streams",
     1024, 1, 16384, "command streams of all sessions; each has a thread"},
    {Limit::kUserSessions, LimitScope::kUser, "max-sessions-per-user", "sessions",
     128, 1, 65536, "sessions of one user"},
    {Limit::kUserConnections, LimitScope::kUser, "max-connections-per-user", "connections",
     512, 2, 65536, "connections of one user"},
    {Limit::kUserStreams, LimitScope::kUser, "max-streams-per-user", "streams",
     512, 1, 16384, "command streams of one user"},
    {Limit::kUserBytes, LimitScope::kUser, "max-bytes-per-user", "bytes",
     0, 0, kAnySize, "device and staging memory of one user"},
    {Limit::kUserPrograms, LimitScope::kUser, "max-programs-per-user", "programs",
     262144, 1, 1 << 24, "programs of all sessions of one user"},
    {Limit::kUserQueuedBytes, LimitScope::kUser, "max-queued-bytes-per-user", "bytes",
     uint64_t{256} << 20, 1 << 20, kAnySize,
     "commands of one user that have arrived and are not yet executed"},
    {Limit::kSessionBytes, LimitScope::kSession, "max-session-bytes", "bytes",
     0, 0, kAnySize, "device and staging memory of one session"},
    {Limit::kSessionStreams, LimitScope::kSession, "max-streams-per-session", "streams",
     64, 1, 64, "command streams of one session"},
    {Limit::kSessionSegments, LimitScope::kSession, "max-segments", "segments",
     65536, 1, 1 << 24, "segments of one session"},
    {Limit::kSessionPrograms, LimitScope::kSession, "max-programs", "programs",
     65536, 1, 1 << 24, "programs of one session"},
};
// clang-format on

}  // namespace

absl::Span<const LimitRow> LimitTable() { return kTable; }

Limits::Limits() {
  for (const LimitRow& row : kTable) {
    values_[static_cast<size_t>(row.limit)] = row.default_value;
  }
}

std::string OverLimit(std::string_view who, Limit limit, uint64_t value) {
  const LimitRow& row = RowOf(limit);
  std::string key = row.option;
  std::replace(key.begin(), key.end(), '-', '_');
  return absl::StrCat(absl::string_view(who.data(), who.size()),
                      " has the limit of ", value, " ", row.unit, " (", key,
                      ")");
}

}  // namespace tvarant

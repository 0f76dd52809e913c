// The one table of limits: what a session, a user and all of them may hold.
//
// Each is an option of the daemon (daemon/config); those of a user or session
// can be different for a user (UserPolicies). What is over a limit is refused
// before anything is reserved, with an error that names the limit. To add one:
// an enumerator, a row in limits.cc, and the place that counts.

#ifndef TVARANT_DAEMON_BASE_LIMITS_H_
#define TVARANT_DAEMON_BASE_LIMITS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace tvarant {

enum class Limit : uint8_t {
  kSessions,
  kConnections,
  kStreams,
  kUserSessions,
  kUserConnections,
  kUserStreams,
  kUserBytes,
  kUserPrograms,
  kUserQueuedBytes,
  kSessionBytes,
  kSessionStreams,
  kSessionSegments,
  kSessionPrograms,
};
inline constexpr size_t kNumLimits = 13;

// What the limit is of.
enum class LimitScope : uint8_t { kDaemon, kUser, kSession };

struct LimitRow {
  Limit limit;
  LimitScope scope;
  const char* option;  // "max-sessions-per-user"
  const char* unit;    // what it counts: "sessions", "bytes"
  uint64_t default_value;
  uint64_t min, max;
  const char* doc;

  bool is_size() const { return std::string_view(unit) == "bytes"; }
};

// By Limit. In bytes, 0 means no limit of its own: all of the device.
absl::Span<const LimitRow> LimitTable();
inline const LimitRow& RowOf(Limit limit) {
  return LimitTable()[static_cast<size_t>(limit)];
}

// A value for each limit; the defaults at first.
class Limits {
 public:
  Limits();
  uint64_t& operator[](Limit limit) {
    return values_[static_cast<size_t>(limit)];
  }
  uint64_t operator[](Limit limit) const {
    return values_[static_cast<size_t>(limit)];
  }
  bool operator==(const Limits&) const = default;

 private:
  std::array<uint64_t, kNumLimits> values_;
};

// "user 1000 has the limit of 8 sessions (max_sessions_per_user)".
std::string OverLimit(std::string_view who, Limit limit, uint64_t value);

}  // namespace tvarant

#endif  // TVARANT_DAEMON_BASE_LIMITS_H_

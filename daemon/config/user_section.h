// "[user NAME]" sections of the config file: what is different for a user.
//
//   [user alice]
//   weight = 4
//   priority = high
//   max_bytes_per_user = 8GiB

#ifndef TVARANT_DAEMON_CONFIG_USER_SECTION_H_
#define TVARANT_DAEMON_CONFIG_USER_SECTION_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/limits.h"

namespace tvarant {

struct UserOptions {
  // A name or number of this machine's, or "remote:NAME" as a certificate or
  // token gives it.
  std::string name;
  uint32_t weight = 1;
  bool high_priority = false;
  std::map<Limit, uint64_t> limits{};  // those that are given
};

// The name in "[user NAME]". INVALID_ARGUMENT for anything else.
absl::StatusOr<std::string> ParseUserHeading(std::string_view line);

// Sets a key, written with underscores. INVALID_ARGUMENT for an unknown key or
// a value out of its range.
absl::Status SetUserValue(std::string_view key, std::string_view value,
                          UserOptions* user);

// The value of a limit: a count, or a size such as 4GiB.
absl::StatusOr<uint64_t> ParseLimit(const LimitRow& row, std::string_view text);

}  // namespace tvarant

#endif  // TVARANT_DAEMON_CONFIG_USER_SECTION_H_

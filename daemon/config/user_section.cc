#include "daemon/config/user_section.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/config/value.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

constexpr uint64_t kMaxWeight = 1000;
constexpr size_t kMaxNameBytes = 256;

absl::Status Invalid(std::string text) {
  return absl::InvalidArgumentError(std::move(text));
}

}  // namespace

absl::StatusOr<std::string> ParseUserHeading(std::string_view line) {
  constexpr std::string_view kStart = "[user ";
  if (line.substr(0, kStart.size()) != kStart || line.back() != ']') {
    return Invalid("not a section of the form [user NAME]");
  }
  line.remove_prefix(kStart.size());
  line.remove_suffix(1);
  const std::string_view name = TrimSpace(line);
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Invalid("a user's name has 1 to 256 bytes");
  }
  return std::string(name);
}

absl::StatusOr<uint64_t> ParseLimit(const LimitRow& row,
                                    std::string_view text) {
  const std::string quoted = "\"" + std::string(text) + "\"";
  uint64_t value;
  if (row.is_size()) {
    ASSIGN_OR_RETURN(value, ParseSize(text));
  } else if (!ParseDigits(text, 10, &value)) {
    return Invalid(quoted + " is not a number");
  }
  if (value >= row.min && value <= row.max) return value;
  // All of the device.
  if (value == 0 && row.is_size()) return value;
  return Invalid(absl::StrCat(quoted, " is not in ", row.min, " to ", row.max));
}

absl::Status SetUserValue(std::string_view key, std::string_view value,
                          UserOptions* user) {
  if (key == "weight") {
    uint64_t weight;
    if (!ParseDigits(value, 10, &weight) || weight < 1 || weight > kMaxWeight) {
      return Invalid(absl::StrCat("\"", std::string(value),
                                  "\" is not in 1 to ", kMaxWeight));
    }
    user->weight = static_cast<uint32_t>(weight);
    return absl::OkStatus();
  }
  if (key == "priority") {
    if (value != "normal" && value != "high") {
      return Invalid(absl::StrCat("\"", std::string(value),
                                  "\" is neither normal nor high"));
    }
    user->high_priority = value == "high";
    return absl::OkStatus();
  }
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', '-');
  for (const LimitRow& row : LimitTable()) {
    if (row.scope == LimitScope::kDaemon || name != row.option) continue;
    ASSIGN_OR_RETURN(user->limits[row.limit], ParseLimit(row, value));
    return absl::OkStatus();
  }
  return Invalid("unknown key \"" + std::string(key) + "\" of a user");
}

}  // namespace tvarant

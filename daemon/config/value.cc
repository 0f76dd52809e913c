#include "daemon/config/value.h"

#include <string>

#include "proto/base/checked_math.h"

namespace tvarant {

bool ParseDigits(std::string_view text, uint64_t base, uint64_t* value) {
  if (text.empty()) return false;
  *value = 0;
  for (const char c : text) {
    if (c < '0' || static_cast<uint64_t>(c - '0') >= base) return false;
    if (!base::CheckedMul(*value, base, value) ||
        !base::CheckedAdd(*value, static_cast<uint64_t>(c - '0'), value)) {
      return false;
    }
  }
  return true;
}

std::string_view TrimSpace(std::string_view text) {
  const auto is_space = [](char c) {
    return c == ' ' || c == '\t' || c == '\r';
  };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

absl::StatusOr<uint64_t> ParseSize(std::string_view text) {
  const auto bad = [&] {
    return absl::InvalidArgumentError(
        "\"" + std::string(text) + "\" is not a size such as 512MiB or 4GiB");
  };
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    ++digits;
  }
  uint64_t value;
  if (!ParseDigits(text.substr(0, digits), 10, &value)) return bad();
  const std::string_view unit = TrimSpace(text.substr(digits));
  if (unit.empty() || unit == "B") return value;
  const size_t power = std::string_view("KMGT").find(unit[0]);
  const std::string_view rest = unit.substr(1);
  if (power == std::string_view::npos ||
      !(rest.empty() || rest == "iB" || rest == "B")) {
    return bad();
  }
  if (!base::CheckedMul(value, uint64_t{1} << (10 * (power + 1)), &value)) {
    return bad();
  }
  return value;
}

}  // namespace tvarant

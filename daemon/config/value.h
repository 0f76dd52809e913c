// Values as people write them in options.

#ifndef TVARANT_DAEMON_CONFIG_VALUE_H_
#define TVARANT_DAEMON_CONFIG_VALUE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace tvarant {

// "4GiB", "512M", "1048576": bytes; K, M, G, T with or without iB are powers
// of 1024.
absl::StatusOr<uint64_t> ParseSize(std::string_view text);

// Digits of one base, nothing else, in range.
bool ParseDigits(std::string_view text, uint64_t base, uint64_t* value);

// Without blanks at its ends.
std::string_view TrimSpace(std::string_view text);

}  // namespace tvarant

#endif  // TVARANT_DAEMON_CONFIG_VALUE_H_

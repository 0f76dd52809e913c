// Logging set-up: spdlog to stderr, one line per event, key=value fields.
//
// Example:
//   base::InitLogging();
//   spdlog::info("event=session_opened id={} client={}", id,
//                base::LogValue(client_name));
//
// Never tensor data or tokens. What a peer can trigger goes through a
// LogLimiter.

#ifndef TVARANT_PROTO_BASE_LOGGING_H_
#define TVARANT_PROTO_BASE_LOGGING_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "spdlog/spdlog.h"

namespace tvarant::base {

// Makes spdlog's default logger write to stderr. The level comes from
// TVARANT_LOG: trace, debug, info (default), warn, error or off; another word
// means info and a warning. When stderr is the systemd journal (JOURNAL_STREAM)
// lines start with the priority, "<6>", and have no time of their own. Call
// once, at the start of main().
void InitLogging();

// A text from outside as one field: as it is when it has only harmless
// characters, else quoted, with escapes, cut at 256 bytes. A log line can't be
// forged with it.
std::string LogValue(std::string_view text);

// Lets through `burst` events at once and then `per_second` of them.
// Thread-safe.
//
//   static base::LogLimiter limiter(5, 1.0);
//   if (limiter.Allow()) spdlog::warn("event=bad_record ...");
class LogLimiter {
 public:
  LogLimiter(int burst, double per_second);
  bool Allow();
  // With the time given, for tests; nanoseconds that never go back.
  bool Allow(int64_t now_ns);
  // Events held back since the last call.
  uint64_t TakeSuppressed() { return suppressed_.exchange(0); }

 private:
  const int64_t burst_ns_;
  const int64_t interval_ns_;
  // When the bucket would be full again: one number is the whole state.
  std::atomic<int64_t> full_at_ns_{INT64_MIN};
  std::atomic<uint64_t> suppressed_{0};
};

}  // namespace tvarant::base

#endif  // TVARANT_PROTO_BASE_LOGGING_H_

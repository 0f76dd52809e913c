#include "proto/base/logging.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace tvarant::base {
namespace {

// %*: the line's syslog priority.
class PriorityFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    char priority = '6';
    switch (message.level) {
      case spdlog::level::trace:
      case spdlog::level::debug:
        priority = '7';
        break;
      case spdlog::level::warn:
        priority = '4';
        break;
      case spdlog::level::err:
        priority = '3';
        break;
      case spdlog::level::critical:
        priority = '2';
        break;
      default:
        break;
    }
    out.push_back('<');
    out.push_back(priority);
    out.push_back('>');
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PriorityFlag>();
  }
};

// JOURNAL_STREAM is inherited by grandchildren with another stderr, so what it
// names (device:inode) is compared.
bool StderrIsJournal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  unsigned long long device = 0, inode = 0;
  struct stat info;
  return stream != nullptr &&
         std::sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
         ::fstat(STDERR_FILENO, &info) == 0 && info.st_dev == device &&
         info.st_ino == inode;
}

std::optional<spdlog::level::level_enum> ParseLevel(std::string_view word) {
  if (word == "trace") return spdlog::level::trace;
  if (word == "debug") return spdlog::level::debug;
  if (word == "info") return spdlog::level::info;
  if (word == "warn") return spdlog::level::warn;
  if (word == "error") return spdlog::level::err;
  if (word == "off") return spdlog::level::off;
  return std::nullopt;
}

bool IsHarmless(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
         (c >= 'a' && c <= 'z') ||
         std::string_view("-_.:/@+,").find(c) != std::string_view::npos;
}

}  // namespace

void InitLogging() {
  auto logger = std::make_shared<spdlog::logger>(
      "", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>(
      spdlog::pattern_time_type::utc);
  formatter->add_flag<PriorityFlag>('*').set_pattern(
      StderrIsJournal() ? "%*level=%l %v"
                        : "%Y-%m-%dT%H:%M:%S.%eZ level=%l %v");
  logger->set_formatter(std::move(formatter));
  const char* word = std::getenv("TVARANT_LOG");
  const auto level = ParseLevel(word == nullptr ? "info" : word);
  logger->set_level(level.value_or(spdlog::level::info));
  spdlog::set_default_logger(std::move(logger));
  if (!level.has_value()) {
    spdlog::warn(
        "event=unknown_log_level value={} known=trace,debug,info,warn,error,"
        "off",
        LogValue(word));
  }
}

std::string LogValue(std::string_view text) {
  constexpr size_t kMaxBytes = 256;
  const bool cut = text.size() > kMaxBytes;
  if (cut) text = text.substr(0, kMaxBytes);
  if (!cut && !text.empty() &&
      std::all_of(text.begin(), text.end(), IsHarmless)) {
    return std::string(text);
  }
  std::string value = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      value += '\\';
      value += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\x%02x", byte);
      value += escape;
    } else {
      value += c;
    }
  }
  return value + (cut ? "...\"" : "\"");
}

LogLimiter::LogLimiter(int burst, double per_second)
    : burst_ns_(static_cast<int64_t>(std::max(burst, 1) * (1e9 / per_second))),
      interval_ns_(static_cast<int64_t>(1e9 / per_second)) {}

bool LogLimiter::Allow() {
  return Allow(std::chrono::nanoseconds(
                   std::chrono::steady_clock::now().time_since_epoch())
                   .count());
}

bool LogLimiter::Allow(int64_t now_ns) {
  int64_t full_at = full_at_ns_.load(std::memory_order_relaxed);
  for (;;) {
    const int64_t next = std::max(full_at, now_ns) + interval_ns_;
    if (next - now_ns > burst_ns_) {
      suppressed_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    if (full_at_ns_.compare_exchange_weak(full_at, next,
                                          std::memory_order_relaxed)) {
      return true;
    }
  }
}

}  // namespace tvarant::base

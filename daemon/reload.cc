#include "daemon/reload.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/process/systemd.h"
#include "proto/base/logging.h"

namespace tvarant {
namespace {

bool IsNumber(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<std::string> KeyOf(const std::string& name) {
  if (IsNumber(name) || name.rfind("remote:", 0) == 0) return name;
  passwd entry;
  passwd* found = nullptr;
  std::vector<char> text(64 << 10);
  if (::getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found) !=
          0 ||
      found == nullptr) {
    return std::nullopt;
  }
  return UserKey(entry.pw_uid);
}

}  // namespace

UserPolicies ToUserPolicies(const Options& options) {
  UserPolicies policies;
  policies.others.limits = options.limits;
  for (const UserOptions& user : options.users) {
    const std::optional<std::string> key = KeyOf(user.name);
    if (!key.has_value()) {
      spdlog::warn("event=unknown_user name={}", base::LogValue(user.name));
      continue;
    }
    UserPolicy policy;
    policy.weight = user.weight;
    policy.priority = user.high_priority ? Priority::kHigh : Priority::kNormal;
    policy.limits = options.limits;
    for (const auto& [limit, value] : user.limits) policy.limits[limit] = value;
    policies.named[*key] = policy;
  }
  return policies;
}

void Reload(const std::vector<std::string>& args, const Options& started,
            Server& server) {
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now().time_since_epoch());
  NotifySystemd(absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", now.count()));
  absl::StatusOr<Options> options = ParseArguments(args);
  if (options.ok()) {
    server.SetUsers(ToUserPolicies(*options));
    const std::string waiting =
        absl::StrJoin(NeedRestart(started, *options), ",");
    spdlog::info("event=reloaded users={} need_restart={}",
                 options->users.size(),
                 base::LogValue(waiting.empty() ? "none" : waiting));
  } else {
    const std::string text(options.status().message());
    spdlog::error("event=reload_failed error={}", base::LogValue(text));
  }
  NotifySystemd("READY=1");
}

}  // namespace tvarant

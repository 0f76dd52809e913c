#include "daemon/server/admin_policy.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

constexpr size_t kBufferBytes = 16384;
constexpr int kMaxGroups = 1024;

}  // namespace

absl::StatusOr<gid_t> GroupId(const std::string& name) {
  std::vector<char> buffer(kBufferBytes);
  group entry;
  group* found = nullptr;
  const int error =
      ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no group \"", name, "\"",
        error == 0 ? "" : absl::StrCat(" (", std::strerror(error), ")")));
  }
  return entry.gr_gid;
}

absl::StatusOr<AdminPolicy> AdminPolicy::Create(const std::string& group) {
  AdminPolicy policy;
  if (group.empty()) return policy;
  policy.group_ = group;
  ASSIGN_OR_RETURN(policy.gid_, GroupId(group));
  return policy;
}

absl::Status AdminPolicy::Check(const PeerCredentials& peer) const {
  if (peer.is_remote()) {
    return absl::PermissionDeniedError(
        "a daemon is steered from its own machine");
  }
  if (peer.uid == 0 || peer.uid == ::geteuid() || IsMember(peer)) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "user ", peer.uid, " may not steer this daemon: root, user ", ::geteuid(),
      gid_.has_value() ? absl::StrCat(" and the members of group ", group_)
                       : " (no group: admin_group is not set)",
      " may"));
}

bool AdminPolicy::IsMember(const PeerCredentials& peer) const {
  if (!gid_.has_value()) return false;
  if (peer.gid == *gid_) return true;
  std::vector<char> buffer(kBufferBytes);
  passwd entry;
  passwd* found = nullptr;
  if (::getpwuid_r(peer.uid, &entry, buffer.data(), buffer.size(), &found) !=
          0 ||
      found == nullptr) {
    return false;
  }
  std::vector<gid_t> groups(kMaxGroups);
  int count = kMaxGroups;
  ::getgrouplist(entry.pw_name, entry.pw_gid, groups.data(), &count);
  groups.resize(std::min<size_t>(static_cast<size_t>(count), groups.size()));
  return std::find(groups.begin(), groups.end(), *gid_) != groups.end();
}

}  // namespace tvarant

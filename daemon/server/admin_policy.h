// AdminPolicy: who may change what a daemon does.
//
// Root, the user that the daemon runs as, and the members of one group, looked
// up in the system's user database at each call, so that a change there counts
// at once.
//
// Example:
//   ASSIGN_OR_RETURN(auto policy, AdminPolicy::Create("tvarant-admin"));
//   RETURN_IF_ERROR(policy.Check(peer));

#ifndef TVARANT_DAEMON_SERVER_ADMIN_POLICY_H_
#define TVARANT_DAEMON_SERVER_ADMIN_POLICY_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/server/peer_table.h"

namespace tvarant {

// Thread-safe.
class AdminPolicy {
 public:
  // `group` empty: no group. INVALID_ARGUMENT if there is no such group.
  static absl::StatusOr<AdminPolicy> Create(const std::string& group);

  // OK, or PERMISSION_DENIED that says who may.
  absl::Status Check(const PeerCredentials& peer) const;

 private:
  AdminPolicy() = default;
  bool IsMember(const PeerCredentials& peer) const;

  std::string group_;
  std::optional<gid_t> gid_;
};

// The number of a group. INVALID_ARGUMENT if there is none of that name.
absl::StatusOr<gid_t> GroupId(const std::string& name);

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_ADMIN_POLICY_H_

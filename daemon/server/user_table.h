// UserTable: who uses the daemon, what each user may hold and holds, and each
// one's share of the device.
//
// A user is known by a key: the number of a local user, or a name that the
// connection proves in another way. An account lives as long as something of
// the user does. Everything that counts against a user is taken here first, in
// checked arithmetic, and given back by a claim's destructor.
//
// Example:
//   UserTable users(gate, policies);
//   std::shared_ptr<UserAccount> user = users.Find(peer);
//   ASSIGN_OR_RETURN(UserClaim claim, UserClaim::Take(user, Limit::kUserBytes,
//                                                     size_bytes));

#ifndef TVARANT_DAEMON_SERVER_USER_TABLE_H_
#define TVARANT_DAEMON_SERVER_USER_TABLE_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/base/limits.h"
#include "daemon/scheduler/device_gate.h"
#include "daemon/server/peer_table.h"
#include "proto/base/mutex.h"

namespace tvarant {

struct UserPolicy {
  uint32_t weight = 1;
  Priority priority = Priority::kNormal;
  Limits limits;
};

struct UserPolicies {
  UserPolicy others;                        // who is not named
  std::map<std::string, UserPolicy> named;  // by key
};

// The key of a user of this machine, "1000", and of one behind TCP, who has
// proved a name, "remote:alice".
std::string UserKey(uid_t uid);
std::string UserKey(const PeerCredentials& peer);

// Thread-safe.
class UserAccount {
 public:
  UserAccount(DeviceGate& gate, std::string key, const UserPolicy& policy);

  const std::string& key() const { return key_; }
  DeviceGate::User& gate_user() { return gate_user_; }

  UserPolicy policy();
  // What is held already stays.
  void SetPolicy(const UserPolicy& policy);
  uint64_t used(Limit limit);

 private:
  friend class UserClaim;
  absl::Status Take(Limit limit, uint64_t amount);
  void Give(Limit limit, uint64_t amount);

  DeviceGate& gate_;
  const std::string key_;
  DeviceGate::User gate_user_;
  base::Mutex mutex_;
  UserPolicy policy_ ABSL_GUARDED_BY(mutex_);
  std::array<uint64_t, kNumLimits> used_ ABSL_GUARDED_BY(mutex_) = {};
};

// Something that counts against a user, until it is destroyed. Empty at first.
class UserClaim {
 public:
  // RESOURCE_EXHAUSTED, naming the limit. Without a user (null) nothing counts.
  static absl::StatusOr<UserClaim> Take(std::shared_ptr<UserAccount> user,
                                        Limit limit, uint64_t amount);
  UserClaim() = default;
  UserClaim(UserClaim&& other) noexcept
      : user_(std::move(other.user_)),
        limit_(other.limit_),
        amount_(std::exchange(other.amount_, 0)) {}
  UserClaim& operator=(UserClaim&& other) noexcept {
    std::swap(user_, other.user_);
    std::swap(limit_, other.limit_);
    std::swap(amount_, other.amount_);
    return *this;
  }
  ~UserClaim();

 private:
  std::shared_ptr<UserAccount> user_;  // shared by all that is the user's
  Limit limit_ = Limit::kUserSessions;
  uint64_t amount_ = 0;
};

// Thread-safe.
class UserTable {
 public:
  UserTable(DeviceGate& gate, UserPolicies policies)
      : gate_(gate), policies_(std::move(policies)) {}

  // The account of the user behind a connection.
  std::shared_ptr<UserAccount> Find(const PeerCredentials& peer) {
    return Find(UserKey(peer));
  }
  std::shared_ptr<UserAccount> Find(const std::string& key);

  // From now on; accounts that are there get their new policies.
  void SetPolicies(UserPolicies policies);

 private:
  UserPolicy PolicyLocked(const std::string& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  DeviceGate& gate_;
  base::Mutex mutex_;
  UserPolicies policies_ ABSL_GUARDED_BY(mutex_);
  // Forgotten with the last that is the user's.
  std::map<std::string, std::weak_ptr<UserAccount>> accounts_
      ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 256;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_USER_TABLE_H_

#include "daemon/server/user_table.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace tvarant {

std::string UserKey(uid_t uid) { return std::to_string(uid); }

std::string UserKey(const PeerCredentials& peer) {
  return peer.is_remote() ? "remote:" + peer.remote_user : UserKey(peer.uid);
}

UserAccount::UserAccount(DeviceGate& gate, std::string key,
                         const UserPolicy& policy)
    : gate_(gate), key_(std::move(key)) {
  SetPolicy(policy);
}

UserPolicy UserAccount::policy() {
  base::MutexLock lock(mutex_);
  return policy_;
}

void UserAccount::SetPolicy(const UserPolicy& policy) {
  gate_.Configure(gate_user_, policy.weight, policy.priority);
  base::MutexLock lock(mutex_);
  policy_ = policy;
}

uint64_t UserAccount::used(Limit limit) {
  base::MutexLock lock(mutex_);
  return used_[static_cast<size_t>(limit)];
}

absl::Status UserAccount::Take(Limit limit, uint64_t amount) {
  base::MutexLock lock(mutex_);
  const uint64_t value = policy_.limits[limit];
  uint64_t& used = used_[static_cast<size_t>(limit)];
  // The sum of what is held fits: each was checked against the same sum.
  const bool unlimited = value == 0 && RowOf(limit).is_size();
  const uint64_t most = unlimited ? UINT64_MAX : value;
  if (amount > most || used > most - amount) {
    return absl::ResourceExhaustedError(
        absl::StrCat(OverLimit("user " + key_, limit, value), ", holds ", used,
                     ", asked for ", amount, " more"));
  }
  used += amount;
  return absl::OkStatus();
}

void UserAccount::Give(Limit limit, uint64_t amount) {
  base::MutexLock lock(mutex_);
  used_[static_cast<size_t>(limit)] -= amount;
}

absl::StatusOr<UserClaim> UserClaim::Take(std::shared_ptr<UserAccount> user,
                                          Limit limit, uint64_t amount) {
  UserClaim claim;
  if (user == nullptr) return claim;
  const absl::Status status = user->Take(limit, amount);
  if (!status.ok()) return status;
  claim.user_ = std::move(user);
  claim.limit_ = limit;
  claim.amount_ = amount;
  return claim;
}

UserClaim::~UserClaim() {
  if (user_ != nullptr) user_->Give(limit_, amount_);
}

UserPolicy UserTable::PolicyLocked(const std::string& key) const {
  const auto found = policies_.named.find(key);
  return found == policies_.named.end() ? policies_.others : found->second;
}

std::shared_ptr<UserAccount> UserTable::Find(const std::string& key) {
  base::MutexLock lock(mutex_);
  std::weak_ptr<UserAccount>& entry = accounts_[key];
  std::shared_ptr<UserAccount> account = entry.lock();
  if (account != nullptr) return account;
  account = std::make_shared<UserAccount>(gate_, key, PolicyLocked(key));
  entry = account;
  if (accounts_.size() >= sweep_at_) {
    for (auto it = accounts_.begin(); it != accounts_.end();) {
      it = it->second.expired() ? accounts_.erase(it) : std::next(it);
    }
    sweep_at_ = std::max<size_t>(256, 2 * accounts_.size());
  }
  return account;
}

void UserTable::SetPolicies(UserPolicies policies) {
  base::MutexLock lock(mutex_);
  policies_ = std::move(policies);
  for (const auto& [key, entry] : accounts_) {
    const std::shared_ptr<UserAccount> account = entry.lock();
    if (account != nullptr) account->SetPolicy(PolicyLocked(key));
  }
}

}  // namespace tvarant

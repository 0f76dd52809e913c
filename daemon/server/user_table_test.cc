#include "daemon/server/user_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tvarant {
namespace {

using ::testing::HasSubstr;

class UserTableTest : public ::testing::Test {
 protected:
  static UserPolicies Policies() {
    UserPolicies policies;
    policies.others.limits[Limit::kUserStreams] = 2;
    policies.named["7"].limits[Limit::kUserStreams] = 4;
    policies.named["7"].weight = 3;
    return policies;
  }

  DeviceGate gate_{1};
  UserTable users_{gate_, Policies()};
};

TEST_F(UserTableTest, CountsPerUserAndNamesTheLimit) {
  const auto user = users_.Find("1000");
  EXPECT_EQ(users_.Find(PeerCredentials{.pid = 1, .uid = 1000, .gid = 5}),
            user);
  // A name that somebody proves elsewhere is not a user of this machine.
  PeerCredentials remote{.uid = 1000};
  remote.remote_user = "1000";
  EXPECT_NE(users_.Find(remote), user);
  EXPECT_NE(users_.Find("1001"), user);
  {
    const auto a = UserClaim::Take(user, Limit::kUserStreams, 1);
    const auto b = UserClaim::Take(user, Limit::kUserStreams, 1);
    ASSERT_TRUE(a.ok() && b.ok());
    const auto c = UserClaim::Take(user, Limit::kUserStreams, 1);
    EXPECT_EQ(c.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(c.status().message()),
                HasSubstr("user 1000 has the limit of 2 streams "
                          "(max_streams_per_user), holds 2"));
    // Other users and other limits are not touched.
    EXPECT_TRUE(
        UserClaim::Take(users_.Find("1001"), Limit::kUserStreams, 2).ok());
    EXPECT_TRUE(UserClaim::Take(user, Limit::kUserSessions, 1).ok());
  }
  EXPECT_EQ(user->used(Limit::kUserStreams), 0u);
}

TEST_F(UserTableTest, SumsDoNotWrap) {
  const auto user = users_.Find("1000");
  // No limit of its own, but a sum that can be told.
  const auto most = UserClaim::Take(user, Limit::kUserBytes, UINT64_MAX - 1);
  ASSERT_TRUE(most.ok());
  EXPECT_TRUE(UserClaim::Take(user, Limit::kUserBytes, 1).ok());
  EXPECT_FALSE(UserClaim::Take(user, Limit::kUserBytes, 2).ok());
  EXPECT_FALSE(UserClaim::Take(user, Limit::kUserBytes, UINT64_MAX).ok());
  EXPECT_EQ(user->used(Limit::kUserBytes), UINT64_MAX - 1);
}

TEST_F(UserTableTest, ClaimsMove) {
  const auto user = users_.Find("1000");
  UserClaim a = *UserClaim::Take(user, Limit::kUserStreams, 1);
  UserClaim b = *UserClaim::Take(user, Limit::kUserStreams, 1);
  a = std::move(b);
  EXPECT_EQ(user->used(Limit::kUserStreams), 2u);  // swapped
  b = UserClaim();
  EXPECT_EQ(user->used(Limit::kUserStreams), 1u);
  a = UserClaim();
  EXPECT_EQ(user->used(Limit::kUserStreams), 0u);
  EXPECT_TRUE(UserClaim::Take(nullptr, Limit::kUserStreams, 99).ok());
}

TEST_F(UserTableTest, NewPoliciesCountAtOnce) {
  const auto named = users_.Find("7");
  const auto other = users_.Find("8");
  EXPECT_EQ(named->policy().weight, 3u);
  const auto held = UserClaim::Take(named, Limit::kUserStreams, 4);
  ASSERT_TRUE(held.ok());
  UserPolicies policies;
  policies.others.limits[Limit::kUserStreams] = 1;
  policies.named["8"].priority = Priority::kHigh;
  users_.SetPolicies(policies);
  EXPECT_EQ(named->policy().weight, 1u);
  EXPECT_EQ(other->gate_user().priority(), Priority::kHigh);
  // What is held stays, and counts.
  EXPECT_EQ(named->used(Limit::kUserStreams), 4u);
  EXPECT_FALSE(UserClaim::Take(named, Limit::kUserStreams, 1).ok());
}

TEST_F(UserTableTest, ManyUsersComeAndGo) {
  for (int i = 0; i < 5000; ++i) users_.Find(std::to_string(i));
  EXPECT_EQ(users_.Find("7")->policy().weight, 3u);
}

}  // namespace
}  // namespace tvarant

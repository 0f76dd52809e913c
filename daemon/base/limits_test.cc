#include "daemon/base/limits.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tvarant {
namespace {

TEST(LimitsTest, TheTableIsInOrderAndItsDefaultsAreAllowed) {
  ASSERT_EQ(LimitTable().size(), kNumLimits);
  std::set<std::string> names;
  const Limits limits;
  for (size_t i = 0; i < kNumLimits; ++i) {
    const LimitRow& row = LimitTable()[i];
    EXPECT_EQ(static_cast<size_t>(row.limit), i) << row.option;
    EXPECT_TRUE(names.insert(row.option).second) << row.option;
    EXPECT_LE(row.min, row.max);
    EXPECT_EQ(limits[row.limit], row.default_value);
    // 0 bytes: no limit.
    EXPECT_TRUE(row.default_value == 0 || row.default_value >= row.min);
    EXPECT_LE(row.default_value, row.max);
  }
}

TEST(LimitsTest, TheErrorNamesTheLimitAsTheFileDoes) {
  EXPECT_EQ(OverLimit("user 7", Limit::kUserSessions, 3),
            "user 7 has the limit of 3 sessions (max_sessions_per_user)");
}

}  // namespace
}  // namespace tvarant

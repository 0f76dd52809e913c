#include "daemon/scheduler/busy_tracker.h"

#include <gtest/gtest.h>

namespace tvarant {
namespace {

constexpr int64_t kIdleNs =
    std::chrono::nanoseconds(BusyTracker::kIdleAfter).count();

TEST(BusyTrackerTest, CountsOthersOnly) {
  BusyTracker tracker;
  std::atomic<uint32_t> a_hint{9}, b_hint{9};
  BusyTracker::Member a(&a_hint), b(&b_hint), blind(nullptr);
  tracker.Add(&a);
  tracker.Add(&b);
  tracker.Add(&blind);
  EXPECT_EQ(a_hint, 0u);
  EXPECT_EQ(b_hint, 0u);
  tracker.Touch(&a, 1000);
  tracker.Touch(&a, 1001);
  EXPECT_EQ(a_hint, 0u);
  EXPECT_EQ(b_hint, 1u);
  tracker.Touch(&blind, 1002);
  EXPECT_EQ(a_hint, 1u);
  EXPECT_EQ(b_hint, 2u);
  tracker.Remove(&a);
  tracker.Remove(&a);
  EXPECT_EQ(b_hint, 1u);
  tracker.Touch(&a, 1003);  // late, after its end
  EXPECT_EQ(b_hint, 1u);
  tracker.Remove(&b);
  tracker.Remove(&blind);
}

TEST(BusyTrackerTest, ForgetsTheIdle) {
  BusyTracker tracker;
  std::atomic<uint32_t> a_hint{0}, b_hint{0};
  BusyTracker::Member a(&a_hint), b(&b_hint);
  tracker.Add(&a);
  tracker.Add(&b);
  tracker.Touch(&a, 0);
  tracker.Touch(&b, kIdleNs);
  EXPECT_TRUE(tracker.Sweep(kIdleNs));
  EXPECT_EQ(b_hint, 1u);
  EXPECT_TRUE(tracker.Sweep(kIdleNs + 1));  // a has been idle too long
  EXPECT_EQ(b_hint, 0u);
  EXPECT_EQ(a_hint, 1u);
  EXPECT_FALSE(tracker.Sweep(2 * kIdleNs + 1));
  EXPECT_EQ(a_hint, 0u);
  tracker.Touch(&a, 3 * kIdleNs);
  EXPECT_EQ(b_hint, 1u);
  tracker.Remove(&a);
  tracker.Remove(&b);
}

}  // namespace
}  // namespace tvarant

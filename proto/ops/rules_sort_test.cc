#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

using ::testing::HasSubstr;

constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64,
                kI64 = DType::kInt64, kI32 = DType::kInt32;
using Dims = std::vector<int64_t>;

TEST(SortRuleTest, TakesTheWholeOrTheFirst) {
  const auto check = [](Dims values, Dims indices, int64_t dim) {
    Launch launch(Kernel::kSort);
    launch.Dst(kF32, values).Dst(kI64, indices).Src(kF32, {4, 5});
    return launch.Int(dim).Int(1).Check();
  };
  EXPECT_EQ(check({4, 5}, {4, 5}, 1), "");
  EXPECT_EQ(check({4, 2}, {4, 2}, 1), "");
  EXPECT_THAT(check({4, 6}, {4, 6}, 1), HasSubstr("want at most 5"));
  EXPECT_NE(check({4, 2}, {4, 5}, 1), "");
  EXPECT_NE(check({4, 2}, {4, 2}, 0), "");
  EXPECT_NE(check({4, 5}, {4, 5}, 2), "");
}

TEST(OrderStatisticRuleTest, WantsAnElement) {
  const auto check = [](int64_t what, int64_t k, Dims strides) {
    Launch launch(Kernel::kOrderStatistic);
    launch.Dst(kF32, {4, 1}).Dst(kI64, {4, 1}).Src(kF32, {4, 5}, strides);
    return launch.Int(1).Int(what).Int(k).Check();
  };
  EXPECT_EQ(check(0, 4, {}), "");
  EXPECT_EQ(check(3, 0, {1, 4}), "");
  EXPECT_NE(check(0, 5, {}), "");
  EXPECT_NE(check(0, -1, {}), "");
  EXPECT_NE(check(4, 0, {}), "");
  EXPECT_THAT(check(0, 0, {5, 0}), HasSubstr("repeats"));
}

TEST(SearchSortedRuleTest, WantsLinesThatFit) {
  const auto check = [](Dims sequence, Dims values, DType place) {
    Launch launch(Kernel::kSearchSorted);
    launch.Dst(place, values).Src(kF32, sequence).Src(kF32, values).NoSrc();
    return launch.Int(0).Check();
  };
  EXPECT_EQ(check({9}, {2, 3}, kI64), "");
  EXPECT_EQ(check({9}, {}, kI32), "");
  EXPECT_EQ(check({2, 9}, {2, 3}, kI64), "");
  EXPECT_NE(check({3, 9}, {2, 3}, kI64), "");
  EXPECT_NE(check({}, {2}, kI64), "");
  EXPECT_NE(check({9}, {2}, kF32), "");
}

TEST(HistogramRuleTest, ChecksBins) {
  const auto check = [](DType x, DType y, int64_t equal, double high) {
    Launch launch(Kernel::kHistogram);
    launch.Dst(y, {4}).Src(x, {9}).NoSrc().Int(equal).Float(0).Float(high);
    return launch.Check();
  };
  EXPECT_EQ(check(kI64, kI64, 0, 0), "");
  EXPECT_EQ(check(kF32, kF32, 1, 1), "");
  EXPECT_NE(check(kF32, kF32, 1, 0), "");
  EXPECT_NE(check(kF32, kF32, 0, 1), "");
  EXPECT_NE(check(kI64, kI32, 0, 0), "");
  Launch weighted(Kernel::kHistogram);
  weighted.Dst(kF64, {4}).Src(kI64, {9}).Src(kF32, {9});
  EXPECT_NE(weighted.Int(0).Float(0).Float(0).Check(), "");
}

TEST(RowsRuleTest, ChecksRowsAndRuns) {
  Launch rows(Kernel::kSortRows);
  rows.Dst(kI64, {4}).Src(kF32, {4, 5}, {0, 1});
  EXPECT_THAT(rows.Check(), HasSubstr("repeats"));
  Launch extreme(Kernel::kCumulateExtreme);
  extreme.Dst(kF32, {4, 5}).Dst(kI64, {4, 5}).Src(kF32, {4, 5});
  EXPECT_EQ(extreme.Int(1).Int(0).Check(), "");
  Launch logs(Kernel::kLogCumsumExp);
  logs.Dst(kI64, {4}).Src(kI64, {4}).Int(0);
  EXPECT_THAT(logs.Check(), HasSubstr("want a float dtype"));
}

}  // namespace
}  // namespace tvarant::rules

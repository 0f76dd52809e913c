#include <gtest/gtest.h>

#include <cmath>

#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64,
                kF16 = DType::kFloat16, kI64 = DType::kInt64;

TEST(DistanceRuleTest, ChecksMatrices) {
  const auto check = [](std::vector<int64_t> y, std::vector<int64_t> a,
                        std::vector<int64_t> b, double p = 2,
                        DType dtype = kF32, DType b_dtype = kF32) {
    Launch launch(Kernel::kPairDistance);
    launch.Dst(dtype, y).Src(dtype, a).Src(b_dtype, b);
    launch.params.scalar = p;
    return launch.Check();
  };
  EXPECT_EQ(check({2, 3, 4}, {2, 3, 5}, {2, 4, 5}), "");
  EXPECT_EQ(check({2, 3, 0}, {2, 3, 5}, {2, 0, 5}), "");
  EXPECT_EQ(check({2, 3, 4}, {2, 3, 5}, {2, 4, 5}, INFINITY), "");
  EXPECT_NE(check({2, 3, 4}, {2, 3, 5}, {2, 4, 5}, -1), "");
  EXPECT_NE(check({2, 3, 4}, {2, 3, 5}, {2, 4, 5}, NAN), "");
  EXPECT_NE(check({2, 3, 4}, {2, 3, 5}, {2, 4, 6}), "");
  EXPECT_NE(check({2, 3, 4}, {2, 3, 5}, {1, 4, 5}), "");
  EXPECT_NE(check({2, 4, 3}, {2, 3, 5}, {2, 4, 5}), "");
  EXPECT_NE(check({3, 4}, {3, 5}, {4, 5}), "");
  EXPECT_NE(check({2, 3, 4}, {2, 3, 5}, {2, 4, 5}, 2, kF16, kF16), "");
  EXPECT_NE(check({2, 3, 4}, {2, 3, 5}, {2, 4, 5}, 2, kF32, kF64), "");
}

TEST(DistanceRuleTest, ChecksPairsOfOneMatrix) {
  const auto check = [](std::vector<int64_t> y, std::vector<int64_t> a) {
    Launch launch(Kernel::kPairDistance);
    launch.Dst(kF32, y).Src(kF32, a, {0, 0}).NoSrc();
    return launch.Check();
  };
  EXPECT_EQ(check({6}, {4, 5}), "");
  EXPECT_EQ(check({0}, {1, 5}), "");
  EXPECT_EQ(check({0}, {0, 5}), "");
  EXPECT_NE(check({5}, {4, 5}), "");
  EXPECT_NE(check({1}, {int64_t{1} << 33, 1}), "");
}

TEST(DistanceRuleTest, ChecksGradient) {
  const auto check = [](std::vector<int64_t> da, std::vector<int64_t> y) {
    Launch launch(Kernel::kPairDistanceBackward);
    launch.Dst(kF32, da)
        .Src(kF32, {2, 3, 4})
        .Src(kF32, {2, 3, 5})
        .Src(kF32, {2, 4, 5})
        .Src(kF32, y);
    return launch.Check();
  };
  EXPECT_EQ(check({2, 3, 5}, {2, 3, 4}), "");
  EXPECT_NE(check({2, 4, 5}, {2, 3, 4}), "");
  EXPECT_NE(check({2, 3, 5}, {2, 4, 3}), "");
}

TEST(ReduceForeachRuleTest, ChecksListAndReduction) {
  const auto check = [](ReduceOp op, DType y, DType x, int64_t n,
                        std::vector<int64_t> second = {0}) {
    Launch launch(Kernel::kReduceForeach);
    launch.Dst(y, {n}).Src(x, {2, 3}).Src(x, second);
    launch.Int(static_cast<int64_t>(op));
    return launch.Check();
  };
  EXPECT_EQ(check(ReduceOp::kNorm, kF32, kF32, 2), "");
  EXPECT_EQ(check(ReduceOp::kNorm, kF32, kF16, 2), "");
  EXPECT_EQ(check(ReduceOp::kMax, kI64, kI64, 2, {1}), "");
  EXPECT_NE(check(ReduceOp::kMax, kF32, kF32, 2), "");
  EXPECT_NE(check(ReduceOp::kNorm, kF32, kF32, 3), "");
  EXPECT_NE(check(ReduceOp::kNorm, kI64, kI64, 2), "");
  EXPECT_NE(check(ReduceOp::kMaxDim, kF32, kF32, 2), "");
}

TEST(CtcRuleTest, ChecksLengths) {
  const auto check = [](std::vector<int64_t> ints,
                        std::vector<int64_t> alpha = {2, 5, 5}) {
    Launch launch(Kernel::kCtcLoss);
    launch.Dst(kF32, {2}).Dst(kF32, alpha);
    launch.Src(kF32, {5, 2, 3}).Src(kI64, {4});
    launch.ints = std::move(ints);
    return launch.Check();
  };
  EXPECT_EQ(check({0, 0, 5, 2, 0, 3, 1, 2}), "");
  EXPECT_EQ(check({2, 1, 0, 0, 4, 5, 2, 2}), "");
  EXPECT_NE(check({3, 0, 5, 2, 0, 3, 1, 2}), "");
  EXPECT_NE(check({0, 0, 6, 2, 0, 3, 1, 2}), "");
  EXPECT_NE(check({0, 0, -1, 2, 0, 3, 1, 2}), "");
  EXPECT_NE(check({0, 0, 5, 3, 0, 3, 1, 2}), "");
  EXPECT_NE(check({0, 0, 5, INT64_MAX, 0, 3, 1, 2}), "");
  EXPECT_NE(check({0, 0, 5, 2, 3, 3, 1, 2}), "");
  EXPECT_NE(check({0, 0, 5, 2, INT64_MIN, 3, 1, 2}), "");
  EXPECT_NE(check({0, 0, 5, 2, 0}), "");
  EXPECT_NE(check({0, 0, 5, 2, 0, 3, 1, 2}, {2, 4, 5}), "");
}

}  // namespace
}  // namespace tvarant::rules

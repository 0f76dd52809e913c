#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kF32 = DType::kFloat32, kI64 = DType::kInt64;

std::string Random(Distribution distribution, DType dtype, double a, double b,
                   int64_t low = 0, int64_t high = 0) {
  Launch launch(Kernel::kRandom);
  launch.Dst(dtype, {3, 0});
  launch.Int(static_cast<int>(distribution)).Int(-5).Int(7).Int(low).Int(high);
  launch.Float(a).Float(b);
  return launch.Check();
}

TEST(RandomRuleTest, ChecksParametersOfEachDistribution) {
  EXPECT_EQ(Random(Distribution::kUniform, kF32, -1, 1), "");
  EXPECT_EQ(Random(Distribution::kUniform, kF32, 1, 1), "");
  EXPECT_NE(Random(Distribution::kUniform, kF32, 2, 1), "");
  EXPECT_NE(Random(Distribution::kUniform, kF32, kNan, 1), "");
  EXPECT_NE(Random(Distribution::kUniform, kI64, 0, 1), "");
  EXPECT_EQ(Random(Distribution::kNormal, kF32, 5, 0), "");
  EXPECT_NE(Random(Distribution::kNormal, kF32, 5, -1), "");
  EXPECT_EQ(Random(Distribution::kBernoulli, DType::kBool, 1, 0), "");
  EXPECT_NE(Random(Distribution::kBernoulli, kF32, 1.5, 0), "");
  EXPECT_NE(Random(Distribution::kBernoulli, kF32, kNan, 0), "");
  EXPECT_EQ(Random(Distribution::kInteger, kI64, 0, 0, INT64_MIN, INT64_MAX),
            "");
  EXPECT_NE(Random(Distribution::kInteger, kI64, 0, 0, 3, 3), "");
  EXPECT_EQ(Random(Distribution::kExponential, kF32, 1, 0), "");
  EXPECT_NE(Random(Distribution::kExponential, kF32, 0, 0), "");
  EXPECT_EQ(Random(Distribution::kFullInteger, kI64, 0, 0), "");
  EXPECT_NE(Random(static_cast<Distribution>(0), kF32, 0, 0), "");
  EXPECT_NE(Random(static_cast<Distribution>(7), kF32, 0, 0), "");
}

TEST(RandomRuleTest, RefusesNumbersThatOnlyLookKnown) {
  Launch launch(Kernel::kRandom);
  launch.Dst(kF32, {3}).Int(257).Int(0).Int(0).Int(0).Int(0);
  launch.Float(0).Float(1);
  EXPECT_EQ(launch.Check(), "random: distribution is 257, want a known number");
}

TEST(DropoutRuleTest, WantsAMask) {
  const auto check = [](DType y, DType mask, double p) {
    Launch launch(Kernel::kDropout);
    launch.Dst(y, {2, 3}).Dst(mask, {2, 3}).Src(kF32, {2, 3});
    launch.Int(1).Int(2).Float(p);
    return launch.Check();
  };
  EXPECT_EQ(check(kF32, DType::kBool, 0.5), "");
  EXPECT_EQ(check(kF32, DType::kBool, 1), "");
  EXPECT_NE(check(kF32, DType::kBool, 1.1), "");
  EXPECT_NE(check(kF32, DType::kBool, kNan), "");
  EXPECT_NE(check(kF32, DType::kUInt8, 0.5), "");
  EXPECT_NE(check(DType::kFloat64, DType::kBool, 0.5), "");
}

}  // namespace
}  // namespace tvarant::rules

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

using ::testing::HasSubstr;

constexpr DType kF16 = DType::kFloat16, kF32 = DType::kFloat32,
                kI64 = DType::kInt64, kBool = DType::kBool;

Launch Reduce(ReduceOp op, DType dst, DType src,
              std::vector<int64_t> dst_sizes = {1, 3},
              std::vector<int64_t> src_sizes = {2, 3}) {
  Launch launch(Kernel::kReduce);
  launch.Dst(dst, dst_sizes).Src(src, src_sizes).Int(static_cast<int>(op));
  return launch;
}

TEST(ReduceRuleTest, ChecksDTypesOfEachReduction) {
  struct Case {
    ReduceOp op;
    DType dst, src;
    bool good;
  };
  const Case cases[] = {
      {ReduceOp::kSum, kF32, kF32, true},
      {ReduceOp::kSum, kF32, kF16, true},
      {ReduceOp::kSum, kI64, kBool, true},
      {ReduceOp::kSum, kI64, kF32, false},
      {ReduceOp::kMean, kF16, kF16, true},
      {ReduceOp::kMean, kI64, kI64, false},
      {ReduceOp::kProd, kI64, DType::kInt8, true},
      {ReduceOp::kMax, kI64, kI64, true},
      {ReduceOp::kMin, kF32, kF16, false},
      {ReduceOp::kArgMax, kI64, kF16, true},
      {ReduceOp::kArgMin, DType::kInt32, kF32, false},
      {ReduceOp::kAny, kBool, kF32, true},
      {ReduceOp::kAll, DType::kUInt8, DType::kUInt8, true},
      {ReduceOp::kAll, kF32, kBool, false},
      {ReduceOp::kNorm, kF32, kF32, true},
      {ReduceOp::kNorm, kF32, kI64, false},
      {ReduceOp::kVar, kF32, kF32, true},
      {ReduceOp::kStd, kI64, kI64, false},
      {ReduceOp::kSumSquares, kF32, kF16, true},
      {ReduceOp::kCountNonzero, kI64, kBool, true},
      {ReduceOp::kCountNonzero, kF32, kBool, false},
      {ReduceOp::kLogSumExp, kF32, kF32, true},
      {ReduceOp::kNanSum, kF32, kF32, true},
      {ReduceOp::kSum, kF32, DType::kComplex64, false},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Reduce(c.op, c.dst, c.src).Check().empty(), c.good)
        << static_cast<int>(c.op) << " " << NameOf(c.dst) << " "
        << NameOf(c.src);
  }
  for (const int64_t op : {int64_t{0}, int64_t{19}, int64_t{-1}, INT64_MAX}) {
    Launch launch = Reduce(ReduceOp::kSum, kF32, kF32);
    launch.ints[0] = op;
    EXPECT_THAT(launch.Check(), HasSubstr("want a known number"));
  }
}

TEST(ReduceRuleTest, KeepsTheRank) {
  EXPECT_EQ(Reduce(ReduceOp::kSum, kF32, kF32, {1, 1}).Check(), "");
  EXPECT_EQ(Reduce(ReduceOp::kSum, kF32, kF32, {2, 3}).Check(), "");
  EXPECT_EQ(Reduce(ReduceOp::kSum, kF32, kF32, {}, {}).Check(), "");
  EXPECT_EQ(Reduce(ReduceOp::kSum, kF32, kF32, {3}).Check(),
            "reduce: dst 0 has rank 1, want 2");
  EXPECT_EQ(Reduce(ReduceOp::kSum, kF32, kF32, {1, 2}).Check(),
            "reduce: dst 0 has size 2 in dimension 1, want 1 or 3");
}

TEST(ReduceRuleTest, WantsTheRightSecondOutput) {
  EXPECT_EQ(Reduce(ReduceOp::kMaxDim, kF32, kF32).Check(),
            "reduce: has 1 dst operands, want 2");
  EXPECT_EQ(Reduce(ReduceOp::kMaxDim, kF32, kF32).Dst(kI64, {1, 3}).Check(),
            "");
  EXPECT_NE(Reduce(ReduceOp::kMinDim, kF32, kF32).Dst(kF32, {1, 3}).Check(),
            "");
  EXPECT_EQ(Reduce(ReduceOp::kMinDim, kF32, kF32).Dst(kI64, {3}).Check(),
            "reduce: dst 1 has sizes [3], want [1, 3]");
  EXPECT_EQ(Reduce(ReduceOp::kVar, kF32, kF32).Dst(kF32, {1, 3}).Check(), "");
  EXPECT_EQ(Reduce(ReduceOp::kSum, kF32, kF32).Dst(kF32, {1, 3}).Check(),
            "reduce: has 2 dst operands, want 1");
}

TEST(ReduceRuleTest, RefusesTheLargestOfNothing) {
  EXPECT_EQ(Reduce(ReduceOp::kMax, kF32, kF32, {1, 3}, {0, 3}).Check(),
            "reduce: src 0 is empty where the reduction needs an element");
  EXPECT_NE(Reduce(ReduceOp::kArgMin, kI64, kF32, {1}, {0}).Check(), "");
  EXPECT_EQ(Reduce(ReduceOp::kMax, kF32, kF32, {1, 0}, {2, 0}).Check(), "");
  EXPECT_EQ(Reduce(ReduceOp::kSum, kF32, kF32, {1, 3}, {0, 3}).Check(), "");
}

TEST(CumulateRuleTest, ChecksDimAndDTypes) {
  const auto make = [](DType dst, DType src, int64_t dim, int64_t what) {
    Launch launch(Kernel::kCumulate);
    launch.Dst(dst, {2, 3}).Src(src, {2, 3}).Int(dim).Int(what);
    return launch.Check();
  };
  EXPECT_EQ(make(kF32, kF32, 0, 0), "");
  EXPECT_EQ(make(kI64, kBool, 1, 1), "");
  EXPECT_EQ(make(kF32, kF32, 2, 0),
            "cumulate: dim is 2, want a dimension of the operands");
  EXPECT_NE(make(kF32, kF32, -1, 0), "");
  EXPECT_NE(make(kF32, kF32, 0, 2), "");
  EXPECT_NE(make(kI64, kF32, 0, 0), "");
  Launch scalar(Kernel::kCumulate);
  scalar.Dst(kF32, {}).Src(kF32, {}).Int(0).Int(0);
  EXPECT_EQ(scalar.Check(), "cumulate: src 0 has rank 0, want at least 1");
}

}  // namespace
}  // namespace tvarant::rules

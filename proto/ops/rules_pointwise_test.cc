#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

using ::testing::HasSubstr;

constexpr DType kF16 = DType::kFloat16, kF32 = DType::kFloat32;

// y = a + b
Program Add() {
  ProgramBuilder p;
  const int a = p.Load(0, kF32), b = p.Load(1, kF32);
  p.Store(p.Op(PointwiseOp::kAdd, kF32, a, b));
  return std::move(p).Build();
}

// y = a * float scalar; z = int scalar
Program Scaled() {
  ProgramBuilder p;
  p.Store(p.Op(PointwiseOp::kMul, kF32, p.Load(0, kF32), p.Scalar(0, kF32)));
  p.Store(p.Scalar(1, DType::kInt64));
  return std::move(p).Build();
}

TEST(PointwiseRuleTest, AcceptsEqualSizesOfAnyComputableDTypes) {
  const Program add = Add();
  Launch launch(Kernel::kPointwise);
  launch.Dst(kF16, {2, 3}, {1, 2})
      .Src(kF32, {2, 3}, {0, 1})
      .Src(DType::kBool, {2, 3});
  EXPECT_EQ(launch.Check(&add), "");
  Launch scalar(Kernel::kPointwise);
  scalar.Dst(kF32, {}).Src(kF32, {}).Src(kF32, {});
  EXPECT_EQ(scalar.Check(&add), "");
}

TEST(PointwiseRuleTest, RefusesWhatTheProgramDoesNotTake) {
  const Program add = Add();
  Launch launch(Kernel::kPointwise);
  launch.Dst(kF32, {2}).Src(kF32, {2}).Src(kF32, {2});
  EXPECT_EQ(launch.Check(nullptr), "pointwise: program is not defined");
  launch.Src(kF32, {2});
  EXPECT_EQ(launch.Check(&add), "pointwise: has 3 src operands, want 2");
  launch.src.resize(1);
  EXPECT_EQ(launch.Check(&add), "pointwise: has 1 src operands, want 2");
  launch.Src(kF32, {2}).Dst(kF32, {2});
  EXPECT_EQ(launch.Check(&add), "pointwise: has 2 dst operands, want 1");
  launch.dst.resize(1);
  launch.Float(1);
  EXPECT_EQ(launch.Check(&add), "pointwise: has 1 floats, want 0");
  EXPECT_EQ(launch.Check(&add), "pointwise: has 1 floats, want 0");
}

TEST(PointwiseRuleTest, RefusesOtherSizesAndDTypes) {
  const Program add = Add();
  Launch sizes(Kernel::kPointwise);
  sizes.Dst(kF32, {2, 3}).Src(kF32, {2, 3}).Src(kF32, {1, 3});
  EXPECT_EQ(sizes.Check(&add),
            "pointwise: src 1 has sizes [1, 3], want [2, 3]");
  Launch rank(Kernel::kPointwise);
  rank.Dst(kF32, {2, 3}).Src(kF32, {3}).Src(kF32, {2, 3});
  EXPECT_EQ(rank.Check(&add), "pointwise: src 0 has sizes [3], want [2, 3]");
  Launch dtype(Kernel::kPointwise);
  dtype.Dst(kF32, {2}).Src(DType::kComplex64, {2}).Src(kF32, {2});
  EXPECT_EQ(dtype.Check(&add),
            "pointwise: src 0 has dtype complex64, want a dtype that can be "
            "computed with");
}

TEST(PointwiseRuleTest, CountsScalars) {
  const Program scaled = Scaled();
  Launch launch(Kernel::kPointwise);
  launch.Dst(kF32, {2}).Dst(DType::kInt64, {2}).Src(kF32, {2});
  EXPECT_EQ(launch.Check(&scaled), "pointwise: has 0 ints, want 2");
  launch.Int(1).Int(2);
  EXPECT_EQ(launch.Check(&scaled), "pointwise: has 0 floats, want 1");
  launch.Float(0.5);
  EXPECT_EQ(launch.Check(&scaled), "");
}

Launch Foreach(int groups) {
  Launch launch(Kernel::kPointwiseForeach);
  for (int i = 0; i < groups; ++i) {
    launch.Dst(kF32, {i + 1}).Src(kF32, {i + 1}).Src(kF32, {i + 1});
  }
  launch.params.batch = groups;
  return launch;
}

TEST(PointwiseForeachRuleTest, ChecksEachGroup) {
  const Program add = Add();
  EXPECT_EQ(Foreach(3).Check(&add), "");
  Launch batch = Foreach(3);
  batch.params.batch = 2;
  EXPECT_EQ(batch.Check(&add), "pointwise_foreach: has 3 dst operands, want 2");
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{4}, INT64_MAX}) {
    batch.params.batch = bad;
    EXPECT_THAT(batch.Check(&add), HasSubstr("batch is"));
  }
  Launch sizes = Foreach(3);
  std::swap(sizes.src[1], sizes.src[2]);
  EXPECT_EQ(sizes.Check(&add),
            "pointwise_foreach: src 1 has sizes [2], want [1]");
}

TEST(PointwiseForeachRuleTest, TakesScalarsOnceOrPerGroup) {
  const Program scaled = Scaled();
  Launch launch(Kernel::kPointwiseForeach);
  for (int i = 0; i < 2; ++i) {
    launch.Dst(kF32, {4}).Dst(DType::kInt64, {4}).Src(kF32, {4});
  }
  launch.params.batch = 2;
  launch.Float(1).Int(1).Int(2);
  EXPECT_EQ(launch.Check(&scaled), "");
  launch.Flags(kPerGroupScalars);
  EXPECT_EQ(launch.Check(&scaled), "pointwise_foreach: has 2 ints, want 4");
  launch.Float(2).Int(3).Int(4);
  EXPECT_EQ(launch.Check(&scaled), "");
}

TEST(CopyRuleTest, ConvertsButNotBitTypes) {
  const auto check = [](DType dst, DType src, uint32_t flags = 0) {
    Launch launch(Kernel::kCopy);
    launch.Dst(dst, {2}).Src(src, {2}).Flags(flags);
    return launch.Check();
  };
  EXPECT_EQ(check(kF16, DType::kInt64), "");
  EXPECT_EQ(check(kF32, DType::kComplex128), "");
  EXPECT_EQ(check(DType::kComplex64, DType::kBool, kConjugate | kNegate), "");
  EXPECT_EQ(check(DType::kUInt32, DType::kUInt32), "");
  EXPECT_EQ(check(DType::kUInt32, kF32),
            "copy: src 0 has dtype float32, which can't be converted to "
            "uint32");
  EXPECT_NE(check(kF32, DType::kUInt64), "");
  EXPECT_NE(check(DType::kUInt16, DType::kUInt16, kNegate), "");
  Launch sizes(Kernel::kCopy);
  sizes.Dst(kF32, {2}).Src(kF32, {3});
  EXPECT_EQ(sizes.Check(), "copy: src 0 has sizes [3], want [2]");
}

TEST(FillRuleTest, TakesTwoInts) {
  for (int i = 1; i < kNumDTypes; ++i) {
    Launch launch(Kernel::kFill);
    launch.Dst(static_cast<DType>(i), {2, 0}).Int(1).Int(2);
    EXPECT_EQ(launch.Check(), "");
  }
  Launch launch(Kernel::kFill);
  launch.Dst(kF32, {2}).Int(1);
  EXPECT_EQ(launch.Check(), "fill: has 1 ints, want 2");
}

TEST(ArangeRuleTest, TakesIntsOrFloatsByDType) {
  Launch ints(Kernel::kArange);
  ints.Dst(DType::kInt32, {5}).Int(0).Int(1);
  EXPECT_EQ(ints.Check(), "");
  Launch floats(Kernel::kArange);
  floats.Dst(kF16, {5}).Float(0).Float(0.5);
  EXPECT_EQ(floats.Check(), "");
  Launch wrong(Kernel::kArange);
  wrong.Dst(kF32, {5}).Int(0).Int(1);
  EXPECT_EQ(wrong.Check(), "arange: has 2 ints, want 0");
  Launch rank(Kernel::kArange);
  rank.Dst(kF32, {5, 1}).Float(0).Float(1);
  EXPECT_EQ(rank.Check(), "arange: dst 0 has rank 2, want 1");
}

TEST(TriangleRuleTest, WantsMatrices) {
  Launch good(Kernel::kTriangle);
  good.Dst(DType::kComplex64, {4, 2, 3})
      .Src(DType::kComplex64, {4, 2, 3})
      .Int(-9)
      .Int(1);
  EXPECT_EQ(good.Check(), "");
  Launch rank(Kernel::kTriangle);
  rank.Dst(kF32, {4}).Src(kF32, {4}).Int(0).Int(0);
  EXPECT_EQ(rank.Check(), "triangle: dst 0 has rank 1, want at least 2");
  Launch part(Kernel::kTriangle);
  part.Dst(kF32, {2, 2}).Src(kF32, {2, 2}).Int(0).Int(2);
  EXPECT_EQ(part.Check(), "triangle: part is 2, want 0 (lower) or 1 (upper)");
}

}  // namespace
}  // namespace tvarant::rules

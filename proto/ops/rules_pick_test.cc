#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

using ::testing::HasSubstr;

constexpr DType kF32 = DType::kFloat32, kI64 = DType::kInt64,
                kI32 = DType::kInt32, kBool = DType::kBool;
using Dims = std::vector<int64_t>;

TEST(IndexRuleTest, ReplacesTheIndexedSizes) {
  const auto check = [](Dims y, int64_t first, Dims a, Dims b) {
    Launch launch(Kernel::kIndexPick);
    launch.Dst(kF32, y).Src(kF32, {4, 5, 6}).Src(kI64, a).Src(kI32, b);
    return launch.Int(first).Int(0).Int(1).Flags(kWrapNegative).Check();
  };
  EXPECT_EQ(check({7, 6}, 0, {7}, {7}), "");
  EXPECT_EQ(check({4, 2, 3}, 1, {2, 3}, {2, 3}), "");
  EXPECT_EQ(check({4}, 1, {}, {}), "");
  EXPECT_THAT(check({7, 5}, 0, {7}, {7}), HasSubstr("want [7, 6]"));
  EXPECT_NE(check({7, 6}, 0, {7}, {6}), "");
  EXPECT_NE(check({7, 6}, 2, {7}, {7}), "");
  EXPECT_NE(check({7, 6}, -1, {7}, {7}), "");
}

TEST(IndexRuleTest, NamesEveryIndex) {
  Launch launch(Kernel::kIndexPick);
  launch.Dst(kF32, {3}).Src(kF32, {4}).Src(kI64, {3}).Int(0);
  EXPECT_THAT(launch.Check(), HasSubstr("1 ints, want 2"));
}

TEST(IndexPutRuleTest, ChecksModeAndValues) {
  const auto check = [](DType dtype, Dims values, int64_t mode) {
    Launch launch(Kernel::kIndexPut);
    launch.Dst(dtype, {4, 5}).Src(dtype, values).Src(kI64, {3});
    return launch.Int(1).Int(mode).Int(1).Check();
  };
  EXPECT_EQ(check(kF32, {4, 3}, 4), "");
  EXPECT_EQ(check(DType::kComplex64, {4, 3}, 0), "");
  EXPECT_NE(check(DType::kComplex64, {4, 3}, 1), "");
  EXPECT_NE(check(kF32, {3, 5}, 0), "");
  EXPECT_NE(check(kF32, {4, 3}, 5), "");
  EXPECT_NE(check(kF32, {4, 3}, -1), "");
}

TEST(ScatterRuleTest, ChecksSizesAndMode) {
  const auto check = [](Dims index, Dims values, int64_t dim, int64_t mode) {
    Launch launch(Kernel::kScatter);
    launch.Dst(kF32, {4, 5}).Src(kI64, index).Src(kF32, values);
    return launch.Int(dim).Int(mode).Check();
  };
  EXPECT_EQ(check({9, 5}, {9, 5}, 0, 0), "");
  EXPECT_EQ(check({2, 3}, {2, 3}, 0, 4), "");
  EXPECT_NE(check({9, 6}, {9, 6}, 0, 0), "");
  EXPECT_NE(check({2, 3}, {3, 3}, 0, 0), "");
  EXPECT_NE(check({2, 3}, {2, 3}, 2, 0), "");
  EXPECT_NE(check({2, 3}, {2, 3}, 0, 9), "");
}

TEST(MaskRuleTest, ChecksMasks) {
  const auto select = [](DType mask, Dims sizes) {
    Launch launch(Kernel::kMaskedSelect);
    launch.Dst(kF32, {3}).Src(kF32, {4, 5}).Src(mask, sizes);
    return launch.Check();
  };
  EXPECT_EQ(select(kBool, {4, 5}), "");
  EXPECT_NE(select(DType::kUInt8, {4, 5}), "");
  EXPECT_NE(select(kBool, {5}), "");
  const auto scatter = [](Dims source) {
    Launch launch(Kernel::kMaskedScatter);
    launch.Dst(kF32, {4, 5}).Src(kBool, {4, 5}).Src(kF32, source);
    return launch.Check();
  };
  EXPECT_EQ(scatter({20}), "");
  EXPECT_NE(scatter({4, 5}), "");
}

TEST(NonzeroRuleTest, WantsAColumnForEachDimension) {
  const auto check = [](Dims y, DType dtype) {
    Launch launch(Kernel::kNonzero);
    launch.Dst(dtype, y).Src(kF32, {4, 5}).Int(0);
    return launch.Check();
  };
  EXPECT_EQ(check({7, 2}, kI64), "");
  EXPECT_NE(check({7, 3}, kI64), "");
  EXPECT_NE(check({7}, kI64), "");
  EXPECT_NE(check({7, 2}, kI32), "");
}

TEST(EmbeddingRuleTest, ChecksBags) {
  const auto check = [](int64_t bags, Dims offsets, int64_t mode) {
    Launch launch(Kernel::kEmbeddingBag);
    launch.Dst(kF32, {bags, 3}).Dst(kI64, {bags}).NoDst();
    launch.Src(kF32, {10, 3}).Src(kI64, {8}).Src(kI64, offsets).NoSrc();
    return launch.Int(mode).Int(-1).Check();
  };
  EXPECT_EQ(check(2, {2}, 0), "");
  EXPECT_EQ(check(2, {3}, 2), "");
  EXPECT_THAT(check(2, {4}, 0), HasSubstr("as many as bags"));
  EXPECT_NE(check(2, {2}, 3), "");
  Launch renorm(Kernel::kEmbeddingRenorm);
  renorm.Dst(kI64, {10, 3}).Src(kI64, {8}).Float(1).Float(2);
  EXPECT_THAT(renorm.Check(), HasSubstr("want a float dtype"));
}

}  // namespace
}  // namespace tvarant::rules

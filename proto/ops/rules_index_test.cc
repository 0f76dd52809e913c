#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

using ::testing::HasSubstr;

constexpr DType kF32 = DType::kFloat32, kI64 = DType::kInt64,
                kI32 = DType::kInt32;

Launch IndexSelect(std::vector<int64_t> y, int64_t dim, DType index = kI64) {
  Launch launch(Kernel::kIndexSelect);
  launch.Dst(kF32, y).Src(kF32, {4, 5}).Src(index, {3}).Int(dim);
  return launch;
}

TEST(IndexSelectRuleTest, ReplacesOneSize) {
  EXPECT_EQ(IndexSelect({3, 5}, 0).Check(), "");
  EXPECT_EQ(IndexSelect({4, 3}, 1, kI32).Flags(kWrapNegative).Check(), "");
  EXPECT_EQ(IndexSelect({4, 5}, 0).Check(),
            "index_select: dst 0 has size 4 in dimension 0, want the number "
            "of indices, 3");
  EXPECT_NE(IndexSelect({3, 4}, 0).Check(), "");
  EXPECT_NE(IndexSelect({3, 5}, 2).Check(), "");
  EXPECT_NE(IndexSelect({3, 5}, 0, DType::kInt16).Check(), "");
}

TEST(GatherRuleTest, ChecksSizes) {
  const auto check = [](std::vector<int64_t> y, std::vector<int64_t> index,
                        int64_t dim) {
    Launch launch(Kernel::kGather);
    launch.Dst(kF32, y).Src(kF32, {4, 5}).Src(kI64, index).Int(dim);
    return launch.Check();
  };
  EXPECT_EQ(check({4, 9}, {4, 9}, 1), "");
  EXPECT_EQ(check({2, 3}, {2, 3}, 1), "");
  EXPECT_THAT(check({5, 3}, {5, 3}, 1), HasSubstr("want at most [4, 5]"));
  EXPECT_NE(check({4, 5}, {4, 9}, 1), "");
  EXPECT_NE(check({4}, {4}, 0), "");
  EXPECT_NE(check({4, 9}, {4, 9}, -1), "");
}

TEST(ScatterAddRuleTest, ChecksSizes) {
  const auto check = [](DType dtype, std::vector<int64_t> index,
                        std::vector<int64_t> values) {
    Launch launch(Kernel::kScatterAdd);
    launch.Dst(dtype, {4, 5}).Src(kI64, index).Src(dtype, values).Int(0);
    return launch.Check();
  };
  EXPECT_EQ(check(kF32, {9, 5}, {9, 5}), "");
  EXPECT_EQ(check(DType::kInt16, {2, 3}, {2, 3}), "");
  EXPECT_NE(check(kF32, {9, 6}, {9, 6}), "");
  EXPECT_NE(check(kF32, {2, 3}, {3, 3}), "");
  EXPECT_NE(check(DType::kComplex64, {2, 3}, {2, 3}), "");
}

TEST(EmbeddingBackwardRuleTest, ChecksRowsAndPadding) {
  const auto make = [](int64_t padding, int64_t scale) {
    Launch launch(Kernel::kEmbeddingBackward);
    launch.Dst(kF32, {10, 4}).Src(kF32, {7, 4}).Src(kI32, {7});
    launch.Int(padding).Int(scale);
    return launch;
  };
  EXPECT_EQ(make(-1, 0).Check(), "");
  EXPECT_EQ(make(9, 1).Check(), "");
  EXPECT_NE(make(10, 0).Check(), "");
  EXPECT_NE(make(-2, 0).Check(), "");
  EXPECT_NE(make(0, 2).Check(), "");
  Launch rows(Kernel::kEmbeddingBackward);
  rows.Dst(kF32, {10, 4}).Src(kF32, {7, 5}).Src(kI64, {7}).Int(-1).Int(0);
  EXPECT_EQ(rows.Check(),
            "embedding_backward: src 0 has sizes [7, 5], want [7, 4]");
}

TEST(CatRuleTest, AddsUpOneDimension) {
  const auto make = [](std::vector<int64_t> y, int64_t dim) {
    Launch launch(Kernel::kCat);
    launch.Dst(kF32, y).Int(dim);
    return launch;
  };
  EXPECT_EQ(make({5, 3}, 0)
                .Src(kF32, {2, 3})
                .Src(kI64, {0, 3})
                .Src(DType::kBool, {3, 3})
                .Check(),
            "");
  EXPECT_EQ(make({5, 3}, 0).Src(kF32, {2, 3}).Src(kF32, {2, 3}).Check(),
            "cat: dst 0 has size 5 in dimension 0, want the sum of the "
            "inputs', 4");
  EXPECT_NE(make({5, 3}, 0).Src(kF32, {5, 2}).Check(), "");
  EXPECT_NE(make({5, 3}, 0).Src(DType::kUInt32, {5, 3}).Check(), "");
  EXPECT_NE(make({5, 3}, 2).Src(kF32, {5, 3}).Check(), "");
  EXPECT_NE(make({}, 0).Src(kF32, {}).Check(), "");
}

}  // namespace
}  // namespace tvarant::rules

#include <gtest/gtest.h>

#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

constexpr DType kF32 = DType::kFloat32, kBf16 = DType::kBFloat16;

struct Case {
  DType dtype = kBf16;
  std::vector<int64_t> q = {2, 6, 5, 16}, k = {2, 3, 7, 16}, v = {2, 3, 7, 8},
                       y = {2, 6, 5, 8}, mask = {}, sums = {};
  DType mask_dtype = DType::kBool, sums_dtype = kF32;
  int64_t causal = 0;

  std::string Check() const {
    Launch launch(Kernel::kAttention);
    launch.Dst(dtype, y).Src(dtype, q).Src(dtype, k).Src(dtype, v).Int(causal);
    sums.empty() ? launch.NoDst() : launch.Dst(sums_dtype, sums);
    mask.empty() ? launch.NoSrc() : launch.Src(mask_dtype, mask);
    return launch.Check();
  }
};

TEST(AttentionRuleTest, TakesHeadsThatShareKeys) {
  EXPECT_EQ(Case{}.Check(), "");
  EXPECT_EQ(
      (Case{.mask = {2, 6, 5, 7}, .sums = {2, 6, 5}, .causal = 1}).Check(), "");
  for (const DType dtype : {kF32, kBf16}) {
    EXPECT_EQ((Case{.mask = {2, 6, 5, 7}, .mask_dtype = dtype}).Check(), "");
  }
  EXPECT_EQ((Case{.dtype = DType::kFloat64,
                  .sums = {2, 6, 5},
                  .sums_dtype = DType::kFloat64})
                .Check(),
            "");
  EXPECT_EQ((Case{.k = {2, 3, 0, 16}, .v = {2, 3, 0, 8}}).Check(), "");
}

TEST(AttentionRuleTest, RefusesWhatDoesNotFit) {
  EXPECT_NE((Case{.dtype = DType::kInt32}).Check(), "");
  EXPECT_NE((Case{.q = {2, 6, 5, 17}}).Check(), "");
  EXPECT_NE((Case{.q = {2, 6, 5}}).Check(), "");
  EXPECT_NE((Case{.k = {2, 4, 7, 16}, .v = {2, 4, 7, 8}}).Check(), "");
  EXPECT_NE((Case{.k = {2, 0, 7, 16}, .v = {2, 0, 7, 8}}).Check(), "");
  EXPECT_NE((Case{.k = {1, 3, 7, 16}}).Check(), "");
  EXPECT_NE((Case{.v = {2, 3, 6, 8}}).Check(), "");
  EXPECT_NE((Case{.y = {2, 6, 5, 16}}).Check(), "");
  EXPECT_NE((Case{.mask = {2, 6, 5, 8}}).Check(), "");
  EXPECT_NE((Case{.mask = {2, 6, 5, 7}, .mask_dtype = DType::kFloat16}).Check(),
            "");
  EXPECT_NE((Case{.sums = {2, 6, 4}}).Check(), "");
  EXPECT_NE((Case{.sums = {2, 6, 5}, .sums_dtype = kBf16}).Check(), "");
  EXPECT_NE((Case{.causal = 2}).Check(), "");
}

}  // namespace
}  // namespace tvarant::rules

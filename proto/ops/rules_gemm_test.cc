#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

using ::testing::HasSubstr;

constexpr DType kF16 = DType::kFloat16, kF32 = DType::kFloat32;
constexpr int64_t kHuge = int64_t{1} << 62;

Launch Gemm(DType dtype = kF32) {
  Launch launch(Kernel::kGemm);
  launch.Mnk(2, 3, 5, 7)
      .Dst(dtype, {2, 3, 5})
      .Src(dtype, {2, 3, 7})
      .Src(dtype, {2, 7, 5});
  return launch;
}

TEST(GemmRuleTest, AcceptsAgreeingOperands) {
  EXPECT_EQ(Gemm().Check(), "");
  EXPECT_EQ(Gemm(DType::kInt64).Check(), "");
  EXPECT_EQ(Gemm().Src(kF32, {2, 3, 5}, {0, 0, 1}).Check(), "");
  EXPECT_EQ(Gemm().NoSrc().Check(), "");
  Launch empty(Kernel::kGemm);
  empty.Mnk(1, 3, 5, 0)
      .Dst(kF32, {1, 3, 5})
      .Src(kF32, {1, 3, 0})
      .Src(kF32, {1, 0, 5});
  EXPECT_EQ(empty.Check(), "");
}

TEST(GemmRuleTest, NamesTheOperandThatDisagrees) {
  Launch dtype = Gemm();
  dtype.src[1].dtype = kF16;
  EXPECT_EQ(dtype.Check(),
            "gemm_bias_act: src 1 has dtype float16, want float32");
  Launch k = Gemm();
  k.params.k = 6;
  EXPECT_EQ(k.Check(),
            "gemm_bias_act: src 0 has sizes [2, 3, 7], want [2, 3, 6]");
  Launch m = Gemm();
  m.params.m = 4;
  EXPECT_EQ(m.Check(),
            "gemm_bias_act: dst 0 has sizes [2, 3, 5], want [2, 4, 5]");
  EXPECT_EQ(Gemm().Src(kF32, {5}).Check(),
            "gemm_bias_act: src 2 has sizes [5], want [2, 3, 5]");
  EXPECT_NE(Gemm().Src(kF16, {2, 3, 5}).Check(), "");
  EXPECT_NE(Gemm(DType::kComplex64).Check(), "");
}

TEST(GemmRuleTest, RefusesBadExtents) {
  for (const int which : {0, 1, 2, 3}) {
    for (const int64_t bad : {int64_t{-1}, INT64_MIN, kHuge}) {
      Launch launch = Gemm();
      int64_t* const fields[4] = {&launch.params.m, &launch.params.n,
                                  &launch.params.k, &launch.params.batch};
      *fields[which] = bad;
      EXPECT_NE(launch.Check(), "");
    }
  }
  // Each fits alone; the work does not.
  Launch work(Kernel::kGemm);
  const int64_t large = int64_t{1} << 30;
  work.Mnk(1, 1, large, large * 16)
      .Dst(kF32, {1, 1, large})
      .Src(kF32, {1, 1, large * 16}, {0, 0, 0})
      .Src(kF32, {1, large * 16, large}, {0, 0, 0});
  EXPECT_THAT(work.Check(), HasSubstr("too large"));
}

TEST(GemmRuleTest, KnowsActivations) {
  for (const Act act :
       {Act::kNone, Act::kRelu, Act::kSilu, Act::kGelu, Act::kGeluTanh}) {
    Launch launch = Gemm();
    launch.params.act = act;
    EXPECT_EQ(launch.Check(), "");
  }
  Launch unknown = Gemm();
  unknown.params.act = static_cast<Act>(5);
  EXPECT_EQ(unknown.Check(),
            "gemm_bias_act: act is 5, want a known activation");
  Launch integral = Gemm(DType::kInt32);
  integral.params.act = Act::kGelu;
  EXPECT_NE(integral.Check(), "");
}

}  // namespace
}  // namespace tvarant::rules

// The checks that hold for every kernel.

#include "proto/ops/shape_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kHuge = int64_t{1} << 62;

Launch Copy(std::vector<int64_t> sizes, std::vector<int64_t> dst_strides = {},
            std::vector<int64_t> src_strides = {}) {
  Launch launch(Kernel::kCopy);
  launch.Dst(DType::kFloat32, sizes, dst_strides)
      .Src(DType::kFloat32, sizes, src_strides);
  return launch;
}

TEST(ShapeRulesTest, RefusesUnknownKernels) {
  EXPECT_EQ(Launch(Kernel::kInvalid).Check(), "unknown kernel 0");
  EXPECT_EQ(Launch(static_cast<Kernel>(65535)).Check(), "unknown kernel 65535");
}

// Every row: too few and too many operands of each side.
TEST(ShapeRulesTest, CountsOperandsOfEveryKernel) {
  const auto check = [](Kernel kernel, int num_dst, int num_src) {
    Launch launch(kernel);
    for (int i = 0; i < num_dst; ++i) launch.Dst(DType::kFloat32, {2, 2});
    for (int i = 0; i < num_src; ++i) launch.Src(DType::kFloat32, {2, 2});
    return launch.Check();
  };
#define TVARANT_KERNEL(id, Name, name, min_dst, max_dst, min_src, max_src, \
                       doc)                                                \
  if (min_dst > 0) {                                                       \
    EXPECT_THAT(check(Kernel::k##Name, min_dst - 1, min_src),              \
                HasSubstr("dst operands, want"))                           \
        << #name;                                                          \
  }                                                                        \
  EXPECT_THAT(check(Kernel::k##Name, max_dst + 1, min_src),                \
              HasSubstr("dst operands, want"))                             \
      << #name;                                                            \
  EXPECT_THAT(check(Kernel::k##Name, min_dst, max_src + 1),                \
              HasSubstr("src operands, want"))                             \
      << #name;                                                            \
  if (min_src > 0) {                                                       \
    EXPECT_THAT(check(Kernel::k##Name, min_dst, min_src - 1),              \
                HasSubstr("src operands, want"))                           \
        << #name;                                                          \
  }
#include "proto/ops/kernels.inc"
}

// Every row: an absent operand that is not optional.
TEST(ShapeRulesTest, RefusesAbsentOperands) {
#define TVARANT_KERNEL(id, Name, name, min_dst, max_dst, min_src, max_src,   \
                       doc)                                                  \
  for (int absent = 0; absent < min_dst + min_src; ++absent) {               \
    Launch launch(Kernel::k##Name);                                          \
    for (int i = 0; i < min_dst; ++i) {                                      \
      i == absent ? launch.NoDst() : launch.Dst(DType::kFloat32, {2, 2});    \
    }                                                                        \
    for (int i = 0; i < min_src; ++i) {                                      \
      i + min_dst == absent ? launch.NoSrc()                                 \
                            : launch.Src(DType::kFloat32, {2, 2});           \
    }                                                                        \
    const bool optional =                                                    \
        absent < min_dst ? IsOptionalDst(Kernel::k##Name, absent)            \
                         : IsOptionalSrc(Kernel::k##Name, absent - min_dst); \
    if (optional) {                                                          \
      EXPECT_THAT(launch.Check(), testing::Not(HasSubstr("is absent")));     \
    } else {                                                                 \
      EXPECT_THAT(launch.Check(), HasSubstr("is absent")) << #name;          \
    }                                                                        \
  }
#include "proto/ops/kernels.inc"
}

TEST(ShapeRulesTest, RefusesUnknownDTypes) {
  Launch launch = Copy({2});
  launch.src[0].dtype = static_cast<DType>(77);
  EXPECT_EQ(launch.Check(), "copy: src 0 has the unknown dtype 77");
}

TEST(ShapeRulesTest, RefusesNegativeAndLargeExtents) {
  EXPECT_THAT(Copy({-1}).Check(),
              StartsWith("copy: dst 0 has sizes or strides that are negative "
                         "or too large: sizes [-1]"));
  EXPECT_THAT(Copy({2}, {-1}).Check(), HasSubstr("negative or too large"));
  EXPECT_THAT(Copy({2}, {1}, {-1}).Check(), StartsWith("copy: src 0"));
  EXPECT_THAT(Copy({kHuge}, {1}).Check(), HasSubstr("too large"));
  EXPECT_THAT(Copy({kHuge, kHuge}, {1, 1}).Check(), HasSubstr("too large"));
  EXPECT_THAT(Copy({2}, {kHuge}).Check(), HasSubstr("too large"));
  EXPECT_THAT(Copy({2, 2}, {kHuge, kHuge}).Check(), HasSubstr("too large"));
  EXPECT_THAT(Copy({INT64_MAX}, {INT64_MAX}).Check(), HasSubstr("too large"));
  EXPECT_THAT(Copy({INT64_MIN}, {INT64_MIN}).Check(), HasSubstr("negative"));
  // A broadcast input of an absurd number of elements, in few bytes.
  Launch sum(Kernel::kReduce);
  sum.Dst(DType::kFloat32, {1, 1})
      .Src(DType::kFloat32, {kHuge, kHuge}, {0, 0})
      .Int(1);
  EXPECT_THAT(sum.Check(), StartsWith("reduce: src 0 has sizes or strides"));
  // Zeros don't hide what the other sizes multiply to.
  EXPECT_THAT(Copy({0, kHuge}, {1, 1}).Check(), HasSubstr("too large"));
  EXPECT_EQ(Copy({0, int64_t{1} << 50}, {1, 1}, {1, 1}).Check(), "");
}

TEST(ShapeRulesTest, RefusesRanksOverTheLimit) {
  EXPECT_EQ(Copy(std::vector<int64_t>(kMaxRank, 1)).Check(), "");
  EXPECT_EQ(Copy(std::vector<int64_t>(kMaxRank + 1, 1)).Check(),
            "copy: dst 0 has rank 17, want at most 16");
}

TEST(ShapeRulesTest, RefusesOutputsThatOverlapThemselves) {
  EXPECT_EQ(Copy({2, 3}, {0, 1}).Check(),
            "copy: dst 0 overlaps itself and can't be written: sizes [2, 3], "
            "strides [0, 1]");
  EXPECT_THAT(Copy({3, 3}, {1, 1}).Check(), HasSubstr("overlaps itself"));
  EXPECT_EQ(Copy({3, 2}, {1, 3}).Check(), "");
  EXPECT_EQ(Copy({1, 2}, {0, 1}).Check(), "");
  EXPECT_EQ(Copy({0, 2}, {0, 0}).Check(), "");
  EXPECT_EQ(Copy({2, 3}, {3, 1}, {0, 0}).Check(), "");
}

TEST(ShapeRulesTest, RefusesFlagsAndActivationsOfOtherKernels) {
  EXPECT_EQ(Copy({2}).Flags(kConjugate | kNegate).Check(), "");
  EXPECT_THAT(Copy({2}).Flags(kWrapNegative).Check(), HasSubstr("flags"));
  EXPECT_THAT(Copy({2}).Flags(1u << 31).Check(), HasSubstr("flags"));
  Launch launch = Copy({2});
  launch.params.act = Act::kRelu;
  EXPECT_EQ(launch.Check(), "copy: takes no activation");
}

TEST(ShapeRulesTest, RefusesNegativeCounts) {
  Launch launch = Copy({2});
  LaunchParams params = launch.Params();
  params.num_src = -1;
  EXPECT_FALSE(CheckLaunch(params, nullptr).ok());
  params = launch.Params();
  params.num_ints = -1;
  EXPECT_FALSE(CheckLaunch(params, nullptr).ok());
  params = launch.Params();
  params.num_dst = INT32_MAX;
  EXPECT_FALSE(CheckLaunch(params, nullptr).ok());
}

TEST(ShapeRulesTest, ReportsInvalidArgument) {
  EXPECT_EQ(CheckLaunch(Copy({-1}).Params(), nullptr).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tvarant::rules

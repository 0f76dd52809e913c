#include <gtest/gtest.h>

#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64,
                kC64 = DType::kComplex64, kC128 = DType::kComplex128;

std::string Check(DType y_dtype, std::vector<int64_t> y, DType x_dtype,
                  std::vector<int64_t> x, int64_t dim, int64_t forward) {
  Launch launch(Kernel::kFft);
  launch.Dst(y_dtype, y).Src(x_dtype, x).Int(dim).Int(forward).Float(1);
  return launch.Check();
}

TEST(FftRuleTest, ChecksComplexLines) {
  EXPECT_EQ(Check(kC64, {2, 8}, kC64, {2, 8}, 1, 1), "");
  EXPECT_EQ(Check(kC128, {2, 8}, kC128, {2, 8}, 0, 0), "");
  EXPECT_EQ(Check(kC64, {0, 8}, kC64, {0, 8}, 1, 1), "");
  EXPECT_NE(Check(kC64, {2, 8}, kC128, {2, 8}, 1, 1), "");
  EXPECT_NE(Check(kC64, {2, 5}, kC64, {2, 8}, 1, 1), "");
  EXPECT_NE(Check(kC64, {2, 8}, kC64, {2, 8}, 2, 1), "");
  EXPECT_NE(Check(kC64, {2, 8}, kC64, {2, 8}, 1, 2), "");
  EXPECT_NE(Check(kC64, {2, 0}, kC64, {2, 0}, 1, 1), "");
  EXPECT_NE(Check(kC64, {int64_t{1} << 40}, kC64, {int64_t{1} << 40}, 0, 1),
            "");
}

TEST(FftRuleTest, ChecksRealLines) {
  EXPECT_EQ(Check(kC64, {2, 5}, kF32, {2, 8}, 1, 1), "");
  EXPECT_EQ(Check(kC64, {2, 5}, kF32, {2, 9}, 1, 1), "");
  EXPECT_EQ(Check(kF64, {2, 9}, kC128, {2, 5}, 1, 0), "");
  EXPECT_EQ(Check(kF32, {1}, kC64, {1}, 0, 0), "");
  EXPECT_NE(Check(kC64, {2, 8}, kF32, {2, 8}, 1, 1), "");
  EXPECT_NE(Check(kC128, {2, 5}, kF32, {2, 8}, 1, 1), "");
  EXPECT_NE(Check(kC64, {2, 5}, kF32, {2, 8}, 1, 0), "");
  EXPECT_NE(Check(kF32, {2, 8}, kC64, {2, 5}, 1, 1), "");
  EXPECT_NE(Check(kF32, {2, 11}, kC64, {2, 5}, 1, 0), "");
  EXPECT_NE(Check(kF32, {2, 8}, kF32, {2, 8}, 1, 1), "");
}

}  // namespace
}  // namespace tvarant::rules

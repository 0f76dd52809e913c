#include <gtest/gtest.h>

#include "proto/ops/data_checks.h"
#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64,
                kI64 = DType::kInt64;

TEST(GridRuleTest, ChecksPlaces) {
  const auto check = [](std::vector<int64_t> y, std::vector<int64_t> x,
                        std::vector<int64_t> grid, int64_t mode = 0,
                        int64_t padding = 0, DType grid_dtype = kF32) {
    return Launch(Kernel::kGridSample)
        .Dst(kF32, y)
        .Src(kF32, x)
        .Src(grid_dtype, grid)
        .Int(mode)
        .Int(padding)
        .Int(1)
        .Check();
  };
  EXPECT_EQ(check({2, 3, 1, 4, 5}, {2, 3, 1, 6, 7}, {2, 1, 4, 5, 2}), "");
  EXPECT_EQ(check({2, 3, 1, 4, 5}, {2, 3, 1, 6, 7}, {2, 1, 4, 5, 2}, 2, 2), "");
  EXPECT_EQ(check({2, 3, 2, 4, 5}, {2, 3, 8, 6, 7}, {2, 2, 4, 5, 3}, 1), "");
  EXPECT_NE(check({2, 3, 2, 4, 5}, {2, 3, 8, 6, 7}, {2, 2, 4, 5, 3}, 2), "");
  EXPECT_NE(check({2, 3, 2, 4, 5}, {2, 3, 8, 6, 7}, {2, 2, 4, 5, 2}), "");
  EXPECT_NE(check({2, 3, 1, 4, 5}, {2, 3, 1, 6, 7}, {2, 1, 4, 5, 4}), "");
  EXPECT_NE(check({2, 3, 1, 4, 5}, {2, 3, 1, 6, 7}, {2, 1, 4, 6, 2}), "");
  EXPECT_NE(check({2, 4, 1, 4, 5}, {2, 3, 1, 6, 7}, {2, 1, 4, 5, 2}), "");
  EXPECT_NE(check({2, 3, 1, 4, 5}, {2, 3, 1, 0, 7}, {2, 1, 4, 5, 2}), "");
  EXPECT_NE(check({2, 3, 1, 4, 5}, {2, 3, 1, 6, 7}, {2, 1, 4, 5, 2}, 3), "");
  EXPECT_NE(check({2, 3, 1, 4, 5}, {2, 3, 1, 6, 7}, {2, 1, 4, 5, 2}, -1), "");
  EXPECT_NE(check({2, 3, 1, 4, 5}, {2, 3, 1, 6, 7}, {2, 1, 4, 5, 2}, 0, 3), "");
  EXPECT_NE(
      check({2, 3, 1, 4, 5}, {2, 3, 1, 6, 7}, {2, 1, 4, 5, 2}, 0, 0, kF64), "");
}

TEST(GridRuleTest, ChecksFractionalWindows) {
  const auto check = [](std::vector<int64_t> y, std::vector<int64_t> x,
                        std::vector<int64_t> samples, int64_t kernel) {
    return Launch(Kernel::kFractionalMaxPool)
        .Dst(kF32, y)
        .Dst(kI64, y)
        .Src(kF32, x)
        .Src(kF32, samples)
        .Int(1)
        .Int(kernel)
        .Int(kernel)
        .Check();
  };
  EXPECT_EQ(check({2, 3, 1, 2, 2}, {2, 3, 1, 6, 7}, {2, 3, 3}, 2), "");
  EXPECT_EQ(check({2, 3, 1, 2, 2}, {2, 3, 1, 6, 7}, {2, 3, 3}, 6), "");
  EXPECT_NE(check({2, 3, 1, 2, 2}, {2, 3, 1, 6, 7}, {2, 3, 3}, 7), "");
  EXPECT_NE(check({2, 3, 1, 2, 2}, {2, 3, 1, 6, 7}, {2, 3, 3}, 0), "");
  EXPECT_NE(check({2, 3, 1, 2, 2}, {2, 3, 1, 6, 7}, {2, 3, 2}, 2), "");
  EXPECT_NE(check({1, 3, 1, 2, 2}, {2, 3, 1, 6, 7}, {2, 3, 3}, 2), "");
}

TEST(SegmentRuleTest, ChecksRows) {
  const auto check = [](std::vector<int64_t> y, std::vector<int64_t> x,
                        std::vector<int64_t> offsets, int64_t op = 1,
                        DType dtype = kF32) {
    return Launch(Kernel::kSegmentReduce)
        .Dst(dtype, y)
        .Src(dtype, x)
        .Src(kI64, offsets)
        .Int(op)
        .Int(0)
        .Float(0)
        .Check();
  };
  EXPECT_EQ(check({2, 3, 4}, {2, 9, 4}, {2, 4}), "");
  EXPECT_EQ(check({2, 0, 4}, {2, 0, 4}, {2, 1}), "");
  EXPECT_NE(check({2, 3, 4}, {2, 9, 4}, {2, 3}), "");
  EXPECT_NE(check({2, 3, 4}, {2, 9, 4}, {1, 4}), "");
  EXPECT_NE(check({2, 3, 5}, {2, 9, 4}, {2, 4}), "");
  EXPECT_NE(check({2, 3, 4}, {2, 9, 4}, {2, 4}, 6), "");
  EXPECT_NE(check({2, 3, 4}, {2, 9, 4}, {2, 4}, 1, kI64), "");
}

TEST(WithinRuleTest, WantsACheck) {
  const auto check = [](int64_t number, DType dtype = kF32) {
    return Launch(Kernel::kWithin)
        .Src(dtype, {3, 4})
        .Int(number)
        .Int(0)
        .Int(1)
        .Float(0)
        .Float(1)
        .Check();
  };
  EXPECT_EQ(check(static_cast<int64_t>(DataCheck::kBernoulli)), "");
  EXPECT_NE(check(0), "");
  EXPECT_NE(check(1000), "");
  EXPECT_NE(check(1, DType::kComplex64), "");
}

}  // namespace
}  // namespace tvarant::rules

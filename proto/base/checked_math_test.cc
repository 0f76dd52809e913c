#include "proto/base/checked_math.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tvarant::base {
namespace {

TEST(CheckedMathTest, Adds) {
  uint64_t sum = 0;
  EXPECT_TRUE(CheckedAdd(uint64_t{40}, uint64_t{2}, &sum));
  EXPECT_EQ(sum, 42u);
  EXPECT_TRUE(CheckedAdd(UINT64_MAX, uint64_t{0}, &sum));
  EXPECT_EQ(sum, UINT64_MAX);
  EXPECT_FALSE(CheckedAdd(UINT64_MAX, uint64_t{1}, &sum));
  int64_t signed_sum = 0;
  EXPECT_FALSE(CheckedAdd(INT64_MAX, int64_t{1}, &signed_sum));
  EXPECT_FALSE(CheckedAdd(INT64_MIN, int64_t{-1}, &signed_sum));
  EXPECT_FALSE(CheckedAdd(UINT64_MAX, int64_t{0}, &signed_sum));
  EXPECT_TRUE(CheckedAdd(UINT64_MAX, int64_t{-1}, &sum));
  EXPECT_EQ(sum, UINT64_MAX - 1);
}

TEST(CheckedMathTest, Subtracts) {
  uint64_t difference = 0;
  EXPECT_TRUE(CheckedSub(uint64_t{3}, uint64_t{3}, &difference));
  EXPECT_EQ(difference, 0u);
  EXPECT_FALSE(CheckedSub(uint64_t{3}, uint64_t{4}, &difference));
}

TEST(CheckedMathTest, Multiplies) {
  uint64_t product = 0;
  EXPECT_TRUE(CheckedMul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1, &product));
  EXPECT_FALSE(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32, &product));
  int64_t signed_product = 0;
  EXPECT_FALSE(CheckedMul(int64_t{1} << 62, int64_t{2}, &signed_product));
  EXPECT_FALSE(CheckedMul(int64_t{-1}, INT64_MIN, &signed_product));
  EXPECT_TRUE(CheckedMul(int64_t{1} << 62, uint64_t{2}, &product));
  EXPECT_EQ(product, uint64_t{1} << 63);
  EXPECT_FALSE(CheckedMul(int64_t{-1}, uint64_t{2}, &product));
}

TEST(CheckedMathTest, RoundsUp) {
  uint64_t rounded = 0;
  EXPECT_TRUE(CheckedRoundUp<uint64_t>(0, 8, &rounded));
  EXPECT_EQ(rounded, 0u);
  EXPECT_TRUE(CheckedRoundUp<uint64_t>(9, 8, &rounded));
  EXPECT_EQ(rounded, 16u);
  EXPECT_TRUE(CheckedRoundUp<uint64_t>(UINT64_MAX - 7, 8, &rounded));
  EXPECT_EQ(rounded, UINT64_MAX - 7);
  EXPECT_FALSE(CheckedRoundUp<uint64_t>(UINT64_MAX - 6, 8, &rounded));
}

TEST(CheckedMathTest, KnowsRanges) {
  EXPECT_TRUE(InRange<uint64_t>(0, 0, 0));
  EXPECT_TRUE(InRange<uint64_t>(4, 4, 8));
  EXPECT_TRUE(InRange<uint64_t>(8, 0, 8));
  EXPECT_FALSE(InRange<uint64_t>(4, 5, 8));
  EXPECT_FALSE(InRange<uint64_t>(9, 0, 8));
  EXPECT_FALSE(InRange<uint64_t>(4, UINT64_MAX, 8));
  EXPECT_FALSE(InRange<uint64_t>(UINT64_MAX, UINT64_MAX, 8));
}

}  // namespace
}  // namespace tvarant::base

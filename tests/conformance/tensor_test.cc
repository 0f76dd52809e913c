#include "tests/conformance/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace tvarant::conformance {
namespace {

uint16_t Bits16(DType dtype, Real value) {
  Tensor x(dtype, {});
  x.Set(0, value);
  uint16_t bits;
  std::memcpy(&bits, x.bytes().data() + x.offset_bytes(), sizeof(bits));
  return bits;
}

TEST(TensorTest, StoresHalves) {
  EXPECT_EQ(Bits16(DType::kFloat16, 1), 0x3c00);
  EXPECT_EQ(Bits16(DType::kFloat16, -2), 0xc000);
  EXPECT_EQ(Bits16(DType::kFloat16, 65504), 0x7bff);
  EXPECT_EQ(Bits16(DType::kFloat16, 65519.99L), 0x7bff);
  EXPECT_EQ(Bits16(DType::kFloat16, 65520), 0x7c00);
  EXPECT_EQ(Bits16(DType::kFloat16, -INFINITY), 0xfc00);
  EXPECT_EQ(Bits16(DType::kFloat16, std::ldexp(1.0L, -14)), 0x0400);
  EXPECT_EQ(Bits16(DType::kFloat16, std::ldexp(1.0L, -24)), 0x0001);
  EXPECT_EQ(Bits16(DType::kFloat16, std::ldexp(1.0L, -25)), 0x0000);
  EXPECT_EQ(Bits16(DType::kFloat16, std::ldexp(1.5L, -25)), 0x0001);
  EXPECT_EQ(Bits16(DType::kFloat16, 1.00048828125L), 0x3c00);  // half to even
  EXPECT_EQ(Bits16(DType::kFloat16, 1.00146484375L), 0x3c02);
  EXPECT_EQ(Bits16(DType::kFloat16, -0.0L), 0x8000);
  EXPECT_EQ(Bits16(DType::kBFloat16, 1), 0x3f80);
  EXPECT_EQ(Bits16(DType::kBFloat16, 1.00390625L), 0x3f80);
  EXPECT_EQ(Bits16(DType::kBFloat16, 1.01171875L), 0x3f82);
  EXPECT_EQ(Bits16(DType::kBFloat16, 3.4e38L), 0x7f80);
}

TEST(TensorTest, ReadsEveryHalfBack) {
  for (int bits = 0; bits < 0x7c00; ++bits) {
    Tensor x(DType::kFloat16, {});
    std::memcpy(x.bytes().data() + x.offset_bytes(), &bits, 2);
    const Real value = x.Get(0);
    EXPECT_EQ(Bits16(DType::kFloat16, value), bits);
    EXPECT_EQ(RoundTo(DType::kFloat16, value), value);
  }
}

TEST(TensorTest, WrapsIntegers) {
  EXPECT_EQ(RoundTo(DType::kUInt8, -1), 255);
  EXPECT_EQ(RoundTo(DType::kInt8, 200), -56);
  EXPECT_EQ(RoundTo(DType::kInt64, INT64_MIN), INT64_MIN);
  EXPECT_EQ(RoundTo(DType::kInt64, INT64_MAX), INT64_MAX);
  EXPECT_EQ(RoundTo(DType::kBool, -7), 1);
  EXPECT_EQ(RoundTo(DType::kInt32, -2.9L), -2);
}

TEST(TensorTest, KeepsElementsApart) {
  for (const Layout layout : kDstLayouts) {
    Tensor x(DType::kInt32, {3, 4, 5}, layout);
    x.Fill([](int64_t i) { return i * 3; });
    for (int64_t i = 0; i < x.numel(); ++i) {
      EXPECT_EQ(x.Get(i), i * 3) << LayoutName(layout);
      EXPECT_EQ(x.IndexOf(x.CoordinatesOf(i)), i);
    }
  }
}

TEST(TensorTest, RepeatsElements) {
  Tensor rows(DType::kFloat64, {3, 2}, Layout::kBroadcast);
  rows.Fill([](int64_t i) { return i; });
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(rows.Get(i), 4 + i % 2);
  Tensor one(DType::kComplex64, {3, 2}, Layout::kRepeated);
  one.Set(5, 7, 8);
  EXPECT_EQ(one.Get(0), 7);
  EXPECT_EQ(one.GetImag(0), 8);
}

TEST(TensorTest, SeesWritesBesideElements) {
  Tensor x(DType::kFloat32, {4}, Layout::kGaps);
  const std::vector<char> before = x.bytes();
  x.Fill([](int64_t) { return 1; });
  EXPECT_TRUE(x.CheckGaps(before).ok());
  for (const size_t at : {size_t{0}, x.offset_bytes() - 1, x.offset_bytes() + 4,
                          x.bytes().size() - 1}) {
    Tensor y = x;
    y.bytes()[at] ^= 1;
    EXPECT_FALSE(y.CheckGaps(before).ok()) << at;
  }
}

absl::Status Compare(DType dtype, Real got, Real want, Tolerance tolerance) {
  Tensor x(dtype, {1});
  x.Set(0, got);
  return ExpectValues(
      "x", x, [&](int64_t) { return want; }, tolerance);
}

TEST(ExpectValuesTest, ToleratesAsMuchAsSaid) {
  const Real ulp = EpsilonOf(DType::kFloat32);
  EXPECT_TRUE(Compare(DType::kFloat32, 1 + ulp, 1, {.ulps = 1}).ok());
  EXPECT_FALSE(Compare(DType::kFloat32, 1 + 3 * ulp, 1, {.ulps = 2}).ok());
  EXPECT_FALSE(Compare(DType::kFloat32, 0.001L, 0, {.ulps = 100}).ok());
  EXPECT_TRUE(
      Compare(DType::kFloat32, 2 * ulp, 0, {.ulps = 0, .absolute = 3}).ok());
  EXPECT_FALSE(
      Compare(DType::kFloat32, 4 * ulp, 0, {.ulps = 0, .absolute = 3}).ok());
}

TEST(ExpectValuesTest, KnowsSpecialValues) {
  EXPECT_TRUE(Compare(DType::kFloat32, NAN, NAN, {}).ok());
  EXPECT_FALSE(Compare(DType::kFloat32, 1, NAN, {}).ok());
  EXPECT_FALSE(Compare(DType::kFloat32, NAN, 1, {}).ok());
  EXPECT_TRUE(Compare(DType::kFloat32, INFINITY, INFINITY, {}).ok());
  EXPECT_TRUE(Compare(DType::kFloat32, INFINITY, 1e60L, {}).ok());
  EXPECT_FALSE(Compare(DType::kFloat32, -INFINITY, INFINITY, {}).ok());
  EXPECT_FALSE(Compare(DType::kFloat32, 1e30L, INFINITY, {}).ok());
  EXPECT_FALSE(Compare(DType::kFloat32, INFINITY, 1e30L, {}).ok());
  EXPECT_FALSE(Compare(DType::kFloat32, NAN, INFINITY, {}).ok());
}

TEST(ExpectValuesTest, WantsIntegersExactly) {
  EXPECT_TRUE(Compare(DType::kInt64, INT64_MAX, INT64_MAX, {}).ok());
  EXPECT_FALSE(Compare(DType::kInt64, INT64_MAX - 1, INT64_MAX, {}).ok());
  EXPECT_TRUE(Compare(DType::kInt8, 200, -56, {}).ok());
}

}  // namespace
}  // namespace tvarant::conformance

// Rules of convolutions.

#include <cstdint>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

using ::testing::HasSubstr;

constexpr DType kF32 = DType::kFloat32;
constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

struct Parameters {
  int64_t groups = 1, stride = 1, padding = 1, dilation = 1;
};

// y [2, 4, 1, 8, 8] = x [2, 6, 1, 8, 8] with a 3x3 window.
Launch Conv(Kernel kernel, const Parameters& p) {
  Launch launch(kernel);
  launch.Int(p.groups).Int(1).Int(p.stride).Int(p.stride);
  launch.Int(0).Int(p.padding).Int(p.padding);
  launch.Int(1).Int(p.dilation).Int(p.dilation);
  return launch;
}

std::string Check(const Parameters& p, Launch::Dims weight = {4, 6, 1, 3, 3},
                  Launch::Dims y = {2, 4, 1, 8, 8}, DType dtype = kF32) {
  return Conv(Kernel::kConvolution, p)
      .Dst(kF32, std::move(y))
      .Src(dtype, {2, 6, 1, 8, 8})
      .Src(dtype, std::move(weight))
      .Check();
}

TEST(ConvolutionRule, TakesWhatFits) {
  EXPECT_EQ(Check({}), "");
  EXPECT_EQ(Check({.groups = 2}, {4, 3, 1, 3, 3}), "");
  EXPECT_EQ(Conv(Kernel::kConvolutionTranspose, {})
                .Dst(kF32, {2, 6, 1, 8, 8})
                .Src(kF32, {2, 4, 1, 8, 8})
                .Src(kF32, {4, 6, 1, 3, 3})
                .Src(kF32, {6})
                .Check(),
            "");
  EXPECT_EQ(Conv(Kernel::kConvolutionWeight, {})
                .Dst(kF32, {4, 6, 1, 3, 3})
                .Src(kF32, {2, 4, 1, 8, 8})
                .Src(kF32, {2, 6, 1, 8, 8})
                .Check(),
            "");
}

TEST(ConvolutionRule, RefusesOtherShapes) {
  EXPECT_THAT(Check({}, {4, 5, 1, 3, 3}), HasSubstr("src 1"));
  EXPECT_THAT(Check({}, {4, 6, 3, 3}), HasSubstr("rank"));
  EXPECT_THAT(Check({}, {4, 6, 1, 3, 3}, {2, 4, 1, 9, 8}),
              HasSubstr("want at most 8"));
  EXPECT_THAT(Check({}, {4, 6, 1, 3, 3}, {3, 4, 1, 8, 8}), HasSubstr("batch"));
  EXPECT_THAT(Check({}, {4, 6, 1, 0, 3}), HasSubstr("empty window"));
  EXPECT_THAT(Check({}, {4, 6, 1, 3, 3}, {2, 4, 1, 8, 8}, DType::kFloat64),
              HasSubstr("dtype"));
}

TEST(ConvolutionRule, RefusesParametersOutOfRange) {
  EXPECT_THAT(Check({.groups = 0}), HasSubstr("groups"));
  EXPECT_THAT(Check({.groups = 4}), HasSubstr("groups"));
  EXPECT_THAT(Check({.stride = 0}), HasSubstr("stride"));
  EXPECT_THAT(Check({.stride = kHuge}), HasSubstr("stride"));
  EXPECT_THAT(Check({.padding = -1}), HasSubstr("padding"));
  EXPECT_THAT(Check({.padding = kHuge}), HasSubstr("padding"));
  EXPECT_THAT(Check({.dilation = 0}), HasSubstr("dilation"));
  EXPECT_THAT(Check({.dilation = kHuge}), HasSubstr("dilation"));
}

TEST(ConvolutionRule, BoundsTheWindow) {
  Launch launch = Conv(Kernel::kConvolution, {.padding = 1 << 20});
  launch.Dst(kF32, {1, 1, 1, 1, 1}).Src(kF32, {1, 1, 1, 8, 8});
  launch.Src(kF32, {1, 1, 1, 1 << 20, 1 << 20}, {0, 0, 0, 0, 0});
  EXPECT_THAT(launch.Check(), HasSubstr("too large a window"));
}

}  // namespace
}  // namespace tvarant::rules

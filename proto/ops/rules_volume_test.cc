// Rules of channel_norm, pooling and resampling.

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

Launch Norm(int64_t groups, int64_t constant, int64_t statistics) {
  Launch launch(Kernel::kChannelNorm);
  launch.Int(groups).Int(constant).Float(1e-5).Float(0.1);
  launch.Dst(kF32, {2, 6, 5}).Dst(kF32, {statistics}).Dst(kF32, {statistics});
  launch.NoDst().NoDst();
  launch.Src(kF32, {2, 6, 5}).Src(kF32, {6}).NoSrc();
  return launch;
}

TEST(ChannelNormRule, CountsStatistics) {
  EXPECT_EQ(Norm(0, 0, 6).NoSrc().NoSrc().Check(), "");
  EXPECT_EQ(Norm(3, 0, 6).NoSrc().NoSrc().Check(), "");
  EXPECT_EQ(Norm(2, 0, 4).NoSrc().NoSrc().Check(), "");
  EXPECT_EQ(Norm(0, 1, 6).Src(kF32, {6}).Src(kF32, {6}).Check(), "");
  EXPECT_THAT(Norm(2, 0, 6).NoSrc().NoSrc().Check(), HasSubstr("dst 1"));
  EXPECT_THAT(Norm(4, 0, 8).NoSrc().NoSrc().Check(), HasSubstr("groups"));
  EXPECT_THAT(Norm(-1, 0, 6).NoSrc().NoSrc().Check(), HasSubstr("groups"));
  EXPECT_THAT(Norm(0, 1, 6).NoSrc().NoSrc().Check(), HasSubstr("src 3"));
  EXPECT_THAT(Norm(0, 2, 6).NoSrc().NoSrc().Check(), HasSubstr("constant"));
}

TEST(ChannelNormRule, BackwardTakesAbsentResults) {
  Launch launch(Kernel::kChannelNormBackward);
  launch.Int(0).Int(0).NoDst().NoDst().Dst(kF32, {6});
  launch.Src(kF32, {2, 6, 5}).Src(kF32, {2, 6, 5});
  launch.Src(kF32, {6}).Src(kF32, {6}).NoSrc();
  EXPECT_EQ(launch.Check(), "");
}

struct Window {
  int64_t adaptive = 0, kernel = 2, stride = 2, padding = 0, dilation = 1;
  int64_t out = 4;
};

std::string CheckMaxPool(const Window& w) {
  Launch launch(Kernel::kMaxPool);
  launch.Int(w.adaptive).Int(1).Int(1).Int(w.kernel);
  launch.Int(1).Int(1).Int(w.stride);
  launch.Int(0).Int(0).Int(w.padding).Int(1).Int(1).Int(w.dilation);
  launch.Dst(kF32, {1, 3, 1, 1, w.out});
  launch.Dst(DType::kInt64, {1, 3, 1, 1, w.out});
  return launch.Src(kF32, {1, 3, 1, 1, 8}).Check();
}

TEST(PoolRule, KeepsWindowsInside) {
  EXPECT_EQ(CheckMaxPool({}), "");
  EXPECT_EQ(CheckMaxPool({.adaptive = 1, .out = 20}), "");
  EXPECT_THAT(CheckMaxPool({.out = 5}), HasSubstr("outside"));
  EXPECT_THAT(CheckMaxPool({.padding = 2}), HasSubstr("outside"));
  EXPECT_THAT(CheckMaxPool({.kernel = 0}), HasSubstr("kernel"));
  EXPECT_THAT(CheckMaxPool({.kernel = kHuge}), HasSubstr("kernel"));
  EXPECT_THAT(CheckMaxPool({.stride = kHuge}), HasSubstr("stride"));
  EXPECT_THAT(CheckMaxPool({.padding = -1}), HasSubstr("padding"));
  EXPECT_THAT(CheckMaxPool({.dilation = 0}), HasSubstr("dilation"));
  EXPECT_THAT(CheckMaxPool({.adaptive = 2}), HasSubstr("adaptive"));
}

std::string CheckResample(int64_t mode, double scale, int64_t pad,
                          DType dtype = kF32) {
  Launch launch(Kernel::kResample);
  launch.Int(mode).Int(0).Int(0).Int(0).Int(pad);
  launch.Float(1).Float(1).Float(scale);
  launch.Dst(dtype, {1, 3, 1, 1, 8}).Src(dtype, {1, 3, 1, 1, 4});
  return launch.Check();
}

TEST(ResampleRule, ChecksParameters) {
  EXPECT_EQ(CheckResample(2, 0.5, 0), "");
  EXPECT_EQ(CheckResample(0, 0.5, 0, DType::kUInt8), "");
  EXPECT_THAT(CheckResample(2, 0.5, 0, DType::kUInt8), HasSubstr("dtype"));
  EXPECT_THAT(CheckResample(8, 0.5, 0), HasSubstr("mode"));
  EXPECT_THAT(CheckResample(2, -1, 0), HasSubstr("scale"));
  EXPECT_THAT(CheckResample(2, std::numeric_limits<double>::quiet_NaN(), 0),
              HasSubstr("scale"));
  EXPECT_THAT(CheckResample(4, 1, kHuge), HasSubstr("padding"));
}

}  // namespace
}  // namespace tvarant::rules

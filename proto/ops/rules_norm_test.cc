#include <gtest/gtest.h>

#include "proto/ops/rule_test_util.h"

namespace tvarant::rules {
namespace {

constexpr DType kF16 = DType::kFloat16, kF32 = DType::kFloat32,
                kF64 = DType::kFloat64, kI64 = DType::kInt64;

TEST(SoftmaxRuleTest, ChecksDTypesSizesAndDim) {
  for (const Kernel kernel : {Kernel::kSoftmax, Kernel::kLogSoftmax}) {
    const auto check = [&](DType dst, DType src, int64_t dim,
                           std::vector<int64_t> sizes = {2, 3}) {
      Launch launch(kernel);
      launch.Dst(dst, sizes).Src(src, {2, 3}).Int(dim);
      return launch.Check();
    };
    EXPECT_EQ(check(kF32, kF32, 1), "");
    EXPECT_EQ(check(kF32, kF16, 0), "");
    EXPECT_NE(check(kF16, kF32, 0), "");
    EXPECT_NE(check(kF32, kF64, 0), "");
    EXPECT_NE(check(kI64, kI64, 0), "");
    EXPECT_NE(check(kF32, kF32, 2), "");
    EXPECT_NE(check(kF32, kF32, INT64_MIN), "");
    EXPECT_NE(check(kF32, kF32, 0, {3, 2}), "");
  }
}

TEST(SoftmaxRuleTest, ChecksGradients) {
  for (const Kernel kernel :
       {Kernel::kSoftmaxBackward, Kernel::kLogSoftmaxBackward}) {
    const auto check = [&](DType dx, DType dy, DType y) {
      Launch launch(kernel);
      launch.Dst(dx, {2, 3}).Src(dy, {2, 3}).Src(y, {2, 3}).Int(1);
      return launch.Check();
    };
    EXPECT_EQ(check(kF32, kF32, kF32), "");
    EXPECT_EQ(check(kF16, kF32, kF32), "");
    EXPECT_NE(check(kF16, kF32, kF16), "");
    EXPECT_NE(check(kF32, kF16, kF16), "");
    Launch sizes(kernel);
    sizes.Dst(kF32, {2, 3}).Src(kF32, {2, 3}).Src(kF32, {3, 2}).Int(1);
    EXPECT_NE(sizes.Check(), "");
  }
}

TEST(LayerNormRuleTest, ChecksRowsAndColumns) {
  const auto make = [](DType dtype, DType statistics) {
    Launch launch(Kernel::kLayerNorm);
    launch.Dst(dtype, {4, 6}).Dst(statistics, {4}).Dst(statistics, {4});
    launch.Src(dtype, {4, 6});
    return launch;
  };
  EXPECT_EQ(make(kF32, kF32).NoSrc().NoSrc().Check(), "");
  EXPECT_EQ(make(kF16, kF32).Src(kF32, {6}).Src(kF16, {6}).Check(), "");
  EXPECT_EQ(make(kF32, kF32).Src(kF32, {4}).NoSrc().Check(),
            "layer_norm: src 1 has sizes [4], want [6]");
  EXPECT_NE(make(kF32, kF64).NoSrc().NoSrc().Check(), "");
  EXPECT_NE(make(kF32, kF32).Src(kF16, {6}).NoSrc().Check(), "");
  Launch statistics = make(kF16, kF32);
  statistics.dst[2].dtype = kF16;
  EXPECT_NE(statistics.NoSrc().NoSrc().Check(), "");
}

TEST(LayerNormRuleTest, ChecksGradients) {
  const auto make = [] {
    Launch launch(Kernel::kLayerNormBackward);
    launch.Src(kF32, {4, 6}).Src(kF32, {4, 6}).Src(kF32, {4}).Src(kF32, {4});
    return launch;
  };
  EXPECT_EQ(make().NoSrc().NoDst().NoDst().NoDst().Check(), "");
  EXPECT_EQ(make()
                .Src(kF32, {6})
                .Dst(kF32, {4, 6})
                .Dst(kF32, {6})
                .Dst(kF32, {6})
                .Check(),
            "");
  EXPECT_EQ(make().NoSrc().NoDst().Dst(kF32, {4}).NoDst().Check(),
            "layer_norm_backward: dst 1 has sizes [4], want [6]");
  EXPECT_NE(make().NoSrc().Dst(kF32, {6, 4}).NoDst().NoDst().Check(), "");
}

Launch NllLoss(int64_t reduction, std::vector<int64_t> loss) {
  Launch launch(Kernel::kNllLoss);
  launch.Dst(kF32, loss).Dst(kF32, {}).Src(kF32, {4, 6}).Src(kI64, {4});
  launch.Int(reduction).Int(-100);
  return launch;
}

TEST(NllLossRuleTest, ChecksTheReduction) {
  EXPECT_EQ(NllLoss(0, {4}).NoSrc().Check(), "");
  EXPECT_EQ(NllLoss(1, {}).NoSrc().Check(), "");
  EXPECT_EQ(NllLoss(2, {}).Src(kF32, {6}).Check(), "");
  EXPECT_EQ(NllLoss(1, {4}).NoSrc().Check(),
            "nll_loss: dst 0 has sizes [4], want []");
  EXPECT_NE(NllLoss(3, {}).NoSrc().Check(), "");
  EXPECT_NE(NllLoss(1, {}).Src(kF32, {4}).Check(), "");
  Launch target = NllLoss(1, {});
  target.src[1].dtype = DType::kInt32;
  EXPECT_EQ(target.NoSrc().Check(),
            "nll_loss: src 1 has dtype int32, want int64");
}

TEST(NllLossRuleTest, ChecksGradients) {
  const auto make = [](int64_t reduction, std::vector<int64_t> dloss) {
    Launch launch(Kernel::kNllLossBackward);
    launch.Dst(kF32, {4, 6})
        .Src(kF32, dloss)
        .Src(kI64, {4})
        .NoSrc()
        .Src(kF32, {});
    launch.Int(reduction).Int(-100);
    return launch;
  };
  EXPECT_EQ(make(0, {4}).Check(), "");
  EXPECT_EQ(make(1, {}).Check(), "");
  EXPECT_NE(make(0, {}).Check(), "");
  Launch total = make(1, {});
  total.src[3].dtype = kF64;
  EXPECT_NE(total.Check(), "");
}

}  // namespace
}  // namespace tvarant::rules

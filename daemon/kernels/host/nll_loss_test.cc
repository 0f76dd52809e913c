#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/test_util.h"
#include "gtest/gtest.h"

namespace tvarant::host {
namespace {

constexpr int64_t kNone = 0, kMean = 1, kSum = 2;

absl::Status Launch(Kernel kernel, const std::vector<TestTensor*>& dst,
                    const std::vector<TestTensor*>& src, int64_t reduction,
                    int64_t ignore) {
  ThreadPool pool(2);
  std::vector<Tensor> outputs, inputs;
  for (TestTensor* t : dst) outputs.push_back(t ? t->tensor() : Tensor{});
  for (TestTensor* t : src) inputs.push_back(t ? t->tensor() : Tensor{});
  const int64_t ints[] = {reduction, ignore};
  HostLaunch launch;
  launch.kernel = kernel;
  launch.ints = ints;
  launch.dst = outputs;
  launch.src = inputs;
  return kernel == Kernel::kNllLoss ? RunNllLoss(launch, pool)
                                    : RunNllLossBackward(launch, pool);
}

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 4e-3;
    case DType::kBFloat16:
      return 3e-2;
    case DType::kFloat32:
      return 1e-6;
    default:
      return 1e-13;
  }
}

void Check(DType dtype, int64_t reduction, bool weighted, int64_t ignore) {
  constexpr int64_t kRows = 12, kClasses = 5;
  TestRandom random(7);
  TestTensor logp(dtype, {kRows, kClasses}, {1, kRows});
  TestTensor target(DType::kInt64, {kRows}, {3}), weight(dtype, {kClasses});
  for (int64_t i = 0; i < kRows * kClasses; ++i) {
    logp.Set(i, random.Real(-3, 0));
  }
  for (int64_t i = 0; i < kRows; ++i) {
    target.SetInt(i, random.Int(0, kClasses - 1));
  }
  for (int64_t i = 0; i < kClasses; ++i) weight.Set(i, random.Real(0.5, 2));
  const TestTensor::Dims loss_sizes =
      reduction == kNone ? TestTensor::Dims{kRows} : TestTensor::Dims{};
  TestTensor loss(dtype, loss_sizes), total(dtype, {});
  TestTensor* weights = weighted ? &weight : nullptr;
  ASSERT_TRUE(Launch(Kernel::kNllLoss, {&loss, &total},
                     {&logp, &target, weights}, reduction, ignore)
                  .ok());
  std::vector<double> w(kRows);
  double sum = 0, sum_w = 0;
  const double tolerance = ToleranceOf(dtype);
  for (int64_t i = 0; i < kRows; ++i) {
    const int64_t t = target.GetInt(i);
    w[i] = t == ignore ? 0 : weighted ? weight.Get(t) : 1;
    const double value = t == ignore ? 0 : -w[i] * logp.Get(i * kClasses + t);
    sum += value;
    sum_w += w[i];
    if (reduction == kNone) {
      EXPECT_TRUE(Near(loss.Get(i), value, tolerance, tolerance));
    }
  }
  if (reduction == kMean) {
    EXPECT_TRUE(Near(loss.Get(0), sum / sum_w, tolerance, 0));
  }
  if (reduction == kSum) {
    EXPECT_TRUE(Near(loss.Get(0), sum, tolerance, 0));
  }
  if (reduction != kNone) {
    EXPECT_TRUE(Near(total.Get(0), sum_w, tolerance, 0));
  }

  TestTensor dloss(dtype, loss_sizes), dlogp(dtype, {kRows, kClasses});
  for (int64_t i = 0; i < dloss.numel(); ++i) dloss.Set(i, 1.5 + i);
  for (int64_t i = 0; i < dlogp.numel(); ++i) dlogp.Set(i, 9);
  ASSERT_TRUE(Launch(Kernel::kNllLossBackward, {&dlogp},
                     {&dloss, &target, weights, &total}, reduction, ignore)
                  .ok());
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t c = 0; c < kClasses; ++c) {
      double want = 0;
      if (c == target.GetInt(i) && c != ignore) {
        want = -w[i] * dloss.Get(reduction == kNone ? i : 0);
        if (reduction == kMean) want /= total.Get(0);
      }
      EXPECT_TRUE(
          Near(dlogp.Get(i * kClasses + c), want, tolerance, tolerance));
    }
  }
}

TEST(NllLossTest, ReductionsWeightsAndIgnoredTargets) {
  for (DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (int64_t reduction : {kNone, kMean, kSum}) {
      for (bool weighted : {false, true}) {
        Check(dtype, reduction, weighted, -100);
        Check(dtype, reduction, weighted, 2);
      }
    }
  }
}

TEST(NllLossTest, AllIgnored) {
  TestTensor logp(DType::kFloat32, {2, 3}), target(DType::kInt64, {2});
  TestTensor loss(DType::kFloat32, {}), total(DType::kFloat32, {});
  for (int64_t i = 0; i < 6; ++i) logp.Set(i, -1);
  target.SetInt(0, -100), target.SetInt(1, -100);
  ASSERT_TRUE(Launch(Kernel::kNllLoss, {&loss, &total},
                     {&logp, &target, nullptr}, kMean, -100)
                  .ok());
  EXPECT_TRUE(std::isnan(loss.Get(0)));
  EXPECT_EQ(total.Get(0), 0);
  ASSERT_TRUE(Launch(Kernel::kNllLoss, {&loss, &total},
                     {&logp, &target, nullptr}, kSum, -100)
                  .ok());
  EXPECT_EQ(loss.Get(0), 0);
}

TEST(NllLossTest, EmptyBatch) {
  TestTensor logp(DType::kFloat32, {0, 3}), target(DType::kInt64, {0});
  TestTensor loss(DType::kFloat32, {}), total(DType::kFloat32, {});
  ASSERT_TRUE(Launch(Kernel::kNllLoss, {&loss, &total},
                     {&logp, &target, nullptr}, kMean, -100)
                  .ok());
  EXPECT_TRUE(std::isnan(loss.Get(0)));
}

TEST(NllLossTest, TargetOutOfRange) {
  TestTensor logp(DType::kFloat32, {3, 4}), target(DType::kInt64, {3});
  TestTensor loss(DType::kFloat32, {3}), total(DType::kFloat32, {});
  for (int64_t i = 0; i < 12; ++i) logp.Set(i, -1);
  target.SetInt(0, 1), target.SetInt(1, 5), target.SetInt(2, -1);
  absl::Status status = Launch(Kernel::kNllLoss, {&loss, &total},
                               {&logp, &target, nullptr}, kNone, -100);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(), "Target 5 is out of bounds.");
  EXPECT_EQ(loss.Get(0), 1);
  TestTensor dlogp(DType::kFloat32, {3, 4});
  status = Launch(Kernel::kNllLossBackward, {&dlogp},
                  {&loss, &target, nullptr, &total}, kNone, -100);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(dlogp.Get(1), -1);
  EXPECT_TRUE(dlogp.Untouched());
}

TEST(NllLossTest, UInt8Target) {
  TestTensor logp(DType::kFloat32, {1, 200}), target(DType::kUInt8, {1});
  TestTensor loss(DType::kFloat32, {}), total(DType::kFloat32, {});
  for (int64_t i = 0; i < 200; ++i) logp.Set(i, -static_cast<double>(i));
  target.SetInt(0, 150);
  ASSERT_TRUE(Launch(Kernel::kNllLoss, {&loss, &total},
                     {&logp, &target, nullptr}, kSum, -100)
                  .ok());
  EXPECT_EQ(loss.Get(0), 150);
}

}  // namespace
}  // namespace tvarant::host

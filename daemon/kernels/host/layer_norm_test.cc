#include <cmath>
#include <cstdint>
#include <vector>

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/test_util.h"
#include "gtest/gtest.h"

namespace tvarant::host {
namespace {

constexpr double kEps = 1e-5;

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 4e-3;
    case DType::kBFloat16:
      return 3e-2;
    case DType::kFloat32:
      return 1e-5;
    default:
      return 1e-12;
  }
}

// A null pointer stands for an absent operand.
absl::Status Launch(Kernel kernel, const std::vector<TestTensor*>& dst,
                    const std::vector<TestTensor*>& src, int threads = 2) {
  ThreadPool pool(threads);
  std::vector<Tensor> outputs, inputs;
  for (TestTensor* t : dst) outputs.push_back(t ? t->tensor() : Tensor{});
  for (TestTensor* t : src) inputs.push_back(t ? t->tensor() : Tensor{});
  HostLaunch launch;
  launch.kernel = kernel;
  launch.scalar = kEps;
  launch.dst = outputs;
  launch.src = inputs;
  return kernel == Kernel::kLayerNorm ? RunLayerNorm(launch, pool)
                                      : RunLayerNormBackward(launch, pool);
}

void FillRandom(TestTensor& t, uint64_t seed) {
  TestRandom random(seed);
  for (int64_t i = 0; i < t.numel(); ++i) t.Set(i, random.Real(-2, 3));
}

struct Stats {
  double mean = 0, rstd = 0;
};

Stats StatsOf(TestTensor& x, int64_t row, int64_t n) {
  Stats s;
  double var = 0;
  for (int64_t i = 0; i < n; ++i) s.mean += x.Get(row * n + i) / n;
  for (int64_t i = 0; i < n; ++i) {
    var += std::pow(x.Get(row * n + i) - s.mean, 2) / n;
  }
  s.rstd = 1 / std::sqrt(var + kEps);
  return s;
}

void CheckForward(TestTensor& x, TestTensor* weight, TestTensor* bias,
                  DType stats) {
  const int64_t m = x.sizes()[0], n = x.sizes()[1];
  TestTensor y(x.dtype(), {m, n}), mean(stats, {m}), rstd(stats, {m});
  ASSERT_TRUE(
      Launch(Kernel::kLayerNorm, {&y, &mean, &rstd}, {&x, weight, bias}).ok());
  const double tolerance = ToleranceOf(x.dtype());
  for (int64_t row = 0; row < m; ++row) {
    const Stats s = StatsOf(x, row, n);
    ASSERT_TRUE(Near(mean.Get(row), s.mean, ToleranceOf(stats), 1e-5));
    ASSERT_TRUE(Near(rstd.Get(row), s.rstd, ToleranceOf(stats), 1e-5));
    for (int64_t i = 0; i < n; ++i) {
      double want = (x.Get(row * n + i) - s.mean) * s.rstd;
      if (weight != nullptr) want *= weight->Get(i);
      if (bias != nullptr) want += bias->Get(i);
      ASSERT_TRUE(Near(y.Get(row * n + i), want, tolerance, tolerance));
    }
  }
  EXPECT_TRUE(y.Untouched());
}

void Forward() {
  for (DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (int64_t n : {3, 8, 31, 64, 130}) {
      TestTensor x(dtype, {5, n}), spread(dtype, {5, n}, {1, 6});
      TestTensor weight(dtype, {n}), bias(dtype, {n}, {2});
      FillRandom(x, 1), FillRandom(spread, 2), FillRandom(weight, 3);
      FillRandom(bias, 4);
      CheckForward(x, &weight, &bias, dtype);
      CheckForward(spread, &weight, nullptr, dtype);
      CheckForward(x, nullptr, &bias, dtype);
      CheckForward(x, nullptr, nullptr,
                   dtype == DType::kFloat64 ? dtype : DType::kFloat32);
    }
  }
}

TEST(LayerNormTest, Forward) { ForEachIsa(Forward); }

void CheckBackward(DType dtype, int64_t m, int64_t n, bool weighted) {
  TestTensor x(dtype, {m, n}), dy(dtype, {m, n}), weight(dtype, {n});
  FillRandom(x, 1), FillRandom(dy, 2), FillRandom(weight, 3);
  const DType stats = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
  TestTensor mean(stats, {m}), rstd(stats, {m});
  for (int64_t row = 0; row < m; ++row) {
    const Stats s = StatsOf(x, row, n);
    mean.Set(row, s.mean);
    rstd.Set(row, s.rstd);
  }
  TestTensor dx(dtype, {m, n}), dweight(dtype, {n}), dbias(dtype, {n});
  ASSERT_TRUE(Launch(Kernel::kLayerNormBackward, {&dx, &dweight, &dbias},
                     {&dy, &x, &mean, &rstd, weighted ? &weight : nullptr})
                  .ok());
  std::vector<double> want_dweight(n), want_dbias(n);
  const double tolerance = ToleranceOf(dtype);
  for (int64_t row = 0; row < m; ++row) {
    const Stats s = StatsOf(x, row, n);
    double sum_g = 0, sum_gh = 0;
    const auto h = [&](int64_t i) {
      return (x.Get(row * n + i) - s.mean) * s.rstd;
    };
    const auto g = [&](int64_t i) {
      return dy.Get(row * n + i) * (weighted ? weight.Get(i) : 1.0);
    };
    for (int64_t i = 0; i < n; ++i) {
      sum_g += g(i);
      sum_gh += g(i) * h(i);
      want_dweight[i] += dy.Get(row * n + i) * h(i);
      want_dbias[i] += dy.Get(row * n + i);
    }
    for (int64_t i = 0; i < n; ++i) {
      const double want = s.rstd * (g(i) - sum_g / n - h(i) * sum_gh / n);
      ASSERT_TRUE(Near(dx.Get(row * n + i), want, tolerance, 10 * tolerance));
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    const double absolute = tolerance * std::sqrt(static_cast<double>(m)) * 10;
    ASSERT_TRUE(Near(dweight.Get(i), want_dweight[i], tolerance, absolute));
    ASSERT_TRUE(Near(dbias.Get(i), want_dbias[i], tolerance, absolute));
  }
}

void Backward() {
  for (DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (int64_t n : {3, 8, 31, 70}) {
      CheckBackward(dtype, 1, n, true);
      CheckBackward(dtype, 9, n, false);
      CheckBackward(dtype, 150, n, true);
    }
  }
}

TEST(LayerNormTest, Backward) { ForEachIsa(Backward); }

TEST(LayerNormTest, AbsentGradientsAreNotComputed) {
  TestTensor x(DType::kFloat32, {4, 6}), dy(DType::kFloat32, {4, 6});
  TestTensor mean(DType::kFloat32, {4}), rstd(DType::kFloat32, {4});
  TestTensor dbias(DType::kFloat32, {6});
  FillRandom(x, 1), FillRandom(dy, 2), FillRandom(mean, 3), FillRandom(rstd, 4);
  ASSERT_TRUE(Launch(Kernel::kLayerNormBackward, {nullptr, nullptr, &dbias},
                     {&dy, &x, &mean, &rstd, nullptr})
                  .ok());
  for (int64_t i = 0; i < 6; ++i) {
    double want = 0;
    for (int64_t row = 0; row < 4; ++row) want += dy.Get(row * 6 + i);
    EXPECT_NEAR(dbias.Get(i), want, 1e-5);
  }
}

TEST(LayerNormTest, SumsDoNotDependOnThreads) {
  TestTensor x(DType::kFloat32, {3000, 40}), dy(DType::kFloat32, {3000, 40});
  TestTensor mean(DType::kFloat32, {3000}), rstd(DType::kFloat32, {3000});
  FillRandom(x, 1), FillRandom(dy, 2), FillRandom(mean, 3), FillRandom(rstd, 4);
  std::vector<double> first;
  for (int threads : {1, 2, 5}) {
    TestTensor dweight(DType::kFloat32, {40}), dbias(DType::kFloat32, {40});
    ASSERT_TRUE(Launch(Kernel::kLayerNormBackward, {nullptr, &dweight, &dbias},
                       {&dy, &x, &mean, &rstd, nullptr}, threads)
                    .ok());
    std::vector<double> all;
    for (int64_t i = 0; i < 40; ++i) {
      all.push_back(dweight.Get(i));
      all.push_back(dbias.Get(i));
    }
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << threads;
  }
}

TEST(LayerNormTest, EmptyGradientsAreZero) {
  TestTensor x(DType::kFloat32, {0, 3}), dy(DType::kFloat32, {0, 3});
  TestTensor mean(DType::kFloat32, {0}), rstd(DType::kFloat32, {0});
  TestTensor dweight(DType::kFloat32, {3}), dbias(DType::kFloat32, {3});
  for (int64_t i = 0; i < 3; ++i) dweight.Set(i, 7), dbias.Set(i, 7);
  ASSERT_TRUE(Launch(Kernel::kLayerNormBackward, {nullptr, &dweight, &dbias},
                     {&dy, &x, &mean, &rstd, nullptr})
                  .ok());
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(dweight.Get(i), 0);
    EXPECT_EQ(dbias.Get(i), 0);
  }
}

TEST(LayerNormTest, RefusesIntegers) {
  TestTensor x(DType::kInt32, {1, 3}), f(DType::kFloat32, {1});
  EXPECT_EQ(
      Launch(Kernel::kLayerNorm, {&x, &f, &f}, {&x, nullptr, nullptr}).code(),
      absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tvarant::host

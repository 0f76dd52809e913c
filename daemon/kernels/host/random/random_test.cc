#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/random/random_words.h"
#include "daemon/kernels/host/test_util.h"
#include "gtest/gtest.h"

namespace tvarant::host {
namespace {

struct Draw {
  Distribution distribution = Distribution::kUniform;
  int64_t seed = 1, offset = 0, low = 0, high = 0;
  double a = 0, b = 1;
  int threads = 2;
};

absl::Status Launch(TestTensor& y, const Draw& d) {
  ThreadPool pool(d.threads);
  const Tensor outputs[] = {y.tensor()};
  const int64_t ints[] = {static_cast<int64_t>(d.distribution), d.seed,
                          d.offset, d.low, d.high};
  const double floats[] = {d.a, d.b};
  HostLaunch launch;
  launch.kernel = Kernel::kRandom;
  launch.dst = outputs;
  launch.ints = ints;
  launch.floats = floats;
  return RunRandom(launch, pool);
}

std::vector<double> Values(DType dtype, int64_t count, const Draw& draw) {
  TestTensor y(dtype, {count});
  EXPECT_TRUE(Launch(y, draw).ok());
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(y.Get(i));
  return values;
}

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0;
};

Moments MomentsOf(const std::vector<double>& x) {
  Moments m;
  const double n = static_cast<double>(x.size());
  for (double v : x) m.mean += v / n;
  for (double v : x) m.variance += (v - m.mean) * (v - m.mean) / n;
  for (double v : x) {
    const double z = (v - m.mean) / std::sqrt(m.variance);
    m.skew += z * z * z / n;
    m.kurtosis += z * z * z * z / n;
  }
  return m;
}

// Philox 4x32-10 written out for one counter.
std::vector<uint32_t> Philox(std::vector<uint32_t> c, uint32_t k0,
                             uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1,
         static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;
  }
  return c;
}

TEST(PhiloxTest, KnownAnswers) {
  // The vectors of Random123 for philox4x32 with 10 rounds; only the first
  // has the upper half of the counter 0, as our streams have.
  EXPECT_EQ(
      Philox({0, 0, 0, 0}, 0, 0),
      (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      Philox({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u),
      (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822,
             0x299f31d0),
      (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  ForEachIsa([] {
    for (uint64_t seed : {uint64_t{0}, uint64_t{0x123456789ABCDEF0}}) {
      // The low word of the counter overflows on the way.
      for (uint64_t offset :
           {uint64_t{0}, uint64_t{0xFFFFFFF0}, ~uint64_t{9}}) {
        uint32_t words[4 * 50];
        TVARANT_FOR_ISA(PhiloxWords)({seed, offset}, 3, 50, words);
        for (int64_t j = 0; j < 50; ++j) {
          const uint64_t counter = offset + 3 + j;
          const std::vector<uint32_t> want = Philox(
              {static_cast<uint32_t>(counter),
               static_cast<uint32_t>(counter >> 32), 0, 0},
              static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
          for (int w = 0; w < 4; ++w) ASSERT_EQ(words[4 * j + w], want[w]);
        }
      }
    }
  });
}

TEST(RandomTest, UniformTakesTheStatedWords) {
  const std::vector<double> x =
      Values(DType::kFloat32, 8, {.seed = 5, .offset = 9});
  const std::vector<double> y =
      Values(DType::kFloat64, 4, {.seed = 5, .offset = 9});
  for (uint32_t counter = 0; counter < 2; ++counter) {
    const std::vector<uint32_t> w = Philox({9 + counter, 0, 0, 0}, 5, 0);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(x[4 * counter + i], std::ldexp(w[i] >> 8, -24));
    }
    for (int i = 0; i < 2; ++i) {
      const uint64_t pair = w[2 * i] | uint64_t{w[2 * i + 1]} << 32;
      EXPECT_EQ(y[2 * counter + i], std::ldexp(pair >> 11, -53));
    }
  }
}

// An element's number depends on seed, offset and index alone.
TEST(RandomTest, SameOnEveryIsaLayoutAndNumberOfThreads) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
    for (Distribution distribution :
         {Distribution::kUniform, Distribution::kNormal,
          Distribution::kBernoulli, Distribution::kExponential}) {
      Draw draw{.distribution = distribution,
                .seed = 42,
                .offset = 7,
                .a = 0.5,
                .b = 2};
      std::vector<double> first;
      ForEachIsa([&] {
        for (int threads : {1, 3}) {
          draw.threads = threads;
          const std::vector<double> all = Values(dtype, 33333, draw);
          if (first.empty()) first = all;
          ASSERT_EQ(all, first);
        }
      });
      TestTensor y(dtype, {303, 110}, {1, 305}, 2);
      ASSERT_TRUE(Launch(y, draw).ok());
      for (int64_t i = 0; i < 33330; ++i) ASSERT_EQ(y.Get(i), first[i]);
      EXPECT_TRUE(y.Untouched());
      // The stream goes on where the offset says.
      draw.offset += 10;
      const int64_t per_counter = dtype == DType::kFloat64 ? 2 : 4;
      const std::vector<double> later = Values(dtype, 100, draw);
      for (int64_t i = 0; i < 100; ++i) {
        ASSERT_EQ(later[i], first[i + 10 * per_counter]);
      }
    }
  }
}

TEST(RandomTest, UniformNeverReachesTheEnd) {
  for (DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    const std::vector<double> x = Values(dtype, 200000, {});
    const Moments m = MomentsOf(x);
    EXPECT_NEAR(m.mean, 0.5, 5e-3);
    EXPECT_NEAR(m.variance, 1.0 / 12, 2e-3);
    for (double v : x) ASSERT_TRUE(v >= 0 && v < 1);
    for (double v : Values(dtype, 20000, {.a = -3, .b = -2})) {
      ASSERT_TRUE(v >= -3 && v < -2) << v;
    }
    for (double v : Values(dtype, 20000, {.a = -1, .b = 0})) {
      ASSERT_TRUE(v >= -1 && v < 0) << v;
    }
    for (double v : Values(dtype, 10, {.a = 2, .b = 2})) EXPECT_EQ(v, 2);
  }
}

TEST(RandomTest, NormalMoments) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
    const std::vector<double> x = Values(
        dtype, 300001, {.distribution = Distribution::kNormal, .a = 1, .b = 2});
    const Moments m = MomentsOf(x);
    EXPECT_NEAR(m.mean, 1, 0.02);
    EXPECT_NEAR(m.variance, 4, 0.05);
    EXPECT_NEAR(m.skew, 0, 0.02);
    EXPECT_NEAR(m.kurtosis, 3, 0.05);
    double neighbours = 0, inside = 0;
    for (size_t i = 0; i + 1 < x.size(); ++i) {
      neighbours += (x[i] - 1) * (x[i + 1] - 1) / 4 / x.size();
      inside += std::abs(x[i] - 1) < 2;
    }
    EXPECT_NEAR(neighbours, 0, 0.01);
    EXPECT_NEAR(inside / x.size(), std::erf(std::sqrt(0.5)), 5e-3);
  }
}

// Against the C library, so that the kernels' own log, sin and cos are right.
TEST(RandomTest, NormalIsBoxMuller) {
  const std::vector<double> x =
      Values(DType::kFloat32, 4000, {.distribution = Distribution::kNormal});
  const std::vector<double> y =
      Values(DType::kFloat64, 2000, {.distribution = Distribution::kNormal});
  for (uint32_t counter = 0; counter < 1000; ++counter) {
    const std::vector<uint32_t> w = Philox({counter, 0, 0, 0}, 1, 0);
    for (int i = 0; i < 2; ++i) {
      const double r =
          std::sqrt(-2 * std::log(std::ldexp(w[2 * i] + 1.0, -32)));
      const double u = std::ldexp(w[2 * i + 1] >> 8, -24);
      const int64_t at = 4 * counter + 2 * i;
      // The first number is rounded to float32 before its logarithm, which
      // shows where it is close to 1 and r to 0.
      const double tolerance = 2e-6 + std::ldexp(1.0, -25) / r;
      ASSERT_NEAR(x[at], r * std::cos(2 * M_PI * u), tolerance);
      ASSERT_NEAR(x[at + 1], r * std::sin(2 * M_PI * u), tolerance);
    }
    const uint64_t w0 = w[0] | uint64_t{w[1]} << 32;
    const uint64_t w1 = w[2] | uint64_t{w[3]} << 32;
    const double r =
        std::sqrt(-2 * std::log(std::ldexp((w0 >> 11) + 1.0, -53)));
    const double u = std::ldexp(w1 >> 11, -53);
    ASSERT_NEAR(y[2 * counter], r * std::cos(2 * M_PI * u), 1e-14);
    ASSERT_NEAR(y[2 * counter + 1], r * std::sin(2 * M_PI * u), 1e-14);
  }
}

TEST(RandomTest, Exponential) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const std::vector<double> x = Values(
        dtype, 200000, {.distribution = Distribution::kExponential, .a = 2});
    const Moments m = MomentsOf(x);
    EXPECT_NEAR(m.mean, 0.5, 0.01);
    EXPECT_NEAR(m.variance, 0.25, 0.01);
    for (double v : x) ASSERT_TRUE(v > 0 && std::isfinite(v));
  }
}

TEST(RandomTest, BernoulliOfEveryDType) {
  for (DType dtype : kComputeDTypes) {
    Draw draw{.distribution = Distribution::kBernoulli, .a = 0.3};
    double sum = 0;
    for (double v : Values(dtype, 50000, draw)) {
      ASSERT_TRUE(v == 0 || v == 1);
      sum += v;
    }
    EXPECT_NEAR(sum / 50000, 0.3, 0.01);
    draw.a = 0;
    for (double v : Values(dtype, 1000, draw)) ASSERT_EQ(v, 0);
    draw.a = 1;
    for (double v : Values(dtype, 1000, draw)) ASSERT_EQ(v, 1);
  }
}

TEST(RandomTest, IntegersOfEveryDType) {
  for (DType dtype : kComputeDTypes) {
    if (dtype == DType::kBool) continue;
    const int64_t low = dtype == DType::kUInt8 ? 3 : -3;
    std::vector<int64_t> counts(10);
    for (double v : Values(dtype, 50000,
                           {.distribution = Distribution::kInteger,
                           .low = low,
                           .high = low + 10})) {
      ASSERT_TRUE(v >= low && v < static_cast<double>(low + 10));
      ++counts[static_cast<int64_t>(v) - low];
    }
    for (int64_t count : counts) EXPECT_NEAR(count, 5000, 400);
  }
}

TEST(RandomTest, WideIntegers) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const Draw& draw : {Draw{.distribution = Distribution::kFullInteger},
                           Draw{.distribution = Distribution::kInteger,
                           .low = kMin,
                           .high = kMax}}) {
    TestTensor y(DType::kInt64, {2000});
    ASSERT_TRUE(Launch(y, draw).ok());
    int64_t low_ones = 0, high_ones = 0;
    for (int64_t i = 0; i < 2000; ++i) {
      low_ones += y.GetInt(i) & 1;
      high_ones += y.GetInt(i) < 0;
    }
    EXPECT_NEAR(low_ones, 1000, 150);
    EXPECT_NEAR(high_ones, 1000, 150);
  }
  TestTensor z(DType::kInt32, {2000});
  ASSERT_TRUE(Launch(z, {.distribution = Distribution::kInteger,
                         .low = -(int64_t{1} << 31),
                         .high = int64_t{1} << 31})
                  .ok());
  int64_t negative = 0;
  for (int64_t i = 0; i < 2000; ++i) negative += z.GetInt(i) < 0;
  EXPECT_NEAR(negative, 1000, 150);
}

TEST(RandomTest, RefusesWhatItDoesNotHave) {
  TestTensor ints(DType::kInt32, {4});
  EXPECT_EQ(Launch(ints, {.distribution = Distribution::kNormal}).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(
      Launch(ints,
             {.distribution = Distribution::kInteger, .low = 3, .high = 3})
          .code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      Launch(ints, {.distribution = static_cast<Distribution>(99)}).code(),
      absl::StatusCode::kUnimplemented);
  TestTensor empty(DType::kFloat32, {0, 3});
  EXPECT_TRUE(Launch(empty, {}).ok());
}

absl::Status Dropout(TestTensor& y, TestTensor& mask, TestTensor& x, double p) {
  ThreadPool pool(2);
  const Tensor outputs[] = {y.tensor(), mask.tensor()};
  const Tensor inputs[] = {x.tensor()};
  const int64_t ints[] = {3, 11};
  const double floats[] = {p};
  HostLaunch launch;
  launch.kernel = Kernel::kDropout;
  launch.dst = outputs;
  launch.src = inputs;
  launch.ints = ints;
  launch.floats = floats;
  return RunDropout(launch, pool);
}

TEST(DropoutTest, KeepsAndScales) {
  for (DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (bool strided : {false, true}) {
      const TestTensor::Dims sizes = {100, 200};
      const TestTensor::Dims strides =
          strided ? TestTensor::Dims{1, 101} : TestTensor::Dense(sizes);
      TestTensor x(dtype, sizes, strides), y(dtype, sizes);
      TestTensor mask(DType::kBool, sizes, strides);
      for (int64_t i = 0; i < x.numel(); ++i) x.Set(i, 1 + i % 7);
      ASSERT_TRUE(Dropout(y, mask, x, 0.25).ok());
      double kept = 0;
      for (int64_t i = 0; i < x.numel(); ++i) {
        kept += mask.Get(i);
        ASSERT_TRUE(Near(y.Get(i), mask.Get(i) * x.Get(i) / 0.75, 4e-3, 0));
      }
      EXPECT_NEAR(kept / x.numel(), 0.75, 0.01);
      for (double p : {0.0, 1.0}) {
        ASSERT_TRUE(Dropout(y, mask, x, p).ok());
        for (int64_t i = 0; i < x.numel(); ++i) {
          ASSERT_EQ(mask.Get(i), 1 - p);
          ASSERT_EQ(y.Get(i), (1 - p) * x.Get(i));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tvarant::host

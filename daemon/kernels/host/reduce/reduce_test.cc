#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/test_util.h"
#include "gtest/gtest.h"

namespace tvarant::host {
namespace {

using Dims = TestTensor::Dims;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

absl::Status Reduce(ReduceOp op, double scalar, TestTensor& src,
                    TestTensor& dst, TestTensor* second = nullptr,
                    int threads = 2) {
  static ThreadPool* const two = new ThreadPool(2);
  static ThreadPool* const one = new ThreadPool(1);
  std::vector<Tensor> outputs = {dst.tensor()};
  if (second != nullptr) outputs.push_back(second->tensor());
  const Tensor x = src.tensor();
  const int64_t ints[1] = {static_cast<int64_t>(op)};
  HostLaunch launch;
  launch.kernel = Kernel::kReduce;
  launch.ints = ints;
  launch.scalar = scalar;
  launch.dst = outputs;
  launch.src = absl::MakeConstSpan(&x, 1);
  return RunReduce(launch, threads == 1 ? *one : *two);
}

// Elements of one output, in row-major order of the reduced dimensions.
std::vector<double> ElementsOf(TestTensor& src, const Dims& kept,
                               int64_t output) {
  std::vector<double> result;
  const Dims& sizes = src.sizes();
  for (int64_t i = 0; i < src.numel(); ++i) {
    int64_t rest = i, at = 0, scale = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      const int64_t index = rest % sizes[d];
      rest /= sizes[d];
      if (kept[d] != 1 || sizes[d] == 1) {
        at += index * scale;
        scale *= sizes[d];
      }
    }
    if (at == output) result.push_back(src.Get(i));
  }
  return result;
}

struct Naive {
  double value = 0;
  double second = 0;  // index or mean
};

bool IsArg(ReduceOp op) {
  return op == ReduceOp::kArgMax || op == ReduceOp::kArgMin ||
         op == ReduceOp::kMaxDim || op == ReduceOp::kMinDim;
}

Naive NaiveReduce(ReduceOp op, double scalar, const std::vector<double>& x) {
  const double n = static_cast<double>(x.size());
  double sum = 0, product = 1, squares = 0, nan_sum = 0, nonzero = 0,
         powers = 0;
  double largest_abs = 0, smallest_abs = kInf;
  bool has_nan = false;
  for (double v : x) {
    has_nan |= std::isnan(v);
    sum += v;
    product *= v;
    squares += v * v;
    if (!std::isnan(v)) nan_sum += v;
    nonzero += v != 0;
    powers += std::pow(std::fabs(v), scalar);
    largest_abs = std::max(largest_abs, std::fabs(v));
    smallest_abs = std::min(smallest_abs, std::fabs(v));
  }
  const bool largest = op == ReduceOp::kMax || op == ReduceOp::kArgMax ||
                       op == ReduceOp::kMaxDim;
  size_t best = 0;
  for (size_t i = 1; i < x.size(); ++i) {
    if (std::isnan(x[best])) break;
    if (std::isnan(x[i]) || (largest ? x[i] > x[best] : x[i] < x[best])) {
      best = i;
    }
  }
  double deviations = 0;
  for (double v : x) deviations += (v - sum / n) * (v - sum / n);
  const double variance = deviations / std::max(0.0, n - scalar);
  switch (op) {
    case ReduceOp::kSum:
      return {sum};
    case ReduceOp::kMean:
      return {sum / n};
    case ReduceOp::kProd:
      return {product};
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      return {x[best]};
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
      return {static_cast<double>(best)};
    case ReduceOp::kMaxDim:
    case ReduceOp::kMinDim:
      return {x[best], static_cast<double>(best)};
    case ReduceOp::kAny:
      return {nonzero > 0 ? 1.0 : 0.0};
    case ReduceOp::kAll:
      return {nonzero == n ? 1.0 : 0.0};
    case ReduceOp::kNorm:
      if (scalar == 0) return {nonzero};
      if (has_nan) return {kNan};
      if (scalar == kInf) return {largest_abs};
      if (scalar == -kInf) return {smallest_abs};
      return {std::pow(powers, 1 / scalar)};
    case ReduceOp::kVar:
      return {variance, sum / n};
    case ReduceOp::kStd:
      return {std::sqrt(variance), sum / n};
    case ReduceOp::kSumSquares:
      return {squares};
    case ReduceOp::kCountNonzero:
      return {nonzero};
    case ReduceOp::kLogSumExp: {
      double total = 0;
      const double m = x.empty() ? 0 : *std::max_element(x.begin(), x.end());
      const double base = std::isinf(m) ? 0 : m;
      for (double v : x) total += std::exp(v - base);
      return {has_nan ? kNan : std::log(total) + base};
    }
    case ReduceOp::kNanSum:
      return {nan_sum};
  }
  return {};
}

DType ResultType(ReduceOp op, DType from) {
  switch (op) {
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
    case ReduceOp::kCountNonzero:
      return DType::kInt64;
    case ReduceOp::kAny:
    case ReduceOp::kAll:
      return DType::kBool;
    case ReduceOp::kSum:
    case ReduceOp::kProd:
    case ReduceOp::kNanSum:
    case ReduceOp::kSumSquares:
      return IsFloating(from) ? from : DType::kInt64;
    default:
      return from;
  }
}

bool NeedsFloat(ReduceOp op) {
  return op == ReduceOp::kMean || op == ReduceOp::kNorm ||
         op == ReduceOp::kVar || op == ReduceOp::kStd ||
         op == ReduceOp::kLogSumExp;
}

struct Case {
  Dims sizes, strides, kept;  // kept: sizes of the output
};

// What three additions of floats may lose, relative to what is added.
constexpr double kEightFloats = 3 * 0x1p-24;

void Check(ReduceOp op, double scalar, TestTensor& x, const Dims& kept) {
  const DType to = ResultType(op, x.dtype());
  TestTensor y(to, kept), second(IsArg(op) ? DType::kInt64 : to, kept);
  const bool has_second = op == ReduceOp::kMaxDim || op == ReduceOp::kMinDim ||
                          op == ReduceOp::kVar || op == ReduceOp::kStd;
  ASSERT_TRUE(Reduce(op, scalar, x, y, has_second ? &second : nullptr).ok());
  const double tolerance = x.dtype() == DType::kFloat64   ? 1e-12
                           : x.dtype() == DType::kFloat32 ? 5e-7
                                                          : 1e-2;
  for (int64_t i = 0; i < y.numel(); ++i) {
    const std::vector<double> elements = ElementsOf(x, kept, i);
    const Naive want = NaiveReduce(op, scalar, elements);
    TestTensor rounded(to, {1});
    rounded.Set(0, want.value);
    double scale = 0;
    for (double v : elements) scale += std::isfinite(v) ? std::fabs(v) : 0;
    double absolute = IsFloating(to) ? tolerance * 0.01 * scale : 0;
    // Sums of floats add by eights in float before they go on in double.
    const double count = static_cast<double>(elements.size());
    if (x.dtype() == DType::kFloat32 && op == ReduceOp::kSum) {
      absolute = kEightFloats * scale;
    } else if (x.dtype() == DType::kFloat32 && op == ReduceOp::kMean) {
      absolute = kEightFloats * scale / count;
    }
    ASSERT_TRUE(Near(y.Get(i), rounded.Get(0), tolerance, absolute))
        << "output " << i;
    if (has_second) {
      ASSERT_TRUE(Near(second.Get(i), want.second, tolerance,
                       IsArg(op) ? 0 : tolerance * 10));
    }
  }
}

const Case kCases[] = {
    {{}, {}, {}},
    {{1}, {1}, {1}},
    {{70}, {1}, {1}},
    {{3000}, {2}, {1}},
    {{9, 13}, {13, 1}, {9, 1}},
    {{9, 13}, {13, 1}, {1, 13}},
    {{9, 13}, {1, 9}, {9, 1}},
    {{9, 13}, {1, 9}, {1, 13}},
    {{9, 13}, {13, 1}, {1, 1}},
    {{9, 13}, {1, 9}, {1, 1}},
    {{9, 13}, {13, 1}, {9, 13}},
    {{2, 600}, {600, 1}, {2, 1}},
    {{3, 4, 5}, {20, 5, 1}, {3, 1, 5}},
    {{3, 4, 5}, {20, 5, 1}, {1, 4, 1}},
    {{3, 4, 5}, {1, 3, 12}, {1, 4, 1}},
    {{3, 4, 5}, {1, 15, 3}, {3, 1, 5}},
    {{3, 4, 5}, {20, 0, 1}, {3, 1, 1}},
    {{2, 3, 4, 5}, {60, 20, 5, 1}, {2, 1, 4, 1}},
};

struct OpCase {
  ReduceOp op;
  double scalar;
};
const OpCase kOps[] = {
    {ReduceOp::kSum, 0},        {ReduceOp::kMean, 0},
    {ReduceOp::kProd, 0},       {ReduceOp::kMax, 0},
    {ReduceOp::kMin, 0},        {ReduceOp::kArgMax, 0},
    {ReduceOp::kArgMin, 0},     {ReduceOp::kMaxDim, 0},
    {ReduceOp::kMinDim, 0},     {ReduceOp::kAny, 0},
    {ReduceOp::kAll, 0},        {ReduceOp::kNorm, 2},
    {ReduceOp::kNorm, 1},       {ReduceOp::kNorm, 0},
    {ReduceOp::kNorm, kInf},    {ReduceOp::kNorm, -kInf},
    {ReduceOp::kNorm, 3},       {ReduceOp::kVar, 1},
    {ReduceOp::kVar, 0},        {ReduceOp::kStd, 1},
    {ReduceOp::kSumSquares, 0}, {ReduceOp::kCountNonzero, 0},
    {ReduceOp::kLogSumExp, 0},  {ReduceOp::kNanSum, 0},
};

TEST(ReduceTest, EveryOpDTypeAndShape) {
  ForEachIsa([] {
    for (const OpCase& op : kOps) {
      for (DType dtype : kComputeDTypes) {
        if (NeedsFloat(op.op) && !IsFloating(dtype)) continue;
        for (const Case& c : kCases) {
          SCOPED_TRACE("op " + std::to_string(static_cast<int>(op.op)) + " " +
                       NameOf(dtype));
          TestTensor x(dtype, c.sizes, c.strides, 1);
          TestRandom random(6);
          for (int64_t i = 0; i < x.numel(); ++i) {
            x.Set(i,
                  op.op == ReduceOp::kProd
                      ? (random.Int(0, 20) || dtype == DType::kUInt8 ? 1 : -1)
                  : IsFloating(dtype) ? random.Real(-2, 3)
                                      : random.Int(0, 9));
          }
          if (x.numel() > 20 && op.op != ReduceOp::kProd) x.Set(17, 0);
          Check(op.op, op.scalar, x, c.kept);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(ReduceTest, NanAndInfinity) {
  ForEachIsa([] {
    for (const OpCase& op : kOps) {
      if (op.op == ReduceOp::kVar || op.op == ReduceOp::kStd) continue;
      for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
        for (int which = 0; which < 5; ++which) {
          for (const Dims& kept : {Dims{1, 70}, Dims{40, 1}, Dims{1, 1}}) {
            SCOPED_TRACE("op " + std::to_string(static_cast<int>(op.op)) +
                         " case " + std::to_string(which));
            TestTensor x(dtype, {40, 70});
            for (int64_t i = 0; i < x.numel(); ++i) x.Set(i, (i % 7) * 0.25);
            if (which != 1) x.Set(1500, kNan);
            if (which == 1 || which == 2) x.Set(700, kInf);
            if (which == 3) x.Set(2799, kNan);
            if (which == 4) {
              for (int64_t i = 0; i < 70; ++i) x.Set(i, -kInf);
            }
            Check(op.op, op.scalar, x, kept);
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

TEST(ReduceTest, LargeOnesAreCutAndDoNotDependOnThreads) {
  ForEachIsa([] {
    struct Large {
      Dims sizes, kept;
    };
    const Large cases[] = {{{300007}, {1}},
                           {{60001, 5}, {1, 5}},
                           {{2, 150001}, {2, 1}},
                           {{1000, 300}, {1, 300}},
                           {{20000, 20}, {1, 1}}};
    for (const OpCase& op : kOps) {
      for (const Large& c : cases) {
        if (op.op == ReduceOp::kProd) continue;
        TestTensor x(DType::kFloat32, c.sizes);
        TestRandom random(8);
        for (int64_t i = 0; i < x.numel(); ++i) {
          x.SetRaw(i, static_cast<float>(random.Real(0, 1)));
        }
        const DType to = ResultType(op.op, DType::kFloat32);
        TestTensor y1(to, c.kept), y2(to, c.kept);
        TestTensor second(DType::kInt64, c.kept), mean(DType::kFloat32, c.kept);
        TestTensor* extra =
            op.op == ReduceOp::kMaxDim || op.op == ReduceOp::kMinDim ? &second
                                                                     : nullptr;
        ASSERT_TRUE(Reduce(op.op, op.scalar, x, y1, extra, 1).ok());
        ASSERT_TRUE(Reduce(op.op, op.scalar, x, y2, extra, 2).ok());
        for (int64_t i = 0; i < y1.numel(); ++i) {
          ASSERT_EQ(y1.Get(i), y2.Get(i));
        }
        if (c.kept == Dims{1} || c.kept == Dims{1, 1}) {
          std::vector<double> all(x.numel());
          for (int64_t i = 0; i < x.numel(); ++i) all[i] = x.Get(i);
          ASSERT_TRUE(Near(y1.Get(0), NaiveReduce(op.op, op.scalar, all).value,
                           2e-7, 1e-12))
              << static_cast<int>(op.op);
        }
      }
    }
  });
}

TEST(ReduceTest, SumsAreAccurate) {
  // A float sum of these would stop at 2^24.
  TestTensor x(DType::kFloat32, {17000000}), y(DType::kFloat32, {1});
  for (int64_t i = 0; i < x.numel(); ++i) x.SetRaw(i, 1.0f);
  ASSERT_TRUE(Reduce(ReduceOp::kSum, 0, x, y).ok());
  EXPECT_EQ(y.Get(0), 17000000);
  // Squares that overflow float.
  TestTensor big(DType::kFloat32, {4});
  for (int64_t i = 0; i < 4; ++i) big.Set(i, 1e30);
  ASSERT_TRUE(Reduce(ReduceOp::kNorm, 2, big, y).ok());
  EXPECT_NEAR(y.Get(0), 2e30, 1e24);
  // A variance far from 0.
  TestTensor far(DType::kFloat64, {3000});
  for (int64_t i = 0; i < 3000; ++i)
    far.Set(i, 1e9 + static_cast<double>(i % 2));
  TestTensor variance(DType::kFloat64, {1});
  ASSERT_TRUE(Reduce(ReduceOp::kVar, 0, far, variance).ok());
  EXPECT_NEAR(variance.Get(0), 0.25, 1e-9);
}

TEST(ReduceTest, IntegersWrapAndKeepTheirBits) {
  TestTensor x(DType::kInt64, {3}), y(DType::kInt64, {1});
  x.SetInt(0, INT64_MAX);
  x.SetInt(1, INT64_MAX - 1);
  x.SetInt(2, 5);
  ASSERT_TRUE(Reduce(ReduceOp::kMax, 0, x, y).ok());
  EXPECT_EQ(y.GetInt(0), INT64_MAX);
  ASSERT_TRUE(Reduce(ReduceOp::kArgMax, 0, x, y).ok());
  EXPECT_EQ(y.GetInt(0), 0);
  ASSERT_TRUE(Reduce(ReduceOp::kSum, 0, x, y).ok());
  EXPECT_EQ(y.GetInt(0), 2);  // 2^64 + 2
}

TEST(ReduceTest, Empty) {
  const struct {
    ReduceOp op;
    double want;
  } cases[] = {{ReduceOp::kSum, 0},     {ReduceOp::kProd, 1},
               {ReduceOp::kMean, kNan}, {ReduceOp::kAny, 0},
               {ReduceOp::kAll, 1},     {ReduceOp::kCountNonzero, 0},
               {ReduceOp::kVar, kNan},  {ReduceOp::kLogSumExp, -kInf},
               {ReduceOp::kNanSum, 0},  {ReduceOp::kSumSquares, 0}};
  for (const auto& c : cases) {
    for (const Dims& kept : {Dims{3, 1}, Dims{1, 1}}) {
      TestTensor x(DType::kFloat32, {3, 0});
      TestTensor y(ResultType(c.op, DType::kFloat32), kept);
      ASSERT_TRUE(Reduce(c.op, 0, x, y).ok());
      for (int64_t i = 0; i < y.numel(); ++i) {
        EXPECT_TRUE(Near(y.Get(i), c.want, 0, 0)) << static_cast<int>(c.op);
      }
    }
  }
  TestTensor x(DType::kFloat32, {0, 3}), y(DType::kFloat32, {0, 1});
  EXPECT_TRUE(Reduce(ReduceOp::kMax, 0, x, y).ok());
  TestTensor one(DType::kFloat32, {1, 3});
  EXPECT_EQ(Reduce(ReduceOp::kMax, 0, x, one).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ReduceTest, BadLaunchesAreRefused) {
  TestTensor x(DType::kFloat32, {2, 3}), y(DType::kFloat32, {2});
  EXPECT_FALSE(Reduce(ReduceOp::kSum, 0, x, y).ok());
  TestTensor wrong(DType::kFloat32, {2, 2});
  EXPECT_FALSE(Reduce(ReduceOp::kSum, 0, x, wrong).ok());
  TestTensor good(DType::kFloat32, {2, 1});
  EXPECT_FALSE(Reduce(static_cast<ReduceOp>(200), 0, x, good).ok());
  EXPECT_FALSE(Reduce(ReduceOp::kMaxDim, 0, x, good).ok());
  TestTensor integers(DType::kInt32, {2, 3});
  EXPECT_EQ(Reduce(ReduceOp::kMean, 0, integers, good).code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tvarant::host

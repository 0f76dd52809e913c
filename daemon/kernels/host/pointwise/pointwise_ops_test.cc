// Every row of pointwise_ops.inc against the C library and plain arithmetic,
// in every class and on every instruction set.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/test_util.h"
#include "gtest/gtest.h"
#include "proto/ops/program.h"

namespace tvarant::host {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Real = std::function<double(double, double, double)>;
using Int = std::function<int64_t(int64_t, int64_t, int64_t)>;

struct Row {
  PointwiseOp op;
  int arity;
  bool is_bool;
  Real real;            // null: not for floats
  Int integer;          // null: not for integers
  double absolute = 0;  // allowed besides a few units in the last place
  double relative = 4;  // in units of the type's epsilon
};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double PythonMod(double a, double b) {
  const double mod = std::fmod(a, b);
  return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}
double PythonDiv(double a, double b) {
  if (b == 0) return a / b;
  const double mod = std::fmod(a, b);
  double div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(0, a / b);
  const double down = std::floor(div);
  return div - down > 0.5 ? down + 1 : down;
}
// Wrapping 64-bit arithmetic.
int64_t Wrap(uint64_t x) { return static_cast<int64_t>(x); }
uint64_t U(int64_t x) { return static_cast<uint64_t>(x); }
int64_t TruncDiv(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? Wrap(0 - U(a)) : a / b;
}
int64_t TruncMod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
int64_t FloorMod(int64_t a, int64_t b) {
  const int64_t r = TruncMod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int64_t FloorDiv(int64_t a, int64_t b) {
  const int64_t r = TruncMod(a, b);
  return TruncDiv(a, b) - (r != 0 && (r < 0) != (b < 0));
}
int64_t Power(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  uint64_t result = 1;
  for (int64_t i = 0; i < std::min<int64_t>(b, 200); ++i) result *= U(a);
  return Wrap(result);
}
double MaxNan(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b);
}
double MinNan(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b);
}

#define REAL(e)                                \
  [](double a, double b, double c) -> double { \
    (void)a;                                   \
    (void)b;                                   \
    (void)c;                                   \
    return e;                                  \
  }
#define INT(e)                                     \
  [](int64_t a, int64_t b, int64_t c) -> int64_t { \
    (void)a;                                       \
    (void)b;                                       \
    (void)c;                                       \
    return e;                                      \
  }

std::vector<Row> Rows() {
  using P = PointwiseOp;
  const double kTiny = 1e-7;
  // clang-format off
  return {
      {P::kMul, 2, false, REAL(a * b), INT(Wrap(U(a) * U(b)))},
      {P::kRelu, 1, false, REAL(std::isnan(a) ? a : std::max(a, 0.0)), INT(std::max<int64_t>(a, 0))},
      {P::kSilu, 1, false, REAL(a / (1 + std::exp(-a))), nullptr, 1e-37},
      {P::kNeg, 1, false, REAL(-a), INT(Wrap(0 - U(a)))},
      {P::kSigmoid, 1, false, REAL(Sigmoid(a)), nullptr, 1e-37},
      {P::kIdentity, 1, false, REAL(a), INT(a)},
      {P::kSub, 2, false, REAL(a - b), INT(Wrap(U(a) - U(b)))},
      {P::kDiv, 2, false, REAL(a / b), nullptr},
      {P::kDivTrunc, 2, false, REAL(std::trunc(a / b)), INT(TruncDiv(a, b)), 1},
      {P::kDivFloor, 2, false, REAL(PythonDiv(a, b)), INT(FloorDiv(a, b)), 1},
      {P::kRemainder, 2, false, REAL(PythonMod(a, b)), INT(FloorMod(a, b))},
      {P::kFmod, 2, false, REAL(std::fmod(a, b)), INT(TruncMod(a, b))},
      {P::kPow, 2, false, REAL(std::pow(a, b)), INT(Power(a, b)), 1e-44},
      {P::kMaximum, 2, false, REAL(MaxNan(a, b)), INT(std::max(a, b))},
      {P::kMinimum, 2, false, REAL(MinNan(a, b)), INT(std::min(a, b))},
      {P::kFmax, 2, false, REAL(std::fmax(a, b)), nullptr},
      {P::kFmin, 2, false, REAL(std::fmin(a, b)), nullptr},
      {P::kAtan2, 2, false, REAL(std::atan2(a, b)), nullptr, 1e-44},
      // An infinite side wins over any NaN; the C library lets a signalling
      // one through.
      {P::kHypot, 2, false,
       REAL(std::isinf(a) || std::isinf(b) ? INFINITY : std::hypot(a, b)),
       nullptr},
      {P::kCopysign, 2, false, REAL(std::copysign(a, b)), nullptr},
      {P::kXlogy, 2, false, REAL(std::isnan(b) ? b : a == 0 ? 0 : a * std::log(b)), nullptr},
      {P::kLogaddexp, 2, false, REAL(std::isinf(a) && a == b ? a : MaxNan(a, b) + std::log1p(std::exp(-std::fabs(a - b)))), nullptr, kTiny},
      {P::kEq, 2, true, REAL(a == b), INT(a == b)},
      {P::kNe, 2, true, REAL(a != b), INT(a != b)},
      {P::kLt, 2, true, REAL(a < b), INT(a < b)},
      {P::kLe, 2, true, REAL(a <= b), INT(a <= b)},
      {P::kGt, 2, true, REAL(a > b), INT(a > b)},
      {P::kGe, 2, true, REAL(a >= b), INT(a >= b)},
      {P::kLogicalAnd, 2, true, REAL(a != 0 && b != 0), INT(a != 0 && b != 0)},
      {P::kLogicalOr, 2, true, REAL(a != 0 || b != 0), INT(a != 0 || b != 0)},
      {P::kLogicalXor, 2, true, REAL((a != 0) != (b != 0)), INT((a != 0) != (b != 0))},
      {P::kLogicalNot, 1, true, REAL(a == 0), INT(a == 0)},
      {P::kIsNan, 1, true, REAL(std::isnan(a)), INT(0)},
      {P::kIsInf, 1, true, REAL(std::isinf(a)), nullptr},
      {P::kIsFinite, 1, true, REAL(std::isfinite(a)), nullptr},
      {P::kIsPosInf, 1, true, REAL(a == kInf), nullptr},
      {P::kIsNegInf, 1, true, REAL(a == -kInf), nullptr},
      {P::kSignbit, 1, true, REAL(std::signbit(a)), INT(a < 0)},
      {P::kBitAnd, 2, false, nullptr, INT(a & b)},
      {P::kBitOr, 2, false, nullptr, INT(a | b)},
      {P::kBitXor, 2, false, nullptr, INT(a ^ b)},
      {P::kBitNot, 1, false, nullptr, INT(~a)},
      {P::kAbs, 1, false, REAL(std::fabs(a)), INT(a < 0 ? Wrap(0 - U(a)) : a)},
      {P::kSign, 1, false, REAL((a > 0) - (a < 0)), INT((a > 0) - (a < 0))},
      {P::kExp, 1, false, REAL(std::exp(a)), nullptr, 1e-44},
      {P::kExp2, 1, false, REAL(std::exp2(a)), nullptr, 1e-44},
      {P::kExpm1, 1, false, REAL(std::expm1(a)), nullptr, 1e-44},
      {P::kLog, 1, false, REAL(std::log(a)), nullptr},
      {P::kLog2, 1, false, REAL(std::log2(a)), nullptr},
      {P::kLog10, 1, false, REAL(std::log10(a)), nullptr},
      {P::kLog1p, 1, false, REAL(std::log1p(a)), nullptr},
      {P::kSqrt, 1, false, REAL(std::sqrt(a)), nullptr},
      {P::kRsqrt, 1, false, REAL(1 / std::sqrt(a)), nullptr},
      {P::kReciprocal, 1, false, REAL(1 / a), nullptr},
      {P::kSquare, 1, false, REAL(a * a), INT(Wrap(U(a) * U(a)))},
      {P::kSin, 1, false, REAL(std::sin(a)), nullptr, kTiny},
      {P::kCos, 1, false, REAL(std::cos(a)), nullptr, kTiny},
      {P::kTan, 1, false, REAL(std::tan(a)), nullptr, kTiny},
      {P::kAsin, 1, false, REAL(std::asin(a)), nullptr},
      {P::kAcos, 1, false, REAL(std::acos(a)), nullptr},
      {P::kAtan, 1, false, REAL(std::atan(a)), nullptr},
      {P::kSinh, 1, false, REAL(std::sinh(a)), nullptr},
      {P::kCosh, 1, false, REAL(std::cosh(a)), nullptr},
      {P::kTanh, 1, false, REAL(std::tanh(a)), nullptr},
      {P::kAsinh, 1, false, REAL(std::asinh(a)), nullptr},
      {P::kAcosh, 1, false, REAL(std::acosh(a)), nullptr},
      {P::kAtanh, 1, false, REAL(std::atanh(a)), nullptr},
      {P::kErf, 1, false, REAL(std::erf(a)), nullptr},
      {P::kErfc, 1, false, REAL(std::erfc(a)), nullptr, 1e-37},
      {P::kFloor, 1, false, REAL(std::floor(a)), nullptr},
      {P::kCeil, 1, false, REAL(std::ceil(a)), nullptr},
      {P::kRound, 1, false, REAL(std::nearbyint(a)), nullptr},
      {P::kTrunc, 1, false, REAL(std::trunc(a)), nullptr},
      {P::kFrac, 1, false, REAL(a - std::trunc(a)), nullptr},
      {P::kLgamma, 1, false, REAL(std::isinf(a) ? kInf : std::lgamma(a)), nullptr, kTiny, 8},
      {P::kGelu, 1, false, REAL(0.5 * a * (1 + std::erf(a * std::sqrt(0.5)))), nullptr, 3e-7},
      {P::kGeluTanh, 1, false, REAL(0.5 * a * (1 + std::tanh(std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a)))), nullptr, 3e-7},
      {P::kSoftplus, 3, false, REAL(a * b > c ? a : std::log1p(std::exp(a * b)) / b), nullptr, kTiny},
      {P::kElu, 1, false, REAL(a > 0 ? a : std::expm1(a)), nullptr},
      {P::kLogSigmoid, 1, false, REAL((std::isnan(a) ? a : std::min(a, 0.0)) - std::log1p(std::exp(-std::fabs(a)))), nullptr, 1e-44},
      {P::kMish, 1, false, REAL(a * std::tanh(std::log1p(std::exp(a)))), nullptr, 1e-37},
      {P::kHardswish, 1, false, REAL(a * MinNan(MaxNan(a + 3, 0), 6) / 6), nullptr, kTiny},
      {P::kHardsigmoid, 1, false, REAL(MinNan(MaxNan(a + 3, 0), 6) / 6), nullptr, kTiny},
      {P::kSigmoidGrad, 2, false, REAL(a * (1 - b) * b), nullptr},
      {P::kTanhGrad, 2, false, REAL(a * (1 - b * b)), nullptr, 0, 16},
      {P::kClamp, 3, false, REAL(MinNan(MaxNan(a, b), c)), INT(std::min(std::max(a, b), c))},
      {P::kThresholdGrad, 3, false, REAL(b <= c ? 0 : a), INT(b <= c ? 0 : a)},
      {P::kWhere, 3, false, nullptr, nullptr},
      {P::kAdd, 2, false, REAL(a + b), INT(Wrap(U(a) + U(b)))},
      {P::kScale, 1, false, REAL(a), INT(a)},
      {P::kAddcmul, 3, false, REAL(a + b * c), INT(Wrap(U(a) + U(b) * U(c)))},
      {P::kAddcdiv, 3, false, REAL(a + b / c), nullptr},
      // Shifts and the rest have tests of their own below.
      {P::kShiftLeft, 2, false, nullptr, nullptr},
      {P::kShiftRight, 2, false, nullptr, nullptr},
      {P::kSiluGrad, 2, false, nullptr, nullptr},
      {P::kGeluGrad, 2, false, nullptr, nullptr},
      {P::kGeluTanhGrad, 2, false, nullptr, nullptr},
      {P::kLerp, 3, false, nullptr, nullptr},
  };
  // clang-format on
}

Program OneOp(const Row& row, DType dtype, double alpha = 1) {
  ProgramBuilder p;
  int operands[3] = {-1, -1, -1};
  for (int k = 0; k < row.arity; ++k) operands[k] = p.Load(k, dtype);
  p.Store(p.Op(row.op, row.is_bool ? DType::kBool : dtype, operands[0],
               operands[1], operands[2], alpha));
  return std::move(p).Build();
}

absl::Status RunOp(const Program& program, std::vector<TestTensor>& src,
                   TestTensor& dst) {
  static ThreadPool* const pool = new ThreadPool(2);
  std::vector<Tensor> inputs;
  for (TestTensor& tensor : src) inputs.push_back(tensor.tensor());
  const Tensor output = dst.tensor();
  HostLaunch launch;
  launch.kernel = Kernel::kPointwise;
  launch.program = &program;
  launch.dst = absl::MakeConstSpan(&output, 1);
  launch.src = inputs;
  return RunPointwise(launch, *pool);
}

// Interesting values and some plain ones, in pairs and triples.
void FillReal(std::vector<TestTensor>& src, DType dtype, int arity) {
  const bool f32 = dtype == DType::kFloat32;
  std::vector<double> values = {0.0,
                                -0.0,
                                1,
                                -1,
                                0.5,
                                -0.5,
                                1.5,
                                2.5,
                                -2.5,
                                3,
                                6,
                                -3,
                                1e-3,
                                -1e-3,
                                kInf,
                                -kInf,
                                kNan,
                                88,
                                -88,
                                104,
                                -104,
                                0.7,
                                -0.3,
                                1e-20,
                                12345.678,
                                -777.25,
                                f32 ? 1e-40 : 1e-310,
                                f32 ? 1e30 : 1e300,
                                f32 ? -3e38 : -1.7e308,
                                f32 ? 1.17549435e-38 : 2.2250738585072014e-308};
  TestRandom random(7);
  while (values.size() < 61) values.push_back(random.Real(-10, 10));
  const size_t n = values.size();
  const size_t total = arity == 1 ? n : n * n;
  src.clear();
  for (int k = 0; k < arity; ++k) {
    TestTensor x(dtype, {static_cast<int64_t>(total)});
    for (size_t i = 0; i < total; ++i) {
      const size_t pick = k == 0 ? i % n : k == 1 ? i / n : (i * 7 + i / n) % n;
      x.Set(static_cast<int64_t>(i), values[pick]);
    }
    src.push_back(std::move(x));
  }
}

void FillInt(std::vector<TestTensor>& src, DType dtype, int arity,
             bool no_zero_divisor) {
  const bool i32 = dtype == DType::kInt32;
  std::vector<int64_t> values = {0,
                                 1,
                                 -1,
                                 2,
                                 -2,
                                 3,
                                 7,
                                 -7,
                                 31,
                                 63,
                                 100,
                                 -100,
                                 65536,
                                 46341,
                                 i32 ? INT32_MAX : INT64_MAX,
                                 i32 ? INT32_MIN : INT64_MIN,
                                 i32 ? INT32_MIN + 1 : INT64_MIN + 1,
                                 1234567,
                                 -7654321};
  const size_t n = values.size();
  const size_t total = arity == 1 ? n : n * n;
  src.clear();
  for (int k = 0; k < arity; ++k) {
    TestTensor x(dtype, {static_cast<int64_t>(total)});
    for (size_t i = 0; i < total; ++i) {
      const size_t pick = k == 0 ? i % n : k == 1 ? i / n : (i * 5 + i / n) % n;
      int64_t value = values[pick];
      if (k == 1 && no_zero_divisor && value == 0) value = 5;
      x.SetInt(static_cast<int64_t>(i), value);
    }
    src.push_back(std::move(x));
  }
}

double RoundTo(DType dtype, double x) {
  return dtype == DType::kFloat32 ? static_cast<float>(x) : x;
}

// But for special functions, which special_math_test has.
TEST(PointwiseOpsTest, EveryOpHasARow) {
  std::map<int, int> rows;
  for (const Row& row : Rows()) ++rows[static_cast<int>(row.op)];
  for (int code = 0; code < static_cast<int>(PointwiseOp::kDigamma); ++code) {
    const PointwiseOp op = static_cast<PointwiseOp>(code);
    const int arity = ArityOf(op);
    if (arity <= 0 || op == PointwiseOp::kCast) continue;
    EXPECT_EQ(rows[code], 1) << NameOf(op);
  }
  for (const Row& row : Rows()) {
    EXPECT_EQ(row.arity, ArityOf(row.op)) << NameOf(row.op);
  }
}

// Whether an op of several terms leaves float32's range before its result does,
// as PyTorch's does too.
bool OverflowsOnTheWay(const Row& row, const double* x) {
  if (row.op == PointwiseOp::kSoftplus) return !(x[2] <= 80);
  if (row.op < PointwiseOp::kSigmoidGrad) return false;
  return std::any_of(x, x + row.arity, [](double value) {
    return std::isinf(value) || std::fabs(value) > 1e12;
  });
}

// The terms of a sum may cancel; what they lost in rounding stays.
double LargestTerm(PointwiseOp op, const double* x) {
  if (op == PointwiseOp::kAddcmul) {
    return std::fabs(x[0]) + std::fabs(x[1] * x[2]);
  }
  if (op == PointwiseOp::kAddcdiv && x[2] != 0) {
    return std::fabs(x[0]) + std::fabs(x[1] / x[2]);
  }
  return 0;
}

TEST(PointwiseOpsTest, Floats) {
  ForEachIsa([] {
    for (const Row& row : Rows()) {
      if (!row.real) continue;
      for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
        SCOPED_TRACE(std::string(NameOf(row.op)) + " " + NameOf(dtype));
        std::vector<TestTensor> src;
        FillReal(src, dtype, row.arity);
        TestTensor dst(row.is_bool ? DType::kBool : dtype, src[0].sizes());
        ASSERT_TRUE(RunOp(OneOp(row, dtype), src, dst).ok());
        const bool f32 = dtype == DType::kFloat32;
        const double epsilon = f32 ? 1.2e-7 : 2.3e-16;
        // Numbers below the normal ones have fewer digits.
        const double tiny = f32 ? 1.2e-38 : 2.3e-308;
        const double absolute =
            tiny +
            (row.absolute >= 1 || f32 ? row.absolute : row.absolute * 1e-8);
        for (int64_t i = 0; i < dst.numel(); ++i) {
          double x[3] = {0, 0, 0};
          for (int k = 0; k < row.arity; ++k) x[k] = src[k].Get(i);
          if (OverflowsOnTheWay(row, x)) continue;
          const double want = RoundTo(dtype, row.real(x[0], x[1], x[2]));
          const auto near =
              Near(dst.Get(i), want, row.relative * epsilon,
                   absolute + 4 * epsilon * LargestTerm(row.op, x));
          EXPECT_TRUE(near) << "of " << x[0] << ", " << x[1] << ", " << x[2];
          if (!near) break;  // the next op
        }
      }
    }
  });
}

TEST(PointwiseOpsTest, Integers) {
  ForEachIsa([] {
    for (const Row& row : Rows()) {
      if (!row.integer) continue;
      for (DType dtype : {DType::kInt32, DType::kInt64}) {
        SCOPED_TRACE(std::string(NameOf(row.op)) + " " + NameOf(dtype));
        std::vector<TestTensor> src;
        const bool divides = row.op == PointwiseOp::kDivTrunc ||
                             row.op == PointwiseOp::kDivFloor ||
                             row.op == PointwiseOp::kRemainder ||
                             row.op == PointwiseOp::kFmod;
        FillInt(src, dtype, row.arity, divides);
        if (row.op == PointwiseOp::kPow) {
          for (int64_t i = 0; i < src[1].numel(); ++i) {
            src[1].SetInt(i, src[1].GetInt(i) % 70);
          }
        }
        TestTensor dst(row.is_bool ? DType::kBool : dtype, src[0].sizes());
        ASSERT_TRUE(RunOp(OneOp(row, dtype), src, dst).ok());
        TestTensor want(dst.dtype(), dst.sizes());
        for (int64_t i = 0; i < dst.numel(); ++i) {
          int64_t x[3] = {0, 0, 0};
          for (int k = 0; k < row.arity; ++k) x[k] = src[k].GetInt(i);
          want.SetInt(i, row.integer(x[0], x[1], x[2]));
          ASSERT_EQ(dst.GetInt(i), want.GetInt(i))
              << "of " << x[0] << ", " << x[1] << ", " << x[2];
        }
      }
    }
  });
}

TEST(PointwiseOpsTest, IntegerDivisionByZeroIsAnErrorAndStoresZero) {
  for (PointwiseOp op : {PointwiseOp::kDivTrunc, PointwiseOp::kDivFloor,
                         PointwiseOp::kRemainder, PointwiseOp::kFmod}) {
    for (DType dtype : {DType::kInt32, DType::kInt64, DType::kUInt8}) {
      std::vector<TestTensor> src;
      for (int k = 0; k < 2; ++k) src.emplace_back(dtype, TestTensor::Dims{41});
      for (int64_t i = 0; i < 41; ++i) {
        src[0].SetInt(i, 9);
        src[1].SetInt(i, i == 17 ? 0 : 2);
      }
      TestTensor dst(dtype, {41});
      const absl::Status status =
          RunOp(OneOp({op, 2, false, {}, {}}, dtype), src, dst);
      EXPECT_EQ(status.message(), "ZeroDivisionError");
      EXPECT_EQ(dst.GetInt(17), 0);
      EXPECT_EQ(
          dst.GetInt(16),
          op == PointwiseOp::kRemainder || op == PointwiseOp::kFmod ? 1 : 4);
    }
  }
}

TEST(PointwiseOpsTest, Shifts) {
  ForEachIsa([] {
    for (DType dtype : {DType::kInt32, DType::kInt64}) {
      const int bits = dtype == DType::kInt32 ? 32 : 64;
      std::vector<TestTensor> src;
      for (int k = 0; k < 2; ++k) src.emplace_back(dtype, TestTensor::Dims{80});
      for (int64_t i = 0; i < 80; ++i) {
        src[0].SetInt(i, i % 2 ? -12345 : 12345);
        src[1].SetInt(i, i - 5);
      }
      TestTensor left(dtype, {80}), right(dtype, {80}), want(dtype, {80});
      ASSERT_TRUE(
          RunOp(OneOp({PointwiseOp::kShiftLeft, 2, false, {}, {}}, dtype), src,
                left)
              .ok());
      ASSERT_TRUE(
          RunOp(OneOp({PointwiseOp::kShiftRight, 2, false, {}, {}}, dtype), src,
                right)
              .ok());
      for (int64_t i = 0; i < 80; ++i) {
        const int64_t a = src[0].GetInt(i), count = i - 5;
        const bool fits = count >= 0 && count < bits;
        want.SetInt(i, fits ? Wrap(U(a) << count) : 0);
        EXPECT_EQ(left.GetInt(i), want.GetInt(i)) << count;
        EXPECT_EQ(right.GetInt(i), fits ? a >> count : a < 0 ? -1 : 0) << count;
      }
    }
  });
}

// Gradients against differences of the functions.
TEST(PointwiseOpsTest, Gradients) {
  struct Case {
    PointwiseOp op;
    std::function<double(double)> forward;
  };
  const Case cases[] = {
      {PointwiseOp::kSiluGrad, [](double x) { return x * Sigmoid(x); }},
      {PointwiseOp::kGeluGrad,
       [](double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); }},
      {PointwiseOp::kGeluTanhGrad,
       [](double x) {
         return 0.5 * x *
                (1 +
                 std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       }},
  };
  ForEachIsa([&] {
    for (const Case& c : cases) {
      for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
        std::vector<TestTensor> src;
        for (int k = 0; k < 2; ++k) {
          src.emplace_back(dtype, TestTensor::Dims{101});
        }
        for (int64_t i = 0; i < 101; ++i) {
          src[0].Set(i, 1 + i % 3);
          src[1].Set(i, (i - 50) / 10.0);
        }
        TestTensor dst(dtype, {101});
        ASSERT_TRUE(
            RunOp(OneOp({c.op, 2, false, {}, {}}, dtype), src, dst).ok());
        for (int64_t i = 0; i < 101; ++i) {
          const double x = src[1].Get(i), h = 1e-5;
          const double slope = (c.forward(x + h) - c.forward(x - h)) / (2 * h);
          EXPECT_TRUE(Near(dst.Get(i), src[0].Get(i) * slope, 1e-6, 2e-6))
              << NameOf(c.op) << " of " << x;
        }
      }
    }
  });
}

TEST(PointwiseOpsTest, LerpHitsBothEnds) {
  ForEachIsa([] {
    std::vector<TestTensor> src;
    for (int k = 0; k < 3; ++k) {
      src.emplace_back(DType::kFloat32, TestTensor::Dims{3});
    }
    const double weights[] = {0, 1, 0.25};
    for (int64_t i = 0; i < 3; ++i) {
      src[0].Set(i, 0.1);
      src[1].Set(i, 1e8);
      src[2].Set(i, weights[i]);
    }
    TestTensor dst(DType::kFloat32, {3});
    ASSERT_TRUE(
        RunOp(OneOp({PointwiseOp::kLerp, 3, false, {}, {}}, DType::kFloat32),
              src, dst)
            .ok());
    EXPECT_EQ(dst.Get(0), 0.1f);
    EXPECT_EQ(dst.Get(1), 1e8f);
    EXPECT_NEAR(dst.Get(2), 0.25e8, 4);
  });
}

TEST(PointwiseOpsTest, AlphaOfTheNode) {
  ForEachIsa([] {
    for (DType dtype : {DType::kInt32, DType::kInt64, DType::kFloat32,
                        DType::kFloat64, DType::kFloat16, DType::kUInt8}) {
      std::vector<TestTensor> src;
      for (int k = 0; k < 3; ++k) src.emplace_back(dtype, TestTensor::Dims{9});
      for (int64_t i = 0; i < 9; ++i) {
        src[0].Set(i, i);
        src[1].Set(i, i + 1);
        src[2].Set(i, 2);
      }
      const auto run = [&](PointwiseOp op, int arity) {
        TestTensor dst(dtype, {9});
        EXPECT_TRUE(
            RunOp(OneOp({op, arity, false, {}, {}}, dtype, 3), src, dst).ok());
        return dst.Get(4);
      };
      EXPECT_EQ(run(PointwiseOp::kAdd, 2), 4 + 3 * 5);
      EXPECT_EQ(run(PointwiseOp::kScale, 1), 3 * 4);
      EXPECT_EQ(run(PointwiseOp::kAddcmul, 3), 4 + 3 * 5 * 2);
      if (IsFloating(dtype)) {
        EXPECT_EQ(run(PointwiseOp::kAddcdiv, 3), 4 + 3 * 5 / 2.0);
      }
    }
  });
}

}  // namespace
}  // namespace tvarant::host

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/conformance/pointwise_reference.h"

namespace tvarant::conformance {
namespace {

constexpr Real kInf = std::numeric_limits<Real>::infinity();
constexpr Real kNan = std::numeric_limits<Real>::quiet_NaN();
constexpr Real kPi = 3.14159265358979323846264338327950288L;

using Pool = std::vector<Real>;
using Round = std::function<Real(Real)>;

// A bit of everything, special values included.
const Pool kAny = {0.0L,   -0.0L, 1.0L,    -1.0L,  0.5L,    -0.5L,  2.0L,
                   -2.0L,  3.25L, -7.75L,  0.1L,   -0.3L,   1.5L,   -2.5L,
                   20.5L,  -19.L, 0.0078L, -0.01L, 123.4L,  -98.6L, kInf,
                   -kInf,  kNan,  4.0L,    -6.5L,  0.9375L, 2.71L,  -3.1L,
                   0.707L, 5.0L,  7.0L,    9.99L,  -0.95L,  0.25L,  -0.625L};
const Pool kFinite(kAny.begin(), kAny.begin() + 20);
const Pool kPositive = {0.25L, 0.5L, 1.0L, 1.5L, 2.0L};
const Pool kUnit = {-1.0L, -0.99L, -0.5L, -0.1L, 0.0L, 0.1L, 0.3L,
                    0.5L,  0.7L,   0.99L, 1.0L,  1.5L, kNan};
const Pool kFromOne = {1.0L, 1.001L, 1.25L, 2.0L, 7.5L, 100.0L, 0.5L, kInf};
const Pool kAngles = {0.0L, 0.1L, -0.1L, 0.5L, -0.7L, 1.0L,   -1.2L, 1.5L,
                      2.0L, 3.0L, -3.0L, 4.5L, 6.0L,  -10.0L, 25.5L, kNan};

Real Sigmoid(Real x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

Real Silu(Real x) { return x == -kInf ? kNan : x * Sigmoid(x); }

Real FloatFloorDivide(Real a, Real b) {
  if (b == 0) return a / b;
  const Real rest = std::fmod(a, b);
  Real quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  return std::nearbyint(quotient);
}

Real FloatRemainder(Real a, Real b) {
  const Real rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

Real RoundHalfEven(Real x) {
  const Real below = std::floor(x);
  const Real part = x - below;
  if (part != 0.5L) return part < 0.5L ? below : below + 1;
  return std::fmod(below, 2) == 0 ? below : below + 1;
}

Real Logaddexp(Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  const Real high = std::max(a, b), low = std::min(a, b);
  if (std::isinf(high)) return high;
  return high + std::log1p(std::exp(low - high));
}

Real Softplus(Real x) { return x > 40 ? x : std::log1p(std::exp(x)); }

Real Relu6(Real x) {
  return std::isnan(x) ? x : std::min<Real>(std::max<Real>(x, 0), 6);
}

// Distribution and density of the standard normal.
Real NormalCdf(Real x) { return std::erfc(-x / std::sqrt(Real{2})) / 2; }
Real NormalPdf(Real x) { return std::exp(-x * x / 2) / std::sqrt(2 * kPi); }

Real GeluTanhInner(Real x) {
  return std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x);
}

Real Larger(Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  return a > b ? a : b;
}

Real Smaller(Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  return a < b ? a : b;
}

FloatReference Unary(Real (*f)(Real), Pool pool = kAny,
                     Tolerance tolerance = {}) {
  return {[f](Real a, Real, Real, Real, const Round&) { return f(a); },
          {std::move(pool), {}, {}},
          tolerance};
}

FloatReference Binary(Real (*f)(Real, Real), Pool a = kAny, Pool b = kAny,
                      Tolerance tolerance = {}) {
  return {[f](Real x, Real y, Real, Real, const Round&) { return f(x, y); },
          {std::move(a), std::move(b), {}},
          tolerance};
}

FloatReference Ternary(Real (*f)(Real, Real, Real, Real), Pool a, Pool b,
                       Pool c, Tolerance tolerance = {}) {
  return {[f](Real x, Real y, Real z, Real alpha, const Round&) {
            return f(x, y, z, alpha);
          },
          {std::move(a), std::move(b), std::move(c)},
          tolerance};
}

// The sums of these cancel, so what is small is only as good as what it is
// made of.
constexpr Tolerance kSums = {.ulps = 8, .absolute = 8};

// As Pow, but over inputs whose results stay within half precision too.
const Pool kExponents = {0.0L, 1.0L, 2.0L, 3.0L, -1.0L, -2.0L,
                         0.5L, 1.5L, kNan, kInf, -kInf};

}  // namespace

FloatReference FloatReferenceOf(PointwiseOp op) {
  switch (op) {
    case PointwiseOp::kAdd:
      return Ternary(
          [](Real a, Real b, Real, Real alpha) { return a + alpha * b; }, kAny,
          kAny, {}, {.ulps = 2, .absolute = 512});
    case PointwiseOp::kMul:
      return Binary([](Real a, Real b) { return a * b; });
    case PointwiseOp::kRelu:
      return Unary([](Real a) { return a < 0 ? 0 : a; });
    case PointwiseOp::kSilu:
      return Unary(Silu);
    case PointwiseOp::kNeg:
      return Unary([](Real a) { return -a; });
    case PointwiseOp::kScale:
      return Ternary([](Real a, Real, Real, Real alpha) { return alpha * a; },
                     kAny, {}, {});
    case PointwiseOp::kSigmoid:
      return Unary(Sigmoid);
    case PointwiseOp::kIdentity:
      return Unary([](Real a) { return a; });
    case PointwiseOp::kSub:
      return Binary([](Real a, Real b) { return a - b; });
    case PointwiseOp::kDiv:
      return Binary([](Real a, Real b) { return a / b; });
    case PointwiseOp::kDivTrunc: {
      FloatReference reference = Binary(nullptr);
      reference.value = [](Real a, Real b, Real, Real, const Round& round) {
        return std::trunc(round(a / b));
      };
      return reference;
    }
    case PointwiseOp::kDivFloor:
      return Binary(FloatFloorDivide);
    case PointwiseOp::kRemainder:
      // A rest next to the divisor is the divisor or nearly 0.
      return Binary(FloatRemainder, kAny, kAny, {.ulps = 8, .absolute = 0.5L});
    case PointwiseOp::kFmod:
      return Binary([](Real a, Real b) { return std::fmod(a, b); });
    case PointwiseOp::kPow:
      return Binary([](Real a, Real b) { return std::pow(a, b); }, kAny,
                    kExponents);
    case PointwiseOp::kMaximum:
      return Binary(Larger);
    case PointwiseOp::kMinimum:
      return Binary(Smaller);
    case PointwiseOp::kFmax:
      return Binary([](Real a, Real b) { return std::fmax(a, b); });
    case PointwiseOp::kFmin:
      return Binary([](Real a, Real b) { return std::fmin(a, b); });
    case PointwiseOp::kAtan2:
      return Binary([](Real a, Real b) { return std::atan2(a, b); });
    case PointwiseOp::kHypot:
      return Binary([](Real a, Real b) { return std::hypot(a, b); });
    case PointwiseOp::kCopysign:
      return Binary([](Real a, Real b) { return std::copysign(a, b); }, kAny,
                    kFinite);
    case PointwiseOp::kXlogy:
      return Binary([](Real a, Real b) {
        if (std::isnan(b)) return kNan;
        return a == 0 ? Real{0} : a * std::log(b);
      });
    case PointwiseOp::kLogaddexp:
      return Binary(Logaddexp, kAny, kAny, kSums);
    case PointwiseOp::kEq:
      return Binary([](Real a, Real b) { return Real(a == b); });
    case PointwiseOp::kNe:
      return Binary([](Real a, Real b) { return Real(a != b); });
    case PointwiseOp::kLt:
      return Binary([](Real a, Real b) { return Real(a < b); });
    case PointwiseOp::kLe:
      return Binary([](Real a, Real b) { return Real(a <= b); });
    case PointwiseOp::kGt:
      return Binary([](Real a, Real b) { return Real(a > b); });
    case PointwiseOp::kGe:
      return Binary([](Real a, Real b) { return Real(a >= b); });
    case PointwiseOp::kLogicalAnd:
      return Binary([](Real a, Real b) { return Real(a != 0 && b != 0); });
    case PointwiseOp::kLogicalOr:
      return Binary([](Real a, Real b) { return Real(a != 0 || b != 0); });
    case PointwiseOp::kLogicalXor:
      return Binary([](Real a, Real b) { return Real((a != 0) != (b != 0)); });
    case PointwiseOp::kLogicalNot:
      return Unary([](Real a) { return Real(a == 0); });
    case PointwiseOp::kIsNan:
      return Unary([](Real a) { return Real(std::isnan(a)); });
    case PointwiseOp::kIsInf:
      return Unary([](Real a) { return Real(std::isinf(a)); });
    case PointwiseOp::kIsFinite:
      return Unary([](Real a) { return Real(std::isfinite(a)); });
    case PointwiseOp::kIsPosInf:
      return Unary([](Real a) { return Real(a == kInf); });
    case PointwiseOp::kIsNegInf:
      return Unary([](Real a) { return Real(a == -kInf); });
    case PointwiseOp::kSignbit:
      return Unary([](Real a) { return Real(std::signbit(a)); }, kFinite);
    case PointwiseOp::kAbs:
      return Unary([](Real a) { return std::fabs(a); });
    case PointwiseOp::kSign:
      return Unary([](Real a) -> Real { return a > 0 ? 1 : a < 0 ? -1 : 0; });
    case PointwiseOp::kExp:
      return Unary([](Real a) { return std::exp(a); });
    case PointwiseOp::kExp2:
      return Unary([](Real a) { return std::exp2(a); });
    case PointwiseOp::kExpm1:
      return Unary([](Real a) { return std::expm1(a); });
    case PointwiseOp::kLog:
      return Unary([](Real a) { return std::log(a); });
    case PointwiseOp::kLog2:
      return Unary([](Real a) { return std::log2(a); });
    case PointwiseOp::kLog10:
      return Unary([](Real a) { return std::log10(a); });
    case PointwiseOp::kLog1p:
      return Unary([](Real a) { return std::log1p(a); });
    case PointwiseOp::kSqrt:
      return Unary([](Real a) { return std::sqrt(a); });
    case PointwiseOp::kRsqrt:
      return Unary([](Real a) { return 1 / std::sqrt(a); });
    case PointwiseOp::kReciprocal:
      return Unary([](Real a) { return 1 / a; });
    case PointwiseOp::kSquare:
      return Unary([](Real a) { return a * a; });
    case PointwiseOp::kSin:
      return Unary([](Real a) { return std::sin(a); }, kAngles);
    case PointwiseOp::kCos:
      return Unary([](Real a) { return std::cos(a); }, kAngles);
    case PointwiseOp::kTan:
      return Unary([](Real a) { return std::tan(a); }, kAngles);
    case PointwiseOp::kAsin:
      return Unary([](Real a) { return std::asin(a); }, kUnit);
    case PointwiseOp::kAcos:
      return Unary([](Real a) { return std::acos(a); }, kUnit);
    case PointwiseOp::kAtan:
      return Unary([](Real a) { return std::atan(a); });
    case PointwiseOp::kSinh:
      return Unary([](Real a) { return std::sinh(a); });
    case PointwiseOp::kCosh:
      return Unary([](Real a) { return std::cosh(a); });
    case PointwiseOp::kTanh:
      return Unary([](Real a) { return std::tanh(a); });
    case PointwiseOp::kAsinh:
      return Unary([](Real a) { return std::asinh(a); });
    case PointwiseOp::kAcosh:
      return Unary([](Real a) { return std::acosh(a); }, kFromOne);
    case PointwiseOp::kAtanh:
      return Unary([](Real a) { return std::atanh(a); }, kUnit);
    case PointwiseOp::kErf:
      return Unary([](Real a) { return std::erf(a); });
    case PointwiseOp::kErfc:
      return Unary([](Real a) { return std::erfc(a); }, kAny, {.ulps = 16});
    case PointwiseOp::kFloor:
      return Unary([](Real a) { return std::floor(a); });
    case PointwiseOp::kCeil:
      return Unary([](Real a) { return std::ceil(a); });
    case PointwiseOp::kRound:
      return Unary(RoundHalfEven);
    case PointwiseOp::kTrunc:
      return Unary([](Real a) { return std::trunc(a); });
    case PointwiseOp::kFrac:
      return Unary([](Real a) { return a - std::trunc(a); });
    case PointwiseOp::kLgamma:
      return Unary([](Real a) { return std::lgamma(a); }, kAny,
                   {.ulps = 16, .absolute = 16});
    case PointwiseOp::kGelu:
      return Unary([](Real a) { return a * NormalCdf(a); }, kAny, kSums);
    case PointwiseOp::kGeluTanh:
      return Unary(
          [](Real a) { return a / 2 * (1 + std::tanh(GeluTanhInner(a))); },
          kAny, kSums);
    case PointwiseOp::kSoftplus:
      return Ternary(
          [](Real a, Real b, Real c, Real) {
            return a * b > c ? a : std::log1p(std::exp(a * b)) / b;
          },
          // exp of a product has the product's error many times over.
          kAny, kPositive, {20.0L}, {.ulps = 256});
    case PointwiseOp::kElu:
      return Unary([](Real a) { return a > 0 ? a : std::expm1(a); });
    case PointwiseOp::kLogSigmoid:
      return Unary([](Real a) { return -Softplus(-a); });
    case PointwiseOp::kMish:
      return Unary([](Real a) { return a * std::tanh(Softplus(a)); });
    case PointwiseOp::kHardswish:
      return Unary([](Real a) { return a * Relu6(a + 3) / 6; }, kAny, kSums);
    case PointwiseOp::kHardsigmoid:
      return Unary([](Real a) { return Relu6(a + 3) / 6; }, kAny, kSums);
    case PointwiseOp::kSigmoidGrad:
      return Binary([](Real a, Real b) { return a * b * (1 - b); }, kFinite,
                    kUnit);
    case PointwiseOp::kTanhGrad:
      return Binary([](Real a, Real b) { return a * (1 - b * b); }, kFinite,
                    kUnit, {.ulps = 8, .absolute = 256});
    case PointwiseOp::kSiluGrad:
      return Binary(
          [](Real a, Real b) {
            const Real s = Sigmoid(b);
            return a * s * (1 + b * (1 - s));
          },
          kFinite, kFinite, {.ulps = 16, .absolute = 256});
    case PointwiseOp::kGeluGrad:
      return Binary(
          [](Real a, Real b) { return a * (NormalCdf(b) + b * NormalPdf(b)); },
          kFinite, kFinite, {.ulps = 16, .absolute = 256});
    case PointwiseOp::kGeluTanhGrad:
      return Binary(
          [](Real a, Real b) {
            const Real t = std::tanh(GeluTanhInner(b));
            const Real slope = std::sqrt(2 / kPi) * (1 + 3 * 0.044715L * b * b);
            return a * ((1 + t) / 2 + b / 2 * (1 - t * t) * slope);
          },
          kFinite, kFinite, {.ulps = 16, .absolute = 256});
    case PointwiseOp::kClamp:
      return Ternary(
          [](Real a, Real b, Real c, Real) { return Smaller(Larger(a, b), c); },
          kAny, {-1.0L, 0.0L, kNan, 2.0L}, {1.0L, 0.5L, kNan, kInf});
    case PointwiseOp::kLerp:
      return Ternary(
          [](Real a, Real b, Real c, Real) { return a + c * (b - a); }, kFinite,
          kFinite, {0.0L, 1.0L, 0.25L, 0.75L, -0.5L, 1.5L},
          {.ulps = 8, .absolute = 512});
    case PointwiseOp::kAddcmul:
      return Ternary(
          [](Real a, Real b, Real c, Real alpha) { return a + alpha * b * c; },
          kFinite, kFinite, kFinite, {.ulps = 8, .absolute = 65536});
    case PointwiseOp::kAddcdiv:
      return Ternary(
          [](Real a, Real b, Real c, Real alpha) { return a + alpha * b / c; },
          kFinite, kFinite, kPositive, {.ulps = 8, .absolute = 2048});
    case PointwiseOp::kThresholdGrad:
      return Ternary(
          [](Real a, Real b, Real c, Real) { return b <= c ? 0 : a; }, kAny,
          kAny, {0.0L, 1.0L, -1.0L});
    default:
      return SpecialReferenceOf(op);
  }
}

}  // namespace tvarant::conformance

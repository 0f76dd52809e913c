// References of the special functions: sums, integrals and bisections in long
// double, far from how a kernel would do it.

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "tests/conformance/pointwise_reference.h"

namespace tvarant::conformance {
namespace {

constexpr Real kInf = std::numeric_limits<Real>::infinity();
constexpr Real kNan = std::numeric_limits<Real>::quiet_NaN();
constexpr Real kPi = 3.14159265358979323846264338327950288L;

using Pool = std::vector<Real>;
using Round = std::function<Real(Real)>;
using Function = std::function<Real(Real, Real)>;

// Slow functions are asked for the same few arguments over and over.
Function Remembered(Function f) {
  auto known = std::make_shared<std::map<std::pair<Real, Real>, Real>>();
  return [f, known](Real a, Real b) {
    if (std::isnan(a) || std::isnan(b)) return f(a, b);
    const auto [at, is_new] = known->try_emplace({a, b}, 0);
    if (is_new) at->second = f(a, b);
    return at->second;
  };
}

FloatReference Special(Function f, Pool a, Pool b, Tolerance tolerance) {
  const Function value = Remembered(std::move(f));
  return {
      [value](Real x, Real y, Real, Real, const Round&) { return value(x, y); },
      {std::move(a), std::move(b), {}},
      tolerance};
}

FloatReference Special1(Real (*f)(Real), Pool pool, Tolerance tolerance = {}) {
  return Special([f](Real a, Real) { return f(a); }, std::move(pool), {},
                 tolerance);
}

FloatReference Special2(Real (*f)(Real, Real), Pool a, Pool b,
                        Tolerance tolerance) {
  return Special(f, std::move(a), std::move(b), tolerance);
}

// The trapezoid rule, exact for periodic and for doubly decaying functions.
template <typename F>
Real Integral(const F& f, Real low, Real high, int steps) {
  const Real width = (high - low) / steps;
  Real sum = (f(low) + f(high)) / 2;
  for (int i = 1; i < steps; ++i) sum += f(low + i * width);
  return sum * width;
}

// x with f(x) = y, for a rising f.
template <typename F>
Real Solve(const F& f, Real y, Real low, Real high) {
  for (int i = 0; i < 200; ++i) {
    const Real middle = (low + high) / 2;
    (f(middle) < y ? low : high) = middle;
  }
  return (low + high) / 2;
}

Real Digamma(Real x) {
  if (std::isnan(x) || (x < 0 && x == std::floor(x))) return kNan;
  if (x == 0) return std::signbit(x) ? kInf : -kInf;
  if (x == kInf) return kInf;
  if (x < 0) return Digamma(1 - x) - kPi / std::tan(kPi * x);
  Real sum = 0;
  for (; x < 3000; ++x) sum -= 1 / x;
  return sum + std::log(x) - 1 / (2 * x) - 1 / (12 * x * x);
}

Real Zeta(Real s, Real q) {
  if (s == 1) return kInf;
  Real sum = 0;
  int k = 0;
  for (; k < 20000; ++k) sum += std::pow(q + k, -s);
  const Real x = q + k, last = std::pow(x, -s);
  return sum + last * x / (s - 1) + last / 2 + s * last / (12 * x);
}

Real Igamma(Real a, Real x) {
  if (x == 0) return 0;
  if (x == kInf) return 1;
  Real sum = 0;
  for (int k = 0; k < 400; ++k) {
    sum += std::exp((a + k) * std::log(x) - x - std::lgamma(a + k + 1));
  }
  return sum;
}

Real Erfinv(Real x) {
  if (std::fabs(x) > 1 || std::isnan(x)) return kNan;
  if (std::fabs(x) == 1) return x * kInf;
  return Solve([](Real y) { return std::erf(y); }, x, -8, 8);
}

Real NormalTail(Real x) { return std::erfc(-x / std::sqrt(Real{2})) / 2; }

Real Ndtri(Real p) {
  if (p < 0 || p > 1 || std::isnan(p)) return kNan;
  if (p == 0) return -kInf;
  if (p == 1) return kInf;
  return Solve(NormalTail, p, -40, 40);
}

// I0 and I1.
Real PowerSeries(int order, Real x) {
  Real term = order == 0 ? 1 : x / 2, sum = term;
  for (int k = 1; k < 200; ++k) {
    term *= x * x / 4 / k / (k + order);
    sum += term;
  }
  return sum;
}

// e^x times K of any order.
Real BesselKe(Real order, Real x) {
  if (x < 0 || std::isnan(x)) return kNan;
  if (x == 0) return kInf;
  return Integral(
      [=](Real t) {
        return std::exp(-x * (std::cosh(t) - 1)) * std::cosh(order * t);
      },
      0, 14, 4000);
}

Real BesselJ(int order, Real x) {
  if (!std::isfinite(x)) return kNan;
  return Integral([=](Real t) { return std::cos(order * t - x * std::sin(t)); },
                  0, 2 * kPi, 2000) /
         (2 * kPi);
}

Real BesselY(int order, Real x) {
  if (x < 0 || std::isnan(x)) return kNan;
  if (x == 0) return -kInf;
  return std::cyl_neumann(static_cast<Real>(order), x);
}

Real Airy(Real x) {
  if (x >= 2) {
    const Real z = x * std::sqrt(x) * 2 / 3;
    return std::sqrt(x / 3) / kPi * BesselKe(Real{1} / 3, z) * std::exp(-z);
  }
  // y'' = x y: coefficient n + 3 is that of n over (n + 2) (n + 3).
  Real f = 1, g = x, sum_f = 1, sum_g = x;
  for (int n = 0; n < 300; n += 3) {
    f *= x * x * x / ((n + 2) * (n + 3));
    g *= x * x * x / ((n + 3) * (n + 4));
    sum_f += f;
    sum_g += g;
  }
  return sum_f * 0.355028053887817239260063186004183L -
         sum_g * 0.258819403792806798405183560189204L;
}

// p(k + 1) = (a p(k) - b p(k - 1)) / c.
struct Step {
  Real a, b, c;
};
Real Recurrence(Real first, Real n, const std::function<Step(Real)>& step) {
  if (n < 0) return 0;
  Real previous = 1, current = first;
  if (std::trunc(n) == 0) return 1;
  for (Real k = 1; k < std::trunc(n); ++k) {
    const Step s = step(k);
    const Real next = (s.a * current - s.b * previous) / s.c;
    previous = current;
    current = next;
  }
  return current;
}

Real ChebyshevFrom(Real first, Real x, Real n) {
  return Recurrence(first, n, [x](Real) { return Step{2 * x, 1, 1}; });
}

Real NextTo(Real a, Real b, const Round& round) {
  const bool in_float = round(1 + std::ldexp(Real{1}, -40)) == 1;
  return in_float ? Real{std::nextafter(static_cast<float>(a),
                                        static_cast<float>(b))}
                  : Real{std::nextafter(static_cast<double>(a),
                                        static_cast<double>(b))};
}

const Pool kNear = {0.0L,  1.0L,  -1.0L, 0.5L,  -0.5L, 2.0L,  -2.0L,
                    3.25L, -7.5L, 0.1L,  -0.3L, 1.5L,  -2.5L, 9.25L,
                    -8.0L, 0.01L, 5.0L,  -3.1L, 8.25L, 10.0L, kNan};
const Pool kRight = {0.0L, 0.1L,  0.3L, 0.5L, 1.0L,  1.5L, 2.0L, 2.125L,
                     3.0L, 4.25L, 5.0L, 7.0L, 9.25L, kNan, -1.0L};
const Pool kProbabilities = {0.0L,   0.001L, 0.1L, 0.25L, 0.5L, 0.625L,
                             0.875L, 0.99L,  1.0L, -0.5L, 1.5L, kNan};
const Pool kCosines = {-1.0L, -0.75L, -0.5L, 0.0L,  0.25L,
                       0.5L,  0.875L, 1.0L,  1.25L, -1.125L};
const Pool kDegrees = {0.0L, 1.0L, 2.0L, 3.0L, 4.0L, 5.5L, 6.0L, -1.0L};
constexpr Tolerance kLoose = {.ulps = 32, .absolute = 32};

}  // namespace

FloatReference SpecialReferenceOf(PointwiseOp op) {
  switch (op) {
    case PointwiseOp::kDigamma:
      return Special1(Digamma,
                      {0.25L, 0.5L, 1.0L, 1.5L, 2.0L, 3.75L, 10.0L, 25.5L,
                       -0.5L, -1.25L, -7.5L, 0.0L, -2.0L, kInf, kNan, 0.125L},
                      kLoose);
    case PointwiseOp::kZeta:
      return Special2(Zeta, {1.0L, 1.5L, 2.0L, 3.0L, 4.5L, 10.0L},
                      {0.5L, 1.0L, 2.5L, 10.0L, 0.25L, 20.0L}, {.ulps = 64});
    case PointwiseOp::kIgamma:
      return Special2(Igamma, {0.25L, 0.5L, 1.0L, 2.0L, 5.5L, 20.0L},
                      {0.0L, 0.125L, 0.5L, 1.0L, 3.0L, 9.0L, 30.0L, kInf},
                      kLoose);
    case PointwiseOp::kIgammac:
      return Special2([](Real a, Real x) { return 1 - Igamma(a, x); },
                      {0.25L, 0.5L, 1.0L, 2.0L, 5.5L, 20.0L},
                      {0.0L, 0.125L, 0.5L, 1.0L, 3.0L, 9.0L, 30.0L, kInf},
                      kLoose);
    case PointwiseOp::kErfinv:
      return Special1(Erfinv,
                      {-1.0L, -0.875L, -0.5L, -0.125L, 0.0L, 0.01L, 0.25L,
                       0.625L, 0.9375L, 0.99L, 1.0L, 1.5L, kNan},
                      kLoose);
    case PointwiseOp::kErfcx:
      return Special1(
          [](Real x) { return std::exp(x * x) * std::erfc(x); },
          {-2.5L, -1.0L, 0.0L, 0.5L, 1.0L, 3.0L, 9.0L, 26.0L, 50.0L, kNan},
          kLoose);
    case PointwiseOp::kNdtri:
      return Special1(Ndtri, kProbabilities, kLoose);
    case PointwiseOp::kLogNdtr:
      return Special1([](Real x) { return std::log(NormalTail(x)); }, kNear,
                      kLoose);
    case PointwiseOp::kBesselI0:
      return Special1([](Real x) { return PowerSeries(0, x); }, kNear, kLoose);
    case PointwiseOp::kBesselI0e:
      return Special1(
          [](Real x) { return PowerSeries(0, x) * std::exp(-std::fabs(x)); },
          kNear, kLoose);
    case PointwiseOp::kBesselI1:
      return Special1([](Real x) { return PowerSeries(1, x); }, kNear, kLoose);
    case PointwiseOp::kBesselI1e:
      return Special1(
          [](Real x) { return PowerSeries(1, x) * std::exp(-std::fabs(x)); },
          kNear, kLoose);
    case PointwiseOp::kBesselK0:
      return Special1([](Real x) { return BesselKe(0, x) * std::exp(-x); },
                      kRight, kLoose);
    case PointwiseOp::kBesselK0e:
      return Special1([](Real x) { return BesselKe(0, x); }, kRight, kLoose);
    case PointwiseOp::kBesselK1:
      return Special1([](Real x) { return BesselKe(1, x) * std::exp(-x); },
                      kRight, kLoose);
    case PointwiseOp::kBesselK1e:
      return Special1([](Real x) { return BesselKe(1, x); }, kRight, kLoose);
    case PointwiseOp::kBesselJ0:
      return Special1([](Real x) { return BesselJ(0, x); }, kNear, kLoose);
    case PointwiseOp::kBesselJ1:
      return Special1([](Real x) { return BesselJ(1, x); }, kNear, kLoose);
    case PointwiseOp::kBesselY0:
      return Special1([](Real x) { return BesselY(0, x); }, kRight,
                      {.ulps = 64, .absolute = 64});
    case PointwiseOp::kBesselY1:
      return Special1([](Real x) { return BesselY(1, x); }, kRight,
                      {.ulps = 64, .absolute = 64});
    case PointwiseOp::kSphericalJ0:
      return Special1([](Real x) { return x == 0 ? 1 : std::sin(x) / x; },
                      kNear, kLoose);
    case PointwiseOp::kAiryAi:
      return Special1(Airy,
                      {-6.0L, -4.0L, -2.5L, -1.0L, 0.0L, 0.5L, 1.0L, 1.5L, 2.0L,
                       4.0L, 6.5L, kNan},
                      kLoose);
    case PointwiseOp::kChebyshevT:
      return Special2([](Real x, Real n) { return ChebyshevFrom(x, x, n); },
                      kCosines, kDegrees, kLoose);
    case PointwiseOp::kChebyshevU:
      return Special2([](Real x, Real n) { return ChebyshevFrom(2 * x, x, n); },
                      kCosines, kDegrees, kLoose);
    case PointwiseOp::kChebyshevV:
      return Special2(
          [](Real x, Real n) { return ChebyshevFrom(2 * x - 1, x, n); },
          kCosines, kDegrees, kLoose);
    case PointwiseOp::kChebyshevW:
      return Special2(
          [](Real x, Real n) { return ChebyshevFrom(2 * x + 1, x, n); },
          kCosines, kDegrees, kLoose);
    case PointwiseOp::kHermiteH:
      return Special2(
          [](Real x, Real n) {
            return Recurrence(2 * x, n, [x](Real k) {
              return Step{2 * x, 2 * k, 1};
            });
          },
          kCosines, kDegrees, {.ulps = 32, .absolute = 4096});
    case PointwiseOp::kHermiteHe:
      return Special2(
          [](Real x, Real n) {
            return Recurrence(x, n, [x](Real k) { return Step{x, k, 1}; });
          },
          kCosines, kDegrees, {.ulps = 32, .absolute = 512});
    case PointwiseOp::kLaguerre:
      return Special2(
          [](Real x, Real n) {
            return Recurrence(1 - x, n, [x](Real k) {
              return Step{2 * k + 1 - x, k, k + 1};
            });
          },
          kCosines, kDegrees, kLoose);
    case PointwiseOp::kLegendre:
      return Special2(
          [](Real x, Real n) {
            return Recurrence(x, n, [x](Real k) {
              return Step{(2 * k + 1) * x, k, k + 1};
            });
          },
          kCosines, kDegrees, kLoose);
    case PointwiseOp::kFrexpMantissa:
      return Special1(
          [](Real x) {
            if (x == 0 || !std::isfinite(x)) return x;
            return x / std::exp2(std::floor(std::log2(std::fabs(x))) + 1);
          },
          kNear);
    case PointwiseOp::kFrexpExponent:
      return Special1(
          [](Real x) {
            if (x == 0 || !std::isfinite(x)) return Real{0};
            return std::floor(std::log2(std::fabs(x))) + 1;
          },
          kNear);
    case PointwiseOp::kNextafter:
      return {[](Real a, Real b, Real, Real, const Round& round) {
                return NextTo(a, b, round);
              },
              {kNear, kNear, {}},
              {.ulps = 0}};
    default:
      return {};
  }
}

}  // namespace tvarant::conformance

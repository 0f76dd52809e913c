// Digamma, Hurwitz zeta, incomplete gamma functions.

#include <cmath>
#include <limits>
#include <numbers>

#include "daemon/kernels/host/special/special_math.h"

namespace tvarant::host::special {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kEps = std::numeric_limits<double>::epsilon();

// Bernoulli numbers B(2j), j = 1, 2, ...
constexpr double kBernoulli[] = {1.0 / 6,         -1.0 / 30,     1.0 / 42,
                                 -1.0 / 30,       5.0 / 66,      -691.0 / 2730,
                                 7.0 / 6,         -3617.0 / 510, 43867.0 / 798,
                                 -174611.0 / 330, 854513.0 / 138};

// zeta(s, q) for s > 1, q > 0, by Euler and Maclaurin.
double ZetaOfPositive(double s, double q) {
  if (q == kInf) return kNan;
  double sum = 0;
  // Far enough for the series of derivatives to converge.
  int steps = 0;
  for (; steps < 10 || q < 10; ++steps, ++q) {
    const double term = std::pow(q, -s);
    sum += term;
    if (term < sum * kEps * 1e-3) return sum;
  }
  const double last = std::pow(q, -s);
  sum += last * q / (s - 1) + last / 2;
  // s (s + 1) ... (s + 2j - 2) / (2j)! q^(-s - 2j + 1)
  double factor = s * last / q / 2;
  for (int j = 1; j <= 11; ++j) {
    const double term = kBernoulli[j - 1] * factor;
    sum += term;
    if (std::fabs(term) < std::fabs(sum) * kEps) break;
    factor *=
        (s + 2 * j - 1) * (s + 2 * j) / (q * q * (2.0 * j + 1) * (2.0 * j + 2));
  }
  return sum;
}

// x - 1 - log(x), without cancellation near 1.
double LogExcess(double x) {
  const double d = x - 1;
  if (std::fabs(d) > 0.4) return d - std::log(x);
  // log(x) = 2 atanh(r), r = d / (2 + d); and d - 2 r = r d.
  const double r = d / (2 + d);
  const double square = r * r;
  double series = 0;
  for (int k = 27; k >= 3; k -= 2) series = (series + 1.0 / k) * square;
  return r * d - 2 * r * series;
}

// log(gamma(a + 1)) - log(sqrt(2 pi a) a^a e^-a), Stirling's error.
double StirlingError(double a) {
  if (a < 16) {
    return std::lgamma(a + 1) - (a + 0.5) * std::log(a) + a -
           0.5 * std::log(2 * std::numbers::pi);
  }
  double sum = 0, power = a;
  for (int j = 1; j <= 8; ++j) {
    sum += kBernoulli[j - 1] / (2.0 * j * (2.0 * j - 1) * power);
    power *= a * a;
  }
  return sum;
}

// x^a e^-x / gamma(a + 1)
double Weight(double a, double x) {
  if (a < 1) return std::exp(a * std::log(x) - x - std::lgamma(a + 1));
  return std::exp(-a * LogExcess(x / a) - StirlingError(a)) /
         std::sqrt(2 * std::numbers::pi * a);
}

constexpr int kMaxTerms = 20000;
constexpr double kUniformFrom = 1e5;

// sum of x^k / ((a + 1) ... (a + k)), times the weight: the lower function.
double LowerSeries(double a, double x) {
  double sum = 1, term = 1;
  for (int k = 1; k < kMaxTerms; ++k) {
    term *= x / (a + k);
    sum += term;
    if (term < sum * kEps) break;
  }
  return sum * Weight(a, x);
}

// Continued fraction of the upper function, by Lentz.
double UpperFraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a;
  double c = 1 / kTiny;
  double d = 1 / b;
  double h = d;
  for (int k = 1; k < kMaxTerms; ++k) {
    const double factor = -k * (k - a);
    b += 2;
    d = factor * d + b;
    if (std::fabs(d) < kTiny) d = kTiny;
    c = b + factor / c;
    if (std::fabs(c) < kTiny) c = kTiny;
    d = 1 / d;
    const double step = d * c;
    h *= step;
    if (std::fabs(step - 1) < kEps) break;
  }
  return h * Weight(a, x) * a;
}

// 1 - P(a, x) for x < 1, small a: -expm1 of x^a / gamma(a + 1), and the
// series' rest, without cancellation.
double UpperSeries(double a, double x) {
  double sum = 0, term = 1;
  for (int k = 1; k < kMaxTerms; ++k) {
    term *= -x / k;
    const double part = term / (a + k);
    sum += part;
    if (std::fabs(part) <= std::fabs(sum) * kEps) break;
  }
  const double log_power = a * std::log(x) - std::lgamma(1 + a);
  return -std::expm1(log_power) - a * sum * std::exp(log_power);
}

// Both functions for large a (Temme's uniform expansion, first terms).
double UniformLower(double a, double x, bool upper) {
  const double ratio = x / a;
  const double excess = LogExcess(ratio);
  const double eta = std::copysign(std::sqrt(2 * excess), ratio - 1);
  const double c0 =
      std::fabs(eta) < 0.2
          ? -1.0 / 3 + eta * (1.0 / 12 + eta * (-2.0 / 135 + eta / 864.0))
          : 1 / (ratio - 1) - 1 / eta;
  const double rest = std::exp(-a * excess) /
                      std::sqrt(2 * std::numbers::pi * a) *
                      (c0 - 1.0 / 540 / a);
  const double tail = 0.5 * std::erfc((upper ? eta : -eta) * std::sqrt(a / 2));
  return upper ? tail + rest : tail - rest;
}

double Incomplete(double a, double x, bool upper) {
  if (a > kUniformFrom) return UniformLower(a, x, upper);
  if (upper && x < 1.1 && a < 0.9) return UpperSeries(a, x);
  if (x <= 1 || x <= a) {
    const double lower = LowerSeries(a, x);
    return upper ? 1 - lower : lower;
  }
  const double tail = UpperFraction(a, x);
  return upper ? tail : 1 - tail;
}

}  // namespace

double Digamma(double x) {
  if (x == 0) return std::copysign(kInf, -x);
  double result = 0;
  if (x < 0) {
    const double whole = std::trunc(x);
    if (x == whole) return kNan;
    result = -std::numbers::pi / std::tan(std::numbers::pi * (x - whole));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  // log(x) - 1 / 2x - sum B(2j) / (2j x^2j)
  const double inverse = 1 / (x * x);
  double series = 0;
  for (int j = 7; j >= 1; --j) {
    series = (series + kBernoulli[j - 1] / (2 * j)) * inverse;
  }
  return result + std::log(x) - 0.5 / x - series;
}

double Zeta(double s, double q) {
  if (s == 1) return kInf;
  if (!(s > 1)) return kNan;
  if (q > 0) return ZetaOfPositive(s, q);
  if (q == std::floor(q)) return kInf;
  if (!(s == std::floor(s))) return kNan;
  if (s == kInf || std::isnan(q)) return kNan;
  // The terms below 0 are those of two positive arguments, mirrored.
  const double whole = std::floor(q);
  const double part = q - whole;
  const double sign = std::fmod(s, 2) == 0 ? 1 : -1;
  return ZetaOfPositive(s, part) +
         sign * (ZetaOfPositive(s, 1 - part) - ZetaOfPositive(s, 1 - q));
}

double Igamma(double a, double x) {
  if (!(a >= 0) || !(x >= 0)) return kNan;
  if (a == 0) return x > 0 ? 1 : kNan;
  if (x == 0) return 0;
  if (a == kInf) return x == kInf ? kNan : 0;
  if (x == kInf) return 1;
  return Incomplete(a, x, /*upper=*/false);
}

double Igammac(double a, double x) {
  if (!(a >= 0) || !(x >= 0)) return kNan;
  if (a == 0) return x > 0 ? 0 : kNan;
  if (x == 0) return 1;
  if (a == kInf) return x == kInf ? kNan : 1;
  if (x == kInf) return 0;
  return Incomplete(a, x, /*upper=*/true);
}

}  // namespace tvarant::host::special

// Inverse error function, scaled erfc, the normal distribution's inverse.

#include <cmath>
#include <limits>
#include <numbers>

#include "daemon/kernels/host/special/special_math.h"

namespace tvarant::host::special {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The z >= 0 whose upper tail is p, for p <= 1/2: a rough rational value
// (Abramowitz and Stegun 26.2.23, 5e-4), then Newton on the tail's logarithm,
// which is nearly straight.
double UpperTailInverse(double p) {
  const double t = std::sqrt(-2 * std::log(p));
  double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                     (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  const double log_p = std::log(p);
  for (int i = 0; i < 3; ++i) {
    const double scaled = Erfcx(z / std::numbers::sqrt2) / 2;
    const double log_tail = std::log(scaled) - z * z / 2;
    z += (log_tail - log_p) * scaled * std::sqrt(2 * std::numbers::pi);
  }
  return z;
}

}  // namespace

double Erfcx(double x) {
  if (x < -26.7) return kInf;
  if (x < 25) {
    // x^2 = high + low exactly, so that exp keeps its digits.
    const double high = x * x;
    const double low = std::fma(x, x, -high);
    return std::exp(high) * (1 + low) * std::erfc(x);
  }
  if (std::isnan(x)) return x;
  const double square = 0.5 / (x * x);
  const double series =
      1 - square * (1 - 3 * square * (1 - 5 * square * (1 - 7 * square)));
  return series / (x * std::sqrt(std::numbers::pi));
}

double Erfinv(double x) {
  const double magnitude = std::fabs(x);
  if (!(magnitude <= 1)) return kNan;
  if (magnitude == 1) return std::copysign(kInf, x);
  if (magnitude > 0.5) {
    const double z = UpperTailInverse((1 - magnitude) / 2);
    return std::copysign(z / std::numbers::sqrt2, x);
  }
  // Newton on erf, from its series.
  const double half = std::sqrt(std::numbers::pi) / 2;
  const double s = x * half;
  double y = s * (1 + s * s * (1.0 / 3 + s * s * (7.0 / 30)));
  for (int i = 0; i < 4; ++i) {
    const double error = std::erf(y) - x;
    y -= error * half * std::exp(y * y);
  }
  return y;
}

double Ndtri(double p) {
  if (p == 0) return -kInf;
  if (p == 1) return kInf;
  if (!(p > 0 && p < 1)) return kNan;
  // 1 - p is exact where it is used.
  return p <= 0.5 ? -UpperTailInverse(p) : UpperTailInverse(1 - p);
}

double LogNdtr(double x) {
  const double t = x / std::numbers::sqrt2;
  if (x < -1) return std::log(Erfcx(-t) / 2) - t * t;
  return std::log1p(-std::erfc(t) / 2);
}

double FrexpMantissa(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent);
}

double FrexpExponent(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::isfinite(x) ? exponent : 0;
}

}  // namespace tvarant::host::special

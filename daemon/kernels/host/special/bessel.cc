// Bessel and Airy functions.

#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

#include "daemon/kernels/host/special/special_math.h"

namespace tvarant::host::special {
namespace {

#include "daemon/kernels/host/special/bessel_tables.inc"

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// sum c[k] T_k(t), by Clenshaw's recurrence.
template <size_t N>
double Chebyshev(const double (&c)[N], double t) {
  double b1 = 0, b2 = 0;
  for (size_t k = N - 1; k > 0; --k) {
    const double b0 = 2 * t * b1 - b2 + c[k];
    b2 = b1;
    b1 = b0;
  }
  return t * b1 - b2 + c[0];
}

// Factors that K0 and K1 have in common.
double Decay(double x) { return std::exp(-x) / std::sqrt(x); }

// Ai for small arguments: its power series, two independent solutions of
// y'' = x y.
double AirySeries(double x) {
  constexpr double kValue = 0.355028053887817239;  // Ai(0)
  constexpr double kSlope = 0.258819403792806798;  // -Ai'(0)
  const double cube = x * x * x;
  double f = 1, g = x, term_f = 1, term_g = x;
  for (int k = 1; k < 60; ++k) {
    term_f *= cube / ((3 * k - 1) * (3 * k));
    term_g *= cube / ((3 * k) * (3 * k + 1));
    f += term_f;
    g += term_g;
    if (std::fabs(term_f) + std::fabs(term_g) < 1e-18) break;
  }
  return kValue * f - kSlope * g;
}

}  // namespace

double BesselI0e(double x) {
  x = std::fabs(x);
  if (x <= 8) return Chebyshev(kI0Small, x / 4 - 1);
  return Chebyshev(kI0Large, 16 / x - 1) / std::sqrt(x);
}

double BesselI1e(double x) {
  const double magnitude = std::fabs(x);
  if (magnitude <= 8) return Chebyshev(kI1Small, magnitude / 4 - 1) * x;
  const double y = Chebyshev(kI1Large, 16 / magnitude - 1);
  return std::copysign(y / std::sqrt(magnitude), x);
}

double BesselI0(double x) { return std::exp(std::fabs(x)) * BesselI0e(x); }
double BesselI1(double x) { return std::exp(std::fabs(x)) * BesselI1e(x); }

double BesselK0(double x) {
  if (x == 0) return kInf;
  if (!(x > 0)) return kNan;
  if (x > 2) return Chebyshev(kK0Large, 4 / x - 1) * Decay(x);
  return Chebyshev(kK0Small, x * x / 2 - 1) - std::log(x / 2) * BesselI0(x);
}

double BesselK0e(double x) {
  if (x > 2) return Chebyshev(kK0Large, 4 / x - 1) / std::sqrt(x);
  return BesselK0(x) * std::exp(x);
}

double BesselK1(double x) {
  if (x == 0) return kInf;
  if (!(x > 0)) return kNan;
  if (x > 2) return Chebyshev(kK1Large, 4 / x - 1) * Decay(x);
  return Chebyshev(kK1Small, x * x / 2 - 1) / x + std::log(x / 2) * BesselI1(x);
}

double BesselK1e(double x) {
  if (x > 2) return Chebyshev(kK1Large, 4 / x - 1) / std::sqrt(x);
  return BesselK1(x) * std::exp(x);
}

double BesselJ0(double x) { return std::isinf(x) ? kNan : ::j0(x); }
double BesselJ1(double x) { return std::isinf(x) ? kNan : ::j1(x); }

double BesselY0(double x) {
  if (x == 0) return -kInf;
  return x > 0 && x < kInf ? ::y0(x) : kNan;
}

double BesselY1(double x) {
  if (x == 0) return -kInf;
  return x > 0 && x < kInf ? ::y1(x) : kNan;
}

double SphericalJ0(double x) {
  if (std::isinf(x)) return 0;
  if (std::fabs(x) < 1e-4) return 1 - x * x / 6;
  return std::sin(x) / x;
}

double AiryAi(double x) {
  if (!std::isfinite(x)) return kNan;
  if (x > -4 && x < 1) return AirySeries(x);
  const double magnitude = std::fabs(x);
  const double power = magnitude * std::sqrt(magnitude);
  const double phase = power * 2 / 3;
  const double scale = std::sqrt(std::sqrt(magnitude));
  if (x >= 1) {
    return Chebyshev(kAiryDecay, 2 / power - 1) * std::exp(-phase) / scale;
  }
  const double t = 128 / (power * power) - 1;
  const double angle = phase + std::numbers::pi / 4;
  return (std::sin(angle) * Chebyshev(kAirySine, t) -
          std::cos(angle) * Chebyshev(kAiryCosine, t) / power) /
         scale;
}

}  // namespace tvarant::host::special

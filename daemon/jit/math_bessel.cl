// Bessel and Airy functions: bessel.cc of daemon/kernels/host/special in OpenCL
// C. The tables stand in front.

// sum c[k] T_k(t), by Clenshaw's recurrence.
#define Chebyshev(c, t) ChebyshevSum(c, sizeof(c) / sizeof((c)[0]), t)
static double ChebyshevSum(__constant double* c, int n, double t) {
  double b1 = 0, b2 = 0;
  for (int k = n - 1; k > 0; --k) {
    const double b0 = 2 * t * b1 - b2 + c[k];
    b2 = b1;
    b1 = b0;
  }
  return t * b1 - b2 + c[0];
}

// Factors that K0 and K1 have in common.
static double Decay(double x) { return exp(-x) / sqrt(x); }

// Ai for small arguments: its power series, two independent solutions of
// y'' = x y.
static double AirySeries(double x) {
#define kValue 0.355028053887817239
#define kSlope 0.258819403792806798
  const double cube = x * x * x;
  double f = 1, g = x, term_f = 1, term_g = x;
  for (int k = 1; k < 60; ++k) {
    term_f *= cube / ((3 * k - 1) * (3 * k));
    term_g *= cube / ((3 * k) * (3 * k + 1));
    f += term_f;
    g += term_g;
    if (fabs(term_f) + fabs(term_g) < 1e-18) break;
  }
  return kValue * f - kSlope * g;
}

static double BesselI0e(double x) {
  x = fabs(x);
  if (x <= 8) return Chebyshev(kI0Small, x / 4 - 1);
  return Chebyshev(kI0Large, 16 / x - 1) / sqrt(x);
}

static double BesselI1e(double x) {
  const double magnitude = fabs(x);
  if (magnitude <= 8) return Chebyshev(kI1Small, magnitude / 4 - 1) * x;
  const double y = Chebyshev(kI1Large, 16 / magnitude - 1);
  return copysign(y / sqrt(magnitude), x);
}

static double BesselI0(double x) { return exp(fabs(x)) * BesselI0e(x); }
static double BesselI1(double x) { return exp(fabs(x)) * BesselI1e(x); }

static double BesselK0(double x) {
  if (x == 0) return INFINITY;
  if (!(x > 0)) return NAN;
  if (x > 2) return Chebyshev(kK0Large, 4 / x - 1) * Decay(x);
  return Chebyshev(kK0Small, x * x / 2 - 1) - log(x / 2) * BesselI0(x);
}

static double BesselK0e(double x) {
  if (x > 2) return Chebyshev(kK0Large, 4 / x - 1) / sqrt(x);
  return BesselK0(x) * exp(x);
}

static double BesselK1(double x) {
  if (x == 0) return INFINITY;
  if (!(x > 0)) return NAN;
  if (x > 2) return Chebyshev(kK1Large, 4 / x - 1) * Decay(x);
  return Chebyshev(kK1Small, x * x / 2 - 1) / x + log(x / 2) * BesselI1(x);
}

static double BesselK1e(double x) {
  if (x > 2) return Chebyshev(kK1Large, 4 / x - 1) / sqrt(x);
  return BesselK1(x) * exp(x);
}

static double SphericalJ0(double x) {
  if (isinf(x)) return 0;
  if (fabs(x) < 1e-4) return 1 - x * x / 6;
  return sin(x) / x;
}

static double AiryAi(double x) {
  if (!isfinite(x)) return NAN;
  if (x > -4 && x < 1) return AirySeries(x);
  const double magnitude = fabs(x);
  const double power = magnitude * sqrt(magnitude);
  const double phase = power * 2 / 3;
  const double scale = sqrt(sqrt(magnitude));
  if (x >= 1) {
    return Chebyshev(kAiryDecay, 2 / power - 1) * exp(-phase) / scale;
  }
  const double t = 128 / (power * power) - 1;
  const double angle = phase + M_PI / 4;
  return (sin(angle) * Chebyshev(kAirySine, t) -
          cos(angle) * Chebyshev(kAiryCosine, t) / power) /
         scale;
}

#define TV_SPECIAL_1(name, function)           \
  static inline float fn_##name##_f(float x) { \
    return (float)function((double)x);         \
  }                                            \
  static inline double fn_##name##_d(double x) { return function(x); }
TV_SPECIAL_1(i0, BesselI0)
TV_SPECIAL_1(i0e, BesselI0e)
TV_SPECIAL_1(i1, BesselI1)
TV_SPECIAL_1(i1e, BesselI1e)
TV_SPECIAL_1(k0, BesselK0)
TV_SPECIAL_1(k0e, BesselK0e)
TV_SPECIAL_1(k1, BesselK1)
TV_SPECIAL_1(k1e, BesselK1e)
TV_SPECIAL_1(spherical_j0, SphericalJ0)
TV_SPECIAL_1(airy_ai, AiryAi)
#undef TV_SPECIAL_1

// Inverse error function, scaled erfc, the normal distribution: normal.cc of
// daemon/kernels/host/special in OpenCL C, with the reasons there.

static double Erfcx(double x) {
  if (x < -26.7) return INFINITY;
  if (x < 25) {
    // x^2 = high + low exactly, so that exp keeps its digits.
    const double high = x * x;
    const double low = fma(x, x, -high);
    return exp(high) * (1 + low) * erfc(x);
  }
  if (isnan(x)) return x;
  const double square = 0.5 / (x * x);
  const double series =
      1 - square * (1 - 3 * square * (1 - 5 * square * (1 - 7 * square)));
  return series / (x * sqrt(M_PI));
}

// The z >= 0 whose upper tail is p, for p <= 1/2: a rough rational value
// (Abramowitz and Stegun 26.2.23, 5e-4), then Newton on the tail's logarithm,
// which is nearly straight.
static double UpperTailInverse(double p) {
  const double t = sqrt(-2 * log(p));
  double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                     (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  const double log_p = log(p);
  for (int i = 0; i < 3; ++i) {
    const double scaled = Erfcx(z / M_SQRT2) / 2;
    const double log_tail = log(scaled) - z * z / 2;
    z += (log_tail - log_p) * scaled * sqrt(2 * M_PI);
  }
  return z;
}

static double Erfinv(double x) {
  const double magnitude = fabs(x);
  if (!(magnitude <= 1)) return NAN;
  if (magnitude == 1) return copysign((double)INFINITY, x);
  if (magnitude > 0.5) {
    const double z = UpperTailInverse((1 - magnitude) / 2);
    return copysign(z / M_SQRT2, x);
  }
  // Newton on erf, from its series.
  const double root = sqrt(M_PI) / 2;
  const double s = x * root;
  double y = s * (1 + s * s * (1.0 / 3 + s * s * (7.0 / 30)));
  for (int i = 0; i < 4; ++i) {
    const double error = erf(y) - x;
    y -= error * root * exp(y * y);
  }
  return y;
}

static double Ndtri(double p) {
  if (p == 0) return -INFINITY;
  if (p == 1) return INFINITY;
  if (!(p > 0 && p < 1)) return NAN;
  // 1 - p is exact where it is used.
  return p <= 0.5 ? -UpperTailInverse(p) : UpperTailInverse(1 - p);
}

static double LogNdtr(double x) {
  const double t = x / M_SQRT2;
  if (x < -1) return log(Erfcx(-t) / 2) - t * t;
  return log1p(-erfc(t) / 2);
}

static double FrexpMantissa(double x) {
  int exponent = 0;
  return frexp(x, &exponent);
}

static double FrexpExponent(double x) {
  int exponent = 0;
  frexp(x, &exponent);
  return isfinite(x) ? exponent : 0;
}

#define TV_SPECIAL_1(name, function)           \
  static inline float fn_##name##_f(float x) { \
    return (float)function((double)x);         \
  }                                            \
  static inline double fn_##name##_d(double x) { return function(x); }
TV_SPECIAL_1(erfinv, Erfinv)
TV_SPECIAL_1(erfcx, Erfcx)
TV_SPECIAL_1(ndtri, Ndtri)
TV_SPECIAL_1(log_ndtr, LogNdtr)
TV_SPECIAL_1(frexp_mantissa, FrexpMantissa)
TV_SPECIAL_1(frexp_exponent, FrexpExponent)
#undef TV_SPECIAL_1

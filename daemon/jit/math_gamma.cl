// Digamma, Hurwitz zeta, incomplete gamma functions: gamma.cc of
// daemon/kernels/host/special in OpenCL C, with the reasons there.

// Bernoulli numbers B(2j), j = 1, 2, ...
__constant double kBernoulli[] = {1.0 / 6,         -1.0 / 30,     1.0 / 42,
                                  -1.0 / 30,       5.0 / 66,      -691.0 / 2730,
                                  7.0 / 6,         -3617.0 / 510, 43867.0 / 798,
                                  -174611.0 / 330, 854513.0 / 138};

// zeta(s, q) for s > 1, q > 0, by Euler and Maclaurin.
static double ZetaOfPositive(double s, double q) {
  if (q == INFINITY) return NAN;
  double sum = 0;
  // Far enough for the series of derivatives to converge.
  int steps = 0;
  for (; steps < 10 || q < 10; ++steps, ++q) {
    const double term = pow(q, -s);
    sum += term;
    if (term < sum * DBL_EPSILON * 1e-3) return sum;
  }
  const double last = pow(q, -s);
  sum += last * q / (s - 1) + last / 2;
  // s (s + 1) ... (s + 2j - 2) / (2j)! q^(-s - 2j + 1)
  double factor = s * last / q / 2;
  for (int j = 1; j <= 11; ++j) {
    const double term = kBernoulli[j - 1] * factor;
    sum += term;
    if (fabs(term) < fabs(sum) * DBL_EPSILON) break;
    factor *=
        (s + 2 * j - 1) * (s + 2 * j) / (q * q * (2.0 * j + 1) * (2.0 * j + 2));
  }
  return sum;
}

// x - 1 - log(x), without cancellation near 1.
static double LogExcess(double x) {
  const double d = x - 1;
  if (fabs(d) > 0.4) return d - log(x);
  // log(x) = 2 atanh(r), r = d / (2 + d); and d - 2 r = r d.
  const double r = d / (2 + d);
  const double square = r * r;
  double series = 0;
  for (int k = 27; k >= 3; k -= 2) series = (series + 1.0 / k) * square;
  return r * d - 2 * r * series;
}

// log(gamma(a + 1)) - log(sqrt(2 pi a) a^a e^-a), Stirling's error.
static double StirlingError(double a) {
  if (a < 16) {
    return lgamma(a + 1) - (a + 0.5) * log(a) + a - 0.5 * log(2 * M_PI);
  }
  double sum = 0, power = a;
  for (int j = 1; j <= 8; ++j) {
    sum += kBernoulli[j - 1] / (2.0 * j * (2.0 * j - 1) * power);
    power *= a * a;
  }
  return sum;
}

// x^a e^-x / gamma(a + 1)
static double Weight(double a, double x) {
  if (a < 1) return exp(a * log(x) - x - lgamma(a + 1));
  return exp(-a * LogExcess(x / a) - StirlingError(a)) / sqrt(2 * M_PI * a);
}

#define kMaxTerms 20000
#define kUniformFrom 1e5

// sum of x^k / ((a + 1) ... (a + k)), times the weight: the lower function.
static double LowerSeries(double a, double x) {
  double sum = 1, term = 1;
  for (int k = 1; k < kMaxTerms; ++k) {
    term *= x / (a + k);
    sum += term;
    if (term < sum * DBL_EPSILON) break;
  }
  return sum * Weight(a, x);
}

// Continued fraction of the upper function, by Lentz.
static double UpperFraction(double a, double x) {
#define kTiny 1e-300
  double b = x + 1 - a;
  double c = 1 / kTiny;
  double d = 1 / b;
  double h = d;
  for (int k = 1; k < kMaxTerms; ++k) {
    const double factor = -k * (k - a);
    b += 2;
    d = factor * d + b;
    if (fabs(d) < kTiny) d = kTiny;
    c = b + factor / c;
    if (fabs(c) < kTiny) c = kTiny;
    d = 1 / d;
    const double step = d * c;
    h *= step;
    if (fabs(step - 1) < DBL_EPSILON) break;
  }
  return h * Weight(a, x) * a;
}

// 1 - P(a, x) for x < 1, small a: -expm1 of x^a / gamma(a + 1), and the
// series' rest, without cancellation.
static double UpperSeries(double a, double x) {
  double sum = 0, term = 1;
  for (int k = 1; k < kMaxTerms; ++k) {
    term *= -x / k;
    const double part = term / (a + k);
    sum += part;
    if (fabs(part) <= fabs(sum) * DBL_EPSILON) break;
  }
  const double log_power = a * log(x) - lgamma(1 + a);
  return -expm1(log_power) - a * sum * exp(log_power);
}

// Both functions for large a (Temme's uniform expansion, first terms).
static double UniformLower(double a, double x, int upper) {
  const double ratio = x / a;
  const double excess = LogExcess(ratio);
  const double eta = copysign(sqrt(2 * excess), ratio - 1);
  const double c0 =
      fabs(eta) < 0.2
          ? -1.0 / 3 + eta * (1.0 / 12 + eta * (-2.0 / 135 + eta / 864.0))
          : 1 / (ratio - 1) - 1 / eta;
  const double rest =
      exp(-a * excess) / sqrt(2 * M_PI * a) * (c0 - 1.0 / 540 / a);
  const double tail = 0.5 * erfc((upper ? eta : -eta) * sqrt(a / 2));
  return upper ? tail + rest : tail - rest;
}

static double Incomplete(double a, double x, int upper) {
  if (a > kUniformFrom) return UniformLower(a, x, upper);
  if (upper && x < 1.1 && a < 0.9) return UpperSeries(a, x);
  if (x <= 1 || x <= a) {
    const double lower = LowerSeries(a, x);
    return upper ? 1 - lower : lower;
  }
  const double tail = UpperFraction(a, x);
  return upper ? tail : 1 - tail;
}

static double Digamma(double x) {
  if (x == 0) return copysign((double)INFINITY, -x);
  double result = 0;
  if (x < 0) {
    const double whole = trunc(x);
    if (x == whole) return NAN;
    result = -M_PI / tan(M_PI * (x - whole));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  // log(x) - 1 / 2x - sum B(2j) / (2j x^2j)
  const double inverse = 1 / (x * x);
  double series = 0;
  for (int j = 7; j >= 1; --j) {
    series = (series + kBernoulli[j - 1] / (2 * j)) * inverse;
  }
  return result + log(x) - 0.5 / x - series;
}

static double Zeta(double s, double q) {
  if (s == 1) return INFINITY;
  if (!(s > 1)) return NAN;
  if (q > 0) return ZetaOfPositive(s, q);
  if (q == floor(q)) return INFINITY;
  if (!(s == floor(s))) return NAN;
  if (s == INFINITY || isnan(q)) return NAN;
  // The terms below 0 are those of two positive arguments, mirrored.
  const double whole = floor(q);
  const double part = q - whole;
  const double sign = fmod(s, 2) == 0 ? 1 : -1;
  return ZetaOfPositive(s, part) +
         sign * (ZetaOfPositive(s, 1 - part) - ZetaOfPositive(s, 1 - q));
}

static double Igamma(double a, double x) {
  if (!(a >= 0) || !(x >= 0)) return NAN;
  if (a == 0) return x > 0 ? 1 : NAN;
  if (x == 0) return 0;
  if (a == INFINITY) return x == INFINITY ? NAN : 0;
  if (x == INFINITY) return 1;
  return Incomplete(a, x, /*upper=*/0);
}

static double Igammac(double a, double x) {
  if (!(a >= 0) || !(x >= 0)) return NAN;
  if (a == 0) return x > 0 ? 0 : NAN;
  if (x == 0) return 1;
  if (a == INFINITY) return x == INFINITY ? NAN : 1;
  if (x == INFINITY) return 0;
  return Incomplete(a, x, /*upper=*/1);
}

#define TV_SPECIAL_1(name, function)           \
  static inline float fn_##name##_f(float x) { \
    return (float)function((double)x);         \
  }                                            \
  static inline double fn_##name##_d(double x) { return function(x); }
#define TV_SPECIAL_2(name, function)                       \
  static inline float fn_##name##_f(float x, float y) {    \
    return (float)function((double)x, (double)y);          \
  }                                                        \
  static inline double fn_##name##_d(double x, double y) { \
    return function(x, y);                                 \
  }
TV_SPECIAL_1(digamma, Digamma)
TV_SPECIAL_2(zeta, Zeta)
TV_SPECIAL_2(igamma, Igamma)
TV_SPECIAL_2(igammac, Igammac)
#undef TV_SPECIAL_1
#undef TV_SPECIAL_2

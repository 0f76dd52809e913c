// Orthogonal polynomials for REAL float or double; FN(name) is the name of a
// function for it. polynomials.cc of daemon/kernels/host/special in OpenCL C,
// with the reasons there.

#define MAX_STEPS (1 << 16)
#define MAX_DEGREE (1 << 20)

// -1: the polynomial is 0.
static inline long FN(degree_of)(REAL n) {
  return !(n > -1) || n >= (REAL)9e18 ? -1 : (long)n;
}

// p(k + 1) of p = p(k) and q = p(k - 1), from p(0) = 1 and p(1) = first.
#define RECUR(first, next)                      \
  REAL q = 1, p = first;                        \
  if (degree == 0) return 1;                    \
  for (long i = 1; i < degree && p == p; ++i) { \
    const REAL k = (REAL)i;                     \
    const REAL step = next;                     \
    q = p;                                      \
    p = step;                                   \
  }                                             \
  return p

static REAL FN(chebyshev_recur)(long degree, REAL x, REAL first) {
  RECUR(first, (x + x) * p - q);
}

// cos(m t) and sin(m t) with x = cos t, or their hyperbolic twins.
static REAL FN(wave_of)(int is_cos, REAL m, REAL x) {
  if (x < 1) {
    const REAL t = acos(x);
    return is_cos ? cos(m * t) : sin(m * t);
  }
  const REAL t = acosh(x);
  return is_cos ? cosh(m * t) : sinh(m * t);
}

static inline int FN(is_odd)(long n, REAL x) { return x < 0 && n % 2 != 0; }

// The four kinds (0 to 3) for a high degree. V and W change places under
// x -> -x.
static REAL FN(chebyshev_by_angle)(int kind, long n, REAL x) {
  const REAL magnitude = fabs(x);
  const REAL sign = FN(is_odd)(n, x) ? -1 : 1;
  if (x < 0 && kind >= 2) kind = 5 - kind;
  const REAL degree = (REAL)n, half_one = (REAL)0.5;
  const int is_one = magnitude == 1;
  if (kind == 0) return sign * FN(wave_of)(1, degree, magnitude);
  if (kind == 1) {
    if (is_one) return sign * (degree + 1);
    return sign * FN(wave_of)(0, degree + 1, magnitude) /
           FN(wave_of)(0, 1, magnitude);
  }
  if (kind == 2) {
    return sign * FN(wave_of)(1, degree + half_one, magnitude) /
           FN(wave_of)(1, half_one, magnitude);
  }
  if (is_one) return sign * (degree + degree + 1);
  return sign * FN(wave_of)(0, degree + half_one, magnitude) /
         FN(wave_of)(0, half_one, magnitude);
}

static REAL FN(chebyshev)(int kind, REAL x, REAL n, REAL first) {
  const long degree = FN(degree_of)(n);
  if (degree < 0) return 0;
  const int inside = fabs(x) <= 1;
  if ((inside && degree > 8) || (degree > MAX_STEPS && x == x)) {
    return FN(chebyshev_by_angle)(kind, degree, x);
  }
  return FN(chebyshev_recur)(degree, x, first);
}
static REAL FN(fn_chebyshev_t)(REAL x, REAL n) {
  return FN(chebyshev)(0, x, n, x);
}
static REAL FN(fn_chebyshev_u)(REAL x, REAL n) {
  return FN(chebyshev)(1, x, n, x + x);
}
static REAL FN(fn_chebyshev_v)(REAL x, REAL n) {
  return FN(chebyshev)(2, x, n, x + x - 1);
}
static REAL FN(fn_chebyshev_w)(REAL x, REAL n) {
  return FN(chebyshev)(3, x, n, x + x + 1);
}

// Where the recurrence has lost itself.
#define HERMITE_LIMIT (sizeof(REAL) == 4 ? 128 : 512)

static REAL FN(fn_hermite_h)(REAL x, REAL n) {
  const long degree = FN(degree_of)(n);
  if (degree < 0) return 0;
  if (degree > HERMITE_LIMIT) return (REAL)NAN;
  RECUR(x + x, (x + x) * p - (k + k) * q);
}
static REAL FN(fn_hermite_he)(REAL x, REAL n) {
  const long degree = FN(degree_of)(n);
  if (degree < 0) return 0;
  if (degree > HERMITE_LIMIT) return (REAL)NAN;
  RECUR(x, x * p - k * q);
}
static REAL FN(fn_laguerre)(REAL x, REAL n) {
  const long degree = FN(degree_of)(n);
  if (degree < 0) return 0;
  if (x == 0) return 1;
  if (degree > MAX_DEGREE) return (REAL)NAN;
  RECUR(1 - x, ((k + k + (1 - x)) * p - k * q) / (k + 1));
}
static REAL FN(fn_legendre)(REAL x, REAL n) {
  const long degree = FN(degree_of)(n);
  if (degree < 0) return 0;
  if (fabs(x) == 1) return FN(is_odd)(degree, x) ? -1 : 1;
  if (degree > MAX_DEGREE) return (REAL)NAN;
  RECUR(x, ((k + k + 1) * x * p - k * q) / (k + 1));
}
#undef RECUR

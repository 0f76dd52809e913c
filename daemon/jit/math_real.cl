// For REAL float or double; FN(name) is the name of a function for it.

#define TV_BUILTIN_1(name, builtin) \
  static inline REAL FN(fn_##name)(REAL x) { return builtin(x); }
#define TV_BUILTIN_2(name, builtin) \
  static inline REAL FN(fn_##name)(REAL x, REAL y) { return builtin(x, y); }
TV_BUILTIN_1(exp, exp)
TV_BUILTIN_1(exp2, exp2)
TV_BUILTIN_1(expm1, expm1)
TV_BUILTIN_1(log, log)
TV_BUILTIN_1(log2, log2)
TV_BUILTIN_1(log10, log10)
TV_BUILTIN_1(log1p, log1p)
TV_BUILTIN_1(sqrt, sqrt)
TV_BUILTIN_1(sin, sin)
TV_BUILTIN_1(cos, cos)
TV_BUILTIN_1(tan, tan)
TV_BUILTIN_1(asin, asin)
TV_BUILTIN_1(acos, acos)
TV_BUILTIN_1(atan, atan)
TV_BUILTIN_1(sinh, sinh)
TV_BUILTIN_1(cosh, cosh)
TV_BUILTIN_1(asinh, asinh)
TV_BUILTIN_1(acosh, acosh)
TV_BUILTIN_1(atanh, atanh)
TV_BUILTIN_1(erf, erf)
TV_BUILTIN_1(erfc, erfc)
TV_BUILTIN_1(floor, floor)
TV_BUILTIN_1(ceil, ceil)
TV_BUILTIN_1(round, rint)
TV_BUILTIN_1(trunc, trunc)
TV_BUILTIN_1(lgamma, lgamma)
TV_BUILTIN_1(abs, fabs)
TV_BUILTIN_2(atan2, atan2)
TV_BUILTIN_2(hypot, hypot)
TV_BUILTIN_2(copysign, copysign)
TV_BUILTIN_2(fmod, fmod)
TV_BUILTIN_2(pow, pow)
TV_BUILTIN_2(nextafter, nextafter)
#undef TV_BUILTIN_1
#undef TV_BUILTIN_2

// Exactly 1 where it rounds to that: not every library's is.
static inline REAL FN(fn_tanh)(REAL x) {
  const REAL limit = sizeof(REAL) == 4 ? (REAL)9.02 : (REAL)19.1;
  return fabs(x) > limit ? copysign((REAL)1, x) : tanh(x);
}

static inline int FN(fn_signbit)(REAL x) { return signbit(x) != 0; }

// NaN wins.
static inline REAL FN(fn_max)(REAL a, REAL b) {
  return (a > b) | (a != a) ? a : b;
}
static inline REAL FN(fn_min)(REAL a, REAL b) {
  return (a < b) | (a != a) ? a : b;
}

static inline REAL FN(fn_div_trunc)(REAL a, REAL b) { return trunc(a / b); }
// Python's floor division: exact where a / b would round up to the next
// integer.
static inline REAL FN(fn_div_floor)(REAL a, REAL b) {
  const REAL mod = fmod(a, b);
  REAL div = (a - mod) / b;
  div = (mod != 0) & ((b < 0) != (mod < 0)) ? div - 1 : div;
  const REAL down = floor(div);
  const REAL floored = div - down > (REAL)0.5 ? down + 1 : down;
  const REAL result = div != 0 ? floored : copysign((REAL)0, a / b);
  return b == 0 ? a / b : result;
}
static inline REAL FN(fn_remainder)(REAL a, REAL b) {
  const REAL mod = fmod(a, b);
  return (mod != 0) & ((b < 0) != (mod < 0)) ? mod + b : mod;
}

static inline REAL FN(fn_logaddexp)(REAL a, REAL b) {
  const REAL sum = FN(fn_max)(a, b) + log1p(exp(-fabs(a - b)));
  return (fabs(a) == (REAL)INFINITY) & (a == b) ? a : b != b ? b : sum;
}

static inline REAL FN(fn_silu_grad)(REAL grad, REAL x) {
  const REAL sigmoid = 1 / (1 + exp(-x));
  return grad * sigmoid * (1 + x * (1 - sigmoid));
}
// With u = beta (x + kappa x^3): (1 + tanh u) / 2 + x (1 - tanh^2 u) u' / 2.
static inline REAL FN(fn_gelu_tanh_grad)(REAL grad, REAL x) {
  const REAL beta = (REAL)0.79788456080286535588;
  const REAL kappa = (REAL)0.044715;
  const REAL square = x * x;
  const REAL t = FN(fn_tanh)(beta * (x + kappa * square * x));
  const REAL slope = beta * (1 + 3 * kappa * square);
  return grad * ((REAL)0.5 * (1 + t) + (REAL)0.5 * x * (1 - t * t) * slope);
}

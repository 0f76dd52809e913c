// For INTEGER int or long. Arithmetic wraps: it is done in UNSIGNED where it
// may overflow.

static inline INTEGER FN(fn_abs)(INTEGER x) {
  return x < 0 ? (INTEGER) - (UNSIGNED)x : x;
}
static inline int FN(fn_signbit)(INTEGER x) { return x < 0; }
static inline INTEGER FN(fn_max)(INTEGER a, INTEGER b) { return a > b ? a : b; }
static inline INTEGER FN(fn_min)(INTEGER a, INTEGER b) { return a < b ? a : b; }

// 0 for a divisor of 0, wrapping for -1.
static inline INTEGER FN(fn_div_trunc)(INTEGER a, INTEGER b) {
  const INTEGER safe = (b == 0) | (b == -1) ? 1 : b;
  return b == -1 ? (INTEGER) - (UNSIGNED)a : b == 0 ? 0 : a / safe;
}
static inline INTEGER FN(fn_fmod)(INTEGER a, INTEGER b) {
  const INTEGER safe = (b == 0) | (b == -1) ? 1 : b;
  return (b == 0) | (b == -1) ? 0 : a % safe;
}
static inline int FN(rounds_down)(INTEGER r, INTEGER b) {
  return (r != 0) & ((r < 0) != (b < 0));
}
static inline INTEGER FN(fn_div_floor)(INTEGER a, INTEGER b) {
  return FN(fn_div_trunc)(a, b) - FN(rounds_down)(FN(fn_fmod)(a, b), b);
}
static inline INTEGER FN(fn_remainder)(INTEGER a, INTEGER b) {
  const INTEGER r = FN(fn_fmod)(a, b);
  return r + (FN(rounds_down)(r, b) ? b : 0);
}

// A negative exponent gives 0, but for bases 1 and -1.
static inline INTEGER FN(fn_pow)(INTEGER a, INTEGER b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0;
  UNSIGNED result = 1, factor = (UNSIGNED)a;
  for (INTEGER bits = b; bits > 0; bits >>= 1) {
    if (bits & 1) result *= factor;
    factor *= factor;
  }
  return (INTEGER)result;
}

// A count out of range shifts everything out.
static inline INTEGER FN(fn_shift_left)(INTEGER a, INTEGER b) {
  return (b >= 0) & (b < INTEGER_BITS)
             ? (INTEGER)((UNSIGNED)a << (b & (INTEGER_BITS - 1)))
             : 0;
}
static inline INTEGER FN(fn_shift_right)(INTEGER a, INTEGER b) {
  return a >> ((b >= 0) & (b < INTEGER_BITS) ? b : INTEGER_BITS - 1);
}

static inline INTEGER FN(fn_gcd)(INTEGER a, INTEGER b) {
  UNSIGNED x = (UNSIGNED)FN(fn_abs)(a), y = (UNSIGNED)FN(fn_abs)(b);
  while (y != 0) {
    const UNSIGNED rest = x % y;
    x = y;
    y = rest;
  }
  return (INTEGER)x;
}
static inline INTEGER FN(fn_lcm)(INTEGER a, INTEGER b) {
  const INTEGER divisor = FN(fn_gcd)(a, b);
  if (divisor == 0) return 0;
  return FN(fn_abs)((INTEGER)((UNSIGNED)(a / divisor) * (UNSIGNED)b));
}

// The words that the expressions of proto/ops/pointwise_ops.inc are written in.
// fn_name there is fn_name_f for float, _d for double, _i for int, _l for long.

#define sel(condition, x, y) ((condition) ? (x) : (y))
#define T_f(x) ((float)(x))
#define T_d(x) ((double)(x))
#define T_i(x) ((int)(x))
#define T_l(x) ((long)(x))

// The lowest integer where a float does not fit, as x86 gives.
static inline int float_to_i(float x) {
  return x >= -2147483648.0f && x < 2147483648.0f ? (int)x : INT_MIN;
}
static inline long float_to_l(float x) {
  return x >= -9223372036854775808.0f && x < 9223372036854775808.0f ? (long)x
                                                                    : LONG_MIN;
}
static inline float round_f16(float x) { return unpack_f16(pack_f16(x)); }
static inline float round_bf16(float x) { return unpack_bf16(pack_bf16(x)); }

#define REAL float
#define FN(name) name##_f
#include_real
#undef REAL
#undef FN
#ifdef TV_DOUBLE
static inline int double_to_i(double x) {
  return x >= -2147483648.0 && x < 2147483648.0 ? (int)x : INT_MIN;
}
static inline long double_to_l(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (long)x
                                                                  : LONG_MIN;
}
#define REAL double
#define FN(name) name##_d
#include_real
#undef REAL
#undef FN
#endif

#define INTEGER int
#define INTEGER_MIN INT_MIN
#define INTEGER_BITS 32
#define UNSIGNED uint
#define FN(name) name##_i
#include_integer
#undef INTEGER
#undef INTEGER_MIN
#undef INTEGER_BITS
#undef UNSIGNED
#undef FN
#define INTEGER long
#define INTEGER_MIN LONG_MIN
#define INTEGER_BITS 64
#define UNSIGNED ulong
#define FN(name) name##_l
#include_integer
#undef INTEGER
#undef INTEGER_MIN
#undef INTEGER_BITS
#undef UNSIGNED
#undef FN

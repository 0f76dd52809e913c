// The words that the expressions of pointwise_ops.inc are written in: sel and
// fn_*, for float, double, int32_t and int64_t.
//
// Everything is inlined and free of branches, so that loops over it vectorise.
// Sources are compiled with -fwrapv: integer arithmetic wraps.
//
// Textual: include under TVARANT_ISA, inside no namespace.

#ifndef TVARANT_DAEMON_KERNELS_HOST_POINTWISE_ELEMENT_MATH_H_
#define TVARANT_DAEMON_KERNELS_HOST_POINTWISE_ELEMENT_MATH_H_

#include <cstdint>

#include "daemon/kernels/host/pointwise/vector_math.h"
#include "daemon/kernels/host/special/special_math.h"

namespace tvarant::host::TVARANT_ISA {

#define TVARANT_ELEMENT [[gnu::always_inline]] inline

// A register may be written in place, element by element: no iteration
// depends on another.
#if defined(__clang__)
#define TVARANT_LOOP
#else
#define TVARANT_LOOP _Pragma("GCC ivdep")
#endif

#undef INFINITY
#define INFINITY __builtin_inff()

template <typename T>
TVARANT_ELEMENT T sel(bool condition, T x, T y) {
  return condition ? x : y;
}

#define TVARANT_SLEEF_1(name, prefix)             \
  TVARANT_ELEMENT float prefix##name(float x) {   \
    return TVARANT_MATH(name##f)(x);              \
  }                                               \
  TVARANT_ELEMENT double prefix##name(double x) { \
    return TVARANT_MATH(name)(x);                 \
  }
#define TVARANT_SLEEF_2(name, prefix)                       \
  TVARANT_ELEMENT float prefix##name(float x, float y) {    \
    return TVARANT_MATH(name##f)(x, y);                     \
  }                                                         \
  TVARANT_ELEMENT double prefix##name(double x, double y) { \
    return TVARANT_MATH(name)(x, y);                        \
  }
#define TVARANT_SLEEF_FUNCTION(name, arity, accuracy, prefix) \
  TVARANT_SLEEF_##arity(name, prefix)
#include "daemon/kernels/host/pointwise/sleef_functions.inc"
#undef TVARANT_SLEEF_1
#undef TVARANT_SLEEF_2

// SLEEF's fmod wants a quotient below 1e300. That of two floats is, in double.
// Larger ones of doubles go down in steps, as a mod b = (a mod 2^k b) mod b.
// A finite number modulo an infinite one is itself.
template <typename T>
TVARANT_ELEMENT T ModuloInfinity(T a, T b, T result) {
  const bool is_itself = (b == b) & (b - b != T(0)) & (a - a == T(0));
  return sel(is_itself, a, result);
}
TVARANT_ELEMENT float fn_fmod(float a, float b) {
  return ModuloInfinity(a, b,
                        static_cast<float>(raw_fmod(static_cast<double>(a),
                                                    static_cast<double>(b))));
}
TVARANT_ELEMENT double ScaledIfFar(double a, double b) {
  return sel(__builtin_fabs(a / b) > 1e290, b * 0x1p600, b);
}
TVARANT_ELEMENT double fn_fmod(double a, double b) {
  const double near = ScaledIfFar(a, b);
  const double far = ScaledIfFar(a, near);
  return ModuloInfinity(a, b, raw_fmod(raw_fmod(raw_fmod(a, far), near), b));
}

// Instructions of the machine, or nearly so.
#define TVARANT_BUILTIN_1(name, builtin)     \
  TVARANT_ELEMENT float fn_##name(float x) { \
    return __builtin_##builtin##f(x);        \
  }                                          \
  TVARANT_ELEMENT double fn_##name(double x) { return __builtin_##builtin(x); }
TVARANT_BUILTIN_1(sqrt, sqrt)
TVARANT_BUILTIN_1(floor, floor)
TVARANT_BUILTIN_1(ceil, ceil)
TVARANT_BUILTIN_1(trunc, trunc)
TVARANT_BUILTIN_1(round, rint)  // the default mode: halves to even
#undef TVARANT_BUILTIN_1
TVARANT_ELEMENT float fn_copysign(float x, float y) {
  return __builtin_copysignf(x, y);
}
TVARANT_ELEMENT double fn_copysign(double x, double y) {
  return __builtin_copysign(x, y);
}

TVARANT_ELEMENT float fn_abs(float x) { return __builtin_fabsf(x); }
TVARANT_ELEMENT double fn_abs(double x) { return __builtin_fabs(x); }
TVARANT_ELEMENT int32_t fn_abs(int32_t x) { return x < 0 ? -x : x; }
TVARANT_ELEMENT int64_t fn_abs(int64_t x) { return x < 0 ? -x : x; }

// As sel, by masks. GCC turns chains of conditions that share operands into
// jumps, and then can't vectorise them; these stay arithmetic.
TVARANT_ELEMENT int32_t Blend(bool condition, int32_t x, int32_t y) {
  const int32_t mask = -static_cast<int32_t>(condition);
  return (x & mask) | (y & ~mask);
}
TVARANT_ELEMENT int64_t Blend(bool condition, int64_t x, int64_t y) {
  const int64_t mask = -static_cast<int64_t>(condition);
  return (x & mask) | (y & ~mask);
}
TVARANT_ELEMENT float Blend(bool condition, float x, float y) {
  return __builtin_bit_cast(float,
                            Blend(condition, __builtin_bit_cast(int32_t, x),
                                  __builtin_bit_cast(int32_t, y)));
}
TVARANT_ELEMENT double Blend(bool condition, double x, double y) {
  return __builtin_bit_cast(double,
                            Blend(condition, __builtin_bit_cast(int64_t, x),
                                  __builtin_bit_cast(int64_t, y)));
}

// NaN wins.
template <typename T>
TVARANT_ELEMENT T fn_max(T a, T b) {
  return Blend((a > b) | (a != a), a, b);
}
template <typename T>
TVARANT_ELEMENT T fn_min(T a, T b) {
  return Blend((a < b) | (a != a), a, b);
}

// Floats by our own short forms, doubles by SLEEF.
#include "daemon/kernels/host/pointwise/fast_math.h"
TVARANT_ELEMENT float fn_exp(float x) { return FastExp(x); }
TVARANT_ELEMENT float fn_tanh(float x) { return FastTanh(x); }
TVARANT_ELEMENT float fn_erf(float x) { return FastErf(x); }
TVARANT_ELEMENT float fn_log(float x) { return FastLog(x); }
TVARANT_ELEMENT double fn_exp(double x) { return raw_exp(x); }
TVARANT_ELEMENT double fn_log(double x) { return raw_log(x); }
TVARANT_ELEMENT double fn_tanh(double x) { return raw_tanh(x); }
TVARANT_ELEMENT double fn_erf(double x) { return raw_erf(x); }

// SLEEF's forms overflow in their squares long before the result does. From
// 1e17 on the 1 is lost in the sum anyway.
TVARANT_ELEMENT float fn_log1p(float x) { return FastLog1p(x); }
TVARANT_ELEMENT double fn_log1p(double x) {
  return sel(x > 1e17, fn_log(x), raw_log1p(x));
}
template <typename T>
TVARANT_ELEMENT T fn_acosh(T x) {
  return sel(x > T(1e17), fn_log(x) + T(0.69314718055994531), raw_acosh(x));
}
template <typename T>
TVARANT_ELEMENT T fn_asinh(T x) {
  const T far = fn_log(fn_abs(x)) + T(0.69314718055994531);
  return sel(fn_abs(x) > T(1e17), fn_copysign(far, x), raw_asinh(x));
}

TVARANT_ELEMENT bool fn_signbit(float x) {
  return __builtin_bit_cast(int32_t, x) < 0;
}
TVARANT_ELEMENT bool fn_signbit(double x) {
  return __builtin_bit_cast(int64_t, x) < 0;
}
TVARANT_ELEMENT bool fn_signbit(int32_t x) { return x < 0; }
TVARANT_ELEMENT bool fn_signbit(int64_t x) { return x < 0; }

// Integer division, with 0 for a divisor of 0 and wrapping for -1. The
// quotient of two 32-bit integers is exact in double, and vectorises there.
TVARANT_ELEMENT int32_t Quotient(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<double>(a) / static_cast<double>(b));
}
TVARANT_ELEMENT int64_t Quotient(int64_t a, int64_t b) { return a / b; }

template <typename T>
TVARANT_ELEMENT T IntDivTrunc(T a, T b) {
  const T q = Quotient(a, sel((b == T(0)) | (b == T(-1)), T(1), b));
  return sel(b == T(-1), -a, sel(b == T(0), T(0), q));
}
template <typename T>
TVARANT_ELEMENT T IntFmod(T a, T b) {
  return sel(b == T(0), T(0), a - IntDivTrunc(a, b) * b);
}
template <typename T>
TVARANT_ELEMENT bool IntRoundsDown(T r, T b) {
  return (r != T(0)) & ((r < T(0)) != (b < T(0)));
}
template <typename T>
TVARANT_ELEMENT T IntDivFloor(T a, T b) {
  return IntDivTrunc(a, b) - T(IntRoundsDown(IntFmod(a, b), b));
}
template <typename T>
TVARANT_ELEMENT T IntRemainder(T a, T b) {
  const T r = IntFmod(a, b);
  return r + sel(IntRoundsDown(r, b), b, T(0));
}
// As PyTorch: a negative exponent gives 0, but for bases 1 and -1.
template <typename T>
TVARANT_ELEMENT T IntPow(T a, T b) {
  T result = T(1);
  T factor = a;
  for (T bits = b; bits > T(0); bits >>= 1) {
    if (bits & T(1)) result *= factor;
    factor *= factor;
  }
  const T parity = (b & T(1)) != T(0) ? T(-1) : T(1);
  const T inverse = a == T(1) ? T(1) : a == T(-1) ? parity : T(0);
  return b < T(0) ? inverse : result;
}
TVARANT_ELEMENT int32_t fn_div_trunc(int32_t a, int32_t b) {
  return IntDivTrunc(a, b);
}
TVARANT_ELEMENT int64_t fn_div_trunc(int64_t a, int64_t b) {
  return IntDivTrunc(a, b);
}
TVARANT_ELEMENT int32_t fn_div_floor(int32_t a, int32_t b) {
  return IntDivFloor(a, b);
}
TVARANT_ELEMENT int64_t fn_div_floor(int64_t a, int64_t b) {
  return IntDivFloor(a, b);
}
TVARANT_ELEMENT int32_t fn_fmod(int32_t a, int32_t b) { return IntFmod(a, b); }
TVARANT_ELEMENT int64_t fn_fmod(int64_t a, int64_t b) { return IntFmod(a, b); }
TVARANT_ELEMENT int32_t fn_remainder(int32_t a, int32_t b) {
  return IntRemainder(a, b);
}
TVARANT_ELEMENT int64_t fn_remainder(int64_t a, int64_t b) {
  return IntRemainder(a, b);
}
TVARANT_ELEMENT int32_t fn_pow(int32_t a, int32_t b) { return IntPow(a, b); }
TVARANT_ELEMENT int64_t fn_pow(int64_t a, int64_t b) { return IntPow(a, b); }

// A shift count out of range shifts everything out.
template <typename T>
TVARANT_ELEMENT bool ShiftFits(T count) {
  return (count >= T(0)) & (count < T(sizeof(T) * 8));
}
template <typename T>
TVARANT_ELEMENT T fn_shift_left(T a, T b) {
  const bool fits = ShiftFits(b);
  return sel(fits, a << sel(fits, b, T(0)), T(0));
}
template <typename T>
TVARANT_ELEMENT T fn_shift_right(T a, T b) {
  return a >> sel(ShiftFits(b), b, T(sizeof(T) * 8 - 1));
}

template <typename T>
TVARANT_ELEMENT T fn_div_trunc(T a, T b) {
  return fn_trunc(a / b);
}
// Python's floor division of floats: exact where a / b would round up to the
// next integer.
template <typename T>
TVARANT_ELEMENT T fn_div_floor(T a, T b) {
  const T mod = fn_fmod(a, b);
  T div = (a - mod) / b;
  div = sel((mod != T(0)) & ((b < T(0)) != (mod < T(0))), div - T(1), div);
  const T down = fn_floor(div);
  const T floored = sel(div - down > T(0.5), down + T(1), down);
  const T nonzero = sel(div != T(0), floored, fn_copysign(T(0), a / b));
  return sel(b == T(0), a / b, nonzero);
}
template <typename T>
TVARANT_ELEMENT T fn_remainder(T a, T b) {
  const T mod = fn_fmod(a, b);
  return sel((mod != T(0)) & ((b < T(0)) != (mod < T(0))), mod + b, mod);
}

template <typename T>
TVARANT_ELEMENT T fn_logaddexp(T a, T b) {
  const T larger = fn_max(a, b);
  const T sum = larger + fn_log1p(fn_exp(-fn_abs(a - b)));
  // Equal infinities have no difference.
  return sel((fn_abs(a) == T(INFINITY)) & (a == b), a, sel(b != b, b, sum));
}

// grad * d/dx (x * sigmoid(x))
template <typename T>
TVARANT_ELEMENT T fn_silu_grad(T grad, T x) {
  const T sigmoid = T(1) / (T(1) + fn_exp(-x));
  return grad * sigmoid * (T(1) + x * (T(1) - sigmoid));
}
// grad * d/dx of GELU by tanh: with u = beta (x + kappa x^3),
// (1 + tanh u) / 2 + x (1 - tanh^2 u) u' / 2.
template <typename T>
TVARANT_ELEMENT T fn_gelu_tanh_grad(T grad, T x) {
  const T beta = T(0.79788456080286535588);
  const T kappa = T(0.044715);
  const T square = x * x;
  const T tanh = fn_tanh(beta * (x + kappa * square * x));
  const T slope = beta * (T(1) + T(3) * kappa * square);
  return grad *
         (T(0.5) * (T(1) + tanh) + T(0.5) * x * (T(1) - tanh * tanh) * slope);
}

#include "daemon/kernels/host/pointwise/special_functions.h"

}  // namespace tvarant::host::TVARANT_ISA

#endif  // TVARANT_DAEMON_KERNELS_HOST_POINTWISE_ELEMENT_MATH_H_

// exp, tanh, erf and logarithms of floats, in a form that loops inline and
// vectorise.
//
// These carry most activations; a call per vector costs as much as the
// arithmetic. Polynomials are minimax fits; errors measured over their ranges:
// exp 1.03, erf 1.2, tanh 1.4, log and log1p 0.9 units in the last place, with
// FMA or without. NaN goes through; results that overflow or vanish are
// infinite or 0, and denormal ones are rounded once.
//
// Textual: include under TVARANT_ISA, inside its namespace, after sel.

#ifndef TVARANT_DAEMON_KERNELS_HOST_POINTWISE_FAST_MATH_H_
#define TVARANT_DAEMON_KERNELS_HOST_POINTWISE_FAST_MATH_H_

// a * b + c, fused where the machine does it at once.
TVARANT_ELEMENT float MulAdd(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// 2^k as a float; -126 <= k <= 127.
TVARANT_ELEMENT float PowerOfTwo(int32_t k) {
  return __builtin_bit_cast(float, (k + 127) << 23);
}

// e^x = 2^n e^r with |r| <= log(2) / 2: gives e^r and n.
struct SplitExp {
  float fraction;
  int32_t n;
};
TVARANT_ELEMENT SplitExp FastSplitExp(float x) {
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  constexpr float kRounder = 12582912.0f;
  const float rounded = MulAdd(x, 1.4426950408889634f, kRounder);
  const float k = rounded - kRounder;
  const int32_t n = __builtin_bit_cast(int32_t, rounded) -
                    __builtin_bit_cast(int32_t, kRounder);
  // log(2) in two parts, the first so short that k times it is exact.
  float r = MulAdd(k, -0.693359375f, x);
  r = MulAdd(k, 2.12194440e-4f, r);
  float p = MulAdd(r, 1.39504869e-3f, 8.36888794e-3f);
  p = MulAdd(p, r, 4.1666206e-2f);
  p = MulAdd(p, r, 1.66665182e-1f);
  p = MulAdd(p, r, 0.5f);
  return {MulAdd(r * r, p, r) + 1.0f, n};
}

TVARANT_ELEMENT float FastExp(float x) {
  // Beyond these the result is 0 or infinite, and n stays small. To come to 0
  // by underflow would take a processor 100 times as long.
  const bool is_gone = x < -104.0f;
  x = Blend(is_gone, 0.0f, x);
  x = sel(x > 89.0f, 89.0f, x);
  const SplitExp split = FastSplitExp(x);
  // In two steps: 2^n alone may be out of range.
  const int32_t half = split.n >> 1;
  return Blend(is_gone, 0.0f,
               split.fraction * PowerOfTwo(half) * PowerOfTwo(split.n - half));
}

// e^x for x where e^x is neither infinite nor denormal: |x| <= 87, or NaN.
TVARANT_ELEMENT float FastExpInside(float x) {
  const SplitExp split = FastSplitExp(x);
  return split.fraction * PowerOfTwo(split.n);
}

// Small: x + x^3 P(x^2). Large: 1 - 2 / (e^2x + 1), which is 1 from 10 on.
TVARANT_ELEMENT float FastTanh(float x) {
  const float magnitude = fn_abs(x);
  const float square = x * x;
  float p = MulAdd(square, -5.71704516e-3f, 2.0650588e-2f);
  p = MulAdd(p, square, -5.37434965e-2f);
  p = MulAdd(p, square, 1.33314908e-1f);
  p = MulAdd(p, square, -3.33332837e-1f);
  const float small = MulAdd(p * square, x, x);
  const float twice = sel(magnitude > 10.0f, 20.0f, magnitude + magnitude);
  const float large = 1.0f - 2.0f / (FastExpInside(twice) + 1.0f);
  return sel(magnitude < 0.625f, small, fn_copysign(large, x));
}

// Small: x + x R(x^2). Large: 1 - e^-(x + x Q(x)), which is 1 from 4 on.
TVARANT_ELEMENT float FastErf(float x) {
  const float magnitude = fn_abs(x);
  const float t = sel(magnitude > 4.0f, 4.0f, magnitude);
  float q = MulAdd(t, 1.12315565e-5f, -3.22806329e-4f);
  q = MulAdd(q, t, 3.64246895e-3f);
  q = MulAdd(q, t, -2.37620845e-2f);
  q = MulAdd(q, t, 1.06236905e-1f);
  q = MulAdd(q, t, 6.35151327e-1f);
  q = MulAdd(q, t, 1.2864849e-1f);
  q = MulAdd(q, t, t);
  const float large = 1.0f - FastExpInside(-q);
  const float square = x * x;
  float r = MulAdd(square, -5.98633313e-4f, 4.99280775e-3f);
  r = MulAdd(r, square, -2.67667882e-2f);
  r = MulAdd(r, square, 1.12818353e-1f);
  r = MulAdd(r, square, -3.76124978e-1f);
  r = MulAdd(r, square, 1.28379151e-1f);
  const float small = MulAdd(r, x, x);
  return sel(magnitude > 0.927734375f, fn_copysign(large, x), small);
}

// log of 2^k m, m from sqrt(1/2) to sqrt(2), plus `rest`, for a positive u.
TVARANT_ELEMENT float FastLogOf(float u, int32_t exponent, float rest) {
  constexpr int32_t kRootHalf = 0x3f3504f3;
  const int32_t bits = __builtin_bit_cast(int32_t, u);
  const int32_t k = (bits - kRootHalf) >> 23;
  const float f = __builtin_bit_cast(float, bits - (k << 23)) - 1.0f;
  const float n = static_cast<float>(k + exponent);
  const float square = f * f;
  float p = MulAdd(f, 0.0733264387f, -0.116599105f);
  p = MulAdd(p, f, 0.116346173f);
  p = MulAdd(p, f, -0.123967014f);
  p = MulAdd(p, f, 0.142511606f);
  p = MulAdd(p, f, -0.166691512f);
  p = MulAdd(p, f, 0.200006872f);
  p = MulAdd(p, f, -0.249999806f);
  p = MulAdd(p, f, 0.333333313f);
  const float y = MulAdd(p * f, square, MulAdd(n, -2.12194440e-4f, rest));
  return MulAdd(n, 0.693359375f, MulAdd(square, -0.5f, y) + f);
}

TVARANT_ELEMENT float FastLog(float x) {
  // Denormal numbers go up 2^24 first.
  const bool is_tiny = x < 1.17549435e-38f;
  const float u = Blend(is_tiny, x * 16777216.0f, x);
  const float y = FastLogOf(u, Blend(is_tiny, -24, 0), 0.0f);
  const float edge = Blend(x == 0.0f, -INFINITY, __builtin_nanf(""));
  return Blend((x > 0.0f) & (x < INFINITY), y, Blend(x == INFINITY, x, edge));
}

// Of u = 1 + x, and what rounding took from u.
TVARANT_ELEMENT float FastLog1p(float x) {
  const float u = 1.0f + x;
  const float lost = (x - (u - 1.0f)) / u;
  // The smallest are themselves; the rest has no logarithm, or an infinite one.
  const float y = Blend(u == 1.0f, x, FastLogOf(u, 0, lost));
  const float edge = Blend(u == 0.0f, -INFINITY, __builtin_nanf(""));
  return Blend((u > 0.0f) & (x < INFINITY), y, Blend(x == INFINITY, x, edge));
}

#endif  // TVARANT_DAEMON_KERNELS_HOST_POINTWISE_FAST_MATH_H_

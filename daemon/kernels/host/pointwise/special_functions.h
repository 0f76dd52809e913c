// The words of element_math.h for special functions: calls into
// special_math.h, which compute in double, and what needs no call.
//
// Textual: include under TVARANT_ISA, inside its namespace, after the rest of
// element_math.h.

#ifndef TVARANT_DAEMON_KERNELS_HOST_POINTWISE_SPECIAL_FUNCTIONS_H_
#define TVARANT_DAEMON_KERNELS_HOST_POINTWISE_SPECIAL_FUNCTIONS_H_

#define TVARANT_SPECIAL_1(name, Function)                             \
  template <typename T>                                               \
  TVARANT_ELEMENT T fn_##name(T x) {                                  \
    return static_cast<T>(special::Function(static_cast<double>(x))); \
  }
#define TVARANT_SPECIAL_2(name, Function)                                   \
  template <typename T>                                                     \
  TVARANT_ELEMENT T fn_##name(T x, T y) {                                   \
    return static_cast<T>(                                                  \
        special::Function(static_cast<double>(x), static_cast<double>(y))); \
  }
#define TVARANT_POLYNOMIAL(name, Function) \
  template <typename T>                    \
  TVARANT_ELEMENT T fn_##name(T x, T n) {  \
    return special::Function<T>(x, n);     \
  }
TVARANT_SPECIAL_1(digamma, Digamma)
TVARANT_SPECIAL_2(zeta, Zeta)
TVARANT_SPECIAL_2(igamma, Igamma)
TVARANT_SPECIAL_2(igammac, Igammac)
TVARANT_SPECIAL_1(erfcx, Erfcx)
TVARANT_SPECIAL_1(log_ndtr, LogNdtr)
TVARANT_SPECIAL_1(k0, BesselK0)
TVARANT_SPECIAL_1(k0e, BesselK0e)
TVARANT_SPECIAL_1(k1, BesselK1)
TVARANT_SPECIAL_1(k1e, BesselK1e)
TVARANT_SPECIAL_1(j0, BesselJ0)
TVARANT_SPECIAL_1(j1, BesselJ1)
TVARANT_SPECIAL_1(y0, BesselY0)
TVARANT_SPECIAL_1(y1, BesselY1)
TVARANT_SPECIAL_1(spherical_j0, SphericalJ0)
TVARANT_SPECIAL_1(airy_ai, AiryAi)
TVARANT_POLYNOMIAL(chebyshev_t, ChebyshevT)
TVARANT_POLYNOMIAL(chebyshev_u, ChebyshevU)
TVARANT_POLYNOMIAL(chebyshev_v, ChebyshevV)
TVARANT_POLYNOMIAL(chebyshev_w, ChebyshevW)
TVARANT_POLYNOMIAL(hermite_h, HermiteH)
TVARANT_POLYNOMIAL(hermite_he, HermiteHe)
TVARANT_POLYNOMIAL(laguerre, Laguerre)
TVARANT_POLYNOMIAL(legendre, Legendre)
#undef TVARANT_SPECIAL_1
#undef TVARANT_SPECIAL_2
#undef TVARANT_POLYNOMIAL

// --- Floats: forms that vectorise --------------------------------------------

template <int kTerms>
TVARANT_ELEMENT float Polynomial(const float (&c)[kTerms], float x) {
  float p = c[0];
#pragma GCC unroll 32
  for (int i = 1; i < kTerms; ++i) p = MulAdd(p, x, c[i]);
  return p;
}

// M. Giles, "Approximating the erfinv function": |erfinv(x)| by two polynomials
// in w = -log(1 - x^2), good to 3 units in the last place, the first of them
// over |x|.
TVARANT_ELEMENT float GilesNear(float w) {
  constexpr float kNear[] = {2.81022636e-08f,  3.43273939e-07f, -3.5233877e-06f,
                             -4.39150654e-06f, 0.00021858087f,  -0.00125372503f,
                             -0.00417768164f,  0.246640727f,    1.50140941f};
  return Polynomial(kNear, w - 2.5f);
}
TVARANT_ELEMENT float GilesFar(float root) {
  constexpr float kFar[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f,
                            -0.00367342844f,  0.00573950773f,  -0.0076224613f,
                            0.00943887047f,   1.00167406f,     2.83297682f};
  return Polynomial(kFar, root - 3.0f);
}
TVARANT_ELEMENT float fn_erfinv(float x) {
  const float w = -fn_log((1.0f - x) * (1.0f + x));
  const float result = sel(w < 5.0f, GilesNear(w), GilesFar(fn_sqrt(w))) * x;
  return sel(fn_abs(x) == 1.0f, x * INFINITY, result);
}

// sqrt(2) erfinv(2 p - 1), with w of p itself: small ones keep their digits.
// Beyond erfinv's range, a polynomial in sqrt(w) down to the smallest float.
TVARANT_ELEMENT float fn_ndtri(float p) {
  constexpr float kTail[] = {
      -2.88536262e-09f, 1.52941393e-08f, -3.22921636e-08f, 2.53723158e-07f,
      -1.74224738e-06f, 6.26586916e-06f, 6.56484872e-06f,  -0.000512902974f,
      1.00859547f,      6.86901951f};
  const float x = (p + p) - 1.0f;
  const float w = -fn_log(4.0f * p * (1.0f - p));
  const float root = fn_sqrt(w);
  const float tail = fn_copysign(Polynomial(kTail, root - 7.0f), x);
  const float inner = sel(w < 5.0f, GilesNear(w), GilesFar(root)) * x;
  const float result = sel(w < 16.0f, inner, tail) * 1.41421356f;
  return sel((p == 0.0f) | (p == 1.0f), x * INFINITY, result);
}

// e^-|x| I0(x) and I1(x): up to 8 in x / 4 - 1, then sqrt(x) times it in
// 16 / x - 1.
TVARANT_ELEMENT float fn_i0e(float x) {
  constexpr float kSmall[] = {0.00170416571f,  -0.00427187514f, 0.00230102031f,
                              -0.00205984362f, 0.0128481034f,   -0.0241932813f,
                              0.0299703851f,   -0.0406084508f,  0.0567258634f,
                              -0.0702397227f,  0.0793112591f,   -0.0848559588f,
                              0.0873371884f,   -0.0890507773f,  0.0945159718f,
                              -0.113004185f,   0.207001925f};
  constexpr float kLarge[] = {
      -1.43333591e-06f, 3.68130429e-07f, 3.78803384e-06f, 1.1105557e-05f,
      0.000135350725f,  0.00336055737f,  0.402176559f};
  const float size = fn_abs(x);
  const float small = Polynomial(kSmall, MulAdd(size, 0.25f, -1.0f));
  const float large = Polynomial(kLarge, 16.0f / size - 1.0f) / fn_sqrt(size);
  return sel(size <= 8.0f, small, large);
}
TVARANT_ELEMENT float fn_i1e(float x) {
  constexpr float kSmall[] = {
      0.000227436685f, -0.000691644789f, 0.000717479561f, -0.000911473238f,
      0.00288873794f,  -0.00609012973f,  0.00974456407f,  -0.015302293f,
      0.0235975441f,   -0.0337426364f,   0.0446982048f,   -0.0552704223f,
      0.0637644902f,   -0.0684831589f,   0.0680577308f,   -0.0611243285f,
      0.0446877107f};
  constexpr float kLarge[] = {
      4.36256369e-06f,  -4.91473713e-07f, -8.55162125e-06f, -1.49167763e-05f,
      -0.000216715664f, -0.00974960253f,  0.389398307f};
  const float size = fn_abs(x);
  const float small = Polynomial(kSmall, MulAdd(size, 0.25f, -1.0f)) * size;
  const float large = Polynomial(kLarge, 16.0f / size - 1.0f) / fn_sqrt(size);
  return fn_copysign(sel(size <= 8.0f, small, large), x);
}
TVARANT_ELEMENT float fn_i0(float x) { return fn_exp(fn_abs(x)) * fn_i0e(x); }
TVARANT_ELEMENT float fn_i1(float x) { return fn_exp(fn_abs(x)) * fn_i1e(x); }

// By bits; numbers too small for an exponent of their own go up 2^24 first.
TVARANT_ELEMENT float fn_frexp_mantissa(float x) {
  const bool is_tiny = fn_abs(x) < 1.17549435e-38f;
  const int32_t bits =
      __builtin_bit_cast(int32_t, sel(is_tiny, x * 16777216.0f, x));
  const float mantissa = __builtin_bit_cast(
      float, (bits & static_cast<int32_t>(0x807fffff)) | 0x3f000000);
  return sel((x != 0.0f) & (fn_abs(x) < INFINITY), mantissa, x);
}
TVARANT_ELEMENT float fn_frexp_exponent(float x) {
  const bool is_tiny = fn_abs(x) < 1.17549435e-38f;
  const int32_t bits =
      __builtin_bit_cast(int32_t, sel(is_tiny, x * 16777216.0f, x));
  const int32_t exponent = ((bits >> 23) & 255) - sel(is_tiny, 150, 126);
  return sel((x != 0.0f) & (fn_abs(x) < INFINITY), static_cast<float>(exponent),
             0.0f);
}

#define TVARANT_SPECIAL_DOUBLE(name, Function) \
  TVARANT_ELEMENT double fn_##name(double x) { return special::Function(x); }
TVARANT_SPECIAL_DOUBLE(erfinv, Erfinv)
TVARANT_SPECIAL_DOUBLE(ndtri, Ndtri)
TVARANT_SPECIAL_DOUBLE(i0, BesselI0)
TVARANT_SPECIAL_DOUBLE(i0e, BesselI0e)
TVARANT_SPECIAL_DOUBLE(i1, BesselI1)
TVARANT_SPECIAL_DOUBLE(i1e, BesselI1e)
TVARANT_SPECIAL_DOUBLE(frexp_mantissa, FrexpMantissa)
TVARANT_SPECIAL_DOUBLE(frexp_exponent, FrexpExponent)
#undef TVARANT_SPECIAL_DOUBLE

TVARANT_ELEMENT float fn_nextafter(float x, float y) {
  return __builtin_nextafterf(x, y);
}
TVARANT_ELEMENT double fn_nextafter(double x, double y) {
  return __builtin_nextafter(x, y);
}

// Euclid's, on magnitudes; they wrap as PyTorch's do.
template <typename U>
TVARANT_ELEMENT U Euclid(U a, U b) {
  while (b != 0) {
    const U rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}
TVARANT_ELEMENT int32_t fn_gcd(int32_t a, int32_t b) {
  return static_cast<int32_t>(Euclid(static_cast<uint32_t>(fn_abs(a)),
                                     static_cast<uint32_t>(fn_abs(b))));
}
TVARANT_ELEMENT int64_t fn_gcd(int64_t a, int64_t b) {
  return static_cast<int64_t>(Euclid(static_cast<uint64_t>(fn_abs(a)),
                                     static_cast<uint64_t>(fn_abs(b))));
}
template <typename T>
TVARANT_ELEMENT T fn_lcm(T a, T b) {
  const T divisor = fn_gcd(a, b);
  return divisor == T(0) ? T(0) : fn_abs(IntDivTrunc(a, divisor) * b);
}

#endif  // TVARANT_DAEMON_KERNELS_HOST_POINTWISE_SPECIAL_FUNCTIONS_H_

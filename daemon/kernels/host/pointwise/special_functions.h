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
TVARANT_SPECIAL_1(ndtri, Ndtri)
TVARANT_SPECIAL_1(log_ndtr, LogNdtr)
TVARANT_SPECIAL_1(i0, BesselI0)
TVARANT_SPECIAL_1(i0e, BesselI0e)
TVARANT_SPECIAL_1(i1, BesselI1)
TVARANT_SPECIAL_1(i1e, BesselI1e)
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
TVARANT_SPECIAL_1(frexp_mantissa, FrexpMantissa)
TVARANT_SPECIAL_1(frexp_exponent, FrexpExponent)
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

// M. Giles, "Approximating the erfinv function": two polynomials in
// w = -log(1 - x^2), good to 3 units in the last place.
TVARANT_ELEMENT float fn_erfinv(float x) {
  const float w = -fn_log((1.0f - x) * (1.0f + x));
  const float near = w - 2.5f;
  float p = 2.81022636e-08f;
  p = MulAdd(p, near, 3.43273939e-07f);
  p = MulAdd(p, near, -3.5233877e-06f);
  p = MulAdd(p, near, -4.39150654e-06f);
  p = MulAdd(p, near, 0.00021858087f);
  p = MulAdd(p, near, -0.00125372503f);
  p = MulAdd(p, near, -0.00417768164f);
  p = MulAdd(p, near, 0.246640727f);
  p = MulAdd(p, near, 1.50140941f);
  const float far = fn_sqrt(w) - 3.0f;
  float q = -0.000200214257f;
  q = MulAdd(q, far, 0.000100950558f);
  q = MulAdd(q, far, 0.00134934322f);
  q = MulAdd(q, far, -0.00367342844f);
  q = MulAdd(q, far, 0.00573950773f);
  q = MulAdd(q, far, -0.0076224613f);
  q = MulAdd(q, far, 0.00943887047f);
  q = MulAdd(q, far, 1.00167406f);
  q = MulAdd(q, far, 2.83297682f);
  const float result = sel(w < 5.0f, p, q) * x;
  return sel(fn_abs(x) == 1.0f, x * INFINITY, result);
}
TVARANT_ELEMENT double fn_erfinv(double x) { return special::Erfinv(x); }

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

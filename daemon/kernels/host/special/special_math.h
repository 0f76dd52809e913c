// Special functions that pointwise ops call element by element.
//
// Plain scalar code in double, good to a few units of its last place near the
// function's scale; what is named under "edges" is PyTorch's choice. Every
// loop is bounded whatever the arguments are. Polynomials compute in their own
// type, as PyTorch does, so that they overflow where it does.
//
// Example:
//   double y = special::Digamma(0.5);

#ifndef TVARANT_DAEMON_KERNELS_HOST_SPECIAL_SPECIAL_MATH_H_
#define TVARANT_DAEMON_KERNELS_HOST_SPECIAL_SPECIAL_MATH_H_

namespace tvarant::host::special {

// Gamma family. Edges: digamma(+-0) = -+inf, NaN at negative integers; zeta is
// inf for s = 1, NaN for s < 1.
double Digamma(double x);
double Zeta(double s, double q);     // sum over k >= 0 of (q + k)^-s
double Igamma(double a, double x);   // lower incomplete, over gamma(a)
double Igammac(double a, double x);  // 1 - Igamma

// Normal distribution and error function.
double Erfinv(double x);
double Erfcx(double x);  // exp(x^2) erfc(x)
double Ndtri(double p);
double LogNdtr(double x);

// Bessel functions; those ending in e are scaled by exp(-|x|), K by exp(x).
double BesselI0(double x);
double BesselI0e(double x);
double BesselI1(double x);
double BesselI1e(double x);
double BesselK0(double x);
double BesselK0e(double x);
double BesselK1(double x);
double BesselK1e(double x);
double BesselJ0(double x);
double BesselJ1(double x);
double BesselY0(double x);
double BesselY1(double x);
double SphericalJ0(double x);  // sin(x) / x
double AiryAi(double x);

// Polynomials of degree n, a whole number cut from a float; 0 for n < 0. In
// float and double.
template <typename T>
T ChebyshevT(T x, T n);
template <typename T>
T ChebyshevU(T x, T n);
template <typename T>
T ChebyshevV(T x, T n);
template <typename T>
T ChebyshevW(T x, T n);
template <typename T>
T HermiteH(T x, T n);
template <typename T>
T HermiteHe(T x, T n);
template <typename T>
T Laguerre(T x, T n);
template <typename T>
T Legendre(T x, T n);

// x = mantissa * 2^exponent, 0.5 <= |mantissa| < 1.
double FrexpMantissa(double x);
double FrexpExponent(double x);

}  // namespace tvarant::host::special

#endif  // TVARANT_DAEMON_KERNELS_HOST_SPECIAL_SPECIAL_MATH_H_

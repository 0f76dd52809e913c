// Orthogonal polynomials by their recurrences, and the Chebyshev ones of high
// degree by angles.

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "daemon/kernels/host/special/special_math.h"

namespace tvarant::host::special {
namespace {

// Beyond these degrees: hyperbolic forms where there are any, else NaN.
constexpr int64_t kMaxSteps = 1 << 16;
constexpr int64_t kMaxDegree = 1 << 20;

// -1: the polynomial is 0.
template <typename T>
int64_t DegreeOf(T n) {
  if (!(n > T(-1)) || n >= T(9e18)) return -1;
  return static_cast<int64_t>(n);
}

// p(k + 1) = step(k, p(k), p(k - 1)) from p(0) = 1 and p(1) = first.
template <typename T, typename Step>
T Recur(int64_t n, T first, const Step& step) {
  if (n == 0) return T(1);
  T previous = T(1), current = first;
  for (int64_t k = 1; k < n && current == current; ++k) {
    const T next = step(static_cast<T>(k), current, previous);
    previous = current;
    current = next;
  }
  return current;
}

template <typename T>
T ChebyshevRecur(int64_t n, T x, T first) {
  return Recur(n, first, [x](T, T p, T q) { return (x + x) * p - q; });
}

// cos(m t) and sin(m t) with x = cos t, or their hyperbolic twins.
enum class Wave { kCos, kSin };
template <typename T>
T WaveOf(Wave wave, T m, T x) {
  if (x < T(1)) {
    const T t = std::acos(x);
    return wave == Wave::kCos ? std::cos(m * t) : std::sin(m * t);
  }
  const T t = std::acosh(x);
  return wave == Wave::kCos ? std::cosh(m * t) : std::sinh(m * t);
}

template <typename T>
bool IsOdd(int64_t n, T x) {
  return x < T(0) && n % 2 != 0;
}

// The four kinds for a high degree. V and W change places under x -> -x.
enum class Kind { kT, kU, kV, kW };
template <typename T>
T ChebyshevByAngle(Kind kind, int64_t n, T x) {
  const T magnitude = std::fabs(x);
  const T sign = IsOdd(n, x) ? T(-1) : T(1);
  if (x < T(0) && kind == Kind::kV) {
    kind = Kind::kW;
  } else if (x < T(0) && kind == Kind::kW) {
    kind = Kind::kV;
  }
  const T degree = static_cast<T>(n), half = T(0.5);
  const bool is_one = magnitude == T(1);
  switch (kind) {
    case Kind::kT:
      return sign * WaveOf(Wave::kCos, degree, magnitude);
    case Kind::kU:
      if (is_one) return sign * (degree + T(1));
      return sign * WaveOf(Wave::kSin, degree + T(1), magnitude) /
             WaveOf(Wave::kSin, T(1), magnitude);
    case Kind::kV:
      return sign * WaveOf(Wave::kCos, degree + half, magnitude) /
             WaveOf(Wave::kCos, half, magnitude);
    default:
      if (is_one) return sign * (degree + degree + T(1));
      return sign * WaveOf(Wave::kSin, degree + half, magnitude) /
             WaveOf(Wave::kSin, half, magnitude);
  }
}

template <typename T>
T Chebyshev(Kind kind, T x, T n, T first) {
  const int64_t degree = DegreeOf(n);
  if (degree < 0) return T(0);
  const bool inside = std::fabs(x) <= T(1);
  if ((inside && degree > 8) || (degree > kMaxSteps && x == x)) {
    return ChebyshevByAngle(kind, degree, x);
  }
  return ChebyshevRecur(degree, x, first);
}

// Where the recurrence has lost itself.
template <typename T>
constexpr int64_t kHermiteLimit = std::is_same_v<T, float> ? 128 : 512;

}  // namespace

template <typename T>
T ChebyshevT(T x, T n) {
  return Chebyshev(Kind::kT, x, n, x);
}
template <typename T>
T ChebyshevU(T x, T n) {
  return Chebyshev(Kind::kU, x, n, x + x);
}
template <typename T>
T ChebyshevV(T x, T n) {
  return Chebyshev(Kind::kV, x, n, x + x - T(1));
}
template <typename T>
T ChebyshevW(T x, T n) {
  return Chebyshev(Kind::kW, x, n, x + x + T(1));
}

template <typename T>
T HermiteH(T x, T n) {
  const int64_t degree = DegreeOf(n);
  if (degree < 0) return T(0);
  if (degree > kHermiteLimit<T>) return std::numeric_limits<T>::quiet_NaN();
  return Recur(degree, x + x,
               [x](T k, T p, T q) { return (x + x) * p - (k + k) * q; });
}

template <typename T>
T HermiteHe(T x, T n) {
  const int64_t degree = DegreeOf(n);
  if (degree < 0) return T(0);
  if (degree > kHermiteLimit<T>) return std::numeric_limits<T>::quiet_NaN();
  return Recur(degree, x, [x](T k, T p, T q) { return x * p - k * q; });
}

template <typename T>
T Laguerre(T x, T n) {
  const int64_t degree = DegreeOf(n);
  if (degree < 0) return T(0);
  if (std::fabs(x) == T(0)) return T(1);
  if (degree > kMaxDegree) return std::numeric_limits<T>::quiet_NaN();
  return Recur(degree, T(1) - x, [x](T k, T p, T q) {
    return ((k + k + (T(1) - x)) * p - k * q) / (k + T(1));
  });
}

template <typename T>
T Legendre(T x, T n) {
  const int64_t degree = DegreeOf(n);
  if (degree < 0) return T(0);
  if (std::fabs(x) == T(1)) return IsOdd(degree, x) ? T(-1) : T(1);
  if (degree > kMaxDegree) return std::numeric_limits<T>::quiet_NaN();
  return Recur(degree, x, [x](T k, T p, T q) {
    return ((k + k + T(1)) * x * p - k * q) / (k + T(1));
  });
}

#define TVARANT_INSTANTIATE(name)           \
  template float name<float>(float, float); \
  template double name<double>(double, double);
TVARANT_INSTANTIATE(ChebyshevT)
TVARANT_INSTANTIATE(ChebyshevU)
TVARANT_INSTANTIATE(ChebyshevV)
TVARANT_INSTANTIATE(ChebyshevW)
TVARANT_INSTANTIATE(HermiteH)
TVARANT_INSTANTIATE(HermiteHe)
TVARANT_INSTANTIATE(Laguerre)
TVARANT_INSTANTIATE(Legendre)
#undef TVARANT_INSTANTIATE

}  // namespace tvarant::host::special

#include "daemon/kernels/host/distance/distance_rows.h"

#include "daemon/kernels/host/pointwise/element_math.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

// Sums in lanes, which vectorise; then the lanes.
constexpr int64_t kLanes = 64;

template <typename T, typename Term, typename Combine>
TVARANT_ELEMENT T Fold(const T* a, const T* b, int64_t n, const Term& term,
                       const Combine& combine) {
  T lanes[kLanes] = {};
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    TVARANT_LOOP
    for (int64_t i = 0; i < kLanes; ++i) {
      lanes[i] = combine(lanes[i], term(fn_abs(a[k + i] - b[k + i])));
    }
  }
  TVARANT_LOOP
  for (int64_t i = 0; i < n - k; ++i) {
    lanes[i] = combine(lanes[i], term(fn_abs(a[k + i] - b[k + i])));
  }
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t i = 0; i < width; ++i) {
      lanes[i] = combine(lanes[i], lanes[i + width]);
    }
  }
  return lanes[0];
}

template <typename T>
T Distance(const T* a, const T* b, int64_t n, Norm norm, double p) {
  const auto add = [](T x, T y) { return x + y; };
  switch (norm) {
    case Norm::kZero:
      return Fold(
          a, b, n, [](T d) { return T(d != T(0)); }, add);
    case Norm::kOne:
      return Fold(
          a, b, n, [](T d) { return d; }, add);
    case Norm::kTwo:
      return fn_sqrt(Fold(
          a, b, n, [](T d) { return d * d; }, add));
    case Norm::kInfinity:
      return Fold(
          a, b, n, [](T d) { return d; },
          [](T x, T y) { return fn_max(x, y); });
    default: {
      const T power = static_cast<T>(p);
      const T sum = Fold(
          a, b, n, [power](T d) { return fn_pow(d, power); }, add);
      return fn_pow(sum, T(1) / power);
    }
  }
}

template <typename T>
TVARANT_ELEMENT T SignOf(T x) {
  return T(x > T(0)) - T(x < T(0));
}

template <typename T, typename Slope>
TVARANT_ELEMENT void AddSlopes(const T* a, const T* b, int64_t n, T factor,
                               T* da, const Slope& slope) {
  TVARANT_LOOP
  for (int64_t k = 0; k < n; ++k) da[k] += factor * slope(a[k] - b[k]);
}

// Where two rows are equal the gradient is 0.
template <typename T>
void AddGradient(const T* a, const T* b, int64_t n, Norm norm, double p,
                 T gradient, T distance, T* da) {
  const T power = static_cast<T>(p);
  switch (norm) {
    case Norm::kZero:
      return;
    case Norm::kOne:
      return AddSlopes(a, b, n, gradient, da, [](T d) { return SignOf(d); });
    case Norm::kTwo:
      if (distance == T(0)) return;
      return AddSlopes(a, b, n, gradient / distance, da, [](T d) { return d; });
    case Norm::kInfinity:
      return AddSlopes(a, b, n, gradient, da, [distance](T d) {
        return sel(fn_abs(d) == distance, SignOf(d), T(0));
      });
    default: {
      if (distance == T(0)) return;
      const T factor = gradient / fn_pow(distance, power - T(1));
      if (power > T(2)) {
        return AddSlopes(a, b, n, factor, da, [power](T d) {
          return d * fn_pow(fn_abs(d), power - T(2));
        });
      }
      return AddSlopes(a, b, n, factor, da, [power](T d) {
        const T size = fn_pow(fn_abs(d), power - T(1));
        return sel(d == T(0), T(0), SignOf(d) * size);
      });
    }
  }
}

}  // namespace

DistanceLoops<float> DistanceLoopsF32() {
  return {Distance<float>, AddGradient<float>};
}
DistanceLoops<double> DistanceLoopsF64() {
  return {Distance<double>, AddGradient<double>};
}

}  // namespace tvarant::host::TVARANT_ISA

// Distances between two rows of numbers, and their gradients, by instruction
// set.

#ifndef TVARANT_DAEMON_KERNELS_HOST_DISTANCE_DISTANCE_ROWS_H_
#define TVARANT_DAEMON_KERNELS_HOST_DISTANCE_DISTANCE_ROWS_H_

#include <cstdint>

#include "daemon/kernels/host/isa.h"

namespace tvarant::host {

// (sum |a[k] - b[k]|^p)^(1/p): the loops for each kind of p.
enum class Norm { kZero, kOne, kTwo, kInfinity, kOther };

inline Norm NormOf(double p) {
  if (p == 0) return Norm::kZero;
  if (p == 1) return Norm::kOne;
  if (p == 2) return Norm::kTwo;
  return p == __builtin_inf() ? Norm::kInfinity : Norm::kOther;
}

template <typename T>
struct DistanceLoops {
  T (*distance)(const T* a, const T* b, int64_t n, Norm norm, double p);
  // da[k] += gradient * d distance / d a[k]
  void (*add_gradient)(const T* a, const T* b, int64_t n, Norm norm, double p,
                       T gradient, T distance, T* da);
};

TVARANT_DECLARE_FOR_ISAS(DistanceLoops<float> DistanceLoopsF32())
TVARANT_DECLARE_FOR_ISAS(DistanceLoops<double> DistanceLoopsF64())

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_DISTANCE_DISTANCE_ROWS_H_

// The register tile of matrix products: some rows of C by two vectors of
// columns, summed over k. Include only in SIMD sources.

#ifndef TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_REGISTER_H_
#define TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_REGISTER_H_

#include <cstdint>

#include "daemon/kernels/host/vec.h"

namespace tvarant::host::TVARANT_ISA {

// Rows of the register tile: as many as leave registers for two vectors of B
// and one value of A.
#if defined(__AVX512F__)
inline constexpr int kRows = 14;
#elif defined(__AVX2__)
inline constexpr int kRows = 6;
#else
inline constexpr int kRows = 4;
#endif

template <typename T>
inline constexpr int kCols = 2 * Vec<T>::kLanes;

TVARANT_INLINE constexpr int64_t Min(int64_t a, int64_t b) {
  return a < b ? a : b;
}

TVARANT_INLINE constexpr int64_t RoundUp(int64_t x, int64_t step) {
  return (x + step - 1) / step * step;
}

// Where a register tile goes: added to or put at rows `stride` apart.
template <typename T>
struct Target {
  T* data;
  int64_t stride;
  bool add;
};

// target = A panel @ B panel. Element (i, p) of A is at a[i * a_row +
// p * a_step], row p of B at b + p * b_step.
template <typename T, int rows>
void RegisterTile(int64_t kc, const T* a, int64_t a_row, int64_t a_step,
                  const T* b, int64_t b_step, const Target<T>& target) {
  using V = Vec<T>;
  constexpr int kLanes = V::kLanes;
  V sum[rows][2];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    sum[i][0] = sum[i][1] = V::All(T(0));
    if (target.add) __builtin_prefetch(target.data + i * target.stride, 1);
  }
  for (int64_t p = 0; p < kc; ++p) {
    const V b0 = V::Load(b);
    const V b1 = V::Load(b + kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const V x = V::All(a[i * a_row]);
      sum[i][0] = Fma(x, b0, sum[i][0]);
      sum[i][1] = Fma(x, b1, sum[i][1]);
    }
    a += a_step;
    b += b_step;
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    T* row = target.data + i * target.stride;
    if (target.add) {
      sum[i][0] = sum[i][0] + V::Load(row);
      sum[i][1] = sum[i][1] + V::Load(row + kLanes);
    }
    sum[i][0].Store(row);
    sum[i][1].Store(row + kLanes);
  }
}

// As RegisterTile, with `rows` known at run time.
template <typename T, int rows = kRows>
void RegisterRows(int64_t live, int64_t kc, const T* a, int64_t a_row,
                  int64_t a_step, const T* b, int64_t b_step,
                  const Target<T>& target) {
  if constexpr (rows > 0) {
    if (live == rows) {
      RegisterTile<T, rows>(kc, a, a_row, a_step, b, b_step, target);
    } else {
      RegisterRows<T, rows - 1>(live, kc, a, a_row, a_step, b, b_step, target);
    }
  }
}

}  // namespace tvarant::host::TVARANT_ISA

#endif  // TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_REGISTER_H_

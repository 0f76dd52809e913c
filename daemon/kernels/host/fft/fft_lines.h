// Fourier transforms of blocks of lines, by instruction set.
//
// A block holds `lanes` lines side by side: element k of line l stands at
// k * lanes + l, real and imaginary parts apart. All memory is the caller's.

#ifndef TVARANT_DAEMON_KERNELS_HOST_FFT_FFT_LINES_H_
#define TVARANT_DAEMON_KERNELS_HOST_FFT_FFT_LINES_H_

#include <cstdint>

#include "daemon/kernels/host/isa.h"

namespace tvarant::host {

// A factor above this goes through Bluestein's sum.
inline constexpr int64_t kMaxFactor = 31;

// How a length is transformed: by its factors, or by a convolution of a power
// of two.
struct FftShape {
  explicit FftShape(int64_t n);

  int64_t n;
  int64_t inner;  // length that is factored: n, or the power of two
  int num_factors = 0;
  int64_t factors[64];

  bool is_bluestein() const { return inner != n; }
  // Numbers that tables and work take.
  int64_t table_size() const {
    return is_bluestein() ? 4 * inner + 2 * n : 2 * n;
  }
  int64_t work_size(int64_t lanes) const { return 4 * inner * lanes; }
};

template <typename T>
struct FftLoops {
  // Fills tables[table_size]; work as for one lane.
  void (*prepare)(const FftShape& shape, T* tables, T* work);
  // Transforms the block that stands at the start of work: `re` = work, `im` =
  // work + inner * lanes. Returns where the result's real parts stand; its
  // imaginary ones follow inner * lanes later.
  T* (*run)(const FftShape& shape, const T* tables, T* work, int64_t lanes);
};

TVARANT_DECLARE_FOR_ISAS(FftLoops<float> FftLoopsF32())
TVARANT_DECLARE_FOR_ISAS(FftLoops<double> FftLoopsF64())

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_FFT_FFT_LINES_H_

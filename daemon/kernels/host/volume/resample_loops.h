// The inner loops of resampling: each dimension of space on its own.
//
//   y[n, c, d, h, w] = sum over taps i, j, k of
//       weight_d[d][i] * weight_h[h][j] * weight_w[w][k] *
//       x[n, c, at_d[d][i], at_h[h][j], at_w[w][k]]

#ifndef TVARANT_DAEMON_KERNELS_HOST_VOLUME_RESAMPLE_LOOPS_H_
#define TVARANT_DAEMON_KERNELS_HOST_VOLUME_RESAMPLE_LOOPS_H_

#include <cstddef>
#include <cstdint>

#include "daemon/kernels/host/isa.h"
#include "proto/base/dtype.h"

namespace tvarant::host {

// What each coordinate of y is made of.
struct ResampleAxis {
  int64_t x_size = 0, y_size = 0;
  int taps = 1;                    // 1, 2, 4, or more
  const int32_t* at = nullptr;     // [y_size][taps], coordinates of x
  const double* weight = nullptr;  // [y_size][taps]; null: 1
  int64_t x_stride = 0, y_stride = 0;
};

struct ResamplePlan {
  DType dtype = DType::kInvalid;
  char* x = nullptr;
  char* y = nullptr;
  int64_t channels = 0;
  int64_t x_batch = 0, x_channel = 0, y_batch = 0, y_channel = 0;  // strides
  ResampleAxis axes[3];
};

struct ResampleKernels {
  // y of planes (n, c) [begin, end). scratch: x and y rows in float64.
  void (*planes)(const ResamplePlan& plan, int64_t begin, int64_t end,
                 char* scratch);
  // The same for rows (n, d, h) of y, channels side by side in x and y.
  void (*channels)(const ResamplePlan& plan, int64_t begin, int64_t end,
                   char* scratch);
  // x as the gradient from y, written whole: planes [begin, end). scratch: an
  // x row, and a plane of x for half types.
  void (*backward)(const ResamplePlan& plan, int64_t begin, int64_t end,
                   char* scratch);
};

TVARANT_DECLARE_FOR_ISAS(extern const ResampleKernels kResampleKernels);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_VOLUME_RESAMPLE_LOOPS_H_

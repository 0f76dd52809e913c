// The inner loops of pooling: planes (n, c) of space, or rows of positions
// with all their channels if these lie side by side.

#ifndef TVARANT_DAEMON_KERNELS_HOST_VOLUME_POOL_LOOPS_H_
#define TVARANT_DAEMON_KERNELS_HOST_VOLUME_POOL_LOOPS_H_

#include <cstddef>
#include <cstdint>

#include "daemon/kernels/host/isa.h"
#include "proto/base/dtype.h"

namespace tvarant::host {

// One of [N, C, D, H, W]; strides in elements.
struct PoolVolume {
  char* data = nullptr;
  int64_t strides[5] = {};
};

struct PoolPlan {
  DType dtype = DType::kInvalid;
  PoolVolume large, small, indices;
  int64_t batch = 0, channels = 0;
  int64_t large_size[3] = {}, small_size[3] = {};
  bool adaptive = false;
  int64_t kernel[3] = {}, stride[3] = {}, padding[3] = {}, dilation[3] = {};
  bool count_padding = false;
  int64_t divisor = 0;  // 0: the number of elements
};

// scratch: for planes 48 bytes an output of a row; for the gradient 32 bytes
// and, if half, a plane in float.
struct PoolKernels {
  // small = max(large), indices: planes [begin, end).
  void (*max)(const PoolPlan& plan, int64_t begin, int64_t end, char* scratch);
  // The same for rows (n, d, h) of small, channels side by side.
  void (*max_channels)(const PoolPlan& plan, int64_t begin, int64_t end,
                       char* scratch);
  // small = average(large)
  void (*average)(const PoolPlan& plan, int64_t begin, int64_t end,
                  char* scratch);
  void (*average_channels)(const PoolPlan& plan, int64_t begin, int64_t end,
                           char* scratch);
  // large = gradient of the average from small: planes [begin, end).
  void (*average_backward)(const PoolPlan& plan, int64_t begin, int64_t end,
                           char* scratch);
};

// Dtypes that the loops take: float dtypes and integers; averages take float
// dtypes and int64.
TVARANT_DECLARE_FOR_ISAS(extern const PoolKernels kPoolKernels);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_VOLUME_POOL_LOOPS_H_

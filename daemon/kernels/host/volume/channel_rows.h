// The inner loops of channel_norm: some channels of one batch item, with their
// L elements each. Float and half types compute in float, sums that grow long
// in double. Thread-safe; all buffers are the caller's.

#ifndef TVARANT_DAEMON_KERNELS_HOST_VOLUME_CHANNEL_ROWS_H_
#define TVARANT_DAEMON_KERNELS_HOST_VOLUME_CHANNEL_ROWS_H_

#include <cstdint>

#include "daemon/kernels/host/isa.h"
#include "proto/base/dtype.h"

namespace tvarant::host {

// Element i of channel c is element c * channel_stride + i * step.
struct ChannelView {
  char* data = nullptr;
  DType dtype = DType::kInvalid;
  int64_t channel_stride = 0;
  int64_t step = 0;
};

// The functions of one computing type (float or double), which `void*` names.
struct ChannelLoops {
  // Mean and sum of squared differences from it, of each channel.
  void (*moments)(const ChannelView& x, int64_t channels, int64_t length,
                  double* mean, double* squares);
  // y = x * scale[c] + shift[c]
  void (*affine)(const ChannelView& x, const ChannelView& y, int64_t channels,
                 int64_t length, const void* scale, const void* shift);
  // sum(dy) and sum(dy * (x - mean[c])) of each channel.
  void (*gradient_sums)(const ChannelView& dy, const ChannelView& x,
                        int64_t channels, int64_t length, const void* mean,
                        double* sum, double* product);
  // dx = dy * scale[c] + (x - mean[c]) * slope[c] + shift[c]
  void (*gradient)(const ChannelView& dy, const ChannelView& x,
                   const ChannelView& dx, int64_t channels, int64_t length,
                   const void* mean, const void* scale, const void* slope,
                   const void* shift);
};

struct ChannelKernels {
  ChannelLoops f32, f64;
};

TVARANT_DECLARE_FOR_ISAS(extern const ChannelKernels kChannelKernels);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_VOLUME_CHANNEL_ROWS_H_

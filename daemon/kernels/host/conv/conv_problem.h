// A convolution as the SIMD kernels see it: one group, in gather form.
//
//   y[n, r, a] = bias[r] + sum over taps t, channels c of
//                weight[r, c, t] * x[n, c, a * step + t.start]
//
// a runs over a grid in space (d, h, w); x is 0 outside of its extents. A
// convolution is one such problem per group; a transposed one (also the
// gradient of the input) is one per group and remainder of the output
// coordinates by the stride, so that no tap meets a hole of the dilated input.
//
// Conv tiles: the sum over (t, c) is a matrix product; panels of x are packed
// without writing the unrolled input to memory ("implicit im2col", Chetlur et
// al., cuDNN, 2014), and run through the register tile of the GEMM.

#ifndef TVARANT_DAEMON_KERNELS_HOST_CONV_CONV_PROBLEM_H_
#define TVARANT_DAEMON_KERNELS_HOST_CONV_CONV_PROBLEM_H_

#include <cstddef>
#include <cstdint>

#include "daemon/kernels/host/isa.h"
#include "proto/base/dtype.h"

namespace tvarant::host {

struct ConvTap {
  int64_t start[3];  // input coordinate of grid point 0
  int64_t weight;    // where its weights begin, in elements
};

// Elements of space: a coordinate for each of d, h, w.
struct ConvVolume {
  char* data = nullptr;
  int64_t batch_stride = 0;
  int64_t channel_stride = 0;
  int64_t strides[3] = {};
};

struct ConvProblem {
  DType dtype = DType::kInvalid;  // of x, y and weight
  ConvVolume x, y;                // y's strides are from grid point to point
  int64_t x_size[3] = {};
  int64_t grid[3] = {};
  int64_t step[3] = {};
  const char* weight = nullptr;
  int64_t weight_row = 0, weight_channel = 0;  // strides
  const char* bias = nullptr;                  // null: none
  DType bias_dtype = DType::kInvalid;
  int64_t bias_stride = 0;
  int64_t batch = 0, rows = 0, channels = 0;
  const ConvTap* taps = nullptr;
  int64_t num_taps = 0;

  int64_t columns() const { return batch * grid[0] * grid[1] * grid[2]; }
  int64_t depth() const { return num_taps * channels; }
};

// The gradient of the weights: a sum over all columns of y's gradient times
// the x that a tap meets.
//   dw[r, c, t] = sum over n, a of y[n, r, a] * x[n, c, a * step + t.start]
// The problem's weight is written.

// One row and one channel: a plane of each image is padded, then every tap is
// a shift of it.
struct ConvPadded {
  int64_t low[3];      // coordinate of x at the padded plane's origin
  int64_t size[2];     // rows of the padded plane, in d and h
  int64_t phase_size;  // elements of x with the same remainder by step w
  size_t bytes;        // scratch of depthwise
};

struct ConvKernel {
  int row_step, col_step;  // extents of the register tile
  int64_t block_depth;     // steps of depth between passes over the sums
  // Packs the weights of some row panels (of row_step rows) for tile.
  // packed: row panels * row_step * depth() elements.
  void (*pack_weight)(const ConvProblem& p, int64_t panel_begin,
                      int64_t panel_end, char* packed);
  // Columns [begin, end) of y, all rows. begin is a multiple of col_step.
  void (*tile)(const ConvProblem& p, const char* packed, int64_t begin,
               int64_t end, char* scratch);
  size_t (*tile_scratch_bytes)(const ConvProblem& p, int64_t columns);
  // One image of a problem of one row and one channel.
  void (*depthwise)(const ConvProblem& p, const ConvPadded& padded,
                    int64_t item, char* scratch);
  // All groups of such a problem, where they lie side by side in x and y: rows
  // (n, d, h) [begin, end). weights: [tap][group], then [group] of bias, in the
  // computing type; scratch: 16 bytes a tap.
  void (*depthwise_channels)(const ConvProblem& p, int64_t groups,
                             const char* weights, int64_t begin, int64_t end,
                             char* scratch);
  // The gradient of such a problem's weights.
  void (*depthwise_weight)(const ConvProblem& p, const ConvPadded& padded,
                           char* scratch);
  // Gradient of the weights: rows [row_begin, row_end) of channels
  // [c_begin, c_end), each with all taps.
  void (*weight)(const ConvProblem& p, int64_t row_begin, int64_t row_end,
                 int64_t c_begin, int64_t c_end, char* scratch);
  size_t (*weight_scratch_bytes)(int64_t rows, int64_t positions);
  int64_t lanes;
};

struct ConvKernels {
  ConvKernel f32;  // half types compute in float32
  ConvKernel f64;
};

TVARANT_DECLARE_FOR_ISAS(extern const ConvKernels kConvKernels);

// Members that live in files of their own.
#define TVARANT_CONV_DECLARE(Type)                                             \
  TVARANT_DECLARE_FOR_ISAS(                                                    \
      void ConvDepthwise##Type(const ConvProblem& p, const ConvPadded& padded, \
                               int64_t item, char* scratch))                   \
  TVARANT_DECLARE_FOR_ISAS(void ConvDepthwiseChannels##Type(                   \
      const ConvProblem& p, int64_t groups, const char* weights,               \
      int64_t begin, int64_t end, char* scratch))                              \
  TVARANT_DECLARE_FOR_ISAS(void ConvDepthwiseWeight##Type(                     \
      const ConvProblem& p, const ConvPadded& padded, char* scratch))          \
  TVARANT_DECLARE_FOR_ISAS(void ConvWeight##Type(                              \
      const ConvProblem& p, int64_t row_begin, int64_t row_end,                \
      int64_t c_begin, int64_t c_end, char* scratch))                          \
  TVARANT_DECLARE_FOR_ISAS(                                                    \
      size_t ConvWeightScratch##Type(int64_t rows, int64_t positions))
TVARANT_CONV_DECLARE(F32)
TVARANT_CONV_DECLARE(F64)
#undef TVARANT_CONV_DECLARE

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_CONV_CONV_PROBLEM_H_

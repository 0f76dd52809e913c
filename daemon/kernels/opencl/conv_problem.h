// A convolution as the OpenCL kernels see it, and the ways to compute it.

#ifndef TVARANT_DAEMON_KERNELS_OPENCL_CONV_PROBLEM_H_
#define TVARANT_DAEMON_KERNELS_OPENCL_CONV_PROBLEM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "daemon/runtime/opencl/kernel_context.h"

namespace tvarant::opencl {

// Laid out as `Conv` in conv.cl, which tells what the members are.
struct ConvGeometry {
  int64_t in_size[3] = {};
  int64_t out_size[3] = {};
  int64_t window[3] = {};
  int64_t stride[3] = {};
  int64_t padding[3] = {};
  int64_t dilation[3] = {};
  int64_t in[5] = {};
  int64_t out[5] = {};
  int64_t channels = 0;
  int64_t group_channels = 0;
  int64_t rows = 0;
  int64_t group_rows = 0;
  int64_t channels_last = 0;
  int64_t col_image = 0, col_group = 0, col_channel = 0, col_tap = 0,
          col_position = 0;
  int64_t first_position = 0;
  int64_t positions = 0;
  int64_t weight[5] = {};
};

struct ConvProblem {
  ConvGeometry g;
  ResolvedOperand input, output, weight;
  ResolvedOperand bias;  // dtype kInvalid: none
  int64_t images = 0;
  int64_t groups = 1;

  int64_t taps() const { return g.window[0] * g.window[1] * g.window[2]; }
  int64_t space() const {
    return g.out_size[0] * g.out_size[1] * g.out_size[2];
  }
  int64_t depth() const { return taps() * g.group_channels; }
  DType dtype() const { return weight.dtype; }
  bool has_bias() const { return bias.dtype != DType::kInvalid; }
};

// The dtype that sums are kept in.
inline DType SumDType(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

// -DT and -DSUM.
std::string ConvOptions(const ConvProblem& problem);

// Adds the operand, its stride and its kind (conv.cl).
void AddConvBias(const ConvProblem& problem, KernelCall* call);

// By columns and matrix products. UNIMPLEMENTED for what would need too much
// memory, or layouts that are no matrices: nothing has been queued then.
absl::Status RunConvProducts(KernelContext& context, ConvProblem problem);
absl::Status RunConvTransposeProducts(KernelContext& context,
                                      ConvProblem problem);
absl::Status RunConvWeightProducts(KernelContext& context, ConvProblem problem);

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_KERNELS_OPENCL_CONV_PROBLEM_H_

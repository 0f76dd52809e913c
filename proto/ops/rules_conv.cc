// Rules of convolution, convolution_transpose, convolution_weight.

#include "absl/strings/str_cat.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {
namespace {

// Extents of space below this keep every coordinate within 64 bits.
constexpr int64_t kMaxExtent = int64_t{1} << 31;
// Elements of one filter's window, which the kernels list.
constexpr int64_t kMaxTaps = int64_t{1} << 20;

// ints = {groups, stride d h w, padding d h w, dilation d h w}.
struct Convolution {
  const Operand& input;   // [N, C_in, D, H, W]
  const Operand& output;  // [N, C_out, D', H', W']
  const Operand& weight;  // [C_out, C_in / groups, d, h, w]
};

absl::Status CheckExtents(const LaunchParams& params, const Operand& operand) {
  RETURN_IF_ERROR(WantRank(params, operand, 5));
  for (int i = 2; i < 5; ++i) {
    if (operand.sizes[i] >= kMaxExtent) {
      return OperandError(params, operand, "is too large");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConvolutionOf(const LaunchParams& params,
                                const Convolution& conv) {
  const auto& [input, output, weight] = conv;
  RETURN_IF_ERROR(WantParameters(params, 10, 0));
  RETURN_IF_ERROR(WantFloating(params, input));
  RETURN_IF_ERROR(WantDType(params, output, input.dtype));
  RETURN_IF_ERROR(WantDType(params, weight, input.dtype));
  for (const Operand* operand : {&input, &output, &weight}) {
    RETURN_IF_ERROR(CheckExtents(params, *operand));
  }
  const int64_t groups = params.ints[0];
  if (groups < 1 || input.sizes[1] % groups != 0 ||
      output.sizes[1] % groups != 0) {
    return ParameterError(params, "groups", groups,
                          "a divisor of the channels");
  }
  int64_t taps = 1;
  for (int i = 0; i < 3; ++i) {
    const int64_t stride = params.ints[1 + i];
    const int64_t padding = params.ints[4 + i];
    const int64_t dilation = params.ints[7 + i];
    if (stride < 1 || stride >= kMaxExtent) {
      return ParameterError(params, "stride", stride, "at least 1");
    }
    if (padding < 0 || padding >= kMaxExtent) {
      return ParameterError(params, "padding", padding, "at least 0");
    }
    if (dilation < 1 || dilation >= kMaxExtent) {
      return ParameterError(params, "dilation", dilation, "at least 1");
    }
    // Each output element's window starts within the padded input.
    const int64_t span = dilation * (weight.sizes[2 + i] - 1) + 1;
    const int64_t room = input.sizes[2 + i] + 2 * padding - span;
    const int64_t fit = room < 0 ? 0 : room / stride + 1;
    if (output.sizes[2 + i] > fit) {
      return OperandError(
          params, output,
          absl::StrCat("has size ", output.sizes[2 + i], " in dimension ",
                       2 + i, ", want at most ", fit));
    }
    if (weight.sizes[2 + i] < 1) {
      return OperandError(params, weight, "has an empty window");
    }
    taps *= weight.sizes[2 + i];
    if (taps > kMaxTaps) {
      return OperandError(params, weight, "has too large a window");
    }
  }
  if (input.sizes[0] != output.sizes[0]) {
    return OperandError(params, output, "has another batch than the input");
  }
  return WantSizes(params, weight,
                   {output.sizes[1], input.sizes[1] / groups, weight.sizes[2],
                    weight.sizes[3], weight.sizes[4]});
}

absl::Status CheckBias(const LaunchParams& params) {
  if (params.num_src < 3 || !IsPresent(params.src[2])) return absl::OkStatus();
  RETURN_IF_ERROR(WantSameOrWider(params, params.src[2], params.dst[0].dtype));
  return WantSizes(params, params.src[2], {params.dst[0].sizes[1]});
}

}  // namespace

absl::Status CheckConvolution(const LaunchParams& params, const Program*) {
  RETURN_IF_ERROR(CheckConvolutionOf(
      params, {params.src[0], params.dst[0], params.src[1]}));
  return CheckBias(params);
}

absl::Status CheckConvolutionTranspose(const LaunchParams& params,
                                       const Program*) {
  RETURN_IF_ERROR(CheckConvolutionOf(
      params, {params.dst[0], params.src[0], params.src[1]}));
  return CheckBias(params);
}

absl::Status CheckConvolutionWeight(const LaunchParams& params,
                                    const Program*) {
  return CheckConvolutionOf(params,
                            {params.src[1], params.src[0], params.dst[0]});
}

}  // namespace tvarant::rules

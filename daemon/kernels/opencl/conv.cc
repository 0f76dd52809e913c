// convolution, convolution_transpose, convolution_weight: the choice between
// products over columns and direct sums, and these.

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/conv_problem.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/part_of.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

// Channels times rows of a group up to which its products are no matrices
// worth making.
constexpr int64_t kFewChannels = 16;

// Where neighbours lie along the channels.
bool IsChannelsLast(const ResolvedOperand& x) {
  return x.sizes[1] > 1 && x.strides[1] == 1 && x.strides[4] != 1;
}

ConvProblem ProblemOf(const ResolvedLaunch& launch,
                      const ResolvedOperand& input,
                      const ResolvedOperand& output,
                      const ResolvedOperand& weight) {
  ConvProblem p;
  p.input = input;
  p.output = output;
  p.weight = weight;
  if (launch.src.size() > 2) p.bias = launch.src[2];
  p.groups = launch.ints[0];
  p.images = output.sizes[0];
  ConvGeometry& g = p.g;
  for (int d = 0; d < 3; ++d) {
    g.in_size[d] = input.sizes[2 + d];
    g.out_size[d] = output.sizes[2 + d];
    g.window[d] = weight.sizes[2 + d];
    g.stride[d] = launch.ints[1 + d];
    g.padding[d] = launch.ints[4 + d];
    g.dilation[d] = launch.ints[7 + d];
  }
  for (int d = 0; d < 5; ++d) {
    g.in[d] = input.strides[d];
    g.out[d] = output.strides[d];
    g.weight[d] = weight.strides[d];
  }
  g.channels = input.sizes[1];
  g.group_channels = g.channels / p.groups;
  g.rows = output.sizes[1];
  g.group_rows = g.rows / p.groups;
  return p;
}

absl::Status CheckDType(const KernelContext& context,
                        const ResolvedLaunch& launch) {
  const DType dtype = launch.dst[0].dtype;
  if (IsFloating(dtype) && Computes(context, dtype)) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      NameOf(launch.kernel), ": no OpenCL kernel for ", NameOf(dtype)));
}

bool IsDirect(const ConvProblem& p) {
  return p.groups > 1 && p.g.group_channels * p.g.group_rows <= kFewChannels;
}

absl::Status RunDirect(KernelContext& context, const ConvProblem& p,
                       const ResolvedOperand& result,
                       const ResolvedOperand& source, const char* kernel) {
  ConvGeometry g = p.g;
  g.channels_last = IsChannelsLast(result);
  const int64_t count = NumElements(result);
  KernelCall call(context, kConvCl, kernel, ConvOptions(p));
  call.Operand(result).Operand(source).Operand(p.weight);
  AddConvBias(p, &call);
  return call.Struct(g).Long(count).Run(count);
}

absl::Status RunDirectWeight(KernelContext& context, const ConvProblem& p) {
  const uint32_t group = PowerOfTwoGroup(context.traits());
  return KernelCall(context, kConvCl, "conv_direct_weight", ConvOptions(p))
      .Operand(p.weight)
      .Operand(p.output)
      .Operand(p.input)
      .Struct(p.g)
      .Long(p.images)
      .Local(group * SizeOf(SumDType(p.dtype())))
      .RunGroups(NumElements(p.weight), group);
}

}  // namespace

std::string ConvOptions(const ConvProblem& p) {
  return absl::StrCat("-DT=", ClTypeName(p.dtype()), " -DSUM=",
                      p.dtype() == DType::kFloat64 ? "double" : "float");
}

void AddConvBias(const ConvProblem& p, KernelCall* call) {
  call->Operand(p.bias)
      .Long(p.has_bias() ? p.bias.strides[0] : 0)
      .Int(!p.has_bias()               ? 0
           : p.bias.dtype == p.dtype() ? 1
                                       : 2);
}

absl::Status RunConvolution(KernelContext& context,
                            const ResolvedLaunch& launch) {
  RETURN_IF_ERROR(CheckDType(context, launch));
  const ConvProblem p =
      ProblemOf(launch, launch.src[0], launch.dst[0], launch.src[1]);
  if (NumElements(p.output) == 0) return absl::OkStatus();
  if (!IsDirect(p) && p.g.channels > 0) {
    const absl::Status status = RunConvProducts(context, p);
    if (!absl::IsUnimplemented(status)) return status;
  }
  return RunDirect(context, p, p.output, p.input, "conv_direct");
}

absl::Status RunConvolutionTranspose(KernelContext& context,
                                     const ResolvedLaunch& launch) {
  RETURN_IF_ERROR(CheckDType(context, launch));
  const ConvProblem p =
      ProblemOf(launch, launch.dst[0], launch.src[0], launch.src[1]);
  if (NumElements(p.input) == 0) return absl::OkStatus();
  if (!IsDirect(p) && p.g.rows > 0 && p.space() > 0) {
    const absl::Status status = RunConvTransposeProducts(context, p);
    if (!absl::IsUnimplemented(status)) return status;
  }
  return RunDirect(context, p, p.input, p.output, "conv_direct_transpose");
}

absl::Status RunConvolutionWeight(KernelContext& context,
                                  const ResolvedLaunch& launch) {
  RETURN_IF_ERROR(CheckDType(context, launch));
  const ConvProblem p =
      ProblemOf(launch, launch.src[1], launch.src[0], launch.dst[0]);
  if (NumElements(p.weight) == 0) return absl::OkStatus();
  if (!IsDirect(p) && NumElements(p.output) > 0) {
    const absl::Status status = RunConvWeightProducts(context, p);
    if (!absl::IsUnimplemented(status)) return status;
  }
  return RunDirectWeight(context, p);
}

}  // namespace tvarant::opencl

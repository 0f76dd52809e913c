// Convolutions. PyTorch sends those of a device that isn't built in to the
// overrideable ops, after its own checks of shapes.

#include <ATen/ops/sum.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/volume.h"

namespace tvarant::torch_plugin {
namespace {

using OptionalTensor = std::optional<Tensor>;

struct Convolution {
  IntArrayRef stride, padding, dilation;
  bool transposed;
  IntArrayRef output_padding;
  int64_t groups;
};

void CheckTypes(const Tensor& input, const Tensor& weight,
                const OptionalTensor& bias) {
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (",
              input.toString(), ") and weight type (", weight.toString(),
              ") should be the same");
  TORCH_CHECK(!bias.has_value() || !bias->defined() ||
                  input.scalar_type() == bias->scalar_type(),
              "Input type (", input.toString(), ") and bias type (",
              bias.has_value() ? bias->toString() : "", ") should be the same");
}

// What aten::convolution leaves to its backends.
void CheckGeometry(const Tensor& weight, const Convolution& conv) {
  for (int64_t i = 2; i < weight.dim(); ++i) {
    TORCH_CHECK(weight.size(i) > 0,
                "kernel size should be greater than zero, but got ",
                weight.sizes().slice(2));
    const size_t at = static_cast<size_t>(i - 2);
    TORCH_CHECK(conv.dilation[at] > 0,
                "dilation should be greater than zero, but got ",
                conv.dilation);
    TORCH_CHECK(
        !conv.transposed || conv.output_padding[at] <
                                std::max(conv.stride[at], conv.dilation[at]),
        "output padding must be smaller than either stride or "
        "dilation, but got output_padding: ",
        conv.output_padding, " stride: ", conv.stride,
        " dilation: ", conv.dilation);
  }
}

// PyTorch keeps an input or weight in channels last in that format.
bool UsesChannelsLast(const Tensor& input, const Tensor& weight) {
  return (input.dim() == 4 || input.dim() == 5) &&
         (IsChannelsLast(input) || IsChannelsLast(weight));
}

at::MemoryFormat ChannelsLastOf(int64_t dims) {
  return dims == 5 ? at::MemoryFormat::ChannelsLast3d
                   : at::MemoryFormat::ChannelsLast;
}

Tensor EmptyImage(const Tensor& like, IntArrayRef sizes, bool channels_last) {
  at::TensorOptions options = like.options();
  if (channels_last) {
    options = options.memory_format(
        ChannelsLastOf(static_cast<int64_t>(sizes.size())));
  }
  return CreateOut(sizes, {}, options);
}

at::DimVector OutputSizes(const Tensor& input, const Tensor& weight,
                          const Convolution& conv) {
  at::DimVector sizes{input.size(0), conv.transposed
                                         ? weight.size(1) * conv.groups
                                         : weight.size(0)};
  for (int64_t i = 2; i < input.dim(); ++i) {
    const size_t at = static_cast<size_t>(i - 2);
    const int64_t span = conv.dilation[at] * (weight.size(i) - 1) + 1;
    sizes.push_back(
        conv.transposed
            ? (input.size(i) - 1) * conv.stride[at] - 2 * conv.padding[at] +
                  span + conv.output_padding[at]
            : (input.size(i) + 2 * conv.padding[at] - span) / conv.stride[at] +
                  1);
  }
  for (const int64_t size : sizes) {
    TORCH_CHECK(size >= 0, "convolution: the output would be of size ", sizes);
  }
  return sizes;
}

enum class Direction { kForward, kTranspose, kWeight };

void Launch(Direction direction, const Convolution& conv, const Tensor& dst,
            const Tensor& a, const Tensor& b, const Tensor& bias = {}) {
  const int64_t space = dst.dim() - 2;
  LaunchBuilder launch(direction == Direction::kForward ? Kernel::kConvolution
                       : direction == Direction::kTranspose
                           ? Kernel::kConvolutionTranspose
                           : Kernel::kConvolutionWeight,
                       dst.device());
  AddDst(launch, Volume(dst, space));
  AddSrc(launch, Volume(a, space));
  AddSrc(launch, Volume(b, space));
  if (bias.defined()) launch.Src(bias);
  launch.Int(conv.groups);
  AddInts(launch, SpaceOf(conv.stride, space, 1));
  AddInts(launch, SpaceOf(conv.padding, space, 0));
  AddInts(launch, SpaceOf(conv.dilation, space, 1));
  launch.Run();
}

// Each channel has its own filter: fast where planes are contiguous, or the
// channels lie side by side in both images.
bool NeedsPlanes(const Tensor& weight, int64_t groups, const Tensor& x,
                 const Tensor& y) {
  const bool depthwise =
      groups > 1 && weight.size(1) == 1 && weight.size(0) == groups;
  return depthwise && !(x.stride(1) == 1 && y.stride(1) == 1);
}

// y = conv(x), or the transposed one.
void Apply(const Convolution& conv, bool transposed, const Tensor& x,
           const Tensor& weight, const Tensor& bias, const Tensor& y) {
  if (y.numel() == 0) return;
  if (x.numel() == 0 || weight.numel() == 0) {
    y.zero_();
    if (bias.defined()) {
      at::DimVector shape(static_cast<size_t>(y.dim()), 1);
      shape[1] = bias.numel();
      y.add_(bias.view(shape));
    }
    return;
  }
  const Direction direction =
      transposed ? Direction::kTranspose : Direction::kForward;
  if (!NeedsPlanes(weight, conv.groups, x, y)) {
    Launch(direction, conv, y, x, weight, bias);
    return;
  }
  const Tensor planes = x.contiguous();
  ThroughContiguous(y, [&](const Tensor& result) {
    Launch(direction, conv, result, planes, weight, bias);
  });
}

bool IsHalf(const Tensor& tensor) {
  return tensor.scalar_type() == ScalarType::Half ||
         tensor.scalar_type() == ScalarType::BFloat16;
}

// Half types are widened once rather than in every pass over them.
Tensor Wide(const Tensor& tensor) { return tensor.to(ScalarType::Float); }

Tensor ConvolutionForward(const Tensor& input, const Tensor& weight,
                          const OptionalTensor& bias, IntArrayRef stride,
                          IntArrayRef padding, IntArrayRef dilation,
                          bool transposed, IntArrayRef output_padding,
                          int64_t groups) {
  DeviceCheck("wrapper_PrivateUse1__convolution_overrideable")
      .Add(input, "input")
      .Add(weight, "weight")
      .Add(bias, "bias");
  if (NeedsFallback(input, weight) || !input.is_floating_point()) {
    // The CPU's own choice of an algorithm begins at aten::convolution.
    return FallbackTensor("convolution", "", input, weight, bias, stride,
                          padding, dilation, transposed, output_padding,
                          groups);
  }
  CheckTypes(input, weight, bias);
  const Convolution conv{stride,     padding,        dilation,
                         transposed, output_padding, groups};
  CheckGeometry(weight, conv);
  if (IsHalf(input)) {
    const OptionalTensor wide_bias =
        bias.has_value() && bias->defined() ? Wide(*bias) : bias;
    return ConvolutionForward(Wide(input), Wide(weight), wide_bias, stride,
                              padding, dilation, transposed, output_padding,
                              groups)
        .to(input.scalar_type());
  }
  const Tensor result = EmptyImage(input, OutputSizes(input, weight, conv),
                                   UsesChannelsLast(input, weight));
  Apply(conv, transposed, input, weight, bias.value_or(Tensor()), result);
  return result;
}

Tensor WeightGradient(const Convolution& conv, const Tensor& grad_output,
                      const Tensor& input, const Tensor& weight) {
  const bool channels_last = UsesChannelsLast(input, weight);
  const Tensor result = EmptyImage(weight, weight.sizes(), channels_last);
  if (result.numel() == 0) return result;
  if (grad_output.numel() == 0 || input.numel() == 0) return result.zero_();
  // A transposed convolution has input and output in exchanged roles. Lines of
  // both are read along w.
  const Tensor& y = conv.transposed ? input : grad_output;
  const Tensor& x = conv.transposed ? grad_output : input;
  Launch(Direction::kWeight, conv, result, y.contiguous(), x.contiguous());
  return result;
}

std::tuple<Tensor, Tensor, Tensor> ConvolutionBackward(
    const Tensor& grad_output, const Tensor& input, const Tensor& weight,
    IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
    bool transposed, IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> output_mask) {
  DeviceCheck("wrapper_PrivateUse1__convolution_backward_overrideable")
      .Add(grad_output, "grad_output")
      .Add(input, "input")
      .Add(weight, "weight");
  if (NeedsFallback(grad_output, input, weight) || !input.is_floating_point()) {
    const std::vector<int64_t> bias_sizes = {
        transposed ? weight.size(1) * groups : weight.size(0)};
    const auto results =
        Fallback("convolution_backward", "", grad_output, input, weight,
                 IntArrayRef(bias_sizes), stride, padding, dilation, transposed,
                 output_padding, groups, output_mask);
    return {results[0].toTensor(), results[1].toTensor(),
            results[2].toTensor()};
  }
  CheckTypes(input, weight, grad_output);
  if (IsHalf(input)) {
    auto [dx, dw, db] = ConvolutionBackward(
        Wide(grad_output), Wide(input), Wide(weight), stride, padding, dilation,
        transposed, output_padding, groups, output_mask);
    for (Tensor* gradient : {&dx, &dw, &db}) {
      if (gradient->defined()) *gradient = gradient->to(input.scalar_type());
    }
    return {dx, dw, db};
  }
  const Convolution conv{stride,     padding,        dilation,
                         transposed, output_padding, groups};
  Tensor dinput, dweight, dbias;
  if (output_mask[0]) {
    dinput = EmptyImage(input, input.sizes(), UsesChannelsLast(input, weight));
    Apply(conv, !transposed, grad_output, weight, {}, dinput);
  }
  if (output_mask[1]) {
    dweight = WeightGradient(conv, grad_output, input, weight);
  }
  if (output_mask[2]) {
    std::vector<int64_t> dims{0};
    for (int64_t i = 2; i < grad_output.dim(); ++i) dims.push_back(i);
    dbias = at::sum(grad_output, dims);
  }
  return {dinput, dweight, dbias};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", TORCH_FN(ConvolutionForward));
  m.impl("convolution_backward_overrideable", TORCH_FN(ConvolutionBackward));
}

}  // namespace tvarant::torch_plugin

// Softmax, layer norm, classification loss, dropout, embedding gradient.

#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/layer_norm.h>
#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_meta.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>
#include <torch/library.h>

#include <array>
#include <limits>
#include <tuple>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/pointwise.h"
#include "torch_plugin/runtime/generator.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

void CheckFloating(const char* op, const Tensor& tensor) {
  if (!tensor.is_floating_point()) {
    ThrowNotImplementedFor(op, tensor.scalar_type());
  }
}

// --- softmax, log_softmax --------------------------------------------------

// A 0-dim tensor counts as one of one element.
void AddSoftmaxOperand(LaunchBuilder& launch, const Tensor& tensor,
                       bool is_dst) {
  const at::DimVector sizes =
      tensor.dim() == 0 ? at::DimVector{1} : at::DimVector(tensor.sizes());
  const at::DimVector strides =
      tensor.dim() == 0 ? at::DimVector{1} : at::DimVector(tensor.strides());
  if (is_dst) {
    launch.DstAs(tensor, sizes, strides);
  } else {
    launch.SrcAs(tensor, sizes, strides);
  }
}

void LaunchSoftmax(Kernel kernel, int64_t dim, const Tensor& result,
                   const Tensor& a, const Tensor* b = nullptr) {
  if (result.numel() == 0) return;
  LaunchBuilder launch(kernel, result.device());
  AddSoftmaxOperand(launch, result, true);
  AddSoftmaxOperand(launch, a, false);
  if (b != nullptr) AddSoftmaxOperand(launch, *b, false);
  launch.Int(at::maybe_wrap_dim(dim, result.dim()));
  launch.Run();
}

template <class Meta, Kernel kernel>
struct SoftmaxOp {
  static constexpr const char* kName =
      kernel == Kernel::kSoftmax ? "_softmax" : "_log_softmax";

  static Tensor Functional(const Tensor& self, int64_t dim,
                           bool half_to_float) {
    if (NeedsFallback(self)) {
      return FallbackTensor(kName, "", self, dim, half_to_float);
    }
    CheckFloating(NameOf(kernel), self);
    FunctionalOp<Meta> op;
    op.meta(self, dim, half_to_float);
    LaunchSoftmax(kernel, dim, op.result(), self);
    return op.Finish();
  }
  static Tensor& Out(const Tensor& self, int64_t dim, bool half_to_float,
                     Tensor& out) {
    if (NeedsFallback(self, out)) {
      return FallbackInto(out, kName, "out", self, dim, half_to_float, out);
    }
    CheckFloating(NameOf(kernel), self);
    OutOp<Meta> op(out);
    op.meta(self, dim, half_to_float);
    const SafeResult safe(op.result(), self);
    LaunchSoftmax(kernel, dim, safe.get(), self);
    safe.Finish();
    return op.Finish();
  }
};

template <class Meta, Kernel kernel>
struct SoftmaxBackwardOp {
  static constexpr const char* kName = kernel == Kernel::kSoftmaxBackward
                                           ? "_softmax_backward_data"
                                           : "_log_softmax_backward_data";

  static void Run(const Tensor& grad_output, const Tensor& output, int64_t dim,
                  const Tensor& result) {
    // A half input whose result was float32: computed in the wider type.
    if (result.scalar_type() != grad_output.scalar_type()) {
      const Tensor wide = EmptyLikeOf(grad_output, result.sizes());
      LaunchSoftmax(kernel, dim, wide, grad_output, &output);
      result.copy_(wide);
      return;
    }
    const SafeResult safe(result, grad_output, output);
    LaunchSoftmax(kernel, dim, safe.get(), grad_output, &output);
    safe.Finish();
  }
  static Tensor Functional(const Tensor& grad_output, const Tensor& output,
                           int64_t dim, ScalarType input_dtype) {
    if (NeedsFallback(grad_output, output)) {
      return FallbackTensor(kName, "", grad_output, output, dim, input_dtype);
    }
    CheckFloating(NameOf(kernel), grad_output);
    FunctionalOp<Meta> op;
    op.meta(grad_output, output, dim, input_dtype);
    Run(grad_output, output, dim, op.result());
    return op.Finish();
  }
  static Tensor& Out(const Tensor& grad_output, const Tensor& output,
                     int64_t dim, ScalarType input_dtype, Tensor& out) {
    if (NeedsFallback(grad_output, output, out)) {
      return FallbackInto(out, kName, "out", grad_output, output, dim,
                          input_dtype, out);
    }
    CheckFloating(NameOf(kernel), grad_output);
    OutOp<Meta> op(out);
    op.meta(grad_output, output, dim, input_dtype);
    Run(grad_output, output, dim, op.result());
    return op.Finish();
  }
};

using Softmax = SoftmaxOp<meta::structured__softmax, Kernel::kSoftmax>;
using LogSoftmax =
    SoftmaxOp<meta::structured__log_softmax, Kernel::kLogSoftmax>;
using SoftmaxBackward =
    SoftmaxBackwardOp<meta::structured__softmax_backward_data,
                      Kernel::kSoftmaxBackward>;
using LogSoftmaxBackward =
    SoftmaxBackwardOp<meta::structured__log_softmax_backward_data,
                      Kernel::kLogSoftmaxBackward>;

// --- layer_norm ----------------------------------------------------------

using OptionalTensor = std::optional<Tensor>;

// The parameter as N numbers of the input's type; undefined if absent.
Tensor Parameter(const OptionalTensor& parameter, const Tensor& input) {
  if (!parameter.has_value() || !parameter->defined()) return {};
  return parameter->to(input.scalar_type()).contiguous();
}

void AddVectorOrAbsent(LaunchBuilder& launch, const Tensor& tensor,
                       bool is_dst) {
  if (!tensor.defined()) {
    if (is_dst) {
      launch.DstOrAbsent(tensor);
    } else {
      launch.SrcOrAbsent(tensor);
    }
    return;
  }
  const std::array<int64_t, 1> size{tensor.numel()}, stride{1};
  if (is_dst) {
    launch.DstAs(tensor, size, stride);
  } else {
    launch.SrcAs(tensor, size, stride);
  }
}

// Statistics of half types are kept in float32, as on other accelerators.
ScalarType StatisticsType(ScalarType type) {
  return type == ScalarType::Half || type == ScalarType::BFloat16
             ? ScalarType::Float
             : type;
}

std::tuple<Tensor, Tensor, Tensor> LayerNorm(const Tensor& input,
                                             IntArrayRef normalized_shape,
                                             const OptionalTensor& weight,
                                             const OptionalTensor& bias,
                                             double eps) {
  DeviceCheck("wrapper_PrivateUse1__native_layer_norm")
      .Add(input, "input")
      .Add(weight, "weight")
      .Add(bias, "bias");
  if (NeedsFallback(input)) {
    const auto results = Fallback("native_layer_norm", "", input,
                                  normalized_shape, weight, bias, eps);
    return {results[0].toTensor(), results[1].toTensor(),
            results[2].toTensor()};
  }
  CheckFloating("LayerNormKernelImpl", input);
  const Tensor no_tensor;
  const auto [rows, columns] = at::native::_check_layer_norm_inputs(
      input, normalized_shape, weight.value_or(no_tensor),
      bias.value_or(no_tensor));
  const auto lead = input.sizes().slice(
      0, static_cast<size_t>(input.dim()) - normalized_shape.size());
  at::DimVector statistics_shape(lead);
  statistics_shape.resize(static_cast<size_t>(input.dim()), 1);
  Tensor result = EmptyLikeOf(input, input.sizes());
  const ScalarType statistics = StatisticsType(input.scalar_type());
  Tensor mean = EmptyLikeOf(input, statistics_shape, statistics);
  Tensor rstd = EmptyLikeOf(input, statistics_shape, statistics);
  if (rows == 0 || columns == 0) return {result, mean, rstd};

  const Tensor x = input.contiguous();
  const Tensor w = Parameter(weight, input), b = Parameter(bias, input);
  const std::array<int64_t, 2> sizes{rows, columns}, strides{columns, 1};
  LaunchBuilder launch(Kernel::kLayerNorm, input.device());
  launch.DstAs(result, sizes, strides);
  AddVectorOrAbsent(launch, mean, true);
  AddVectorOrAbsent(launch, rstd, true);
  launch.SrcAs(x, sizes, strides);
  AddVectorOrAbsent(launch, w, false);
  AddVectorOrAbsent(launch, b, false);
  launch.params().scalar = eps;
  launch.Run();
  return {result, mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> LayerNormBackward(
    const Tensor& grad_out, const Tensor& input, IntArrayRef normalized_shape,
    const Tensor& mean, const Tensor& rstd, const OptionalTensor& weight,
    const OptionalTensor& bias, std::array<bool, 3> output_mask) {
  DeviceCheck("wrapper_PrivateUse1__native_layer_norm_backward")
      .Add(grad_out, "grad_out")
      .Add(input, "input")
      .Add(mean, "mean")
      .Add(rstd, "rstd")
      .Add(weight, "weight")
      .Add(bias, "bias");
  if (NeedsFallback(grad_out, input)) {
    const auto results =
        Fallback("native_layer_norm_backward", "", grad_out, input,
                 normalized_shape, mean, rstd, weight, bias, output_mask);
    return {results[0].toTensor(), results[1].toTensor(),
            results[2].toTensor()};
  }
  CheckFloating("LayerNormBackwardKernelImpl", input);
  const Tensor no_tensor;
  const auto [rows, columns] = at::native::_check_layer_norm_inputs(
      input, normalized_shape, weight.value_or(no_tensor),
      bias.value_or(no_tensor));
  Tensor dx, dweight, dbias;
  if (output_mask[0]) dx = EmptyLikeOf(input, input.sizes());
  if (output_mask[1]) dweight = EmptyLikeOf(input, normalized_shape);
  if (output_mask[2]) dbias = EmptyLikeOf(input, normalized_shape);
  if (rows == 0 || columns == 0) {
    if (dweight.defined()) dweight.zero_();
    if (dbias.defined()) dbias.zero_();
    return {dx, dweight, dbias};
  }

  const Tensor dy = grad_out.to(input.scalar_type()).contiguous();
  const Tensor x = input.contiguous();
  const Tensor w = Parameter(weight, input);
  const std::array<int64_t, 2> sizes{rows, columns}, strides{columns, 1};
  LaunchBuilder launch(Kernel::kLayerNormBackward, input.device());
  if (dx.defined()) {
    launch.DstAs(dx, sizes, strides);
  } else {
    launch.DstOrAbsent(dx);
  }
  AddVectorOrAbsent(launch, dweight, true);
  AddVectorOrAbsent(launch, dbias, true);
  const Tensor means = mean.contiguous(), rstds = rstd.contiguous();
  launch.SrcAs(dy, sizes, strides).SrcAs(x, sizes, strides);
  AddVectorOrAbsent(launch, means, false);
  AddVectorOrAbsent(launch, rstds, false);
  AddVectorOrAbsent(launch, w, false);
  if (dx.defined() || dweight.defined() || dbias.defined()) launch.Run();
  // Gradients have the parameters' own type.
  const auto as_parameter = [](Tensor gradient, const OptionalTensor& like) {
    return gradient.defined() && like.has_value() && like->defined()
               ? gradient.to(like->scalar_type())
               : gradient;
  };
  return {dx, as_parameter(dweight, weight), as_parameter(dbias, bias)};
}

// --- nll_loss ------------------------------------------------------------

at::OptionalTensorRef Ref(const OptionalTensor& tensor) {
  return tensor.has_value() && tensor->defined()
             ? at::OptionalTensorRef(*tensor)
             : at::OptionalTensorRef();
}

// One sample without a batch dimension counts as a batch of one.
struct Batched {
  at::DimVector logp_sizes, logp_strides;
  int64_t rows;
};

Batched Batch(const Tensor& logp) {
  if (logp.dim() == 1) {
    return {{1, logp.size(0)}, {0, logp.stride(0)}, 1};
  }
  return {at::DimVector(logp.sizes()), at::DimVector(logp.strides()),
          logp.size(0)};
}

void AddPerRow(LaunchBuilder& launch, const Tensor& tensor, int64_t rows,
               bool is_dst) {
  const std::array<int64_t, 1> size{rows},
      stride{tensor.dim() == 0 ? 0 : tensor.stride(0)};
  if (is_dst) {
    launch.DstAs(tensor, size, stride);
  } else {
    launch.SrcAs(tensor, size, stride);
  }
}

Tensor ClassTarget(const Tensor& target) {
  TORCH_CHECK(target.scalar_type() == ScalarType::Long ||
                  target.scalar_type() == ScalarType::Byte,
              "expected scalar type Long or Byte but found ",
              target.scalar_type());
  return target.to(ScalarType::Long);
}

std::tuple<Tensor&, Tensor&> NllLossForwardOut(
    const Tensor& self, const Tensor& target, const OptionalTensor& weight,
    int64_t reduction, int64_t ignore_index, Tensor& output,
    Tensor& total_weight) {
  DeviceCheck("wrapper_PrivateUse1_nll_loss_forward_out_output")
      .Add(output, "output")
      .Add(total_weight, "total_weight")
      .Add(self, "self")
      .Add(target, "target")
      .Add(weight, "weight");
  if (NeedsFallback(self, output)) {
    Fallback("nll_loss_forward", "output", self, target, weight, reduction,
             ignore_index, output, total_weight);
    return {output, total_weight};
  }
  CheckFloating("nll_loss_out_frame", self);
  OutOp<meta::structured_nll_loss_forward, 2> op(output, total_weight);
  op.meta(self, target, Ref(weight), reduction, ignore_index);
  const Tensor& loss = op.result(0);
  const Tensor& total = op.result(1);
  if (self.numel() == 0) {
    total.zero_();
    if (loss.numel() > 0) {
      loss.fill_(reduction == at::Reduction::Mean
                     ? std::numeric_limits<double>::quiet_NaN()
                     : 0.0);
    }
    op.Finish();
    return {output, total_weight};
  }
  const Batched batch = Batch(self);
  const Tensor classes = ClassTarget(target);
  const Tensor weights = Parameter(weight, self);
  LaunchBuilder launch(Kernel::kNllLoss, self.device());
  if (reduction == at::Reduction::None) {
    AddPerRow(launch, loss, batch.rows, true);
  } else {
    launch.Dst(loss);
  }
  launch.Dst(total).SrcAs(self, batch.logp_sizes, batch.logp_strides);
  AddPerRow(launch, classes, batch.rows, false);
  launch.SrcOrAbsent(weights).Int(reduction).Int(ignore_index);
  launch.Run();
  op.Finish();
  return {output, total_weight};
}

Tensor& NllLossBackwardOut(const Tensor& grad_output, const Tensor& self,
                           const Tensor& target, const OptionalTensor& weight,
                           int64_t reduction, int64_t ignore_index,
                           const Tensor& total_weight, Tensor& grad_input) {
  DeviceCheck("wrapper_PrivateUse1_nll_loss_backward_out_grad_input")
      .Add(grad_input, "grad_input")
      .Add(grad_output, "grad_output")
      .Add(self, "self")
      .Add(target, "target")
      .Add(weight, "weight")
      .Add(total_weight, "total_weight");
  if (NeedsFallback(grad_output, self, grad_input)) {
    return FallbackInto(grad_input, "nll_loss_backward", "grad_input",
                        grad_output, self, target, weight, reduction,
                        ignore_index, total_weight, grad_input);
  }
  CheckFloating("nll_loss_backward_out_frame", self);
  OutOp<meta::structured_nll_loss_backward> op(grad_input);
  op.meta(grad_output, self, target, Ref(weight), reduction, ignore_index,
          total_weight);
  const Tensor& result = op.result();
  if (result.numel() > 0) {
    const Batched batch = Batch(result);
    const Tensor classes = ClassTarget(target);
    const Tensor weights = Parameter(weight, self);
    LaunchBuilder launch(Kernel::kNllLossBackward, self.device());
    launch.DstAs(result, batch.logp_sizes, batch.logp_strides);
    if (reduction == at::Reduction::None) {
      AddPerRow(launch, grad_output, batch.rows, false);
    } else {
      launch.SrcAs(grad_output, {}, {});
    }
    AddPerRow(launch, classes, batch.rows, false);
    launch.SrcOrAbsent(weights).SrcAs(total_weight, {}, {});
    launch.Int(reduction).Int(ignore_index);
    launch.Run();
  }
  return op.Finish();
}

// --- dropout -------------------------------------------------------------

// Counters that a launch over n elements uses (proto/ops/kernels.md).
uint64_t DropoutCounters(const Tensor& tensor) {
  const auto n = static_cast<uint64_t>(tensor.numel());
  return tensor.element_size() == 8 ? (n + 1) / 2 : (n + 3) / 4;
}

std::tuple<Tensor, Tensor> Dropout(const Tensor& input, double p,
                                   std::optional<bool> train) {
  TORCH_CHECK(p >= 0 && p <= 1,
              "dropout probability has to be between 0 and 1, but got ", p);
  if (!train.value_or(true) || input.numel() == 0) {
    Tensor mask = EmptyLikeOf(input, input.sizes(), ScalarType::Bool);
    if (mask.numel() > 0) mask.fill_(true);
    return {input.clone(), mask};
  }
  CheckFloating("native_dropout", input);
  CheckHasKernels("native_dropout", input.scalar_type());
  // As on other accelerators: dense inputs keep their strides.
  const bool dense = input.is_non_overlapping_and_dense();
  const at::DimVector strides =
      dense ? at::DimVector(input.strides()) : at::DimVector();
  Tensor output = CreateOut(input.sizes(), strides, input.options());
  Tensor mask = CreateOut(input.sizes(), strides,
                          input.options().dtype(ScalarType::Bool));
  if (p == 1) {
    output.zero_();
    mask.zero_();
    return {output, mask};
  }
  const PhiloxPoint point =
      PhiloxNext(std::nullopt, input.device(), DropoutCounters(input));
  LaunchBuilder launch(Kernel::kDropout, input.device());
  launch.Dst(output).Dst(mask).Src(input);
  launch.Int(static_cast<int64_t>(point.seed))
      .Int(static_cast<int64_t>(point.offset))
      .Float(p);
  launch.Run();
  return {output, mask};
}

int EmitMaskedScale(Emitter& e) {
  return e.Mul(e.Mul(e.In(0), e.In(1)), e.Scalar(0));
}

Tensor DropoutBackward(const Tensor& grad_output, const Tensor& mask,
                       double scale) {
  TORCH_CHECK(mask.scalar_type() == ScalarType::Bool,
              "Mask should be Bool Scalar Type", mask.scalar_type());
  if (NeedsFallback(grad_output)) {
    return FallbackTensor("native_dropout_backward", "", grad_output, mask,
                          scale);
  }
  if (!grad_output.is_floating_point()) {
    return grad_output.mul(mask).mul(scale);
  }
  Tensor out;
  auto iter = at::TensorIteratorConfig()
                  .add_output(out)
                  .add_const_input(grad_output)
                  .add_const_input(mask)
                  .check_all_same_dtype(false)
                  .declare_static_dtype(grad_output.scalar_type())
                  .build();
  RunPointwise(iter, EmitMaskedScale, Scalar(scale), grad_output.scalar_type());
  return iter.output();
}

// --- embedding -----------------------------------------------------------

// Indices may lie on the host: they are uploaded.
Tensor EmbeddingDenseBackward(const Tensor& grad_output, const Tensor& indices,
                              int64_t num_weights, int64_t padding_idx,
                              bool scale_grad_by_freq) {
  TORCH_CHECK(indices.scalar_type() == ScalarType::Long ||
                  indices.scalar_type() == ScalarType::Int,
              "Expected tensor for argument #2 'indices' to have one of the "
              "following scalar types: Long, Int; but got ",
              indices.scalar_type(), " instead");
  if (NeedsFallback(grad_output)) {
    return FallbackTensor("embedding_dense_backward", "", grad_output, indices,
                          num_weights, padding_idx, scale_grad_by_freq);
  }
  CheckFloating("embedding_backward", grad_output);
  const int64_t width = grad_output.size(-1);
  Tensor result = EmptyLikeOf(grad_output, {num_weights, width});
  if (indices.numel() == 0) return result.zero_();
  if (result.numel() == 0) return result;
  const Tensor flat = indices.to(grad_output.device()).reshape({-1});
  const Tensor rows = grad_output.reshape({flat.numel(), width});
  LaunchBuilder launch(Kernel::kEmbeddingBackward, grad_output.device());
  launch.Dst(result).Src(rows).Src(flat);
  launch.Int(padding_idx).Int(scale_grad_by_freq ? 1 : 0);
  launch.Run();
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_softmax", &Softmax::Functional);
  m.impl("_softmax.out", &Softmax::Out);
  m.impl("_log_softmax", &LogSoftmax::Functional);
  m.impl("_log_softmax.out", &LogSoftmax::Out);
  m.impl("_softmax_backward_data", &SoftmaxBackward::Functional);
  m.impl("_softmax_backward_data.out", &SoftmaxBackward::Out);
  m.impl("_log_softmax_backward_data", &LogSoftmaxBackward::Functional);
  m.impl("_log_softmax_backward_data.out", &LogSoftmaxBackward::Out);
  m.impl("native_layer_norm", &LayerNorm);
  m.impl("native_layer_norm_backward", &LayerNormBackward);
  m.impl("nll_loss_forward.output", &NllLossForwardOut);
  m.impl("nll_loss_backward.grad_input", &NllLossBackwardOut);
  m.impl("native_dropout", &Dropout);
  m.impl("native_dropout_backward", &DropoutBackward);
  m.impl("embedding_dense_backward", &EmbeddingDenseBackward);
}

}  // namespace tvarant::torch_plugin

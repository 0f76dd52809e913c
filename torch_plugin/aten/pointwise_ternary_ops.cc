// Element-wise ops of three operands, selection, limits, simple losses.

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/addcdiv_meta.h>
#include <ATen/ops/addcmul_meta.h>
#include <ATen/ops/clamp_max_meta.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_min_meta.h>
#include <ATen/ops/lerp_meta.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mse_loss_meta.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/smooth_l1_loss_meta.h>
#include <ATen/ops/sum.h>

#include <cmath>
#include <limits>

#include "torch_plugin/aten/loss_support.h"
#include "torch_plugin/aten/structured_op.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

// --- Emitters ------------------------------------------------------------

int EmitAddcmul(Emitter& e) {
  if (e.is_bool()) ThrowNotImplementedFor("addcmul", ScalarType::Bool);
  return e.Add(e.In(0), e.Mul(e.Mul(e.Scalar(0), e.In(1)), e.In(2)));
}
int EmitAddcdiv(Emitter& e) {
  return e.Add(e.In(0), e.Div(e.Mul(e.Scalar(0), e.In(1)), e.In(2)));
}
int EmitLerp(Emitter& e) {
  return e.Op(PointwiseOp::kLerp, e.In(0), e.In(1), e.In(2));
}
int EmitLerpNumber(Emitter& e) {
  return e.Op(PointwiseOp::kLerp, e.In(0), e.In(1), e.Scalar(0));
}

void RefuseBool(const Emitter& e, const char* op) {
  if (e.is_bool()) ThrowNotImplementedFor(op, ScalarType::Bool);
}
int EmitClamp(Emitter& e) {
  RefuseBool(e, "clamp");
  return e.Op(PointwiseOp::kClamp, e.In(0), e.Scalar(0), e.Scalar(1));
}
int EmitClampMin(Emitter& e) {
  return e.Op(PointwiseOp::kMaximum, e.In(0), e.Scalar(0));
}
int EmitClampMax(Emitter& e) {
  return e.Op(PointwiseOp::kMinimum, e.In(0), e.Scalar(0));
}
int EmitClampTensors(Emitter& e) {
  RefuseBool(e, "clamp");
  return e.Op(PointwiseOp::kClamp, e.In(0), e.In(1), e.In(2));
}
int EmitClampMinTensor(Emitter& e) {
  return e.Op(PointwiseOp::kMaximum, e.In(0), e.In(1));
}
int EmitClampMaxTensor(Emitter& e) {
  return e.Op(PointwiseOp::kMinimum, e.In(0), e.In(1));
}

int EmitWhere(Emitter& e) { return e.Select(e.InRaw(0), e.In(1), e.In(2)); }
// self, mask; the number.
int EmitMaskedFill(Emitter& e) {
  return e.Select(e.InRaw(1), e.Scalar(0), e.In(0));
}
// self, mask, value.
int EmitMaskedFillTensor(Emitter& e) {
  return e.Select(e.InRaw(1), e.In(2), e.In(0));
}

// nan, posinf, neginf.
int EmitNanToNum(Emitter& e) {
  const int x = e.In(0);
  return e.Select(
      e.Test(PointwiseOp::kIsNan, x), e.Scalar(0),
      e.Select(e.Test(PointwiseOp::kIsPosInf, x), e.Scalar(1),
               e.Select(e.Test(PointwiseOp::kIsNegInf, x), e.Scalar(2), x)));
}
int EmitSame(Emitter& e) { return e.In(0); }

int EmitSquaredError(Emitter& e) {
  return e.Op(PointwiseOp::kSquare, e.Sub(e.In(0), e.In(1)));
}
// input, target, gradient; factor.
int EmitSquaredErrorBackward(Emitter& e) {
  return e.Mul(e.Mul(e.Scalar(0), e.Sub(e.In(0), e.In(1))), e.In(2));
}
// z < beta ? z^2 / (2 beta) : z - beta / 2
int EmitSmoothL1(Emitter& e) {
  const int z = e.Op(PointwiseOp::kAbs, e.Sub(e.In(0), e.In(1)));
  const int beta = e.Scalar(0), half = e.Const(0.5);
  return e.Select(e.Test(PointwiseOp::kLt, z, beta),
                  e.Div(e.Mul(half, e.Op(PointwiseOp::kSquare, z)), beta),
                  e.Sub(z, e.Mul(half, beta)));
}
// input, target, gradient; factor, beta.
int EmitSmoothL1Backward(Emitter& e) {
  const int x = e.Sub(e.In(0), e.In(1)), beta = e.Scalar(1);
  const int step = e.Mul(e.Scalar(0), e.In(2));
  return e.Select(e.Test(PointwiseOp::kLe, x, e.Op(PointwiseOp::kNeg, beta)),
                  e.Op(PointwiseOp::kNeg, step),
                  e.Select(e.Test(PointwiseOp::kGe, x, beta), step,
                           e.Div(e.Mul(step, x), beta)));
}

// --- clamp ---------------------------------------------------------------

using OptionalNumber = std::optional<Scalar>;
using OptionalTensor = std::optional<Tensor>;

at::OptionalScalarRef Ref(const OptionalNumber& number) {
  return number.has_value() ? at::OptionalScalarRef(*number)
                            : at::OptionalScalarRef();
}
at::OptionalTensorRef Ref(const OptionalTensor& tensor) {
  return tensor.has_value() && tensor->defined()
             ? at::OptionalTensorRef(*tensor)
             : at::OptionalTensorRef();
}

void RunClamp(at::TensorIteratorBase& op, const OptionalNumber& min,
              const OptionalNumber& max) {
  if (min.has_value() && max.has_value()) {
    RunPointwise(op, EmitClamp, {{*min, *max}});
  } else if (min.has_value()) {
    RunPointwise(op, EmitClampMin, *min);
  } else {
    RunPointwise(op, EmitClampMax, *max);
  }
}

Tensor Clamp(const Tensor& self, const OptionalNumber& min,
             const OptionalNumber& max) {
  if (NeedsFallback(self, min, max)) {
    return FallbackTensor("clamp", "", self, min, max);
  }
  FunctionalOp<meta::structured_clamp> op;
  op.meta(self, Ref(min), Ref(max));
  RunClamp(op, min, max);
  return op.Finish();
}

Tensor& ClampInplace(Tensor& self, const OptionalNumber& min,
                     const OptionalNumber& max) {
  if (NeedsFallback(self, min, max)) {
    return FallbackInto(self, "clamp_", "", self, min, max);
  }
  using Op = OutOp<meta::structured_clamp>;
  Op op(Op::Mode::kInplace, self);
  op.meta(self, Ref(min), Ref(max));
  RunClamp(op, min, max);
  return op.Finish();
}

Tensor& ClampOut(const Tensor& self, const OptionalNumber& min,
                 const OptionalNumber& max, Tensor& out) {
  if (NeedsFallback(self, min, max, out)) {
    return FallbackInto(out, "clamp", "out", self, min, max, out);
  }
  OutOp<meta::structured_clamp> op(out);
  op.meta(self, Ref(min), Ref(max));
  RunClamp(op, min, max);
  return op.Finish();
}

Tensor& ClampTensorsOut(const Tensor& self, const OptionalTensor& min,
                        const OptionalTensor& max, Tensor& out) {
  if (NeedsFallback(self, min, max, out)) {
    return FallbackInto(out, "clamp", "Tensor_out", self, min, max, out);
  }
  OutOp<meta::structured_clamp_Tensor> op(out);
  const at::OptionalTensorRef low = Ref(min), high = Ref(max);
  op.meta(self, low, high);
  RunPointwise(op, low.has_value() && high.has_value() ? EmitClampTensors
                   : low.has_value()                   ? EmitClampMinTensor
                                                       : EmitClampMaxTensor);
  return op.Finish();
}

// --- where ---------------------------------------------------------------

// A 0-dim host tensor may stand beside device tensors.
bool IsHostScalar(const Tensor& tensor) {
  return tensor.dim() == 0 && tensor.device().is_cpu();
}

Tensor& WhereOut(const Tensor& condition, const Tensor& self,
                 const Tensor& other, Tensor& out) {
  if (NeedsFallback(self, other, out) || LacksKernels(condition)) {
    return FallbackInto(out, "where", "self_out", condition, self, other, out);
  }
  const ScalarType type = at::result_type(self, other);
  TORCH_CHECK(out.scalar_type() == type, "Expected out type to be ", type,
              " but got ", out.scalar_type());
  TORCH_CHECK(condition.scalar_type() == ScalarType::Bool ||
                  condition.scalar_type() == ScalarType::Byte,
              "where expected condition to be a boolean tensor, but got a "
              "tensor with dtype ",
              condition.scalar_type());
  // The condition's value is read by the kernel: it must be on the device.
  const Tensor on_device = IsHostScalar(condition) && OnDevice(out)
                               ? condition.to(out.device())
                               : condition;
  auto iter = at::TensorIteratorConfig()
                  .check_all_same_dtype(false)
                  .allow_cpu_scalars(true)
                  .add_output(out)
                  .add_const_input(on_device)
                  .add_const_input(self)
                  .add_const_input(other)
                  .build();
  RunPointwise(iter, EmitWhere, {}, type);
  return out;
}

Tensor Where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  if (NeedsFallback(condition, self, other)) {
    return FallbackTensor("where", "self", condition, self, other);
  }
  const Tensor& placed = OnDevice(condition) ? condition
                         : OnDevice(self)    ? self
                                             : other;
  Tensor out = EmptyOn(placed.device(), {0}, at::result_type(self, other));
  return WhereOut(condition, self, other, out);
}

// --- masked_fill ---------------------------------------------------------

at::TensorIterator MaskedIterator(Tensor& self, const Tensor& mask,
                                  const Tensor* value) {
  TORCH_CHECK(mask.scalar_type() == ScalarType::Bool,
              "masked_fill_ only supports boolean masks, but got mask with "
              "dtype ",
              mask.scalar_type());
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false)
      .check_all_same_dtype(false)
      .resize_outputs(false)
      .allow_cpu_scalars(true)
      .add_output(self)
      .add_const_input(self)
      .add_const_input(mask);
  if (value != nullptr) config.add_const_input(*value);
  return config.build();
}

Tensor& MaskedFillScalar(Tensor& self, const Tensor& mask,
                         const Scalar& value) {
  if (NeedsFallback(self) || (value.isComplex() && !self.is_complex())) {
    return FallbackInto(self, "masked_fill_", "Scalar", self, mask, value);
  }
  at::assert_no_internal_overlap(self);
  DeviceCheck("masked_fill_").Add(self, "self").Add(mask, "mask");
  auto iter = MaskedIterator(self, mask, nullptr);
  RunPointwise(iter, EmitMaskedFill, value, self.scalar_type());
  return self;
}

Tensor& MaskedFillTensor(Tensor& self, const Tensor& mask,
                         const Tensor& value) {
  TORCH_CHECK(value.dim() == 0,
              "masked_fill_ only supports a 0-dimensional value tensor, but "
              "got tensor with ",
              value.dim(), " dimension(s).");
  if (NeedsFallback(self, value)) {
    return FallbackInto(self, "masked_fill_", "Tensor", self, mask, value);
  }
  if (!OnDevice(value)) return MaskedFillScalar(self, mask, value.item());
  at::assert_no_internal_overlap(self);
  DeviceCheck("masked_fill_")
      .Add(self, "self")
      .Add(mask, "mask")
      .Add(value, "value");
  auto iter = MaskedIterator(self, mask, &value);
  RunPointwise(iter, EmitMaskedFillTensor, {}, self.scalar_type());
  return self;
}

// --- nan_to_num ----------------------------------------------------------

double LargestOf(ScalarType type) {
  switch (type) {
    case ScalarType::Half:
      return 65504.0;
    case ScalarType::BFloat16:
      return 3.3895313892515355e38;
    case ScalarType::Float:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

Tensor& NanToNumOut(const Tensor& self, std::optional<double> nan,
                    std::optional<double> posinf, std::optional<double> neginf,
                    Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "nan_to_num: dtype of out: ", out.scalar_type(),
              " should be same as input: ", self.scalar_type());
  if (NeedsFallback(self)) {
    return FallbackInto(out, "nan_to_num", "out", self, nan, posinf, neginf,
                        out);
  }
  auto iter = at::TensorIterator::unary_op(out, self);
  if (!self.is_floating_point()) {
    RunPointwise(iter, EmitSame);
    return out;
  }
  const double largest = LargestOf(self.scalar_type());
  RunPointwise(iter, EmitNanToNum,
               {{Scalar(nan.value_or(0.0)), Scalar(posinf.value_or(largest)),
                 Scalar(neginf.value_or(-largest))}});
  return out;
}

// --- Losses --------------------------------------------------------------

Tensor& MseLossOut(const Tensor& self, const Tensor& target, int64_t reduction,
                   Tensor& out) {
  if (NeedsFallback(self, target, out)) {
    return FallbackInto(out, "mse_loss", "out", self, target, reduction, out);
  }
  if (reduction == at::Reduction::None) {
    OutOp<meta::structured_mse_loss> op(out);
    op.meta(self, target, reduction);
    RunPointwise(op, EmitSquaredError);
    return op.Finish();
  }
  Tensor each;
  auto iter = at::TensorIterator::borrowing_binary_op(each, self, target);
  RunPointwise(iter, EmitSquaredError);
  return Reduced(iter.output(), reduction, out);
}

Tensor& SmoothL1LossOut(const Tensor& self, const Tensor& target,
                        int64_t reduction, double beta, Tensor& out) {
  if (NeedsFallback(self, target, out)) {
    return FallbackInto(out, "smooth_l1_loss", "out", self, target, reduction,
                        beta, out);
  }
  TORCH_CHECK(beta >= 0,
              "smooth_l1_loss does not support negative values for beta.");
  if (reduction == at::Reduction::None) {
    OutOp<meta::structured_smooth_l1_loss> op(out);
    op.meta(self, target, reduction, beta);
    RunPointwise(op, EmitSmoothL1, Scalar(beta));
    return op.Finish();
  }
  Tensor each;
  auto iter = at::TensorIterator::borrowing_binary_op(each, self, target);
  RunPointwise(iter, EmitSmoothL1, Scalar(beta));
  return Reduced(iter.output(), reduction, out);
}

at::TensorIterator LossGradientIterator(Tensor& grad_input, const Tensor& input,
                                        const Tensor& target,
                                        const Tensor& grad_output) {
  return at::TensorIteratorConfig()
      .add_output(grad_input)
      .add_const_input(input)
      .add_const_input(target)
      .add_const_input(grad_output)
      .build();
}

Tensor& MseLossBackwardOut(const Tensor& grad_output, const Tensor& self,
                           const Tensor& target, int64_t reduction,
                           Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, target, grad_input)) {
    return FallbackInto(grad_input, "mse_loss_backward", "grad_input",
                        grad_output, self, target, reduction, grad_input);
  }
  auto iter = LossGradientIterator(grad_input, self, target, grad_output);
  RunPointwise(iter, EmitSquaredErrorBackward,
               Scalar(2.0 * MeanFactor(self.numel(), reduction)));
  grad_input = iter.output();
  return grad_input;
}

Tensor MseLossBackward(const Tensor& grad_output, const Tensor& self,
                       const Tensor& target, int64_t reduction) {
  if (NeedsFallback(grad_output, self, target)) {
    return FallbackTensor("mse_loss_backward", "", grad_output, self, target,
                          reduction);
  }
  // As PyTorch: shaped like the input, broadcast only to a larger target.
  Tensor grad_input;
  return MseLossBackwardOut(grad_output, self, target, reduction, grad_input);
}

Tensor& SmoothL1LossBackwardOut(const Tensor& grad_output, const Tensor& self,
                                const Tensor& target, int64_t reduction,
                                double beta, Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, target, grad_input)) {
    return FallbackInto(grad_input, "smooth_l1_loss_backward", "grad_input",
                        grad_output, self, target, reduction, beta, grad_input);
  }
  auto iter = LossGradientIterator(grad_input, self, target, grad_output);
  RunPointwise(iter, EmitSmoothL1Backward,
               {{Scalar(MeanFactor(self.numel(), reduction)), Scalar(beta)}});
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  StructuredOp<"addcmul", "", "out", &meta::structured_addcmul::meta,
               EmitAddcmul>::Register(m);
  StructuredOp<"addcdiv", "", "out", &meta::structured_addcdiv::meta,
               EmitAddcdiv>::Register(m);
  StructuredOp<"lerp", "Scalar", "Scalar_out",
               &meta::structured_lerp_Scalar::meta,
               EmitLerpNumber>::Register(m);
  StructuredOp<"lerp", "Tensor", "Tensor_out",
               &meta::structured_lerp_Tensor::meta, EmitLerp>::Register(m);

  m.impl("clamp", &Clamp);
  m.impl("clamp_", &ClampInplace);
  m.impl("clamp.out", &ClampOut);
  m.impl("clamp.Tensor_out", &ClampTensorsOut);
  StructuredOp<"clamp_min", "", "out", &meta::structured_clamp_min::meta,
               EmitClampMin>::Register(m);
  StructuredOp<"clamp_max", "", "out", &meta::structured_clamp_max::meta,
               EmitClampMax>::Register(m);
  StructuredOp<"clamp_min", "Tensor", "Tensor_out",
               &meta::structured_clamp_min_Tensor::meta,
               EmitClampMinTensor>::Register(m);
  StructuredOp<"clamp_max", "Tensor", "Tensor_out",
               &meta::structured_clamp_max_Tensor::meta,
               EmitClampMaxTensor>::Register(m);

  m.impl("where.self", &Where);
  m.impl("where.self_out", &WhereOut);
  m.impl("masked_fill_.Scalar", &MaskedFillScalar);
  m.impl("masked_fill_.Tensor", &MaskedFillTensor);
  m.impl("nan_to_num.out", &NanToNumOut);

  m.impl("mse_loss.out", &MseLossOut);
  m.impl("mse_loss_backward", &MseLossBackward);
  m.impl("mse_loss_backward.grad_input", &MseLossBackwardOut);
  m.impl("smooth_l1_loss.out", &SmoothL1LossOut);
  m.impl("smooth_l1_loss_backward.grad_input", &SmoothL1LossBackwardOut);
}

}  // namespace tvarant::torch_plugin

// Activations and their gradients.

#include <ATen/ops/elu_backward_meta.h>
#include <ATen/ops/elu_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu_backward_meta.h>
#include <ATen/ops/gelu_meta.h>
#include <ATen/ops/hardshrink_backward_meta.h>
#include <ATen/ops/hardshrink_meta.h>
#include <ATen/ops/hardsigmoid_backward_meta.h>
#include <ATen/ops/hardsigmoid_meta.h>
#include <ATen/ops/leaky_relu_backward_meta.h>
#include <ATen/ops/leaky_relu_meta.h>
#include <ATen/ops/mish_meta.h>
#include <ATen/ops/sigmoid_backward_meta.h>
#include <ATen/ops/silu_backward_meta.h>
#include <ATen/ops/silu_meta.h>
#include <ATen/ops/softplus_backward_meta.h>
#include <ATen/ops/softplus_meta.h>
#include <ATen/ops/softshrink_backward_meta.h>
#include <ATen/ops/softshrink_meta.h>
#include <ATen/ops/tanh_backward_meta.h>
#include <ATen/ops/threshold_backward_meta.h>
#include <ATen/ops/threshold_meta.h>

#include <tuple>

#include "torch_plugin/aten/structured_op.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

// --- Emitters: In(0), In(1) in the order of the op's iterator --------------

int EmitRelu(Emitter& e) {
  if (e.is_bool()) ThrowNotImplementedFor("relu", ScalarType::Bool);
  return e.Op(PointwiseOp::kRelu, e.In(0));
}

int EmitLeakyRelu(Emitter& e) {
  const int x = e.In(0);
  return e.Select(e.Test(PointwiseOp::kGt, x, e.Const(0)), x,
                  e.Mul(x, e.Scalar(0)));
}
// In(0) is the input, In(1) the gradient.
int EmitLeakyReluBackward(Emitter& e) {
  const int gradient = e.In(1);
  return e.Select(e.Test(PointwiseOp::kGt, e.In(0), e.Const(0)), gradient,
                  e.Mul(gradient, e.Scalar(0)));
}

// Parameters: alpha, scale, input_scale.
int EmitElu(Emitter& e) {
  const int x = e.In(0), scale = e.Scalar(1);
  const int negative = e.Mul(e.Op(PointwiseOp::kExpm1, e.Mul(x, e.Scalar(2))),
                             e.Mul(e.Scalar(0), scale));
  return e.Select(e.Test(PointwiseOp::kLt, x, e.Const(0)), negative,
                  e.Mul(x, scale));
}
// d elu = input_scale * (elu + alpha * scale), from the result.
int EmitEluBackwardOfResult(Emitter& e) {
  const int gradient = e.In(0), y = e.In(1), scale = e.Scalar(1);
  const int negative =
      e.Mul(e.Mul(gradient, e.Scalar(2)), e.Add(y, e.Mul(e.Scalar(0), scale)));
  return e.Select(e.Test(PointwiseOp::kLe, y, e.Const(0)), negative,
                  e.Mul(gradient, scale));
}
int EmitEluBackwardOfInput(Emitter& e) {
  const int gradient = e.In(0), x = e.In(1), scale = e.Scalar(1);
  const int negative =
      e.Mul(e.Mul(e.Mul(gradient, e.Scalar(2)), e.Mul(e.Scalar(0), scale)),
            e.Op(PointwiseOp::kExp, e.Mul(x, e.Scalar(2))));
  return e.Select(e.Test(PointwiseOp::kLe, x, e.Const(0)), negative,
                  e.Mul(gradient, scale));
}

// x <= threshold ? value : x; NaN stays.
int EmitThreshold(Emitter& e) {
  const int x = e.In(0);
  return e.Select(e.Test(PointwiseOp::kLe, x, e.Scalar(0)), e.Scalar(1), x);
}
// In(0) is the input, In(1) the gradient.
int EmitThresholdBackward(Emitter& e) {
  return e.Op(PointwiseOp::kThresholdGrad, e.In(1), e.In(0), e.Scalar(0));
}

// |x| <= lambda
int InBand(Emitter& e, int x) {
  const int low = e.Op(PointwiseOp::kNeg, e.Scalar(0));
  return e.Test(PointwiseOp::kLogicalAnd, e.Test(PointwiseOp::kGe, x, low),
                e.Test(PointwiseOp::kLe, x, e.Scalar(0)));
}
int EmitHardshrink(Emitter& e) {
  const int x = e.In(0);
  return e.Select(InBand(e, x), e.Const(0), x);
}
int EmitShrinkBackward(Emitter& e) {
  return e.Select(InBand(e, e.In(1)), e.Const(0), e.In(0));
}
int EmitSoftshrink(Emitter& e) {
  const int x = e.In(0), lambda = e.Scalar(0);
  const int low = e.Op(PointwiseOp::kNeg, lambda);
  return e.Select(e.Test(PointwiseOp::kGt, x, lambda), e.Sub(x, lambda),
                  e.Select(e.Test(PointwiseOp::kLt, x, low), e.Add(x, lambda),
                           e.Mul(x, e.Const(0))));
}

int EmitSoftplus(Emitter& e) {
  return e.Op(PointwiseOp::kSoftplus, e.In(0), e.Scalar(0), e.Scalar(1));
}
int EmitSoftplusBackward(Emitter& e) {
  const int gradient = e.In(0);
  const int scaled = e.Mul(e.In(1), e.Scalar(0));
  return e.Select(e.Test(PointwiseOp::kGt, scaled, e.Scalar(1)), gradient,
                  e.Mul(gradient, e.Op(PointwiseOp::kSigmoid, scaled)));
}

int EmitHardsigmoidBackward(Emitter& e) {
  const int gradient = e.In(0), x = e.In(1);
  const int inside =
      e.Test(PointwiseOp::kLogicalAnd, e.Test(PointwiseOp::kGt, x, e.Const(-3)),
             e.Test(PointwiseOp::kLt, x, e.Const(3)));
  return e.Select(inside, e.Div(gradient, e.Const(6)), e.Const(0));
}

// 0 below -3, g above 3, g * (x / 3 + 1/2) between.
int EmitHardswishBackward(Emitter& e) {
  const int gradient = e.In(0), x = e.In(1);
  const int middle = e.Mul(gradient, e.Add(e.Div(x, e.Const(3)), e.Const(0.5)));
  return e.Select(
      e.Test(PointwiseOp::kLe, x, e.Const(-3)), e.Const(0),
      e.Select(e.Test(PointwiseOp::kGe, x, e.Const(3)), gradient, middle));
}

int EmitHardtanh(Emitter& e) {
  const int x = e.In(0);
  return e.Op(PointwiseOp::kClamp, x, e.Scalar(0), e.Scalar(1));
}
int EmitHardtanhBackward(Emitter& e) {
  const int x = e.In(1);
  const int outside =
      e.Test(PointwiseOp::kLogicalOr, e.Test(PointwiseOp::kLe, x, e.Scalar(0)),
             e.Test(PointwiseOp::kGe, x, e.Scalar(1)));
  return e.Select(outside, e.Const(0), e.In(0));
}

// g * sigmoid(-x)
int EmitLogSigmoidBackward(Emitter& e) {
  return e.Mul(e.In(0),
               e.Op(PointwiseOp::kSigmoid, e.Op(PointwiseOp::kNeg, e.In(1))));
}

// d mish = g * (tanh(sp) + x * (1 - tanh(sp)^2) * sigmoid(x)), sp = softplus
int EmitMishBackward(Emitter& e) {
  const int x = e.In(1);
  const int t = e.Op(PointwiseOp::kTanh,
                     e.Op(PointwiseOp::kLog1p, e.Op(PointwiseOp::kExp, x)));
  const int slope = e.Mul(e.Mul(x, e.Op(PointwiseOp::kSigmoid, x)),
                          e.Sub(e.Const(1), e.Op(PointwiseOp::kSquare, t)));
  return e.Mul(e.In(0), e.Add(t, slope));
}

// --- relu ----------------------------------------------------------------

Tensor Relu(const Tensor& self) {
  if (NeedsFallback(self)) return FallbackTensor("relu", "", self);
  if (Tensor result = FastUnary(EmitRelu, self); result.defined()) {
    return result;
  }
  Tensor out;
  auto iter = at::TensorIterator::unary_op(out, self);
  RunPointwise(iter, EmitRelu);
  return iter.output();
}

Tensor& ReluInplace(Tensor& self) {
  if (FastUnaryInto(EmitRelu, self, self)) return self;
  if (NeedsFallback(self)) return FallbackInto(self, "relu_", "", self);
  auto iter = at::TensorIterator::unary_op(self, self);
  RunPointwise(iter, EmitRelu);
  return self;
}

// --- gelu ----------------------------------------------------------------

bool IsTanh(c10::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh",
              "approximate argument must be either none or tanh.");
  return approximate == "tanh";
}

EmitFn GeluEmitter(c10::string_view approximate) {
  return IsTanh(approximate) ? EmitUnary<PointwiseOp::kGeluTanh>
                             : EmitUnary<PointwiseOp::kGelu>;
}

Tensor Gelu(const Tensor& self, c10::string_view approximate) {
  const EmitFn emit = GeluEmitter(approximate);
  if (self.is_floating_point()) {
    if (Tensor result = FastUnary(emit, self); result.defined()) return result;
  }
  if (NeedsFallback(self)) {
    return FallbackTensor("gelu", "", self, approximate);
  }
  FunctionalOp<meta::structured_gelu> op;
  op.meta(self, approximate);
  RunPointwise(op, emit);
  return op.Finish();
}

Tensor& GeluOut(const Tensor& self, c10::string_view approximate, Tensor& out) {
  const EmitFn emit = GeluEmitter(approximate);
  if (self.is_floating_point() && FastUnaryInto(emit, self, out)) return out;
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "gelu", "out", self, approximate, out);
  }
  OutOp<meta::structured_gelu> op(out);
  op.meta(self, approximate);
  RunPointwise(op, emit);
  return op.Finish();
}

Tensor& GeluInplace(Tensor& self, c10::string_view approximate) {
  return GeluOut(self, approximate, self);
}

Tensor& GeluBackwardOut(const Tensor& grad_output, const Tensor& self,
                        c10::string_view approximate, Tensor& grad_input) {
  const EmitFn emit = IsTanh(approximate)
                          ? EmitBinary<PointwiseOp::kGeluTanhGrad>
                          : EmitBinary<PointwiseOp::kGeluGrad>;
  if (NeedsFallback(grad_output, self, grad_input)) {
    return FallbackInto(grad_input, "gelu_backward", "grad_input", grad_output,
                        self, approximate, grad_input);
  }
  OutOp<meta::structured_gelu_backward> op(grad_input);
  op.meta(grad_output, self, approximate);
  RunPointwise(op, emit);
  return op.Finish();
}

// --- Gradients of structured ops: grad_input is the out form ---------------

Tensor& EluBackwardOut(const Tensor& grad_output, const Scalar& alpha,
                       const Scalar& scale, const Scalar& input_scale,
                       bool is_result, const Tensor& self_or_result,
                       Tensor& grad_input) {
  if (NeedsFallback(grad_output, self_or_result, grad_input)) {
    return FallbackInto(grad_input, "elu_backward", "grad_input", grad_output,
                        alpha, scale, input_scale, is_result, self_or_result,
                        grad_input);
  }
  OutOp<meta::structured_elu_backward> op(grad_input);
  op.meta(grad_output, alpha, scale, input_scale, is_result, self_or_result);
  RunPointwise(op, is_result ? EmitEluBackwardOfResult : EmitEluBackwardOfInput,
               {{alpha, scale, input_scale}});
  return op.Finish();
}

// Its functional form is composite, but only called below autograd.
Tensor SiluBackward(const Tensor& grad_output, const Tensor& self) {
  return StructuredOp<
      "silu_backward", "", "grad_input", &meta::structured_silu_backward::meta,
      EmitBinary<PointwiseOp::kSiluGrad>, Fast::kFloat>::Functional(grad_output,
                                                                    self);
}

// --- Ops without a meta class ----------------------------------------------

Tensor Binary(const Tensor& a, const Tensor& b, EmitFn emit,
              Parameters parameters = {}) {
  Tensor out;
  auto iter = at::TensorIterator::borrowing_binary_op(out, a, b);
  RunPointwise(iter, emit, parameters);
  return iter.output();
}

Tensor& BinaryOut(Tensor& out, const Tensor& a, const Tensor& b, EmitFn emit,
                  Parameters parameters = {}) {
  auto iter = at::TensorIterator::borrowing_binary_op(out, a, b);
  RunPointwise(iter, emit, parameters);
  return out;
}

Tensor& HardtanhOut(const Tensor& self, const Scalar& min_val,
                    const Scalar& max_val, Tensor& out) {
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "hardtanh", "out", self, min_val, max_val, out);
  }
  TORCH_CHECK(self.scalar_type() != ScalarType::Bool,
              "Bool inputs not supported for hardtanh");
  Scalar low = min_val, high = max_val;
  if (c10::isIntegralType(self.scalar_type(), /*includeBool=*/false)) {
    low = min_val.toLong();
    high = max_val.toLong();
    TORCH_CHECK(self.scalar_type() != ScalarType::Byte ||
                    (low.toLong() >= 0 && high.toLong() >= 0),
                "cannot do hardtanh on an unsigned type with negative limits");
  }
  TORCH_CHECK(low.toDouble() <= high.toDouble(),
              "min_val cannot be greater than max_val");
  auto iter = at::TensorIterator::unary_op(out, self);
  RunPointwise(iter, EmitHardtanh, {{low, high}});
  out = iter.output();
  return out;
}

Tensor Hardtanh(const Tensor& self, const Scalar& min_val,
                const Scalar& max_val) {
  if (NeedsFallback(self)) {
    return FallbackTensor("hardtanh", "", self, min_val, max_val);
  }
  Tensor out;
  return HardtanhOut(self, min_val, max_val, out);
}

Tensor& HardtanhInplace(Tensor& self, const Scalar& min_val,
                        const Scalar& max_val) {
  return HardtanhOut(self, min_val, max_val, self);
}

Tensor HardtanhBackward(const Tensor& grad_output, const Tensor& self,
                        const Scalar& min_val, const Scalar& max_val) {
  if (NeedsFallback(grad_output, self)) {
    return FallbackTensor("hardtanh_backward", "", grad_output, self, min_val,
                          max_val);
  }
  return Binary(grad_output, self, EmitHardtanhBackward, {{min_val, max_val}});
}

Tensor& HardtanhBackwardOut(const Tensor& grad_output, const Tensor& self,
                            const Scalar& min_val, const Scalar& max_val,
                            Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, grad_input)) {
    return FallbackInto(grad_input, "hardtanh_backward", "grad_input",
                        grad_output, self, min_val, max_val, grad_input);
  }
  return BinaryOut(grad_input, grad_output, self, EmitHardtanhBackward,
                   {{min_val, max_val}});
}

Tensor Hardswish(const Tensor& self) {
  if (NeedsFallback(self)) return FallbackTensor("hardswish", "", self);
  Tensor out;
  auto iter = at::TensorIterator::unary_op(out, self);
  RunPointwise(iter, EmitUnary<PointwiseOp::kHardswish>);
  return iter.output();
}

Tensor& HardswishOut(const Tensor& self, Tensor& out) {
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "hardswish", "out", self, out);
  }
  auto iter = at::TensorIterator::unary_op(out, self);
  RunPointwise(iter, EmitUnary<PointwiseOp::kHardswish>);
  return out;
}

Tensor& HardswishInplace(Tensor& self) { return HardswishOut(self, self); }

Tensor HardswishBackward(const Tensor& grad_output, const Tensor& self) {
  if (NeedsFallback(grad_output, self)) {
    return FallbackTensor("hardswish_backward", "", grad_output, self);
  }
  return Binary(grad_output, self, EmitHardswishBackward);
}

// The buffer of the forward pass is for the CPU kernel alone: empty here.
std::tuple<Tensor, Tensor> LogSigmoidForward(const Tensor& self) {
  if (NeedsFallback(self)) {
    const auto results = Fallback("log_sigmoid_forward", "", self);
    return {results[0].toTensor(), results[1].toTensor()};
  }
  Tensor out;
  auto iter = at::TensorIterator::unary_op(out, self);
  RunPointwise(iter, EmitUnary<PointwiseOp::kLogSigmoid>);
  return {iter.output(), EmptyLikeOf(self, {0})};
}

std::tuple<Tensor&, Tensor&> LogSigmoidForwardOut(const Tensor& self,
                                                  Tensor& output,
                                                  Tensor& buffer) {
  if (NeedsFallback(self, output)) {
    Fallback("log_sigmoid_forward", "output", self, output, buffer);
    return {output, buffer};
  }
  auto iter = at::TensorIterator::unary_op(output, self);
  RunPointwise(iter, EmitUnary<PointwiseOp::kLogSigmoid>);
  return {output, buffer};
}

Tensor LogSigmoidBackward(const Tensor& grad_output, const Tensor& self,
                          const Tensor& buffer) {
  if (NeedsFallback(grad_output, self)) {
    return FallbackTensor("log_sigmoid_backward", "", grad_output, self,
                          buffer);
  }
  return Binary(grad_output, self, EmitLogSigmoidBackward);
}

Tensor& LogSigmoidBackwardOut(const Tensor& grad_output, const Tensor& self,
                              const Tensor& buffer, Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, grad_input)) {
    return FallbackInto(grad_input, "log_sigmoid_backward", "grad_input",
                        grad_output, self, buffer, grad_input);
  }
  return BinaryOut(grad_input, grad_output, self, EmitLogSigmoidBackward);
}

Tensor MishBackward(const Tensor& grad_output, const Tensor& self) {
  if (NeedsFallback(grad_output, self)) {
    return FallbackTensor("mish_backward", "", grad_output, self);
  }
  return Binary(grad_output, self, EmitMishBackward);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("relu", &Relu);
  m.impl("relu_", &ReluInplace);
  m.impl("gelu", &Gelu);
  m.impl("gelu_", &GeluInplace);
  m.impl("gelu.out", &GeluOut);
  m.impl("gelu_backward.grad_input", &GeluBackwardOut);

#define TVARANT_ACTIVATION(name, emit, fast)                           \
  StructuredOp<#name, "", "out", &meta::structured_##name::meta, emit, \
               fast>::Register(m)
  TVARANT_ACTIVATION(silu, EmitUnary<PointwiseOp::kSilu>, Fast::kFloat);
  TVARANT_ACTIVATION(mish, EmitUnary<PointwiseOp::kMish>, Fast::kFloat);
  TVARANT_ACTIVATION(hardsigmoid, EmitUnary<PointwiseOp::kHardsigmoid>,
                     Fast::kFloat);
  TVARANT_ACTIVATION(elu, EmitElu, Fast::kNever);
  TVARANT_ACTIVATION(leaky_relu, EmitLeakyRelu, Fast::kNever);
  TVARANT_ACTIVATION(threshold, EmitThreshold, Fast::kNever);
#undef TVARANT_ACTIVATION
#define TVARANT_ACTIVATION(name, emit)                           \
  StructuredOp<#name, "", "out", &meta::structured_##name::meta, \
               emit>::RegisterNoInplace(m)
  TVARANT_ACTIVATION(hardshrink, EmitHardshrink);
  TVARANT_ACTIVATION(softshrink, EmitSoftshrink);
  TVARANT_ACTIVATION(softplus, EmitSoftplus);
#undef TVARANT_ACTIVATION

#define TVARANT_GRADIENT(name, emit, fast)                                    \
  StructuredOp<#name, "", "grad_input", &meta::structured_##name::meta, emit, \
               fast>::RegisterNoInplace(m)
  TVARANT_GRADIENT(sigmoid_backward, EmitBinary<PointwiseOp::kSigmoidGrad>,
                   Fast::kFloat);
  TVARANT_GRADIENT(tanh_backward, EmitBinary<PointwiseOp::kTanhGrad>,
                   Fast::kFloat);
  TVARANT_GRADIENT(hardsigmoid_backward, EmitHardsigmoidBackward, Fast::kFloat);
  TVARANT_GRADIENT(threshold_backward, EmitThresholdBackward, Fast::kNever);
  TVARANT_GRADIENT(leaky_relu_backward, EmitLeakyReluBackward, Fast::kNever);
  TVARANT_GRADIENT(hardshrink_backward, EmitShrinkBackward, Fast::kNever);
  TVARANT_GRADIENT(softshrink_backward, EmitShrinkBackward, Fast::kNever);
  TVARANT_GRADIENT(softplus_backward, EmitSoftplusBackward, Fast::kNever);
#undef TVARANT_GRADIENT
  m.impl("silu_backward", &SiluBackward);
  m.impl("silu_backward.grad_input",
         &StructuredOp<"silu_backward", "", "grad_input",
                       &meta::structured_silu_backward::meta,
                       EmitBinary<PointwiseOp::kSiluGrad>, Fast::kFloat>::Out);
  m.impl("elu_backward.grad_input", &EluBackwardOut);

  m.impl("hardtanh", &Hardtanh);
  m.impl("hardtanh_", &HardtanhInplace);
  m.impl("hardtanh.out", &HardtanhOut);
  m.impl("hardtanh_backward", &HardtanhBackward);
  m.impl("hardtanh_backward.grad_input", &HardtanhBackwardOut);
  m.impl("hardswish", &Hardswish);
  m.impl("hardswish_", &HardswishInplace);
  m.impl("hardswish.out", &HardswishOut);
  m.impl("hardswish_backward", &HardswishBackward);
  m.impl("log_sigmoid_forward", &LogSigmoidForward);
  m.impl("log_sigmoid_forward.output", &LogSigmoidForwardOut);
  m.impl("log_sigmoid_backward", &LogSigmoidBackward);
  m.impl("log_sigmoid_backward.grad_input", &LogSigmoidBackwardOut);
  m.impl("mish_backward", &MishBackward);
}

}  // namespace tvarant::torch_plugin

// Element-wise ops of parts of tensors, or with several results: gated
// activations, logit, frexp, complex numbers from their parts.

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/logit_backward_meta.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <tuple>

#include "torch_plugin/aten/structured_op.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

// --- glu ----------------------------------------------------------------

int EmitGlu(Emitter& e) {
  return e.Mul(e.In(0), e.Op(PointwiseOp::kSigmoid, e.In(1)));
}
// gate, value, gradient: (1 - sigmoid(gate)) sigmoid(gate) value gradient
int EmitGluGateBackward(Emitter& e) {
  const int gate = e.Op(PointwiseOp::kSigmoid, e.In(0));
  return e.Mul(e.Mul(e.Mul(e.Sub(e.Const(1), gate), gate), e.In(2)), e.In(1));
}

struct Halves {
  Tensor value, gate;
};
Halves HalvesOf(const Tensor& self, int64_t dim) {
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  const int64_t size = self.size(wrapped);
  TORCH_CHECK(size % 2 == 0, "Halving dimension must be even, but dimension ",
              wrapped, " is size ", size);
  return {self.narrow(wrapped, 0, size / 2),
          self.narrow(wrapped, size / 2, size / 2)};
}

Tensor& GluOut(const Tensor& self, int64_t dim, Tensor& out) {
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "glu", "out", self, dim, out);
  }
  const Halves halves = HalvesOf(self, dim);
  auto iter =
      at::TensorIterator::borrowing_binary_op(out, halves.value, halves.gate);
  RunPointwise(iter, EmitGlu);
  return out;
}

Tensor Glu(const Tensor& self, int64_t dim) {
  if (NeedsFallback(self)) return FallbackTensor("glu", "", self, dim);
  const Halves halves = HalvesOf(self, dim);
  Tensor out;
  auto iter =
      at::TensorIterator::borrowing_binary_op(out, halves.value, halves.gate);
  RunPointwise(iter, EmitGlu);
  return iter.output();
}

Tensor& GluBackwardOut(const Tensor& grad_output, const Tensor& self,
                       int64_t dim, Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, grad_input)) {
    return FallbackInto(grad_input, "glu_backward", "grad_input", grad_output,
                        self, dim, grad_input);
  }
  const Halves halves = HalvesOf(self, dim);
  ResizeOut(grad_input, self.sizes(), {}, self.options());
  const Halves result = HalvesOf(grad_input, dim);
  const auto iterator = [&](const Tensor& out, const Tensor* extra) {
    at::TensorIteratorConfig config;
    config.resize_outputs(false).add_output(out);
    if (extra != nullptr) {
      config.add_const_input(halves.gate).add_const_input(*extra);
    } else {
      config.add_const_input(grad_output).add_const_input(halves.gate);
    }
    if (extra != nullptr) config.add_const_input(grad_output);
    return config.build();
  };
  // The first result may stand where the second one's operands are.
  const SafeResult gate(result.gate, halves.value, halves.gate, grad_output);
  auto gate_iter = iterator(gate.get(), &halves.value);
  RunPointwise(gate_iter, EmitGluGateBackward);
  auto value_iter = iterator(result.value, nullptr);
  RunPointwise(value_iter, EmitGlu);
  gate.Finish();
  return grad_input;
}

Tensor GluBackward(const Tensor& grad_output, const Tensor& self, int64_t dim) {
  Tensor grad_input = EmptyLikeOf(self, {0});
  return GluBackwardOut(grad_output, self, dim, grad_input);
}

// --- logit --------------------------------------------------------------

int EmitLogit(Emitter& e) {
  const int x = e.In(0);
  return e.Op(PointwiseOp::kLog, e.Div(x, e.Sub(e.Const(1), x)));
}
// Clamped to [eps, 1 - eps] first.
int EmitClampedLogit(Emitter& e) {
  const int x = e.Op(PointwiseOp::kClamp, e.In(0), e.Scalar(0), e.Scalar(1));
  return e.Op(PointwiseOp::kLog, e.Div(x, e.Sub(e.Const(1), x)));
}

// In float16 and bfloat16 the limits are numbers of the type, as PyTorch's.
int EmitLogitBackward(Emitter& e) {
  const int x = e.In(1);
  const int inside =
      e.Test(PointwiseOp::kLogicalAnd, e.Test(PointwiseOp::kGe, x, e.Scalar(0)),
             e.Test(PointwiseOp::kLe, x, e.Scalar(1)));
  const int slope = e.Div(e.In(0), e.Mul(x, e.Sub(e.Const(1), x)));
  return e.Select(inside, slope, e.Scalar(2));
}

void RunLogit(at::TensorIteratorBase& iter, std::optional<double> eps) {
  if (!eps.has_value() || *eps < 0) {
    RunPointwise(iter, EmitLogit);
  } else {
    RunPointwise(iter, EmitClampedLogit, {{Scalar(*eps), Scalar(1 - *eps)}});
  }
}

Tensor& LogitOut(const Tensor& self, std::optional<double> eps, Tensor& out) {
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "logit", "out", self, eps, out);
  }
  auto iter = at::TensorIterator::unary_float_op(out, self);
  RunLogit(iter, eps);
  return out;
}
Tensor Logit(const Tensor& self, std::optional<double> eps) {
  if (NeedsFallback(self)) return FallbackTensor("logit", "", self, eps);
  Tensor out;
  auto iter = at::TensorIterator::unary_float_op(out, self);
  RunLogit(iter, eps);
  return iter.output();
}
Tensor& LogitInplace(Tensor& self, std::optional<double> eps) {
  return LogitOut(self, eps, self);
}

Tensor& LogitBackwardOut(const Tensor& grad_output, const Tensor& self,
                         std::optional<double> eps, Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, grad_input)) {
    return FallbackInto(grad_input, "logit_backward", "grad_input", grad_output,
                        self, eps, grad_input);
  }
  OutOp<meta::structured_logit_backward> op(grad_input);
  op.meta(grad_output, self, eps);
  // Outside of [0, 1] the value is NaN; outside of what a clamp keeps, 0.
  const bool clamps = eps.has_value() && *eps >= 0;
  const double low = clamps ? *eps : 0;
  RunPointwise(op, EmitLogitBackward,
               {{Scalar(low), Scalar(1 - low),
                 Scalar(clamps ? 0.0 : static_cast<double>(NAN))}});
  return op.Finish();
}

// --- prelu --------------------------------------------------------------

int EmitPrelu(Emitter& e) {
  const int x = e.In(0);
  return e.Select(e.Test(PointwiseOp::kGt, x, e.Const(0)), x,
                  e.Mul(e.In(1), x));
}
// x, weight, gradient.
int EmitPreluInputBackward(Emitter& e) {
  const int gradient = e.In(2);
  return e.Select(e.Test(PointwiseOp::kGt, e.In(0), e.Const(0)), gradient,
                  e.Mul(e.In(1), gradient));
}
// x, gradient.
int EmitPreluWeightBackward(Emitter& e) {
  const int x = e.In(0);
  return e.Select(e.Test(PointwiseOp::kGt, x, e.Const(0)), e.Const(0),
                  e.Mul(x, e.In(1)));
}

Tensor Prelu(const Tensor& self, const Tensor& weight) {
  if (NeedsFallback(self, weight)) {
    return FallbackTensor("_prelu_kernel", "", self, weight);
  }
  // The result has self's strides: weight is expanded to it.
  Tensor out =
      CreateOut(self.sizes(), {},
                self.options().memory_format(self.suggest_memory_format()));
  auto iter = at::TensorIteratorConfig()
                  .add_output(out)
                  .add_const_input(self)
                  .add_const_input(weight)
                  .build();
  RunPointwise(iter, EmitPrelu);
  return out;
}

std::tuple<Tensor, Tensor> PreluBackward(const Tensor& grad_output,
                                         const Tensor& self,
                                         const Tensor& weight) {
  if (NeedsFallback(grad_output, self, weight)) {
    const auto results =
        Fallback("_prelu_kernel_backward", "", grad_output, self, weight);
    return {results[0].toTensor(), results[1].toTensor()};
  }
  Tensor dx, dweight;
  auto iter = at::TensorIteratorConfig()
                  .add_output(dx)
                  .add_const_input(self)
                  .add_const_input(weight)
                  .add_const_input(grad_output)
                  .build();
  RunPointwise(iter, EmitPreluInputBackward);
  auto weight_iter = at::TensorIteratorConfig()
                         .add_output(dweight)
                         .add_const_input(self)
                         .add_const_input(grad_output)
                         .build();
  RunPointwise(weight_iter, EmitPreluWeightBackward);
  return {iter.output(), weight_iter.output()};
}

// --- rrelu --------------------------------------------------------------

Tensor& RreluOut(const Tensor& self, Tensor& noise, const Scalar& lower,
                 const Scalar& upper, bool training,
                 std::optional<at::Generator> generator, Tensor& out) {
  TORCH_CHECK(self.sizes() == noise.sizes() || !training,
              "noise tensor shape must match self tensor shape. Got self.shape "
              "= ",
              self.sizes(), " noise.shape = ", noise.sizes());
  if (!training) {
    const double slope = (lower.toDouble() + upper.toDouble()) / 2;
    return at::leaky_relu_out(out, self, slope);
  }
  const Tensor drawn =
      EmptyLikeOf(self, self.sizes())
          .uniform_(lower.toDouble(), upper.toDouble(), generator);
  noise.copy_(at::where(self.le(0), drawn, at::ones_like(self)));
  return at::mul_out(out, self, noise);
}
Tensor Rrelu(const Tensor& self, Tensor& noise, const Scalar& lower,
             const Scalar& upper, bool training,
             std::optional<at::Generator> generator) {
  Tensor out = EmptyLikeOf(self, {0});
  return RreluOut(self, noise, lower, upper, training, std::move(generator),
                  out);
}
Tensor& RreluInplace(Tensor& self, Tensor& noise, const Scalar& lower,
                     const Scalar& upper, bool training,
                     std::optional<at::Generator> generator) {
  return RreluOut(self, noise, lower, upper, training, std::move(generator),
                  self);
}

// --- frexp --------------------------------------------------------------

std::tuple<Tensor&, Tensor&> FrexpOut(const Tensor& self, Tensor& mantissa,
                                      Tensor& exponent) {
  TORCH_CHECK(c10::isFloatingType(self.scalar_type()),
              "torch.frexp() only supports floating-point dtypes");
  TORCH_CHECK(mantissa.dtype() == self.dtype(),
              "torch.frexp() expects mantissa to have dtype ", self.dtype(),
              " but got ", mantissa.dtype());
  TORCH_CHECK(exponent.dtype() == at::kInt,
              "torch.frexp() expects exponent to have int dtype but got ",
              exponent.dtype());
  // As PyTorch: one of the results may stand on the input.
  const Tensor x = self.is_alias_of(mantissa) ? self.clone() : self;
  const auto run = [&x](Tensor& out, EmitFn emit) {
    auto iter = at::TensorIteratorConfig()
                    .check_all_same_dtype(false)
                    .add_output(out)
                    .add_const_input(x)
                    .build();
    RunPointwise(iter, emit, {}, x.scalar_type());
  };
  run(mantissa, EmitUnary<PointwiseOp::kFrexpMantissa>);
  run(exponent, EmitUnary<PointwiseOp::kFrexpExponent>);
  return {mantissa, exponent};
}

// --- Complex numbers ----------------------------------------------------

// pi below 0, else 0; NaN stays.
int EmitAngle(Emitter& e) {
  const int x = e.In(0);
  return e.Select(e.Test(PointwiseOp::kIsNan, x), x,
                  e.Select(e.Test(PointwiseOp::kLt, x, e.Const(0)),
                           e.Const(M_PI), e.Const(0)));
}

Tensor& AngleOut(const Tensor& self, Tensor& out) {
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "angle", "out", self, out);
  }
  auto iter = at::TensorIterator::unary_float_op(out, self);
  RunPointwise(iter, EmitAngle);
  return out;
}
Tensor Angle(const Tensor& self) {
  if (NeedsFallback(self)) return FallbackTensor("angle", "", self);
  Tensor out;
  auto iter = at::TensorIterator::unary_float_op(out, self);
  RunPointwise(iter, EmitAngle);
  return iter.output();
}

// The out tensor of a complex number made of two real ones.
void ShapeComplex(const Tensor& first, const Tensor& second, const Tensor& out,
                  const char* op) {
  TORCH_CHECK((first.scalar_type() == at::kFloat ||
               first.scalar_type() == at::kDouble ||
               first.scalar_type() == at::kHalf) &&
                  (second.scalar_type() == at::kFloat ||
                   second.scalar_type() == at::kDouble ||
                   second.scalar_type() == at::kHalf),
              "Expected both inputs to be Half, Float or Double tensors but "
              "got ",
              first.scalar_type(), " and ", second.scalar_type());
  TORCH_CHECK(first.scalar_type() == second.scalar_type(),
              "Expected object of scalar type ", first.scalar_type(),
              " but got scalar type ", second.scalar_type(),
              " for second argument");
  TORCH_CHECK(c10::toComplexType(first.scalar_type()) == out.scalar_type(),
              "Expected object of scalar type ",
              c10::toComplexType(first.scalar_type()), " but got scalar type ",
              out.scalar_type(), " for argument 'out'");
  DeviceCheck(op).Add(first, "real").Add(second, "imag").Add(out, "out");
  const auto sizes = at::infer_size(first.sizes(), second.sizes());
  ResizeOut(out, sizes, {}, out.options());
}

Tensor& ComplexOut(const Tensor& real, const Tensor& imag, Tensor& out) {
  if (NeedsFallback(real, imag) || out.scalar_type() == at::kComplexHalf) {
    return FallbackInto(out, "complex", "out", real, imag, out);
  }
  ShapeComplex(real, imag, out, "complex");
  const Tensor parts = at::view_as_real(out);
  parts.select(-1, 0).copy_(real);
  parts.select(-1, 1).copy_(imag);
  return out;
}

Tensor& PolarOut(const Tensor& abs, const Tensor& angle, Tensor& out) {
  if (NeedsFallback(abs, angle) || out.scalar_type() == at::kComplexHalf) {
    return FallbackInto(out, "polar", "out", abs, angle, out);
  }
  ShapeComplex(abs, angle, out, "polar");
  const Tensor parts = at::view_as_real(out);
  Tensor real = parts.select(-1, 0), imag = parts.select(-1, 1);
  at::mul_out(real, abs, at::cos(angle));
  at::mul_out(imag, abs, at::sin(angle));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("glu", &Glu);
  m.impl("glu.out", &GluOut);
  m.impl("glu_backward", &GluBackward);
  m.impl("glu_backward.grad_input", &GluBackwardOut);
  m.impl("logit", &Logit);
  m.impl("logit_", &LogitInplace);
  m.impl("logit.out", &LogitOut);
  m.impl("logit_backward.grad_input", &LogitBackwardOut);
  m.impl("_prelu_kernel", &Prelu);
  m.impl("_prelu_kernel_backward", &PreluBackward);
  m.impl("rrelu_with_noise", &Rrelu);
  m.impl("rrelu_with_noise_", &RreluInplace);
  m.impl("rrelu_with_noise.out", &RreluOut);
  m.impl("frexp.Tensor_out", &FrexpOut);
  m.impl("angle", &Angle);
  m.impl("angle.out", &AngleOut);
  m.impl("complex.out", &ComplexOut);
  m.impl("polar.out", &PolarOut);
}

}  // namespace tvarant::torch_plugin

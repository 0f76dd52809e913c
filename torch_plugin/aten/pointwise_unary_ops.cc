// Element-wise ops of one tensor.

#include <ATen/ops/acos_meta.h>
#include <ATen/ops/acosh_meta.h>
#include <ATen/ops/asin_meta.h>
#include <ATen/ops/asinh_meta.h>
#include <ATen/ops/atan_meta.h>
#include <ATen/ops/atanh_meta.h>
#include <ATen/ops/bitwise_not_meta.h>
#include <ATen/ops/ceil_meta.h>
#include <ATen/ops/cos_meta.h>
#include <ATen/ops/cosh_meta.h>
#include <ATen/ops/erf_meta.h>
#include <ATen/ops/erfc_meta.h>
#include <ATen/ops/exp2_meta.h>
#include <ATen/ops/exp_meta.h>
#include <ATen/ops/expm1_meta.h>
#include <ATen/ops/floor_meta.h>
#include <ATen/ops/frac_meta.h>
#include <ATen/ops/isneginf_meta.h>
#include <ATen/ops/isposinf_meta.h>
#include <ATen/ops/lgamma_meta.h>
#include <ATen/ops/log10_meta.h>
#include <ATen/ops/log1p_meta.h>
#include <ATen/ops/log2_meta.h>
#include <ATen/ops/log_meta.h>
#include <ATen/ops/neg_meta.h>
#include <ATen/ops/reciprocal_meta.h>
#include <ATen/ops/round_meta.h>
#include <ATen/ops/rsqrt_meta.h>
#include <ATen/ops/sgn_meta.h>
#include <ATen/ops/sigmoid_meta.h>
#include <ATen/ops/sign_meta.h>
#include <ATen/ops/signbit_meta.h>
#include <ATen/ops/sin_meta.h>
#include <ATen/ops/sinc_meta.h>
#include <ATen/ops/sinh_meta.h>
#include <ATen/ops/sqrt_meta.h>
#include <ATen/ops/tan_meta.h>
#include <ATen/ops/tanh_meta.h>
#include <ATen/ops/trunc_meta.h>

#include <cmath>

#include "torch_plugin/aten/structured_op.h"

namespace tvarant::torch_plugin {
namespace {

// Rounding leaves integers as they are.
template <PointwiseOp op>
int EmitRounding(Emitter& e) {
  if (e.is_bool()) ThrowNotImplementedFor(NameOf(op), e.scalar_type());
  return e.is_floating() ? e.Op(op, e.In(0)) : e.In(0);
}

int EmitBitwiseNot(Emitter& e) {
  return e.is_bool() ? e.Not(e.In(0)) : e.Op(PointwiseOp::kBitNot, e.In(0));
}

// Integers are finite.
template <PointwiseOp op>
int EmitInfTest(Emitter& e) {
  if (e.is_floating()) return e.Test(op, e.In(0));
  const int x = e.In(0);
  return e.Test(PointwiseOp::kNe, x, x);
}

int EmitSignbit(Emitter& e) { return e.Test(PointwiseOp::kSignbit, e.In(0)); }

// sin(pi x) / (pi x), 1 at 0.
int EmitSinc(Emitter& e) {
  const int x = e.In(0);
  const int scaled = e.Mul(x, e.Const(M_PI));
  return e.Select(e.Test(PointwiseOp::kEq, x, e.Const(0)), e.Const(1),
                  e.Div(e.Op(PointwiseOp::kSin, scaled), scaled));
}

int EmitAbs(Emitter& e) {
  if (e.is_bool()) return e.In(0);
  return e.Op(PointwiseOp::kAbs, e.In(0));
}

template <Name name, auto meta, EmitFn emit, Fast fast>
void Register(torch::Library& m) {
  StructuredOp<name, "", "out", meta, emit, fast>::Register(m);
}

// --- Ops without a meta class --------------------------------------------

Tensor Abs(const Tensor& self) {
  if (NeedsFallback(self)) return FallbackTensor("abs", "", self);
  if (Tensor result = FastUnary(EmitAbs, self); result.defined()) {
    return result;
  }
  Tensor out;
  auto iter = at::TensorIterator::unary_op(out, self);
  RunPointwise(iter, EmitAbs);
  return iter.output();
}

Tensor& AbsOut(const Tensor& self, Tensor& out) {
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "abs", "out", self, out);
  }
  auto iter = at::TensorIterator::unary_op(out, self);
  RunPointwise(iter, EmitAbs);
  return out;
}

Tensor& AbsInplace(Tensor& self) {
  if (FastUnaryInto(EmitAbs, self, self)) return self;
  TORCH_CHECK(!self.is_complex(),
              "In-place abs is not supported for complex tensors.");
  return AbsOut(self, self);
}

// A result of true or false, whatever the input's type.
Tensor UnaryTest(const Tensor& self, EmitFn emit) {
  Tensor out;
  auto iter = at::TensorIteratorConfig()
                  .add_output(out)
                  .add_const_input(self)
                  .check_all_same_dtype(false)
                  .declare_static_dtype(ScalarType::Bool)
                  .build();
  RunPointwise(iter, emit, {}, self.scalar_type());
  return iter.output();
}

Tensor IsNan(const Tensor& self) {
  if (NeedsFallback(self)) return FallbackTensor("isnan", "", self);
  return UnaryTest(self, EmitUnaryTest<PointwiseOp::kIsNan>);
}

Tensor IsInf(const Tensor& self) {
  if (NeedsFallback(self)) return FallbackTensor("isinf", "", self);
  return UnaryTest(self, EmitInfTest<PointwiseOp::kIsInf>);
}

Tensor LogicalNot(const Tensor& self) {
  if (NeedsFallback(self)) return FallbackTensor("logical_not", "", self);
  return UnaryTest(self, EmitUnaryTest<PointwiseOp::kLogicalNot>);
}

Tensor& LogicalNotOut(const Tensor& self, Tensor& out) {
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "logical_not", "out", self, out);
  }
  auto iter = at::TensorIteratorConfig()
                  .check_all_same_dtype(false)
                  .add_output(out)
                  .add_const_input(self)
                  .build();
  RunPointwise(iter, EmitUnaryTest<PointwiseOp::kLogicalNot>, {},
               self.scalar_type());
  return out;
}

Tensor& LogicalNotInplace(Tensor& self) { return LogicalNotOut(self, self); }

// round(x * 10^d) / 10^d; for d < 0 the other way round.
int EmitRoundUp(Emitter& e) {
  return e.Div(e.Op(PointwiseOp::kRound, e.Mul(e.In(0), e.Scalar(0))),
               e.Scalar(0));
}
int EmitRoundDown(Emitter& e) {
  return e.Mul(e.Op(PointwiseOp::kRound, e.Div(e.In(0), e.Scalar(0))),
               e.Scalar(0));
}

Tensor& RoundDecimalsOut(const Tensor& self, int64_t decimals, Tensor& out) {
  if (NeedsFallback(self, out) || !self.is_floating_point()) {
    return FallbackInto(out, "round", "decimals_out", self, decimals, out);
  }
  OutOp<at::meta::structured_round_decimals> op(out);
  op.meta(self, decimals);
  const Scalar scale =
      std::pow(10.0, static_cast<double>(decimals < 0 ? -decimals : decimals));
  RunPointwise(op,
               decimals == 0  ? EmitRounding<PointwiseOp::kRound>
               : decimals > 0 ? EmitRoundUp
                              : EmitRoundDown,
               {scale});
  return op.Finish();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define TVARANT_FLOAT_OP(name, Op)                    \
  Register<#name, &at::meta::structured_##name::meta, \
           EmitUnary<PointwiseOp::k##Op>, Fast::kFloat>(m)
  TVARANT_FLOAT_OP(acos, Acos);
  TVARANT_FLOAT_OP(acosh, Acosh);
  TVARANT_FLOAT_OP(asin, Asin);
  TVARANT_FLOAT_OP(asinh, Asinh);
  TVARANT_FLOAT_OP(atan, Atan);
  TVARANT_FLOAT_OP(atanh, Atanh);
  TVARANT_FLOAT_OP(cos, Cos);
  TVARANT_FLOAT_OP(cosh, Cosh);
  TVARANT_FLOAT_OP(erf, Erf);
  TVARANT_FLOAT_OP(erfc, Erfc);
  TVARANT_FLOAT_OP(exp, Exp);
  TVARANT_FLOAT_OP(exp2, Exp2);
  TVARANT_FLOAT_OP(expm1, Expm1);
  TVARANT_FLOAT_OP(frac, Frac);
  TVARANT_FLOAT_OP(lgamma, Lgamma);
  TVARANT_FLOAT_OP(log, Log);
  TVARANT_FLOAT_OP(log10, Log10);
  TVARANT_FLOAT_OP(log1p, Log1p);
  TVARANT_FLOAT_OP(log2, Log2);
  TVARANT_FLOAT_OP(reciprocal, Reciprocal);
  TVARANT_FLOAT_OP(rsqrt, Rsqrt);
  TVARANT_FLOAT_OP(sigmoid, Sigmoid);
  TVARANT_FLOAT_OP(sin, Sin);
  TVARANT_FLOAT_OP(sinh, Sinh);
  TVARANT_FLOAT_OP(sqrt, Sqrt);
  TVARANT_FLOAT_OP(tan, Tan);
  TVARANT_FLOAT_OP(tanh, Tanh);
#undef TVARANT_FLOAT_OP

#define TVARANT_UNARY_OP(name, emit, fast) \
  Register<#name, &at::meta::structured_##name::meta, emit, fast>(m)
  TVARANT_UNARY_OP(ceil, EmitRounding<PointwiseOp::kCeil>, Fast::kReal);
  TVARANT_UNARY_OP(floor, EmitRounding<PointwiseOp::kFloor>, Fast::kReal);
  TVARANT_UNARY_OP(round, EmitRounding<PointwiseOp::kRound>, Fast::kReal);
  TVARANT_UNARY_OP(trunc, EmitRounding<PointwiseOp::kTrunc>, Fast::kReal);
  TVARANT_UNARY_OP(neg, EmitUnary<PointwiseOp::kNeg>, Fast::kReal);
  TVARANT_UNARY_OP(sign, EmitUnary<PointwiseOp::kSign>, Fast::kReal);
  TVARANT_UNARY_OP(sgn, EmitUnary<PointwiseOp::kSign>, Fast::kReal);
  TVARANT_UNARY_OP(bitwise_not, EmitBitwiseNot, Fast::kNever);
  TVARANT_UNARY_OP(sinc, EmitSinc, Fast::kFloat);
#undef TVARANT_UNARY_OP

  StructuredOp<"isposinf", "", "out", &at::meta::structured_isposinf::meta,
               EmitInfTest<PointwiseOp::kIsPosInf>>::RegisterNoInplace(m);
  StructuredOp<"isneginf", "", "out", &at::meta::structured_isneginf::meta,
               EmitInfTest<PointwiseOp::kIsNegInf>>::RegisterNoInplace(m);
  StructuredOp<"signbit", "", "out", &at::meta::structured_signbit::meta,
               EmitSignbit>::RegisterNoInplace(m);

  m.impl("abs", &Abs);
  m.impl("abs_", &AbsInplace);
  m.impl("abs.out", &AbsOut);
  m.impl("isnan", &IsNan);
  m.impl("isinf", &IsInf);
  m.impl("logical_not", &LogicalNot);
  m.impl("logical_not.out", &LogicalNotOut);
  m.impl("logical_not_", &LogicalNotInplace);
  m.impl("round.decimals_out", &RoundDecimalsOut);
}

}  // namespace tvarant::torch_plugin

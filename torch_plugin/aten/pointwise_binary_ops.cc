// Element-wise ops of two tensors: arithmetic, bits, logic, comparison.

#include <ATen/ScalarOps.h>
#include <ATen/ops/add_meta.h>
#include <ATen/ops/atan2_meta.h>
#include <ATen/ops/bitwise_and_meta.h>
#include <ATen/ops/bitwise_left_shift_meta.h>
#include <ATen/ops/bitwise_or_meta.h>
#include <ATen/ops/bitwise_right_shift_meta.h>
#include <ATen/ops/bitwise_xor_meta.h>
#include <ATen/ops/copysign_meta.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/eq_meta.h>
#include <ATen/ops/fmax_meta.h>
#include <ATen/ops/fmin_meta.h>
#include <ATen/ops/fmod_meta.h>
#include <ATen/ops/ge_meta.h>
#include <ATen/ops/gt_meta.h>
#include <ATen/ops/heaviside_meta.h>
#include <ATen/ops/hypot_meta.h>
#include <ATen/ops/le_meta.h>
#include <ATen/ops/logaddexp2_meta.h>
#include <ATen/ops/logaddexp_meta.h>
#include <ATen/ops/lt_meta.h>
#include <ATen/ops/maximum_meta.h>
#include <ATen/ops/minimum_meta.h>
#include <ATen/ops/mul_meta.h>
#include <ATen/ops/ne_meta.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/remainder_meta.h>
#include <ATen/ops/special_xlog1py_meta.h>
#include <ATen/ops/sub_meta.h>
#include <ATen/ops/xlogy_meta.h>

#include <cmath>

#include "torch_plugin/aten/complex_mul.h"
#include "torch_plugin/aten/structured_op.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

// --- Emitters ------------------------------------------------------------

// On bool, + is or and * is and.
int EmitAdd(Emitter& e) {
  return e.is_bool() ? e.Test(PointwiseOp::kLogicalOr, e.In(0), e.In(1))
                     : e.Add(e.In(0), e.In(1));
}
int EmitAddAlpha(Emitter& e) {
  if (e.is_bool()) {
    return e.Test(PointwiseOp::kLogicalOr, e.In(0),
                  e.Test(PointwiseOp::kLogicalAnd, e.In(1), e.Scalar(0)));
  }
  return e.Add(e.In(0), e.Mul(e.Scalar(0), e.In(1)));
}
int EmitSub(Emitter& e) { return e.Sub(e.In(0), e.In(1)); }
int EmitSubAlpha(Emitter& e) {
  return e.Sub(e.In(0), e.Mul(e.Scalar(0), e.In(1)));
}
int EmitMul(Emitter& e) {
  return e.is_bool() ? e.Test(PointwiseOp::kLogicalAnd, e.In(0), e.In(1))
                     : e.Mul(e.In(0), e.In(1));
}
// fmax and fmin ignore NaN, which integers don't have.
int EmitFmax(Emitter& e) {
  return e.Op(e.is_floating() ? PointwiseOp::kFmax : PointwiseOp::kMaximum,
              e.In(0), e.In(1));
}
int EmitFmin(Emitter& e) {
  return e.Op(e.is_floating() ? PointwiseOp::kFmin : PointwiseOp::kMinimum,
              e.In(0), e.In(1));
}
template <PointwiseOp op>
int EmitNoBool(Emitter& e) {
  if (e.is_bool()) ThrowNotImplementedFor(NameOf(op), ScalarType::Bool);
  return e.Op(op, e.In(0), e.In(1));
}
int EmitHeaviside(Emitter& e) {
  const int x = e.In(0);
  return e.Select(e.Test(PointwiseOp::kEq, x, e.Const(0)), e.In(1),
                  e.Select(e.Test(PointwiseOp::kGt, x, e.Const(0)), e.Const(1),
                           e.Const(0)));
}
// log2(2^a + 2^b) = log(e^(a ln 2) + e^(b ln 2)) / ln 2
int EmitLogaddexp2(Emitter& e) {
  const int ln2 = e.Const(M_LN2);
  return e.Div(
      e.Op(PointwiseOp::kLogaddexp, e.Mul(e.In(0), ln2), e.Mul(e.In(1), ln2)),
      ln2);
}
// a * log1p(b), 0 where a is 0, NaN where b is.
int EmitXlog1py(Emitter& e) {
  const int a = e.In(0), b = e.In(1);
  return e.Select(e.Test(PointwiseOp::kIsNan, b), b,
                  e.Select(e.Test(PointwiseOp::kEq, a, e.Const(0)), e.Const(0),
                           e.Mul(a, e.Op(PointwiseOp::kLog1p, b))));
}

// --- add, sub, rsub ------------------------------------------------------

bool IsOne(const Scalar& alpha) {
  return alpha.isIntegral(/*includeBool=*/true) ? alpha.toLong() == 1
         : alpha.isFloatingPoint()              ? alpha.toDouble() == 1.0
                                                : false;
}

// add and sub differ in meta class and emitters.
template <Name name, class Meta, EmitFn plain, EmitFn with_alpha>
struct Additive {
  static constexpr const char* Base() { return name.c_str(); }

  static Tensor Functional(const Tensor& self, const Tensor& other,
                           const Scalar& alpha) {
    const bool is_plain = IsOne(alpha);
    if (is_plain) {
      Tensor result = FastBinary(plain, self, other);
      if (result.defined()) return result;
    }
    if (NeedsFallback(self, other, alpha)) {
      return FallbackTensor(Base(), "Tensor", self, other, alpha);
    }
    FunctionalOp<Meta> op;
    op.meta(self, other, alpha);
    Run(op, is_plain, alpha);
    return op.Finish();
  }
  static Tensor& Inplace(Tensor& self, const Tensor& other,
                         const Scalar& alpha) {
    const bool is_plain = IsOne(alpha);
    if (is_plain && FastBinaryInto(plain, self, other, self)) return self;
    if (NeedsFallback(self, other, alpha)) {
      static const std::string inplace = std::string(Base()) + "_";
      return FallbackInto(self, inplace.c_str(), "Tensor", self, other, alpha);
    }
    OutOp<Meta> op(OutOp<Meta>::Mode::kInplace, self);
    op.meta(self, other, alpha);
    Run(op, is_plain, alpha);
    return op.Finish();
  }
  static Tensor& Out(const Tensor& self, const Tensor& other,
                     const Scalar& alpha, Tensor& out) {
    const bool is_plain = IsOne(alpha);
    if (is_plain && FastBinaryInto(plain, self, other, out)) return out;
    if (NeedsFallback(self, other, alpha, out)) {
      return FallbackInto(out, Base(), "out", self, other, alpha, out);
    }
    OutOp<Meta> op(out);
    op.meta(self, other, alpha);
    Run(op, is_plain, alpha);
    return op.Finish();
  }

 private:
  static void Run(at::TensorIteratorBase& op, bool is_plain,
                  const Scalar& alpha) {
    if (is_plain) {
      RunPointwise(op, plain);
    } else {
      RunPointwise(op, with_alpha, alpha);
    }
  }
};

using AddOp =
    Additive<"add", meta::structured_add_Tensor, EmitAdd, EmitAddAlpha>;
using SubOp =
    Additive<"sub", meta::structured_sub_Tensor, EmitSub, EmitSubAlpha>;

Tensor Rsub(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  return SubOp::Functional(other, self, alpha);
}

// --- mul -----------------------------------------------------------------

using MulOp =
    StructuredOp<"mul", "Tensor", "out", &meta::structured_mul_Tensor::meta,
                 EmitMul, Fast::kReal>;

Tensor MulFunctional(const Tensor& self, const Tensor& other) {
  if (IsComplexMul(self, other)) return ComplexMul(self, other, Tensor());
  return MulOp::Functional(self, other);
}
Tensor& MulInplace(Tensor& self, const Tensor& other) {
  if (IsComplexMul(self, other) && self.is_complex()) {
    ComplexMul(self, other, self);
    return self;
  }
  return MulOp::Inplace(self, other);
}
Tensor& MulOut(const Tensor& self, const Tensor& other, Tensor& out) {
  if (IsComplexMul(self, other) && out.is_complex()) {
    ComplexMul(self, other, out);
    return out;
  }
  return MulOp::Out(self, other, out);
}

// --- Division ------------------------------------------------------------

// An integer divided by the number 0 raises here; by a tensor's 0 on the
// device.
void CheckDivisor(const at::TensorIteratorBase& iter) {
  if (!c10::isIntegralType(iter.common_dtype(), /*includeBool=*/true)) return;
  const int divisor = iter.ntensors() - 1;
  const Tensor& tensor = iter.tensor(divisor);
  if (tensor.device().is_cpu() && tensor.numel() == 1 && iter.numel() > 0) {
    TORCH_CHECK(tensor.item().toLong() != 0, "ZeroDivisionError");
  }
}

// Integer modulo (remainder, fmod) and rounded division.
template <Name name, Name overload, Name out_overload, class Meta, EmitFn emit>
struct Dividing {
  static Tensor Functional(const Tensor& self, const Tensor& other) {
    if (NeedsFallback(self, other)) {
      return FallbackTensor(name.c_str(), overload.c_str(), self, other);
    }
    FunctionalOp<Meta> op;
    op.meta(self, other);
    CheckDivisor(op);
    RunPointwise(op, emit);
    return op.Finish();
  }
  static Tensor& Inplace(Tensor& self, const Tensor& other) {
    if (NeedsFallback(self, other)) {
      static const std::string inplace = std::string(name.c_str()) + "_";
      return FallbackInto(self, inplace.c_str(), overload.c_str(), self, other);
    }
    OutOp<Meta> op(OutOp<Meta>::Mode::kInplace, self);
    op.meta(self, other);
    CheckDivisor(op);
    RunPointwise(op, emit);
    return op.Finish();
  }
  static Tensor& Out(const Tensor& self, const Tensor& other, Tensor& out) {
    if (NeedsFallback(self, other, out)) {
      return FallbackInto(out, name.c_str(), out_overload.c_str(), self, other,
                          out);
    }
    OutOp<Meta> op(out);
    op.meta(self, other);
    CheckDivisor(op);
    RunPointwise(op, emit);
    return op.Finish();
  }
};

using Remainder = Dividing<"remainder", "Tensor", "Tensor_out",
                           meta::structured_remainder_Tensor,
                           EmitNoBool<PointwiseOp::kRemainder>>;
using Fmod =
    Dividing<"fmod", "Tensor", "Tensor_out", meta::structured_fmod_Tensor,
             EmitNoBool<PointwiseOp::kFmod>>;

// The half types round the quotient before it is cut, as PyTorch does.
int EmitDivTrunc(Emitter& e) {
  if (e.type() == DType::kFloat16 || e.type() == DType::kBFloat16) {
    const int quotient = e.Cast(e.Div(e.In(0), e.In(1)), e.type());
    return e.Op(PointwiseOp::kTrunc, quotient);
  }
  return EmitNoBool<PointwiseOp::kDivTrunc>(e);
}

EmitFn EmitterOfMode(const std::optional<c10::string_view>& mode) {
  if (!mode.has_value()) return EmitBinary<PointwiseOp::kDiv>;
  return *mode == "trunc" ? EmitDivTrunc : EmitNoBool<PointwiseOp::kDivFloor>;
}

Tensor DivMode(const Tensor& self, const Tensor& other,
               std::optional<c10::string_view> mode) {
  if (NeedsFallback(self, other)) {
    return FallbackTensor("div", "Tensor_mode", self, other, mode);
  }
  FunctionalOp<meta::structured_div_Tensor_mode> op;
  op.meta(self, other, mode);
  if (mode.has_value()) CheckDivisor(op);
  RunPointwise(op, EmitterOfMode(mode));
  return op.Finish();
}

Tensor& DivModeInto(const Tensor& self, const Tensor& other,
                    std::optional<c10::string_view> mode,
                    OutOp<meta::structured_div_Tensor_mode>& op) {
  op.meta(self, other, mode);
  if (mode.has_value()) CheckDivisor(op);
  RunPointwise(op, EmitterOfMode(mode));
  return op.Finish();
}

Tensor& DivModeInplace(Tensor& self, const Tensor& other,
                       std::optional<c10::string_view> mode) {
  if (NeedsFallback(self, other)) {
    return FallbackInto(self, "div_", "Tensor_mode", self, other, mode);
  }
  using Op = OutOp<meta::structured_div_Tensor_mode>;
  Op op(Op::Mode::kInplace, self);
  return DivModeInto(self, other, mode, op);
}

Tensor& DivModeOut(const Tensor& self, const Tensor& other,
                   std::optional<c10::string_view> mode, Tensor& out) {
  if (NeedsFallback(self, other, out)) {
    return FallbackInto(out, "div", "out_mode", self, other, mode, out);
  }
  OutOp<meta::structured_div_Tensor_mode> op(out);
  return DivModeInto(self, other, mode, op);
}

Tensor FloorDivide(const Tensor& self, const Tensor& other) {
  return DivMode(self, other, "floor");
}
Tensor& FloorDivideInplace(Tensor& self, const Tensor& other) {
  return DivModeInplace(self, other, "floor");
}
Tensor& FloorDivideOut(const Tensor& self, const Tensor& other, Tensor& out) {
  return DivModeOut(self, other, "floor", out);
}

// --- Powers --------------------------------------------------------------

int EmitPow(Emitter& e) { return e.Op(PointwiseOp::kPow, e.In(0), e.In(1)); }

// x ** number. The common exponents need no pow().
int EmitPowNumber(Emitter& e) {
  return e.Op(PointwiseOp::kPow, e.In(0), e.Scalar(0));
}
int EmitOne(Emitter& e) { return e.Const(1); }
int EmitSame(Emitter& e) { return e.In(0); }
int EmitSquare(Emitter& e) { return e.Op(PointwiseOp::kSquare, e.In(0)); }
int EmitCube(Emitter& e) {
  return e.Mul(e.Op(PointwiseOp::kSquare, e.In(0)), e.In(0));
}
int EmitInverseSquare(Emitter& e) {
  return e.Op(PointwiseOp::kReciprocal, e.Op(PointwiseOp::kSquare, e.In(0)));
}

EmitFn EmitterOfPower(ScalarType type, const Scalar& exponent) {
  const double power = exponent.toDouble();
  if (power == 0) return EmitOne;
  if (power == 1) return EmitSame;
  if (power == 2) return EmitSquare;
  if (power == 3) return EmitCube;
  if (c10::isFloatingType(type)) {
    if (power == 0.5) return EmitUnary<PointwiseOp::kSqrt>;
    if (power == -0.5) return EmitUnary<PointwiseOp::kRsqrt>;
    if (power == -1) return EmitUnary<PointwiseOp::kReciprocal>;
    if (power == -2) return EmitInverseSquare;
  }
  return EmitPowNumber;
}

struct PowNumber {
  using Meta = meta::structured_pow_Tensor_Scalar;

  static Tensor Functional(const Tensor& self, const Scalar& exponent) {
    if (NeedsFallback(self, exponent)) {
      return FallbackTensor("pow", "Tensor_Scalar", self, exponent);
    }
    FunctionalOp<Meta> op;
    op.meta(self, exponent);
    Run(op, exponent);
    return op.Finish();
  }
  static Tensor& Inplace(Tensor& self, const Scalar& exponent) {
    if (NeedsFallback(self, exponent)) {
      return FallbackInto(self, "pow_", "Scalar", self, exponent);
    }
    OutOp<Meta> op(OutOp<Meta>::Mode::kInplace, self);
    op.meta(self, exponent);
    Run(op, exponent);
    return op.Finish();
  }
  static Tensor& Out(const Tensor& self, const Scalar& exponent, Tensor& out) {
    if (NeedsFallback(self, exponent, out)) {
      return FallbackInto(out, "pow", "Tensor_Scalar_out", self, exponent, out);
    }
    OutOp<Meta> op(out);
    op.meta(self, exponent);
    Run(op, exponent);
    return op.Finish();
  }

 private:
  static void Run(at::TensorIteratorBase& op, const Scalar& exponent) {
    RunPointwise(op, EmitterOfPower(op.common_dtype(), exponent), exponent);
  }
};

using PowTensor =
    StructuredOp<"pow", "Tensor_Tensor", "Tensor_Tensor_out",
                 &meta::structured_pow_Tensor_Tensor::meta, EmitPow>;

Tensor& PowTensorInplace(Tensor& self, const Tensor& exponent) {
  if (NeedsFallback(self, exponent)) {
    return FallbackInto(self, "pow_", "Tensor", self, exponent);
  }
  using Op = OutOp<meta::structured_pow_Tensor_Tensor>;
  Op op(Op::Mode::kInplace, self);
  op.meta(self, exponent);
  RunPointwise(op, EmitPow);
  return op.Finish();
}

// The base as a 0-dim host tensor that doesn't take part in promotion.
Tensor Wrapped(const Scalar& number) {
  Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

Tensor PowOfNumber(const Scalar& base, const Tensor& exponent) {
  if (NeedsFallback(base, exponent)) {
    return FallbackTensor("pow", "Scalar", base, exponent);
  }
  return PowTensor::Functional(Wrapped(base), exponent);
}

Tensor& PowOfNumberOut(const Scalar& base, const Tensor& exponent,
                       Tensor& out) {
  if (NeedsFallback(base, exponent, out)) {
    return FallbackInto(out, "pow", "Scalar_out", base, exponent, out);
  }
  return PowTensor::Out(Wrapped(base), exponent, out);
}

// --- Logic ---------------------------------------------------------------

template <PointwiseOp op>
Tensor& LogicalOut(const Tensor& self, const Tensor& other, Tensor& out) {
  if (NeedsFallback(self, other, out)) {
    return FallbackInto(out, NameOf(op), "out", self, other, out);
  }
  auto iter = at::TensorIterator::comparison_op(out, self, other);
  RunPointwise(iter, EmitBinaryTest<op>);
  return out;
}

template <PointwiseOp op>
Tensor Logical(const Tensor& self, const Tensor& other) {
  if (NeedsFallback(self, other)) {
    return FallbackTensor(NameOf(op), "", self, other);
  }
  Tensor out;
  auto iter = at::TensorIteratorConfig()
                  .check_all_same_dtype(false)
                  .set_check_mem_overlap(true)
                  .declare_static_dtype(ScalarType::Bool)
                  .add_owned_output(out)
                  .add_const_input(self)
                  .add_const_input(other)
                  .allow_cpu_scalars(true)
                  .promote_inputs_to_common_dtype(true)
                  .build();
  RunPointwise(iter, EmitBinaryTest<op>);
  return iter.output();
}

template <PointwiseOp op>
Tensor& LogicalInplace(Tensor& self, const Tensor& other) {
  return LogicalOut<op>(self, other, self);
}

template <PointwiseOp op>
void RegisterLogical(torch::Library& m) {
  const std::string name = NameOf(op);
  m.impl(name.c_str(), &Logical<op>);
  m.impl((name + "_").c_str(), &LogicalInplace<op>);
  m.impl((name + ".out").c_str(), &LogicalOut<op>);
}

// --- Registration --------------------------------------------------------

template <class Op>
void RegisterTensorForms(torch::Library& m, const std::string& name,
                         const char* out_overload) {
  m.impl((name + ".Tensor").c_str(), &Op::Functional);
  m.impl((name + "_.Tensor").c_str(), &Op::Inplace);
  m.impl((name + "." + out_overload).c_str(), &Op::Out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  RegisterTensorForms<AddOp>(m, "add", "out");
  RegisterTensorForms<SubOp>(m, "sub", "out");
  m.impl("rsub.Tensor", &Rsub);

  m.impl("mul.Tensor", &MulFunctional);
  m.impl("mul_.Tensor", &MulInplace);
  m.impl("mul.out", &MulOut);
  StructuredOp<"div", "Tensor", "out", &meta::structured_div_Tensor::meta,
               EmitBinary<PointwiseOp::kDiv>, Fast::kFloat>::Register(m);
  m.impl("div.Tensor_mode", &DivMode);
  m.impl("div_.Tensor_mode", &DivModeInplace);
  m.impl("div.out_mode", &DivModeOut);
  m.impl("floor_divide", &FloorDivide);
  m.impl("floor_divide_.Tensor", &FloorDivideInplace);
  m.impl("floor_divide.out", &FloorDivideOut);
  RegisterTensorForms<Remainder>(m, "remainder", "Tensor_out");
  RegisterTensorForms<Fmod>(m, "fmod", "Tensor_out");

  m.impl("pow.Tensor_Tensor", &PowTensor::Functional);
  m.impl("pow.Tensor_Tensor_out", &PowTensor::Out);
  m.impl("pow_.Tensor", &PowTensorInplace);
  m.impl("pow.Tensor_Scalar", &PowNumber::Functional);
  m.impl("pow.Tensor_Scalar_out", &PowNumber::Out);
  m.impl("pow_.Scalar", &PowNumber::Inplace);
  m.impl("pow.Scalar", &PowOfNumber);
  m.impl("pow.Scalar_out", &PowOfNumberOut);

#define TVARANT_BINARY_OP(name, emit, fast) \
  StructuredOp<#name, "", "out", &meta::structured_##name::meta, emit, fast>
  TVARANT_BINARY_OP(atan2, EmitBinary<PointwiseOp::kAtan2>,
                    Fast::kFloat)::Register(m);
  TVARANT_BINARY_OP(hypot, EmitBinary<PointwiseOp::kHypot>,
                    Fast::kFloat)::Register(m);
  TVARANT_BINARY_OP(maximum, EmitBinary<PointwiseOp::kMaximum>,
                    Fast::kReal)::RegisterNoInplace(m);
  TVARANT_BINARY_OP(minimum, EmitBinary<PointwiseOp::kMinimum>,
                    Fast::kReal)::RegisterNoInplace(m);
  TVARANT_BINARY_OP(fmax, EmitFmax, Fast::kNever)::RegisterNoInplace(m);
  TVARANT_BINARY_OP(fmin, EmitFmin, Fast::kNever)::RegisterNoInplace(m);
  TVARANT_BINARY_OP(heaviside, EmitHeaviside, Fast::kNever)::Register(m);
  TVARANT_BINARY_OP(logaddexp, EmitBinary<PointwiseOp::kLogaddexp>,
                    Fast::kNever)::RegisterNoInplace(m);
  TVARANT_BINARY_OP(logaddexp2, EmitLogaddexp2,
                    Fast::kNever)::RegisterNoInplace(m);
  TVARANT_BINARY_OP(special_xlog1py, EmitXlog1py,
                    Fast::kNever)::RegisterNoInplace(m);
#undef TVARANT_BINARY_OP

  StructuredOp<"copysign", "Tensor", "out",
               &meta::structured_copysign_Tensor::meta,
               EmitBinary<PointwiseOp::kCopysign>>::Register(m);
  StructuredOp<"xlogy", "Tensor", "OutTensor",
               &meta::structured_xlogy_Tensor::meta,
               EmitBinary<PointwiseOp::kXlogy>>::Register(m);

#define TVARANT_BIT_OP(name, emit)            \
  StructuredOp<#name, "Tensor", "Tensor_out", \
               &meta::structured_##name##_Tensor::meta, emit>::Register(m)
  TVARANT_BIT_OP(bitwise_and, EmitBinary<PointwiseOp::kBitAnd>);
  TVARANT_BIT_OP(bitwise_or, EmitBinary<PointwiseOp::kBitOr>);
  TVARANT_BIT_OP(bitwise_xor, EmitBinary<PointwiseOp::kBitXor>);
  TVARANT_BIT_OP(bitwise_left_shift, EmitNoBool<PointwiseOp::kShiftLeft>);
  TVARANT_BIT_OP(bitwise_right_shift, EmitNoBool<PointwiseOp::kShiftRight>);
#undef TVARANT_BIT_OP

#define TVARANT_COMPARISON(name, Op)                             \
  StructuredOp<#name, "Tensor", "Tensor_out",                    \
               &meta::structured_##name##_Tensor::meta,          \
               EmitBinaryTest<PointwiseOp::k##Op>>::Register(m); \
  StructuredOp<#name, "Scalar", "Scalar_out",                    \
               &meta::structured_##name##_Scalar::meta,          \
               EmitBinaryTest<PointwiseOp::k##Op>>::Register(m)
  TVARANT_COMPARISON(eq, Eq);
  TVARANT_COMPARISON(ne, Ne);
  TVARANT_COMPARISON(lt, Lt);
  TVARANT_COMPARISON(le, Le);
  TVARANT_COMPARISON(gt, Gt);
  TVARANT_COMPARISON(ge, Ge);
#undef TVARANT_COMPARISON

  RegisterLogical<PointwiseOp::kLogicalAnd>(m);
  RegisterLogical<PointwiseOp::kLogicalOr>(m);
  RegisterLogical<PointwiseOp::kLogicalXor>(m);
}

}  // namespace tvarant::torch_plugin

// Ops on lists of tensors: a whole optimiser step in a few launches.
//
// A list is one launch (pointwise_foreach) when its tensors lie on one device,
// have one float type, and equal sizes where they meet. Everything else goes
// to PyTorch's own loop over the list, which is right for any input.

#include <ATen/ops/_foreach_abs_native.h>
#include <ATen/ops/_foreach_add_native.h>
#include <ATen/ops/_foreach_addcdiv_native.h>
#include <ATen/ops/_foreach_addcmul_native.h>
#include <ATen/ops/_foreach_clamp_max_native.h>
#include <ATen/ops/_foreach_clamp_min_native.h>
#include <ATen/ops/_foreach_copy_native.h>
#include <ATen/ops/_foreach_div_native.h>
#include <ATen/ops/_foreach_exp_native.h>
#include <ATen/ops/_foreach_lerp_native.h>
#include <ATen/ops/_foreach_maximum_native.h>
#include <ATen/ops/_foreach_minimum_native.h>
#include <ATen/ops/_foreach_mul_native.h>
#include <ATen/ops/_foreach_neg_native.h>
#include <ATen/ops/_foreach_pow_native.h>
#include <ATen/ops/_foreach_reciprocal_native.h>
#include <ATen/ops/_foreach_rsqrt_native.h>
#include <ATen/ops/_foreach_sign_native.h>
#include <ATen/ops/_foreach_sqrt_native.h>
#include <ATen/ops/_foreach_sub_native.h>
#include <ATen/ops/_foreach_zero_native.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <array>
#include <vector>

#include "torch_plugin/aten/pointwise.h"

namespace tvarant::torch_plugin {
namespace {

using at::TensorList;
using Scalars = at::ArrayRef<Scalar>;

// Keeps a record well below its limit.
constexpr size_t kMaxGroups = 512;
constexpr size_t kMaxInputs = 4;

bool SameSizes(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes();
}

// Whether the lists may run as one launch; `self` gives type and sizes.
bool FitsOneLaunch(TensorList self, std::initializer_list<TensorList> others) {
  if (self.empty() || !OnDevice(self[0])) return false;
  const c10::Device device = self[0].device();
  const ScalarType type = self[0].scalar_type();
  if (!c10::isFloatingType(type) || !HasKernels(type)) return false;
  for (const Tensor& tensor : self) {
    if (tensor.device() != device || tensor.scalar_type() != type ||
        tensor.dim() > kMaxRank || tensor.layout() != c10::kStrided ||
        !tensor.is_non_overlapping_and_dense()) {
      return false;
    }
  }
  for (const TensorList list : others) {
    if (list.size() != self.size()) return false;
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].device() != device || list[i].scalar_type() != type ||
          list[i].layout() != c10::kStrided || !SameSizes(list[i], self[i])) {
        return false;
      }
    }
  }
  return true;
}

bool IsReal(const Scalar& scalar) { return !scalar.isComplex(); }
bool AreReal(Scalars scalars) {
  for (const Scalar& scalar : scalars) {
    if (scalar.isComplex()) return false;
  }
  return true;
}

// A 0-dim tensor that every group reads.
bool IsSharedScalar(const Tensor& tensor, TensorList self) {
  return tensor.numel() == 1 && tensor.dim() == 0 && OnDevice(tensor) &&
         !self.empty() && tensor.device() == self[0].device() &&
         tensor.scalar_type() == self[0].scalar_type();
}

// One run of the program over groups.
class ForeachLaunch {
 public:
  ForeachLaunch(EmitFn emit, TensorList out) : emit_(emit), out_(out) {}

  ForeachLaunch& Input(TensorList list) {
    inputs_[num_inputs_++] = list;
    return *this;
  }
  // After all lists: operand read by every group.
  ForeachLaunch& Shared(const Tensor& tensor) {
    shared_ = &tensor;
    return *this;
  }
  ForeachLaunch& Number(const Scalar& value) {
    numbers_.push_back(value.toDouble());
    return *this;
  }
  // One number a group.
  ForeachLaunch& NumberPerGroup(Scalars values) {
    per_group_ = values;
    return *this;
  }

  void Run() {
    const c10::Device device = out_[0].device();
    PointwiseKey key;
    key.emit = emit_;
    key.type = ToDType(out_[0].scalar_type());
    const size_t num_operands = 1 + num_inputs_ + (shared_ != nullptr ? 1 : 0);
    key.num_operands = static_cast<uint8_t>(num_operands);
    key.num_parameters =
        static_cast<uint8_t>(per_group_.empty() ? numbers_.size() : 1);
    for (size_t i = 0; i < num_operands; ++i) key.dtypes[i] = key.type;
    const PointwiseProgram program =
        FindProgram(Device::Get(device.index()), key);
    for (size_t begin = 0; begin < out_.size(); begin += kMaxGroups) {
      RunGroups(device, program, begin,
                std::min(out_.size(), begin + kMaxGroups));
    }
  }

 private:
  void RunGroups(c10::Device device, const PointwiseProgram& program,
                 size_t begin, size_t end) {
    LaunchBuilder launch(Kernel::kPointwiseForeach, device);
    launch.params().program = program.handle;
    launch.params().batch = static_cast<int64_t>(end - begin);
    for (size_t i = begin; i < end; ++i) AddGroup(launch, i);
    if (per_group_.empty()) {
      for (const double number : numbers_) launch.Float(number);
    } else {
      launch.params().flags |= kPerGroupScalars;
      for (size_t i = begin; i < end; ++i) {
        launch.Float(per_group_[i].toDouble());
      }
    }
    launch.Run();
  }

  void AddGroup(LaunchBuilder& launch, size_t i) {
    const Tensor& out = out_[i];
    bool flat = true;
    for (size_t k = 0; k < num_inputs_; ++k) {
      flat &= inputs_[k][i].strides() == out.strides();
    }
    const std::array<int64_t, 1> numel{out.numel()};
    static constexpr std::array<int64_t, 1> kUnit{1};
    static constexpr std::array<int64_t, kMaxRank> kZeros{};
    if (flat) {
      launch.DstAs(out, numel, kUnit);
    } else {
      launch.Dst(out);
    }
    for (size_t k = 0; k < num_inputs_; ++k) {
      if (flat) {
        launch.SrcAs(inputs_[k][i], numel, kUnit);
      } else {
        launch.Src(inputs_[k][i]);
      }
    }
    if (shared_ != nullptr) {
      const IntArrayRef sizes = flat ? IntArrayRef(numel) : out.sizes();
      launch.SrcAs(*shared_, sizes, IntArrayRef(kZeros).slice(0, sizes.size()));
    }
  }

  EmitFn emit_;
  TensorList out_;
  std::array<TensorList, kMaxInputs> inputs_;
  size_t num_inputs_ = 0;
  const Tensor* shared_ = nullptr;
  c10::SmallVector<double, 4> numbers_;
  Scalars per_group_;
};

// New tensors like those of the list, strides kept.
std::vector<Tensor> EmptyResults(TensorList self) {
  std::vector<Tensor> results;
  results.reserve(self.size());
  for (const Tensor& tensor : self) {
    results.push_back(
        CreateOut(tensor.sizes(), tensor.strides(), tensor.options()));
  }
  return results;
}

// --- Programs ----------------------------------------------------------------

template <PointwiseOp op>
int EmitWithNumber(Emitter& e) {
  return e.Op(op, e.In(0), e.Scalar(0));
}
// self + alpha * other
int EmitAddScaled(Emitter& e) {
  return e.Add(e.In(0), e.Mul(e.In(1), e.Scalar(0)));
}
int EmitSubScaled(Emitter& e) {
  return e.Sub(e.In(0), e.Mul(e.In(1), e.Scalar(0)));
}
int EmitLerp(Emitter& e) {
  return e.Op(PointwiseOp::kLerp, e.In(0), e.In(1), e.Scalar(0));
}
int EmitAddcmul(Emitter& e) {
  return e.Add(e.In(0), e.Mul(e.Mul(e.Scalar(0), e.In(1)), e.In(2)));
}
int EmitAddcdiv(Emitter& e) {
  return e.Add(e.In(0), e.Div(e.Mul(e.Scalar(0), e.In(1)), e.In(2)));
}
int EmitNumberPow(Emitter& e) {
  return e.Op(PointwiseOp::kPow, e.Scalar(0), e.In(0));
}

// --- Forms -------------------------------------------------------------------

template <EmitFn emit, auto slow>
std::vector<Tensor> Unary(TensorList self) {
  if (!FitsOneLaunch(self, {})) return slow(self);
  std::vector<Tensor> out = EmptyResults(self);
  ForeachLaunch(emit, out).Input(self).Run();
  return out;
}
template <EmitFn emit, auto slow>
void UnaryInplace(TensorList self) {
  if (!FitsOneLaunch(self, {})) return slow(self);
  ForeachLaunch(emit, self).Input(self).Run();
}

template <EmitFn emit, auto slow>
std::vector<Tensor> WithScalar(TensorList self, const Scalar& scalar) {
  if (!FitsOneLaunch(self, {}) || !IsReal(scalar)) return slow(self, scalar);
  std::vector<Tensor> out = EmptyResults(self);
  ForeachLaunch(emit, out).Input(self).Number(scalar).Run();
  return out;
}
template <EmitFn emit, auto slow>
void WithScalarInplace(TensorList self, const Scalar& scalar) {
  if (!FitsOneLaunch(self, {}) || !IsReal(scalar)) return slow(self, scalar);
  ForeachLaunch(emit, self).Input(self).Number(scalar).Run();
}

template <EmitFn emit, auto slow>
std::vector<Tensor> WithScalarList(TensorList self, Scalars scalars) {
  if (!FitsOneLaunch(self, {}) || scalars.size() != self.size() ||
      !AreReal(scalars)) {
    return slow(self, scalars);
  }
  std::vector<Tensor> out = EmptyResults(self);
  ForeachLaunch(emit, out).Input(self).NumberPerGroup(scalars).Run();
  return out;
}
template <EmitFn emit, auto slow>
void WithScalarListInplace(TensorList self, Scalars scalars) {
  if (!FitsOneLaunch(self, {}) || scalars.size() != self.size() ||
      !AreReal(scalars)) {
    return slow(self, scalars);
  }
  ForeachLaunch(emit, self).Input(self).NumberPerGroup(scalars).Run();
}

template <EmitFn emit, auto slow>
std::vector<Tensor> WithList(TensorList self, TensorList other) {
  if (!FitsOneLaunch(self, {other})) return slow(self, other);
  std::vector<Tensor> out = EmptyResults(self);
  ForeachLaunch(emit, out).Input(self).Input(other).Run();
  return out;
}
template <EmitFn emit, auto slow>
void WithListInplace(TensorList self, TensorList other) {
  if (!FitsOneLaunch(self, {other})) return slow(self, other);
  ForeachLaunch(emit, self).Input(self).Input(other).Run();
}

// add and sub, with alpha.
template <EmitFn emit, EmitFn emit_scaled, auto slow>
std::vector<Tensor> WithScaledList(TensorList self, TensorList other,
                                   const Scalar& alpha) {
  if (!FitsOneLaunch(self, {other}) || !IsReal(alpha)) {
    return slow(self, other, alpha);
  }
  std::vector<Tensor> out = EmptyResults(self);
  if (alpha.toDouble() == 1) {
    ForeachLaunch(emit, out).Input(self).Input(other).Run();
  } else {
    ForeachLaunch(emit_scaled, out)
        .Input(self)
        .Input(other)
        .Number(alpha)
        .Run();
  }
  return out;
}
template <EmitFn emit, EmitFn emit_scaled, auto slow>
void WithScaledListInplace(TensorList self, TensorList other,
                           const Scalar& alpha) {
  if (!FitsOneLaunch(self, {other}) || !IsReal(alpha)) {
    return slow(self, other, alpha);
  }
  if (alpha.toDouble() == 1) {
    ForeachLaunch(emit, self).Input(self).Input(other).Run();
  } else {
    ForeachLaunch(emit_scaled, self)
        .Input(self)
        .Input(other)
        .Number(alpha)
        .Run();
  }
}

template <EmitFn emit, auto slow>
void WithTensorInplace(TensorList self, const Tensor& other) {
  if (!FitsOneLaunch(self, {}) || !IsSharedScalar(other, self)) {
    return slow(self, other);
  }
  ForeachLaunch(emit, self).Input(self).Shared(other).Run();
}
void AddTensorInplace(TensorList self, const Tensor& other,
                      const Scalar& alpha) {
  if (!FitsOneLaunch(self, {}) || !IsSharedScalar(other, self) ||
      !IsReal(alpha)) {
    return at::native::foreach_tensor_add_tensor_kernel_slow_(self, other,
                                                              alpha);
  }
  ForeachLaunch(EmitAddScaled, self)
      .Input(self)
      .Shared(other)
      .Number(alpha)
      .Run();
}

template <EmitFn emit, auto slow>
std::vector<Tensor> WithWeight(TensorList self, TensorList other,
                               const Scalar& weight) {
  if (!FitsOneLaunch(self, {other}) || !IsReal(weight)) {
    return slow(self, other, weight);
  }
  std::vector<Tensor> out = EmptyResults(self);
  ForeachLaunch(emit, out).Input(self).Input(other).Number(weight).Run();
  return out;
}
template <EmitFn emit, auto slow>
void WithWeightInplace(TensorList self, TensorList other,
                       const Scalar& weight) {
  if (!FitsOneLaunch(self, {other}) || !IsReal(weight)) {
    return slow(self, other, weight);
  }
  ForeachLaunch(emit, self).Input(self).Input(other).Number(weight).Run();
}

// addcmul and addcdiv.
template <EmitFn emit, auto slow>
std::vector<Tensor> Ternary(TensorList self, TensorList a, TensorList b,
                            const Scalar& value) {
  if (!FitsOneLaunch(self, {a, b}) || !IsReal(value)) {
    return slow(self, a, b, value);
  }
  std::vector<Tensor> out = EmptyResults(self);
  ForeachLaunch(emit, out).Input(self).Input(a).Input(b).Number(value).Run();
  return out;
}
template <EmitFn emit, auto slow>
void TernaryInplace(TensorList self, TensorList a, TensorList b,
                    const Scalar& value) {
  if (!FitsOneLaunch(self, {a, b}) || !IsReal(value)) {
    return slow(self, a, b, value);
  }
  ForeachLaunch(emit, self).Input(self).Input(a).Input(b).Number(value).Run();
}
template <EmitFn emit, auto slow>
void TernaryListInplace(TensorList self, TensorList a, TensorList b,
                        Scalars values) {
  if (!FitsOneLaunch(self, {a, b}) || values.size() != self.size() ||
      !AreReal(values)) {
    return slow(self, a, b, values);
  }
  ForeachLaunch(emit, self)
      .Input(self)
      .Input(a)
      .Input(b)
      .NumberPerGroup(values)
      .Run();
}

std::vector<Tensor> PowScalarAndTensor(const Scalar& self,
                                       TensorList exponent) {
  if (!FitsOneLaunch(exponent, {}) || !IsReal(self)) {
    return at::native::foreach_scalar_pow_list_kernel_slow(self, exponent);
  }
  std::vector<Tensor> out = EmptyResults(exponent);
  ForeachLaunch(EmitNumberPow, out).Input(exponent).Number(self).Run();
  return out;
}

void CopyInplace(TensorList self, TensorList src, bool non_blocking) {
  if (!FitsOneLaunch(self, {src})) {
    return at::native::foreach_tensor_copy_list_kernel_slow_(self, src,
                                                             non_blocking);
  }
  ForeachLaunch(EmitUnary<PointwiseOp::kIdentity>, self).Input(src).Run();
}

int EmitZero(Emitter& e) { return e.Const(0); }
void ZeroInplace(TensorList self) {
  if (!FitsOneLaunch(self, {})) {
    return at::native::foreach_tensor_zero_slow_(self);
  }
  ForeachLaunch(EmitZero, self).Run();
}

// --- Gradient scaling --------------------------------------------------------

// Multiplies the gradients by inv_scale and sets found_inf to 1 if any of them
// is not finite: x * 0 is NaN exactly for those.
void NonFiniteCheckAndUnscale(TensorList self, Tensor& found_inf,
                              const Tensor& inv_scale) {
  if (self.empty()) return;
  TORCH_CHECK(inv_scale.numel() == 1, "inv_scale must be a 1-element tensor.");
  TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
  TORCH_CHECK(inv_scale.scalar_type() == at::kFloat,
              "inv_scale must be a float tensor.");
  TORCH_CHECK(found_inf.scalar_type() == at::kFloat,
              "found_inf must be a float tensor.");
  std::vector<Tensor> marks;
  for (const Tensor& gradient : self) {
    TORCH_CHECK(OnDevice(gradient),
                "a gradient is not on tvarant: ", gradient.device());
    marks.push_back(at::mul(gradient, 0).sum(at::kFloat));
  }
  const Tensor bad = at::isnan(at::stack(marks).sum());
  found_inf.copy_(
      at::maximum(found_inf, bad.to(at::kFloat).reshape(found_inf.sizes())));
  const Tensor factor = inv_scale.reshape({}).to(self[0].scalar_type());
  bool one_type = true;
  for (const Tensor& gradient : self) {
    one_type &= gradient.scalar_type() == self[0].scalar_type();
  }
  if (one_type && FitsOneLaunch(self, {})) {
    ForeachLaunch(EmitBinary<PointwiseOp::kMul>, self)
        .Input(self)
        .Shared(factor)
        .Run();
    return;
  }
  for (const Tensor& gradient : self) {
    const_cast<Tensor&>(gradient).mul_(
        inv_scale.reshape({}).to(gradient.scalar_type()));
  }
}

// Backs the scale off after an overflow, else lets it grow every
// growth_interval steps; all on the device.
Tensor& UpdateScale(Tensor& scale, Tensor& growth_tracker,
                    const Tensor& found_inf, double growth_factor,
                    double backoff_factor, int64_t growth_interval) {
  TORCH_CHECK(growth_tracker.numel() == 1,
              "growth_tracker must be a 1-element tensor.");
  TORCH_CHECK(scale.numel() == 1, "current_scale must be a 1-element tensor.");
  TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
  const Tensor overflow = found_inf.ne(0);
  const Tensor successes = growth_tracker.add(1);
  const Tensor due = successes.eq(growth_interval);
  const Tensor grown = scale.mul(growth_factor);
  const Tensor kept =
      at::where(due.logical_and(at::isfinite(grown)), grown, scale);
  scale.copy_(at::where(overflow, scale.mul(backoff_factor), kept));
  growth_tracker.copy_(successes.mul(
      overflow.logical_or(due).logical_not().to(successes.scalar_type())));
  return scale;
}

namespace native = at::native;

#define TVARANT_UNARY(name, Op)                                             \
  m.impl("_foreach_" #name, &Unary<EmitUnary<PointwiseOp::k##Op>,           \
                                   &native::foreach_tensor_##name##_slow>); \
  m.impl("_foreach_" #name "_",                                             \
         &UnaryInplace<EmitUnary<PointwiseOp::k##Op>,                       \
                       &native::foreach_tensor_##name##_slow_>)

#define TVARANT_NUMBERS(name, Op, slow)                                     \
  m.impl("_foreach_" #name ".Scalar",                                       \
         &WithScalar<EmitWithNumber<PointwiseOp::k##Op>,                    \
                     &native::foreach_tensor_##slow##_scalar_kernel_slow>); \
  m.impl("_foreach_" #name "_.Scalar",                                      \
         &WithScalarInplace<                                                \
             EmitWithNumber<PointwiseOp::k##Op>,                            \
             &native::foreach_tensor_##slow##_scalar_kernel_slow_>);        \
  m.impl("_foreach_" #name ".ScalarList",                                   \
         &WithScalarList<                                                   \
             EmitWithNumber<PointwiseOp::k##Op>,                            \
             &native::foreach_tensor_##slow##_scalarlist_kernel_slow>);     \
  m.impl("_foreach_" #name "_.ScalarList",                                  \
         &WithScalarListInplace<                                            \
             EmitWithNumber<PointwiseOp::k##Op>,                            \
             &native::foreach_tensor_##slow##_scalarlist_kernel_slow_>)

#define TVARANT_LIST(name, Op, slow)                                    \
  m.impl("_foreach_" #name ".List",                                     \
         &WithList<EmitBinary<PointwiseOp::k##Op>,                      \
                   &native::foreach_tensor_##slow##_list_kernel_slow>); \
  m.impl("_foreach_" #name "_.List",                                    \
         &WithListInplace<EmitBinary<PointwiseOp::k##Op>,               \
                          &native::foreach_tensor_##slow##_list_kernel_slow_>)

#define TVARANT_SCALED_LIST(name, Op)                                         \
  m.impl("_foreach_" #name ".List",                                           \
         &WithScaledList<EmitBinary<PointwiseOp::k##Op>, Emit##Op##Scaled,    \
                         &native::foreach_tensor_##name##_list_kernel_slow>); \
  m.impl("_foreach_" #name "_.List",                                          \
         &WithScaledListInplace<                                              \
             EmitBinary<PointwiseOp::k##Op>, Emit##Op##Scaled,                \
             &native::foreach_tensor_##name##_list_kernel_slow_>)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  TVARANT_UNARY(abs, Abs);
  TVARANT_UNARY(exp, Exp);
  TVARANT_UNARY(neg, Neg);
  TVARANT_UNARY(reciprocal, Reciprocal);
  TVARANT_UNARY(rsqrt, Rsqrt);
  TVARANT_UNARY(sign, Sign);
  TVARANT_UNARY(sqrt, Sqrt);

  TVARANT_NUMBERS(add, Add, add);
  TVARANT_NUMBERS(sub, Sub, sub);
  TVARANT_NUMBERS(mul, Mul, mul);
  TVARANT_NUMBERS(div, Div, div);
  TVARANT_NUMBERS(maximum, Maximum, clamp_min);
  TVARANT_NUMBERS(clamp_min, Maximum, clamp_min);
  TVARANT_NUMBERS(minimum, Minimum, clamp_max);
  TVARANT_NUMBERS(clamp_max, Minimum, clamp_max);
  TVARANT_NUMBERS(pow, Pow, pow);

  TVARANT_SCALED_LIST(add, Add);
  TVARANT_SCALED_LIST(sub, Sub);
  TVARANT_LIST(mul, Mul, mul);
  TVARANT_LIST(div, Div, div);
  TVARANT_LIST(maximum, Maximum, clamp_min);
  TVARANT_LIST(clamp_min, Maximum, clamp_min);
  TVARANT_LIST(minimum, Minimum, clamp_max);
  TVARANT_LIST(clamp_max, Minimum, clamp_max);
  TVARANT_LIST(pow, Pow, pow);

  m.impl("_foreach_add_.Tensor", &AddTensorInplace);
  m.impl("_foreach_mul_.Tensor",
         &WithTensorInplace<EmitBinary<PointwiseOp::kMul>,
                            &native::foreach_tensor_mul_tensor_kernel_slow_>);
  m.impl("_foreach_div_.Tensor",
         &WithTensorInplace<EmitBinary<PointwiseOp::kDiv>,
                            &native::foreach_tensor_div_tensor_kernel_slow_>);

  m.impl("_foreach_lerp.Scalar",
         &WithWeight<EmitLerp, &native::foreach_tensor_lerp_list_kernel_slow>);
  m.impl("_foreach_lerp_.Scalar",
         &WithWeightInplace<EmitLerp,
                            &native::foreach_tensor_lerp_list_kernel_slow_>);
  m.impl("_foreach_addcmul.Scalar",
         &Ternary<EmitAddcmul, &native::foreach_tensor_addcmul_scalar_slow>);
  m.impl("_foreach_addcmul_.Scalar",
         &TernaryInplace<EmitAddcmul,
                         &native::foreach_tensor_addcmul_scalar_slow_>);
  m.impl("_foreach_addcmul_.ScalarList",
         &TernaryListInplace<EmitAddcmul,
                             &native::foreach_tensor_addcmul_scalarlist_slow_>);
  m.impl("_foreach_addcdiv.Scalar",
         &Ternary<EmitAddcdiv, &native::foreach_tensor_addcdiv_scalar_slow>);
  m.impl("_foreach_addcdiv_.Scalar",
         &TernaryInplace<EmitAddcdiv,
                         &native::foreach_tensor_addcdiv_scalar_slow_>);
  m.impl("_foreach_addcdiv_.ScalarList",
         &TernaryListInplace<EmitAddcdiv,
                             &native::foreach_tensor_addcdiv_scalarlist_slow_>);
  m.impl("_foreach_pow.ScalarAndTensor", &PowScalarAndTensor);
  m.impl("_foreach_zero_", &ZeroInplace);
  m.impl("_foreach_copy_", &CopyInplace);

  m.impl("_amp_foreach_non_finite_check_and_unscale_",
         &NonFiniteCheckAndUnscale);
  m.impl("_amp_update_scale_", &UpdateScale);
}

#undef TVARANT_UNARY
#undef TVARANT_NUMBERS
#undef TVARANT_LIST
#undef TVARANT_SCALED_LIST

}  // namespace
}  // namespace tvarant::torch_plugin

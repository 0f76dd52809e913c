#include "torch_plugin/aten/complex_mul.h"

#include <ATen/ops/view_as_real.h>

#include "torch_plugin/aten/pointwise.h"

namespace tvarant::torch_plugin {
namespace {

bool IsPlainComplex(const Tensor& tensor) {
  return OnDevice(tensor) && !tensor.is_conj() && !tensor.is_neg() &&
         !tensor._is_zerotensor() &&
         (tensor.scalar_type() == at::kComplexFloat ||
          tensor.scalar_type() == at::kComplexDouble);
}

// A real factor: of the device, or a number.
bool IsPlainReal(const Tensor& tensor) {
  return HasKernels(tensor.scalar_type()) && !tensor.is_neg() &&
         !tensor._is_zerotensor() && (OnDevice(tensor) || tensor.dim() == 0);
}

// a b - c d and a d + c b of (a + c i) and (b + d i).
int EmitRealPart(Emitter& e) {
  return e.Sub(e.Mul(e.In(0), e.In(1)), e.Mul(e.In(2), e.In(3)));
}
int EmitImaginaryPart(Emitter& e) {
  return e.Add(e.Mul(e.In(0), e.In(3)), e.Mul(e.In(2), e.In(1)));
}

void MulParts(const Tensor& out, const Tensor& a, const Tensor& b) {
  const Tensor parts = at::view_as_real(out), x = at::view_as_real(a),
               y = at::view_as_real(b);
  const auto run = [&](int64_t part, EmitFn emit) {
    auto iter = at::TensorIteratorConfig()
                    .set_check_mem_overlap(false)
                    .resize_outputs(false)
                    .add_owned_output(parts.select(-1, part))
                    .add_owned_const_input(x.select(-1, 0))
                    .add_owned_const_input(y.select(-1, 0))
                    .add_owned_const_input(x.select(-1, 1))
                    .add_owned_const_input(y.select(-1, 1))
                    .build();
    RunPointwise(iter, emit);
  };
  run(0, EmitRealPart);
  run(1, EmitImaginaryPart);
}

void MulReal(const Tensor& out, const Tensor& a, const Tensor& b) {
  const Tensor parts = at::view_as_real(out);
  auto iter = at::TensorIteratorConfig()
                  .set_check_mem_overlap(false)
                  .resize_outputs(false)
                  .check_all_same_dtype(false)
                  .allow_cpu_scalars(true)
                  .add_owned_output(parts)
                  .add_owned_const_input(at::view_as_real(a))
                  .add_owned_const_input(b.dim() == 0 ? b : b.unsqueeze(-1))
                  .build();
  RunPointwise(iter, EmitBinary<PointwiseOp::kMul>, {}, parts.scalar_type());
}

}  // namespace

bool IsComplexMul(const Tensor& self, const Tensor& other) {
  if (!self.is_complex() && !other.is_complex()) return false;
  const bool left = IsPlainComplex(self), right = IsPlainComplex(other);
  return (left && right) || (left && IsPlainReal(other)) ||
         (right && IsPlainReal(self));
}

Tensor ComplexMul(const Tensor& self, const Tensor& other, const Tensor& out) {
  // PyTorch's rules for shape, strides, type and overlap; its loop never runs.
  auto iter = at::TensorIterator::borrowing_binary_op(out, self, other);
  const Tensor result = iter.output();
  const ScalarType type = iter.common_dtype();
  if (result.numel() > 0) {
    // Two complex factors take two launches: the first must not write what the
    // second reads.
    const bool both = self.is_complex() && other.is_complex();
    const auto is_safe = [&](const Tensor& x) {
      return !result.is_alias_of(x) || (!both && result.is_same(x));
    };
    const bool is_direct = result.scalar_type() == type && !result.is_conj() &&
                           !result.is_neg() && is_safe(self) && is_safe(other);
    const Tensor target =
        is_direct ? result : EmptyLikeOf(result, result.sizes(), type);
    const auto as_type = [&](const Tensor& x) {
      return x.is_complex() ? x.to(type) : x;
    };
    const Tensor a = as_type(self), b = as_type(other);
    if (a.is_complex() && b.is_complex()) {
      MulParts(target, a, b);
    } else if (a.is_complex()) {
      MulReal(target, a, b);
    } else {
      MulReal(target, b, a);
    }
    if (!is_direct) result.copy_(target);
  }
  return result;
}

}  // namespace tvarant::torch_plugin

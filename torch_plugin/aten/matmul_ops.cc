// Matrix products: mm, bmm and their sums with a bias, through one GEMM kernel
// that takes any strides.

#include <ATen/ExpandUtils.h>
#include <ATen/ops/_addmm_activation_meta.h>
#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/mm_meta.h>
#include <torch/library.h>

#include <array>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

// A matrix, or a batch of them, as the kernel sees it.
struct Matrices {
  const Tensor* tensor;
  std::array<int64_t, 3> sizes;
  std::array<int64_t, 3> strides;
};

// 2-D: one matrix; 3-D: a batch.
Matrices AsMatrices(const Tensor& tensor) {
  if (tensor.dim() == 2) {
    return {&tensor,
            {1, tensor.size(0), tensor.size(1)},
            {0, tensor.stride(0), tensor.stride(1)}};
  }
  return {&tensor,
          {tensor.size(0), tensor.size(1), tensor.size(2)},
          {tensor.stride(0), tensor.stride(1), tensor.stride(2)}};
}
// A vector as a matrix of one column, or of one row.
Matrices AsColumn(const Tensor& vector) {
  return {&vector, {1, vector.size(0), 1}, {0, vector.stride(0), 0}};
}
Matrices AsRow(const Tensor& vector) {
  return {&vector, {1, 1, vector.size(0)}, {0, 0, vector.stride(0)}};
}

// The bias, broadcast to the result's shape.
Matrices AsBias(const Tensor& bias, IntArrayRef shape) {
  const auto [sizes, strides] =
      at::inferExpandGeometry_dimvector(bias.sizes(), bias.strides(), shape);
  Matrices matrices{&bias, {1, 1, 1}, {0, 0, 0}};
  const size_t lead = 3 - sizes.size();
  std::copy(sizes.begin(), sizes.end(), matrices.sizes.begin() + lead);
  std::copy(strides.begin(), strides.end(), matrices.strides.begin() + lead);
  return matrices;
}

struct Epilogue {
  Scalar alpha = 1;
  Scalar beta = 0;
  Act act = Act::kNone;
};

// out = act(alpha * a @ b + beta * bias). Without a bias beta is ignored.
void Gemm(const Matrices& out, const Matrices& a, const Matrices& b,
          const std::optional<Matrices>& bias, const Epilogue& epilogue) {
  if (out.tensor->scalar_type() == ScalarType::Bool) {
    ThrowNotImplementedFor("addmm_impl_cpu_", ScalarType::Bool);
  }
  if (out.tensor->numel() == 0) return;
  LaunchBuilder launch(Kernel::kGemm, out.tensor->device());
  launch.DstAs(*out.tensor, out.sizes, out.strides)
      .SrcAs(*a.tensor, a.sizes, a.strides)
      .SrcAs(*b.tensor, b.sizes, b.strides);
  if (bias.has_value()) {
    launch.SrcAs(*bias->tensor, bias->sizes, bias->strides);
  }
  LaunchParams& params = launch.params();
  params.batch = out.sizes[0];
  params.m = out.sizes[1];
  params.n = out.sizes[2];
  params.k = a.sizes[2];
  params.alpha = epilogue.alpha.toDouble();
  params.beta = epilogue.beta.toDouble();
  params.act = epilogue.act;
  launch.Run();
}

bool IsZero(const Scalar& value) { return value.toDouble() == 0.0; }

void CheckSameType(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.dtype() == b.dtype(),
              "expected m1 and m2 to have the same dtype, but got: ", a.dtype(),
              " != ", b.dtype());
}

// --- mm ------------------------------------------------------------------

void RunMm(const Tensor& self, const Tensor& mat2, const Tensor& result) {
  CheckSameType(self, mat2);
  const SafeResult safe(result, self, mat2);
  Gemm(AsMatrices(safe.get()), AsMatrices(self), AsMatrices(mat2), std::nullopt,
       {});
  safe.Finish();
}

Tensor Mm(const Tensor& self, const Tensor& mat2) {
  DeviceCheck("wrapper_PrivateUse1_mm").Add(self, "self").Add(mat2, "mat2");
  if (NeedsFallback(self, mat2)) return FallbackTensor("mm", "", self, mat2);
  FunctionalOp<meta::structured_mm> op;
  op.meta(self, mat2);
  RunMm(self, mat2, op.result());
  return op.Finish();
}

Tensor& MmOut(const Tensor& self, const Tensor& mat2, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_mm_out_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(mat2, "mat2");
  if (NeedsFallback(self, mat2, out)) {
    return FallbackInto(out, "mm", "out", self, mat2, out);
  }
  OutOp<meta::structured_mm> op(out);
  op.meta(self, mat2);
  RunMm(self, mat2, op.result());
  return op.Finish();
}

// --- addmm ---------------------------------------------------------------

void RunAddmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2,
              const Epilogue& epilogue, const Tensor& result) {
  CheckSameType(mat1, mat2);
  std::optional<Matrices> bias;
  // Checked even where it isn't read.
  const Matrices expanded = AsBias(self, result.sizes());
  if (!IsZero(epilogue.beta)) bias = expanded;
  const SafeResult safe(result, self, mat1, mat2);
  Gemm(AsMatrices(safe.get()), AsMatrices(mat1), AsMatrices(mat2), bias,
       epilogue);
  safe.Finish();
}

void CheckAddmm(const char* op, const Tensor& self, const Tensor& mat1,
                const Tensor& mat2) {
  DeviceCheck(op).Add(self, "self").Add(mat1, "mat1").Add(mat2, "mat2");
}

Tensor Addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2,
             const Scalar& beta, const Scalar& alpha) {
  CheckAddmm("wrapper_PrivateUse1_addmm", self, mat1, mat2);
  if (NeedsFallback(self, mat1, mat2, beta, alpha)) {
    return FallbackTensor("addmm", "", self, mat1, mat2, beta, alpha);
  }
  FunctionalOp<meta::structured_addmm> op;
  op.meta(self, mat1, mat2, beta, alpha);
  RunAddmm(self, mat1, mat2, {alpha, beta}, op.result());
  return op.Finish();
}

Tensor& AddmmOut(const Tensor& self, const Tensor& mat1, const Tensor& mat2,
                 const Scalar& beta, const Scalar& alpha, Tensor& out) {
  CheckAddmm("wrapper_PrivateUse1_addmm_out_out", self, mat1, mat2);
  if (NeedsFallback(self, mat1, mat2, beta, alpha, out)) {
    return FallbackInto(out, "addmm", "out", self, mat1, mat2, beta, alpha,
                        out);
  }
  OutOp<meta::structured_addmm> op(out);
  op.meta(self, mat1, mat2, beta, alpha);
  RunAddmm(self, mat1, mat2, {alpha, beta}, op.result());
  return op.Finish();
}

Tensor& AddmmInplace(Tensor& self, const Tensor& mat1, const Tensor& mat2,
                     const Scalar& beta, const Scalar& alpha) {
  CheckAddmm("wrapper_PrivateUse1_addmm_", self, mat1, mat2);
  if (NeedsFallback(self, mat1, mat2, beta, alpha)) {
    return FallbackInto(self, "addmm_", "", self, mat1, mat2, beta, alpha);
  }
  using Op = OutOp<meta::structured_addmm>;
  Op op(Op::Mode::kInplace, self);
  op.meta(self, mat1, mat2, beta, alpha);
  RunAddmm(self, mat1, mat2, {alpha, beta}, op.result());
  return op.Finish();
}

Tensor& AddmmActivationOut(const Tensor& self, const Tensor& mat1,
                           const Tensor& mat2, const Scalar& beta,
                           const Scalar& alpha, bool use_gelu, Tensor& out) {
  CheckAddmm("wrapper_PrivateUse1__addmm_activation_out_out", self, mat1, mat2);
  if (NeedsFallback(self, mat1, mat2, beta, alpha, out)) {
    return FallbackInto(out, "_addmm_activation", "out", self, mat1, mat2, beta,
                        alpha, use_gelu, out);
  }
  OutOp<meta::structured__addmm_activation> op(out);
  op.meta(self, mat1, mat2, beta, alpha, use_gelu);
  RunAddmm(self, mat1, mat2, {alpha, beta, use_gelu ? Act::kGelu : Act::kRelu},
           op.result());
  return op.Finish();
}

// --- bmm, baddbmm --------------------------------------------------------

void RunBmm(const Tensor& self, const Tensor& mat2, const Tensor& result) {
  CheckSameType(self, mat2);
  const SafeResult safe(result, self, mat2);
  Gemm(AsMatrices(safe.get()), AsMatrices(self), AsMatrices(mat2), std::nullopt,
       {});
  safe.Finish();
}

Tensor Bmm(const Tensor& self, const Tensor& mat2) {
  DeviceCheck("wrapper_PrivateUse1_bmm").Add(self, "self").Add(mat2, "mat2");
  if (NeedsFallback(self, mat2)) return FallbackTensor("bmm", "", self, mat2);
  FunctionalOp<meta::structured_bmm> op;
  op.meta(self, mat2);
  RunBmm(self, mat2, op.result());
  return op.Finish();
}

Tensor& BmmOut(const Tensor& self, const Tensor& mat2, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_bmm_out_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(mat2, "mat2");
  if (NeedsFallback(self, mat2, out)) {
    return FallbackInto(out, "bmm", "out", self, mat2, out);
  }
  OutOp<meta::structured_bmm> op(out);
  op.meta(self, mat2);
  RunBmm(self, mat2, op.result());
  return op.Finish();
}

// Its meta class copies the bias into the result, which the kernel's epilogue
// makes needless; so its checks stand here.
std::array<int64_t, 3> CheckBaddbmm(const char* op, const Tensor& self,
                                    const Tensor& batch1,
                                    const Tensor& batch2) {
  DeviceCheck(op).Add(self, "self").Add(batch1, "batch1").Add(batch2, "batch2");
  TORCH_CHECK(self.dtype() == batch1.dtype(),
              "Input dtypes must be the same, got: input: ", self.dtype(),
              ", batch1: ", batch1.dtype(), ", batch2: ", batch2.dtype());
  TORCH_CHECK(batch1.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(batch2.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_CHECK(
      batch2.size(0) == batch1.size(0) && batch2.size(1) == batch1.size(2),
      "Expected size for first two dimensions of batch2 tensor to be: [",
      batch1.size(0), ", ", batch1.size(2), "] but got: [", batch2.size(0),
      ", ", batch2.size(1), "].");
  return {batch1.size(0), batch1.size(1), batch2.size(2)};
}

void RunBaddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                const Epilogue& epilogue, const Tensor& result) {
  CheckSameType(batch1, batch2);
  std::optional<Matrices> bias;
  const Matrices expanded = AsBias(self, result.sizes());
  if (!IsZero(epilogue.beta)) bias = expanded;
  const SafeResult safe(result, self, batch1, batch2);
  Gemm(AsMatrices(safe.get()), AsMatrices(batch1), AsMatrices(batch2), bias,
       epilogue);
  safe.Finish();
}

Tensor Baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
               const Scalar& beta, const Scalar& alpha) {
  const auto shape =
      CheckBaddbmm("wrapper_PrivateUse1_baddbmm", self, batch1, batch2);
  if (NeedsFallback(self, batch1, batch2, beta, alpha)) {
    return FallbackTensor("baddbmm", "", self, batch1, batch2, beta, alpha);
  }
  Tensor out = EmptyLikeOf(batch2, shape);
  RunBaddbmm(self, batch1, batch2, {alpha, beta}, out);
  return out;
}

Tensor& BaddbmmOut(const Tensor& self, const Tensor& batch1,
                   const Tensor& batch2, const Scalar& beta,
                   const Scalar& alpha, Tensor& out) {
  const auto shape =
      CheckBaddbmm("wrapper_PrivateUse1_baddbmm_out_out", self, batch1, batch2);
  if (NeedsFallback(self, batch1, batch2, beta, alpha, out)) {
    return FallbackInto(out, "baddbmm", "out", self, batch1, batch2, beta,
                        alpha, out);
  }
  ResizeOut(out, shape, {}, batch2.options());
  RunBaddbmm(self, batch1, batch2, {alpha, beta}, out);
  return out;
}

Tensor& BaddbmmInplace(Tensor& self, const Tensor& batch1, const Tensor& batch2,
                       const Scalar& beta, const Scalar& alpha) {
  const auto shape =
      CheckBaddbmm("wrapper_PrivateUse1_baddbmm_", self, batch1, batch2);
  if (NeedsFallback(self, batch1, batch2, beta, alpha)) {
    return FallbackInto(self, "baddbmm_", "", self, batch1, batch2, beta,
                        alpha);
  }
  CheckInplace(self, shape, batch2.options());
  RunBaddbmm(self, batch1, batch2, {alpha, beta}, self);
  return self;
}

// --- Matrix by vector, vector by vector ------------------------------------

Tensor& AddmvOut(const Tensor& self, const Tensor& mat, const Tensor& vec,
                 const Scalar& beta, const Scalar& alpha, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_addmv_out_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(mat, "mat")
      .Add(vec, "vec");
  if (NeedsFallback(self, mat, vec, beta, alpha, out)) {
    return FallbackInto(out, "addmv", "out", self, mat, vec, beta, alpha, out);
  }
  OutOp<meta::structured_addmv> op(out);
  op.meta(self, mat, vec, beta, alpha);
  CheckSameType(mat, vec);
  const Tensor& result = op.result();
  const SafeResult safe(result, self, mat, vec);
  std::optional<Matrices> bias;
  if (!IsZero(beta)) {
    const auto [sizes, strides] = at::inferExpandGeometry_dimvector(
        self.sizes(), self.strides(), result.sizes());
    bias = Matrices{&self, {1, sizes[0], 1}, {0, strides[0], 0}};
  }
  Gemm(AsColumn(safe.get()), AsMatrices(mat), AsColumn(vec), bias,
       {alpha, beta});
  safe.Finish();
  return op.Finish();
}

Tensor Dot(const Tensor& self, const Tensor& other, const char* name,
           const char* method) {
  DeviceCheck(method).Add(self, "self").Add(other, "tensor");
  if (NeedsFallback(self, other)) {
    return FallbackTensor(name, "", self, other);
  }
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1,
              "1D tensors expected, but got ", self.dim(), "D and ",
              other.dim(), "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(),
              "dot : expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(),
              "inconsistent tensor size, expected tensor [", self.numel(),
              "] and src [", other.numel(),
              "] to have the same number of elements, but got ", self.numel(),
              " and ", other.numel(), " elements respectively");
  // They come here as they are, and have no memory to read.
  if (self._is_zerotensor() || other._is_zerotensor()) {
    return at::_efficientzerotensor({}, self.options());
  }
  Tensor out = EmptyLikeOf(self, {});
  Gemm({&out, {1, 1, 1}, {0, 0, 0}}, AsRow(self), AsColumn(other), std::nullopt,
       {});
  return out;
}

Tensor DotProduct(const Tensor& self, const Tensor& tensor) {
  return Dot(self, tensor, "dot", "wrapper_PrivateUse1__dot");
}
Tensor VdotProduct(const Tensor& self, const Tensor& other) {
  return Dot(self, other, "vdot", "wrapper_PrivateUse1__vdot");
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mm", &Mm);
  m.impl("mm.out", &MmOut);
  m.impl("addmm", &Addmm);
  m.impl("addmm.out", &AddmmOut);
  m.impl("addmm_", &AddmmInplace);
  m.impl("_addmm_activation.out", &AddmmActivationOut);
  m.impl("bmm", &Bmm);
  m.impl("bmm.out", &BmmOut);
  m.impl("baddbmm", &Baddbmm);
  m.impl("baddbmm.out", &BaddbmmOut);
  m.impl("baddbmm_", &BaddbmmInplace);
  m.impl("addmv.out", &AddmvOut);
  m.impl("dot", &DotProduct);
  m.impl("vdot", &VdotProduct);
}

}  // namespace tvarant::torch_plugin

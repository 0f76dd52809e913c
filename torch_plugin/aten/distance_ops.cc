// Distances between rows, renorm, cross products, outer products, traces.

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_euclidean_dist.h>
#include <ATen/ops/addbmm_native.h>
#include <ATen/ops/linalg_cross_meta.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/renorm_meta.h>
#include <ATen/ops/sum.h>

#include <numeric>
#include <vector>

#include "torch_plugin/aten/structured_op.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

// --- cdist --------------------------------------------------------------

void CheckDistanceType(const char* op, const Tensor& tensor) {
  if (tensor.scalar_type() != at::kFloat &&
      tensor.scalar_type() != at::kDouble) {
    ThrowNotImplementedFor(op, tensor.scalar_type());
  }
}

// Both matrices as [B, rows, columns], batches expanded to each other.
struct Matrices {
  Tensor a, b;
  at::DimVector shape;  // of the distances
};

Matrices MatricesOf(const Tensor& x1, const Tensor& x2) {
  const IntArrayRef batch1 = x1.sizes().slice(0, x1.dim() - 2);
  const IntArrayRef batch2 = x2.sizes().slice(0, x2.dim() - 2);
  Matrices matrices;
  matrices.shape = at::infer_size_dimvector(batch1, batch2);
  const int64_t batch =
      std::accumulate(matrices.shape.begin(), matrices.shape.end(), int64_t{1},
                      std::multiplies<>());
  const auto expand = [&](const Tensor& x) {
    std::vector<int64_t> sizes(matrices.shape.begin(), matrices.shape.end());
    sizes.insert(sizes.end(), {x.size(-2), x.size(-1)});
    return x.expand(sizes).reshape({batch, x.size(-2), x.size(-1)});
  };
  matrices.a = expand(x1);
  matrices.b = expand(x2);
  matrices.shape.push_back(x1.size(-2));
  matrices.shape.push_back(x2.size(-2));
  return matrices;
}

// As PyTorch: products for many rows, unless told otherwise.
bool UsesProducts(const Tensor& x1, const Tensor& x2, double p, int64_t mode) {
  return p == 2 &&
         (mode == 1 || (mode == 0 && (x1.size(-2) > 25 || x2.size(-2) > 25)));
}

Tensor CdistForward(const Tensor& x1, const Tensor& x2, double p,
                    std::optional<int64_t> compute_mode) {
  TORCH_CHECK(x1.dim() >= 2,
              "cdist only supports at least 2D tensors, X1 got: ", x1.dim(),
              "D");
  TORCH_CHECK(x2.dim() >= 2,
              "cdist only supports at least 2D tensors, X2 got: ", x2.dim(),
              "D");
  TORCH_CHECK(x1.size(-1) == x2.size(-1),
              "X1 and X2 must have the same number of columns. X1: ",
              x1.size(-1), " X2: ", x2.size(-1));
  TORCH_CHECK(
      x1.is_floating_point() || x1.is_complex(),
      "cdist only supports floating-point dtypes, X1 got: ", x1.scalar_type());
  TORCH_CHECK(
      x2.is_floating_point() || x2.is_complex(),
      "cdist only supports floating-point dtypes, X2 got: ", x2.scalar_type());
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  const int64_t mode = compute_mode.value_or(0);
  TORCH_CHECK(mode >= 0 && mode <= 2,
              "possible modes: 0, 1, 2, but was: ", mode);
  DeviceCheck("_cdist_forward").Add(x1, "x1").Add(x2, "x2");
  CheckDistanceType("cdist", x1);
  CheckDistanceType("cdist", x2);
  const Matrices matrices = MatricesOf(x1, x2);
  Tensor out = EmptyLikeOf(x1, matrices.shape);
  if (out.numel() == 0) return out;
  if (x1.size(-1) == 0) return out.zero_();
  if (UsesProducts(x1, x2, p, mode)) {
    return at::_euclidean_dist(matrices.a, matrices.b).view(matrices.shape);
  }
  LaunchBuilder launch(Kernel::kPairDistance, x1.device());
  launch.params().scalar = p;
  const Tensor flat =
      out.view({matrices.a.size(0), matrices.a.size(1), matrices.b.size(1)});
  launch.Dst(flat).Src(matrices.a).Src(matrices.b).Run();
  return out;
}

Tensor CdistBackward(const Tensor& grad, const Tensor& x1, const Tensor& x2,
                     double p, const Tensor& cdist) {
  DeviceCheck("_cdist_backward")
      .Add(grad, "grad")
      .Add(x1, "x1")
      .Add(x2, "x2")
      .Add(cdist, "cdist");
  CheckDistanceType("cdist_backward", x1);
  const Matrices matrices = MatricesOf(x1, x2);
  at::DimVector shape(matrices.shape);
  shape.back() = x1.size(-1);
  if (x1.size(-2) == 0 || x2.size(-2) == 0 || x1.size(-1) == 0 ||
      matrices.a.numel() == 0) {
    return EmptyLikeOf(x1, shape).zero_();
  }
  const at::DimVector flat{matrices.a.size(0), matrices.a.size(1),
                           matrices.b.size(1)};
  const Tensor dy = grad.expand(matrices.shape).reshape(flat);
  const Tensor y = cdist.expand(matrices.shape).reshape(flat);
  Tensor out = EmptyLikeOf(x1, matrices.a.sizes());
  LaunchBuilder launch(Kernel::kPairDistanceBackward, x1.device());
  launch.params().scalar = p;
  launch.Dst(out).Src(dy).Src(matrices.a).Src(matrices.b).Src(y).Run();
  return out.view(shape);
}

// --- pdist --------------------------------------------------------------

Tensor PdistForward(const Tensor& self, double p) {
  TORCH_CHECK(self.is_contiguous(), "_pdist_forward requires contiguous input");
  TORCH_CHECK(self.dim() == 2,
              "pdist only supports 2D tensors, got: ", self.dim(), "D");
  CheckDistanceType("pdist", self);
  const int64_t n = self.size(0);
  Tensor out = EmptyLikeOf(self, {n < 2 ? 0 : n * (n - 1) / 2});
  if (out.numel() == 0) return out;
  if (self.size(1) == 0) return out.zero_();
  LaunchBuilder launch(Kernel::kPairDistance, self.device());
  launch.params().scalar = p;
  launch.Dst(out).Src(self).SrcOrAbsent(Tensor()).Run();
  return out;
}

Tensor PdistBackward(const Tensor& grad, const Tensor& self, double p,
                     const Tensor& pdist) {
  TORCH_CHECK(self.is_contiguous(),
              "_pdist_backward requires self to be "
              "contiguous");
  TORCH_CHECK(pdist.is_contiguous(),
              "_pdist_backward requires pdist to be "
              "contiguous");
  DeviceCheck("_pdist_backward")
      .Add(grad, "grad")
      .Add(self, "self")
      .Add(pdist, "pdist");
  CheckDistanceType("pdist_backward", self);
  Tensor out = EmptyLikeOf(self, self.sizes());
  if (out.numel() == 0) return out;
  LaunchBuilder launch(Kernel::kPairDistanceBackward, self.device());
  launch.params().scalar = p;
  launch.Dst(out).Src(grad).Src(self).SrcOrAbsent(Tensor()).Src(pdist).Run();
  return out;
}

// --- renorm -------------------------------------------------------------

// The norm of a slice; its limit.
int EmitRenormFactor(Emitter& e) {
  const int norm = e.In(0), limit = e.Scalar(0);
  return e.Select(e.Test(PointwiseOp::kGt, norm, limit),
                  e.Div(limit, e.Add(norm, e.Const(1e-7))), e.Const(1));
}

Tensor& RenormOut(const Tensor& self, const Scalar& p, int64_t dim,
                  const Scalar& maxnorm, Tensor& out) {
  if (NeedsFallback(self, p, maxnorm, out)) {
    return FallbackInto(out, "renorm", "out", self, p, dim, maxnorm, out);
  }
  OutOp<meta::structured_renorm> op(out);
  op.meta(self, p, dim, maxnorm);
  const int64_t kept = at::maybe_wrap_dim(dim, self.dim());
  if (self.numel() == 0) return op.Finish();
  at::DimVector dims;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d != kept) dims.push_back(d);
  }
  const ScalarType own = self.scalar_type();
  const ScalarType wide = self.element_size() < 4 ? at::kFloat : own;
  const Tensor norm = at::linalg_vector_norm(self, p, dims, true, wide);
  Tensor factor = EmptyLikeOf(self, norm.sizes());
  auto iter = at::TensorIteratorConfig()
                  .check_all_same_dtype(false)
                  .add_output(factor)
                  .add_const_input(norm)
                  .build();
  RunPointwise(iter, EmitRenormFactor, maxnorm, wide);
  at::mul_out(const_cast<Tensor&>(op.result()), self, factor);
  return op.Finish();
}

// --- linalg_cross -------------------------------------------------------

// a c - b d
int EmitMinor(Emitter& e) {
  return e.Sub(e.Mul(e.In(0), e.In(1)), e.Mul(e.In(2), e.In(3)));
}

Tensor& CrossOut(const Tensor& self, const Tensor& other, int64_t dim,
                 Tensor& out) {
  if (NeedsFallback(self, other, out)) {
    return FallbackInto(out, "linalg_cross", "out", self, other, dim, out);
  }
  OutOp<meta::structured_linalg_cross> op(out);
  op.meta(self, other, dim);
  const Tensor& result = op.result();
  if (result.numel() == 0) return op.Finish();
  at::assert_no_overlap(result, self);
  at::assert_no_overlap(result, other);
  const Tensor a = self.expand(result.sizes());
  const Tensor b = other.expand(result.sizes());
  const int64_t at = at::maybe_wrap_dim(dim, result.dim());
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    auto iter = at::TensorIteratorConfig()
                    .resize_outputs(false)
                    .add_owned_output(result.select(at, i))
                    .add_owned_const_input(a.select(at, j))
                    .add_owned_const_input(b.select(at, k))
                    .add_owned_const_input(a.select(at, k))
                    .add_owned_const_input(b.select(at, j))
                    .build();
    RunPointwise(iter, EmitMinor);
  }
  return op.Finish();
}

// --- addr ---------------------------------------------------------------

// self, u, v; beta, alpha. beta = 0 ignores self, NaN included.
int EmitAddr(Emitter& e) {
  return e.Add(e.Mul(e.Scalar(0), e.In(0)),
               e.Mul(e.Mul(e.Scalar(1), e.In(1)), e.In(2)));
}
int EmitOuter(Emitter& e) {
  return e.Mul(e.Mul(e.Scalar(1), e.In(1)), e.In(2));
}

// Bool has logical sums and products: PyTorch's own code for it.
bool IsBoolAddr(const Tensor& self, const Tensor& u, const Tensor& v) {
  return self.scalar_type() == at::kBool && u.scalar_type() == at::kBool &&
         v.scalar_type() == at::kBool;
}

void RunAddr(const Tensor& self, const Tensor& u, const Tensor& v,
             const Scalar& beta, const Scalar& alpha, Tensor& out) {
  TORCH_CHECK(u.dim() == 1, "addr: Expected 1-D argument vec1, but got ",
              u.dim(), "-D");
  TORCH_CHECK(v.dim() == 1, "addr: Expected 1-D argument vec2, but got ",
              v.dim(), "-D");
  for (const Scalar& number : {beta, alpha}) {
    const ScalarType type =
        c10::promoteTypes(self.scalar_type(),
                          c10::promoteTypes(u.scalar_type(), v.scalar_type()));
    TORCH_CHECK(!(number.isFloatingPoint() &&
                  c10::isIntegralType(type, /*includeBool=*/true)),
                "For integral input tensors, argument alpha must not be a "
                "floating point number.");
  }
  const std::array<int64_t, 2> sizes{u.size(0), v.size(0)};
  TORCH_CHECK(at::is_expandable_to(self.sizes(), sizes),
              "addr: Expected self "
              "to be expandable to ",
              IntArrayRef(sizes), ", but got ", self.sizes());
  const Tensor matrix = self.expand(sizes), column = u.unsqueeze(1);
  auto iter = at::TensorIteratorConfig()
                  .set_check_mem_overlap(true)
                  .add_output(out)
                  .add_const_input(matrix)
                  .add_const_input(column)
                  .add_const_input(v)
                  .allow_cpu_scalars(true)
                  .promote_inputs_to_common_dtype(true)
                  .cast_common_dtype_to_outputs(true)
                  .enforce_safe_casting_to_output(true)
                  .build();
  const bool ignores = beta.toDouble() == 0;
  RunPointwise(iter, ignores ? EmitOuter : EmitAddr, {{beta, alpha}});
  out = iter.output();
}

Tensor Addr(const Tensor& self, const Tensor& u, const Tensor& v,
            const Scalar& beta, const Scalar& alpha) {
  if (NeedsFallback(self, u, v, beta, alpha) || IsBoolAddr(self, u, v)) {
    return FallbackTensor("addr", "", self, u, v, beta, alpha);
  }
  Tensor out;
  RunAddr(self, u, v, beta, alpha, out);
  return out;
}

Tensor& AddrOut(const Tensor& self, const Tensor& u, const Tensor& v,
                const Scalar& beta, const Scalar& alpha, Tensor& out) {
  if (NeedsFallback(self, u, v, beta, alpha, out) || IsBoolAddr(self, u, v)) {
    return FallbackInto(out, "addr", "out", self, u, v, beta, alpha, out);
  }
  RunAddr(self, u, v, beta, alpha, out);
  return out;
}

// --- trace --------------------------------------------------------------

Tensor Trace(const Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix");
  return at::sum(self.diagonal());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_cdist_forward", &CdistForward);
  m.impl("_cdist_backward", &CdistBackward);
  m.impl("_pdist_forward", &PdistForward);
  m.impl("_pdist_backward", &PdistBackward);
  m.impl("renorm.out", &RenormOut);
  m.impl("linalg_cross.out", &CrossOut);
  m.impl("addr", &Addr);
  m.impl("addr.out", &AddrOut);
  m.impl("trace", &Trace);
  // PyTorch's own loop over products.
  m.impl("addbmm", TORCH_FN(at::native::addbmm));
  m.impl("addbmm.out", TORCH_FN(at::native::addbmm_out));
  m.impl("addbmm_", TORCH_FN(at::native::addbmm_));
}

}  // namespace tvarant::torch_plugin

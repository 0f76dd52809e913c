// Picking, scattering, joining and cumulating along a dimension; ranges and
// triangles.

#include <ATen/Dispatch.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>
#include <ATen/ops/gather_meta.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/triu_meta.h>
#include <torch/library.h>

#include <array>
#include <vector>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

// A 0-dim tensor seen as one of one element.
Tensor AtLeast1d(const Tensor& tensor) {
  return tensor.dim() == 0 ? tensor.view({1}) : tensor;
}

// --- index_select ----------------------------------------------------------

// Indices may lie on the host: they are uploaded (embeddings are used so).
Tensor& IndexSelectOut(const Tensor& self, int64_t dim, const Tensor& index,
                       Tensor& out) {
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "index_select", "out", self, dim,
                        index.to(self.device()), out);
  }
  DeviceCheck("wrapper_PrivateUse1_out_index_select_out")
      .Add(out, "out")
      .Add(self, "self");
  TORCH_CHECK_INDEX(index.dim() <= 1,
                    "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(!(self.dim() == 0 && index.numel() != 1),
              "index_select(): Index to scalar can have only 1 value, got ",
              index.numel(), " value(s)");
  TORCH_CHECK(index.scalar_type() == ScalarType::Long ||
                  index.scalar_type() == ScalarType::Int,
              "index_select(): Expected dtype int32 or int64 for index");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "index_select(): self and result must have the same scalar "
              "type");
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::assert_no_internal_overlap(out);
  at::DimVector shape(self.sizes());
  if (self.dim() > 0) {
    shape[static_cast<size_t>(dim)] = index.numel();
  }
  at::native::resize_output(out, shape);
  at::assert_no_overlap(out, self);
  if (out.numel() == 0) {
    TORCH_CHECK_INDEX(index.numel() == 0 || self.dim() == 0 ||
                          self.size(dim) > 0 || self.numel() == out.numel(),
                      "index out of range in self");
    return out;
  }
  const Tensor flat = AtLeast1d(index.to(self.device()));
  LaunchBuilder launch(Kernel::kIndexSelect, self.device());
  const std::array<int64_t, 1> one{1};
  if (self.dim() == 0) {
    launch.DstAs(out, one, one).SrcAs(self, one, one);
  } else {
    launch.Dst(out).Src(self);
  }
  launch.Src(flat).Int(dim);
  launch.Run();
  return out;
}

Tensor IndexSelect(const Tensor& self, int64_t dim, const Tensor& index) {
  if (!OnDevice(self)) {
    DeviceCheck("wrapper_PrivateUse1__index_select")
        .Add(self, "self")
        .Add(index, "index");
  }
  if (NeedsFallback(self)) {
    return FallbackTensor("index_select", "", self, dim,
                          index.to(self.device()));
  }
  Tensor out = EmptyLikeOf(self, {0});
  return IndexSelectOut(self, dim, index, out);
}

// --- gather ------------------------------------------------------------------

Tensor LongIndex(const Tensor& index) {
  return AtLeast1d(index.to(ScalarType::Long));
}

void RunGather(const Tensor& self, int64_t dim, const Tensor& index,
               const Tensor& result) {
  if (index.numel() == 0) return;
  const SafeResult safe(result, self, index);
  const Tensor y = AtLeast1d(safe.get()), x = AtLeast1d(self);
  const Tensor i = LongIndex(index);
  LaunchBuilder launch(Kernel::kGather, self.device());
  launch.Dst(y).Src(x).Src(i).Int(at::maybe_wrap_dim(dim, x.dim()));
  launch.Run();
  safe.Finish();
}

Tensor Gather(const Tensor& self, int64_t dim, const Tensor& index,
              bool sparse_grad) {
  DeviceCheck("wrapper_PrivateUse1_gather")
      .Add(self, "self")
      .Add(index, "index");
  if (NeedsFallback(self)) {
    return FallbackTensor("gather", "", self, dim, index, sparse_grad);
  }
  FunctionalOp<meta::structured_gather> op;
  op.meta(self, dim, index, sparse_grad);
  RunGather(self, dim, index, op.result());
  return op.Finish();
}

Tensor& GatherOut(const Tensor& self, int64_t dim, const Tensor& index,
                  bool sparse_grad, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_gather_out_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(index, "index");
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "gather", "out", self, dim, index, sparse_grad,
                        out);
  }
  OutOp<meta::structured_gather> op(out);
  op.meta(self, dim, index, sparse_grad);
  RunGather(self, dim, index, op.result());
  return op.Finish();
}

// --- cumsum, cumprod -------------------------------------------------------

void RunCumulate(const Tensor& self, int64_t dim, bool product,
                 const Tensor& result) {
  if (result.numel() == 0) return;
  const Tensor x = self.to(result.scalar_type());
  if (x.dim() == 0) {
    result.copy_(x);
    return;
  }
  const SafeResult safe(result, x);
  LaunchBuilder launch(Kernel::kCumulate, self.device());
  launch.Dst(safe.get()).Src(x);
  launch.Int(at::maybe_wrap_dim(dim, x.dim())).Int(product ? 1 : 0);
  launch.Run();
  safe.Finish();
}

template <class Meta, bool product>
Tensor& CumulateOut(const Tensor& self, int64_t dim,
                    std::optional<ScalarType> dtype, Tensor& out) {
  if (NeedsFallback(self, dtype, out)) {
    return FallbackInto(out, product ? "cumprod" : "cumsum", "out", self, dim,
                        dtype, out);
  }
  OutOp<Meta> op(out);
  op.meta(self, dim, dtype);
  RunCumulate(self, dim, product, op.result());
  return op.Finish();
}

template <class Meta, bool product>
Tensor Cumulate(const Tensor& self, int64_t dim,
                std::optional<ScalarType> dtype) {
  if (NeedsFallback(self, dtype)) {
    return FallbackTensor(product ? "cumprod" : "cumsum", "", self, dim, dtype);
  }
  FunctionalOp<Meta> op;
  op.meta(self, dim, dtype);
  RunCumulate(self, dim, product, op.result());
  return op.Finish();
}

// --- tril, triu ------------------------------------------------------------

template <class Meta, bool upper>
Tensor& TriangleOut(const Tensor& self, int64_t diagonal, Tensor& out) {
  DeviceCheck(upper ? "wrapper_PrivateUse1_triu_out_out"
                    : "wrapper_PrivateUse1_tril_out_out")
      .Add(out, "out")
      .Add(self, "self");
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, upper ? "triu" : "tril", "out", self, diagonal,
                        out);
  }
  OutOp<Meta> op(out);
  op.meta(self, diagonal);
  const Tensor& result = op.result();
  if (result.numel() > 0) {
    const SafeResult safe(result, self);
    LaunchBuilder launch(Kernel::kTriangle, self.device());
    launch.Dst(safe.get()).Src(self).Int(diagonal).Int(upper ? 1 : 0);
    launch.Run();
    safe.Finish();
  }
  return op.Finish();
}

// --- cat -------------------------------------------------------------------

constexpr size_t kMaxCatInputs = 4096;

// Joins `parts` into result[..., begin : begin + their length, ...].
void LaunchCat(const Tensor& result, int64_t dim, int64_t begin, int64_t length,
               at::ArrayRef<Tensor> parts) {
  if (length == 0 || result.numel() == 0) return;
  const Tensor target = result.narrow(dim, begin, length);
  LaunchBuilder launch(Kernel::kCat, result.device());
  launch.Dst(target);
  for (const Tensor& part : parts) launch.Src(part);
  launch.Int(dim);
  launch.Run();
}

Tensor& CatOut(const at::ITensorListRef& tensors, int64_t dim, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_cat_out_out")
      .Add(out, "out")
      .Add(tensors, "tensors");
  if (NeedsFallback(tensors, out)) {
    return FallbackInto(out, "cat", "out", tensors, dim, out);
  }
  OutOp<meta::structured_cat> op(out);
  const auto computed = op.meta(tensors, dim);
  const Tensor& result = op.result();
  // Empty 1-D tensors may stand beside tensors of any rank.
  std::vector<Tensor> parts;
  int64_t begin = 0, length = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    parts.push_back(tensor);
    length += tensor.size(computed.dim);
    if (parts.size() == kMaxCatInputs) {
      LaunchCat(result, computed.dim, begin, length, parts);
      begin += length;
      length = 0;
      parts.clear();
    }
  }
  LaunchCat(result, computed.dim, begin, length, parts);
  return op.Finish();
}

// --- Ranges ----------------------------------------------------------------

int64_t RangeSize(ScalarType type, const Scalar& start, const Scalar& end,
                  const Scalar& step) {
  int64_t size = 0;
  AT_DISPATCH_ALL_TYPES_AND2(
      ScalarType::Half, ScalarType::BFloat16, type, "arange_out", [&] {
        size = at::native::compute_arange_size<scalar_t>(start, end, step);
      });
  return size;
}

// y[i] = start + i * step over a dense 1-D target.
void LaunchRange(const Tensor& y, const Scalar& start, const Scalar& step) {
  if (y.numel() == 0) return;
  LaunchBuilder launch(Kernel::kArange, y.device());
  const std::array<int64_t, 1> size{y.numel()}, stride{y.stride(0)};
  launch.DstAs(y, size, stride);
  if (c10::isIntegralType(y.scalar_type(), /*includeBool=*/true)) {
    launch.Int(start.toLong()).Int(step.toLong());
  } else {
    launch.Float(start.toDouble()).Float(step.toDouble());
  }
  launch.Run();
}

Tensor& ArangeOut(const Scalar& start, const Scalar& end, const Scalar& step,
                  Tensor& out) {
  if (NeedsFallback(start, end, step, out)) {
    return FallbackInto(out, "arange", "start_out", start, end, step, out);
  }
  const int64_t size = RangeSize(out.scalar_type(), start, end, step);
  if (out.numel() != size) {
    if (out.numel() > 0) {
      TORCH_WARN("The number of elements in the out tensor of shape ",
                 out.sizes(), " is ", out.numel(),
                 " which does not match the computed number of elements ", size,
                 ". Note that this may occur as a result of rounding "
                 "error. The out tensor will be resized to a tensor of shape "
                 "(",
                 size, ",).");
    }
    out.resize_({size});
  }
  if (out.dim() == 1) {
    LaunchRange(out, start, step);
  } else {
    const Tensor flat = EmptyLikeOf(out, {size});
    LaunchRange(flat, start, step);
    out.copy_(flat.view(out.sizes()));
  }
  return out;
}

Tensor& LinspaceOut(const Scalar& start, const Scalar& end, int64_t steps,
                    Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (NeedsFallback(start, end, out) || out.scalar_type() == ScalarType::Bool) {
    return FallbackInto(out, "linspace", "out", start, end, steps, out);
  }
  if (out.numel() != steps) out.resize_({steps});
  if (steps == 0) return out;
  if (!out.is_floating_point()) {
    // The ends are integers; what lies between is cut.
    Tensor real = EmptyLikeOf(out, {steps}, ScalarType::Double);
    LinspaceOut(start.toLong(), end.toLong(), steps, real);
    return out.copy_(real.view(out.sizes()));
  }
  if (steps == 1) return out.fill_(start);
  const double first = start.toDouble(), last = end.toDouble();
  const double step = (last - first) / static_cast<double>(steps - 1);
  // As PyTorch: the upper half counts down from the end, so that both ends
  // are exact.
  const Tensor flat = out.dim() == 1 ? out : EmptyLikeOf(out, {steps});
  const int64_t half = steps / 2;
  LaunchRange(flat.narrow(0, 0, half), first, step);
  LaunchRange(flat.narrow(0, half, steps - half),
              last - step * static_cast<double>(steps - 1 - half), step);
  flat.narrow(0, steps - 1, 1).fill_(end);
  if (!flat.is_same(out)) out.copy_(flat.view(out.sizes()));
  return out;
}

Tensor& EyeRectangleOut(int64_t n, int64_t m, Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  out.resize_({n, m});
  out.zero_();
  const Tensor diagonal = out.diagonal();
  if (diagonal.numel() > 0) diagonal.fill_(1);
  return out;
}
Tensor& EyeOut(int64_t n, Tensor& out) { return EyeRectangleOut(n, n, out); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index_select", &IndexSelect);
  m.impl("index_select.out", &IndexSelectOut);
  m.impl("gather", &Gather);
  m.impl("gather.out", &GatherOut);
  m.impl("cumsum", &Cumulate<meta::structured_cumsum, false>);
  m.impl("cumsum.out", &CumulateOut<meta::structured_cumsum, false>);
  m.impl("cumprod", &Cumulate<meta::structured_cumprod, true>);
  m.impl("cumprod.out", &CumulateOut<meta::structured_cumprod, true>);
  m.impl("tril.out", &TriangleOut<meta::structured_tril, false>);
  m.impl("triu.out", &TriangleOut<meta::structured_triu, true>);
  m.impl("cat.out", &CatOut);
  m.impl("arange.start_out", &ArangeOut);
  m.impl("linspace.out", &LinspaceOut);
  m.impl("eye.out", &EyeOut);
  m.impl("eye.m_out", &EyeRectangleOut);
}

}  // namespace tvarant::torch_plugin

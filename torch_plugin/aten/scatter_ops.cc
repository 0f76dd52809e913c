// Putting elements at indices along one dimension: scatter, index_add and
// alike.

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/index_add_meta.h>
#include <ATen/ops/index_copy_meta.h>
#include <ATen/ops/index_reduce_meta.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_meta.h>
#include <ATen/ops/scatter_reduce_meta.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <limits>

#include "torch_plugin/aten/data_check.h"
#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;

Tensor AtLeast1d(const Tensor& tensor) {
  return tensor.dim() == 0 ? tensor.view({1}) : tensor;
}

// One element on the device, seen in any shape.
Tensor ScalarLike(const Tensor& like, const Scalar& value, IntArrayRef sizes) {
  Tensor element = EmptyLikeOf(like, {1});
  element.fill_(value);
  return element.view(at::DimVector(sizes.size(), 1)).expand(sizes);
}

// --- Reductions ------------------------------------------------------------

struct Reduction {
  PutMode mode = PutMode::kSet;
  bool mean = false;
};

Reduction ReductionOf(c10::string_view name) {
  if (name == "mean") return {PutMode::kAdd, true};
  if (name == "sum" || name == "add") return {PutMode::kAdd};
  if (name == "prod" || name == "multiply") return {PutMode::kMultiply};
  return {name == "amax" ? PutMode::kMax : PutMode::kMin};
}

// What changes nothing that it is reduced with.
Scalar NeutralOf(const Reduction& reduction, ScalarType type) {
  if (reduction.mode == PutMode::kAdd) return 0;
  if (reduction.mode == PutMode::kMultiply) return 1;
  const bool lowest = reduction.mode == PutMode::kMax;
  if (c10::isFloatingType(type)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return lowest ? -kInfinity : kInfinity;
  }
  switch (type) {
    case ScalarType::Bool:
      return !lowest;
    case ScalarType::Byte:
      return lowest ? 0 : 255;
    case ScalarType::Char:
      return lowest ? -128 : 127;
    case ScalarType::Short:
      return lowest ? -32768 : 32767;
    case ScalarType::Int:
      return lowest ? std::numeric_limits<int32_t>::min()
                    : std::numeric_limits<int32_t>::max();
    default:
      return lowest ? std::numeric_limits<int64_t>::min()
                    : std::numeric_limits<int64_t>::max();
  }
}

// --- The launches ----------------------------------------------------------

// result[.., index, ..] joined with values: whole slices.
void PutSlices(const Tensor& result, int64_t dim, const Tensor& index,
               const Tensor& values, PutMode mode, bool wrap) {
  const Tensor y = AtLeast1d(result), i = AtLeast1d(index);
  if (i.numel() == 0 || values.numel() == 0) return;
  dim = at::maybe_wrap_dim(dim, y.dim());
  at::DimVector sizes(y.sizes());
  sizes[static_cast<size_t>(dim)] = i.numel();
  LaunchBuilder launch(Kernel::kIndexPut, y.device());
  launch.Dst(y).Src(values.dim() == 0 ? values.expand(sizes) : values).Src(i);
  launch.Int(dim).Int(static_cast<int64_t>(mode)).Int(dim);
  if (wrap) launch.params().flags |= kWrapNegative;
  launch.Run();
}

// Whether an index of result's sizes, but for dim, says the same for each line.
bool IsForSlices(const Tensor& y, const Tensor& index, int64_t dim) {
  if (y.dim() < 2) return false;
  for (int64_t d = 0; d < y.dim(); ++d) {
    if (d == dim) continue;
    if (index.size(d) != y.size(d)) return false;
    if (index.size(d) > 1 && index.stride(d) != 0) return false;
  }
  return true;
}

// result[.., index[..], ..] joined with values, of which the part of index's
// sizes counts.
void Put(const Tensor& result, int64_t dim, const Tensor& index,
         const Tensor& values, PutMode mode) {
  const Tensor y = AtLeast1d(result), i = AtLeast1d(index);
  const Tensor v = AtLeast1d(values);
  dim = at::maybe_wrap_dim(dim, y.dim());
  if (IsForSlices(y, i, dim)) {
    const Tensor line = i.as_strided({i.size(dim)}, {i.stride(dim)});
    CheckIndex(DataCheck::kScatterIndex, line, y.size(dim));
    PutSlices(y, dim, line, v.as_strided(i.sizes(), v.strides()), mode,
              /*wrap=*/false);
    return;
  }
  LaunchBuilder launch(Kernel::kScatter, y.device());
  launch.Dst(y).Src(i).SrcAs(v, i.sizes(), v.strides());
  launch.Int(dim).Int(static_cast<int64_t>(mode));
  launch.Run();
}

// PyTorch sums half types in float.
bool WantsFloat(const Tensor& result) {
  return result.scalar_type() == ScalarType::Half ||
         result.scalar_type() == ScalarType::BFloat16;
}

// `put` is called with a result, the values and how they join.
template <class PutFn>
void PutReduced(const Tensor& result, const Tensor& values, PutMode mode,
                bool in_float, const PutFn& put) {
  if (!in_float || mode == PutMode::kSet || !WantsFloat(result)) {
    put(result, values, mode);
    return;
  }
  const Tensor wide = result.to(ScalarType::Float);
  put(wide, values.to(ScalarType::Float), mode);
  result.copy_(wide);
}

// A reduction with or without what stood there before.
template <class PutFn>
void Reduce(const Tensor& result, const Tensor& values,
            const Reduction& reduction, bool include_self, bool in_float,
            const PutFn& put) {
  if (!include_self) {
    put(result,
        ScalarLike(result, NeutralOf(reduction, result.scalar_type()),
                   values.sizes()),
        PutMode::kSet);
  }
  PutReduced(result, values, reduction.mode, in_float, put);
  if (!reduction.mean) return;
  const Tensor count =
      include_self ? at::ones_like(result) : at::zeros_like(result);
  PutReduced(count, ScalarLike(result, 1, values.sizes()), PutMode::kAdd,
             in_float, put);
  count.masked_fill_(count.eq(0), 1);
  if (result.is_floating_point()) {
    result.div_(count);
  } else {
    result.div_(count, "floor");
  }
}

// --- scatter ---------------------------------------------------------------

Tensor& ScatterSrcOut(const Tensor& self, int64_t dim, const Tensor& index,
                      const Tensor& src, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_scatter_out_src_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(index, "index")
      .Add(src, "src");
  if (ToDType(out.scalar_type()) == DType::kInvalid) {
    return FallbackInto(out, "scatter", "src_out", self, dim, index, src, out);
  }
  OutOp<meta::structured_scatter_src> op(out);
  op.meta(self, dim, index, src);
  const Tensor& result = op.result();
  if (!result.is_same(self)) result.copy_(self);
  if (index.numel() > 0) Put(result, dim, index, src, PutMode::kSet);
  return op.Finish();
}

Tensor& ScatterValueOut(const Tensor& self, int64_t dim, const Tensor& index,
                        const Scalar& value, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_scatter_out_value_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(index, "index");
  if (ToDType(out.scalar_type()) == DType::kInvalid) {
    return FallbackInto(out, "scatter", "value_out", self, dim, index, value,
                        out);
  }
  OutOp<meta::structured_scatter_value> op(out);
  op.meta(self, dim, index, value);
  const Tensor& result = op.result();
  if (!result.is_same(self)) result.copy_(self);
  if (index.numel() > 0) {
    Put(result, dim, index, ScalarLike(result, value, index.sizes()),
        PutMode::kSet);
  }
  return op.Finish();
}

Tensor& ScatterReduceOut(const Tensor& self, int64_t dim, const Tensor& index,
                         const Tensor& src, c10::string_view reduce,
                         Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_scatter_out_reduce_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(index, "index")
      .Add(src, "src");
  if (NeedsFallback(self, src, out)) {
    return FallbackInto(out, "scatter", "reduce_out", self, dim, index, src,
                        reduce, out);
  }
  OutOp<meta::structured_scatter_reduce> op(out);
  op.meta(self, dim, index, src, reduce);
  const Tensor& result = op.result();
  if (!result.is_same(self)) result.copy_(self);
  if (index.numel() > 0) {
    PutReduced(result, src, ReductionOf(reduce).mode, true,
               [&](const Tensor& y, const Tensor& values, PutMode mode) {
                 Put(y, dim, index, values, mode);
               });
  }
  return op.Finish();
}

Tensor& ScatterValueReduceOut(const Tensor& self, int64_t dim,
                              const Tensor& index, const Scalar& value,
                              c10::string_view reduce, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_scatter_out_value_reduce_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(index, "index");
  if (NeedsFallback(self, value, out)) {
    return FallbackInto(out, "scatter", "value_reduce_out", self, dim, index,
                        value, reduce, out);
  }
  OutOp<meta::structured_scatter_value_reduce> op(out);
  op.meta(self, dim, index, value, reduce);
  const Tensor& result = op.result();
  if (!result.is_same(self)) result.copy_(self);
  if (index.numel() > 0) {
    PutReduced(result, ScalarLike(result, value, index.sizes()),
               ReductionOf(reduce).mode, true,
               [&](const Tensor& y, const Tensor& values, PutMode mode) {
                 Put(y, dim, index, values, mode);
               });
  }
  return op.Finish();
}

Tensor& ScatterAddOut(const Tensor& self, int64_t dim, const Tensor& index,
                      const Tensor& src, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_scatter_add_out_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(index, "index")
      .Add(src, "src");
  if (NeedsFallback(self, src, out)) {
    return FallbackInto(out, "scatter_add", "out", self, dim, index, src, out);
  }
  OutOp<meta::structured_scatter_add> op(out);
  op.meta(self, dim, index, src);
  const Tensor& result = op.result();
  if (!result.is_same(self)) result.copy_(self);
  if (index.numel() > 0) {
    PutReduced(result, src, PutMode::kAdd, true,
               [&](const Tensor& y, const Tensor& values, PutMode mode) {
                 Put(y, dim, index, values, mode);
               });
  }
  return op.Finish();
}

Tensor& ScatterReduceTwoOut(const Tensor& self, int64_t dim,
                            const Tensor& index, const Tensor& src,
                            c10::string_view reduce, bool include_self,
                            Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_scatter_reduce_out_two_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(index, "index")
      .Add(src, "src");
  if (NeedsFallback(self, src, out)) {
    return FallbackInto(out, "scatter_reduce", "two_out", self, dim, index, src,
                        reduce, include_self, out);
  }
  OutOp<meta::structured_scatter_reduce_two> op(out);
  op.meta(self, dim, index, src, reduce, include_self);
  const Tensor& result = op.result();
  if (!result.is_same(self)) result.copy_(self);
  if (index.numel() > 0) {
    // Of src only what index covers.
    const Tensor v = AtLeast1d(src);
    const Tensor covered = v.as_strided(AtLeast1d(index).sizes(), v.strides());
    Reduce(result, covered, ReductionOf(reduce), include_self, true,
           [&](const Tensor& y, const Tensor& values, PutMode mode) {
             Put(y, dim, index, values, mode);
           });
  }
  return op.Finish();
}

// --- index_copy, index_fill, index_add, index_reduce -------------------------

Tensor& IndexCopyOut(const Tensor& self, int64_t dim, const Tensor& index,
                     const Tensor& source, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_index_copy_out_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(index, "index")
      .Add(source, "source");
  if (ToDType(out.scalar_type()) == DType::kInvalid) {
    return FallbackInto(out, "index_copy", "out", self, dim, index, source,
                        out);
  }
  OutOp<meta::structured_index_copy> op(out);
  op.meta(self, dim, index, source);
  const Tensor& result = op.result();
  if (!result.is_same(self)) result.copy_(self);
  PutSlices(result, dim, index, source, PutMode::kSet, /*wrap=*/false);
  return op.Finish();
}

Tensor& IndexFillWith(Tensor& self, int64_t dim, const Tensor& index,
                      const Scalar& value) {
  DeviceCheck("wrapper_PrivateUse1_int_Scalar_index_fill_")
      .Add(self, "self")
      .Add(index, "index");
  TORCH_CHECK_INDEX(index.scalar_type() == ScalarType::Long,
                    "index_fill_(): Expected dtype int64 for index.");
  if (!self.is_complex() && value.isComplex()) {
    TORCH_CHECK(false,
                "index_fill_(): Converting complex Scalar to non-complex type "
                "is not supported");
  }
  at::assert_no_overlap(self, index);
  TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
  if (ToDType(self.scalar_type()) == DType::kInvalid ||
      at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    return FallbackInto(self, "index_fill_", "int_Scalar", self, dim, index,
                        value);
  }
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (self.numel() == 0 || index.numel() == 0) return self;
  Tensor element = EmptyLikeOf(self, {});
  element.fill_(value);
  PutSlices(self, dim, index, element, PutMode::kSet, /*wrap=*/true);
  return self;
}

Tensor& IndexFillWithTensor(Tensor& self, int64_t dim, const Tensor& index,
                            const Tensor& value) {
  TORCH_CHECK(value.dim() == 0,
              "index_fill_ only supports a 0-dimensional value tensor, but got "
              "tensor with ",
              value.dim(), " dimension(s).");
  return IndexFillWith(self, dim, index, value.item());
}

Tensor& IndexAddOut(const Tensor& self, int64_t dim, const Tensor& index,
                    const Tensor& source, const Scalar& alpha, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_index_add_out_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(index, "index")
      .Add(source, "source");
  if (NeedsFallback(self, source, out)) {
    return FallbackInto(out, "index_add", "out", self, dim, index, source,
                        alpha, out);
  }
  OutOp<meta::structured_index_add> op(out);
  op.meta(self, dim, index, source, alpha);
  const Tensor& result = op.result();
  // Of vectors PyTorch says IndexError, as index_put does.
  if (self.dim() > 1) CheckIndex(DataCheck::kIndexAdd, index, self.size(dim));
  if (!result.is_same(self)) result.copy_(self);
  PutSlices(result, dim, index,
            alpha.toDouble() == 1 ? source : source.mul(alpha), PutMode::kAdd,
            /*wrap=*/false);
  return op.Finish();
}

Tensor& IndexReduceOut(const Tensor& self, int64_t dim, const Tensor& index,
                       const Tensor& source, c10::string_view reduce,
                       bool include_self, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_index_reduce_out_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(index, "index")
      .Add(source, "source");
  if (NeedsFallback(self, source, out)) {
    return FallbackInto(out, "index_reduce", "out", self, dim, index, source,
                        reduce, include_self, out);
  }
  TORCH_WARN_ONCE(
      "index_reduce() is in beta and the API may change at any time.");
  OutOp<meta::structured_index_reduce> op(out);
  op.meta(self, dim, index, source, reduce, include_self);
  const Tensor& result = op.result();
  if (!result.is_same(self)) result.copy_(self);
  if (index.numel() > 0 && source.numel() > 0) {
    Reduce(result, source, ReductionOf(reduce), include_self, false,
           [&](const Tensor& y, const Tensor& values, PutMode mode) {
             PutSlices(y, dim, index, values, mode, /*wrap=*/false);
           });
  }
  return op.Finish();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("scatter.src_out", &ScatterSrcOut);
  m.impl("scatter.value_out", &ScatterValueOut);
  m.impl("scatter.reduce_out", &ScatterReduceOut);
  m.impl("scatter.value_reduce_out", &ScatterValueReduceOut);
  m.impl("scatter_add.out", &ScatterAddOut);
  m.impl("scatter_reduce.two_out", &ScatterReduceTwoOut);
  m.impl("index_copy.out", &IndexCopyOut);
  m.impl("index_fill_.int_Scalar", &IndexFillWith);
  m.impl("index_fill_.int_Tensor", &IndexFillWithTensor);
  m.impl("index_add.out", &IndexAddOut);
  m.impl("index_reduce.out", &IndexReduceOut);
}

}  // namespace
}  // namespace tvarant::torch_plugin

// Reductions: sums, products, extremes, norms, variance, any/all.

#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/all_meta.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/aminmax_meta.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/max_meta.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/min_meta.h>
#include <ATen/ops/norm_meta.h>
#include <ATen/ops/prod_meta.h>
#include <ATen/ops/sum_meta.h>

#include <bitset>
#include <cmath>
#include <limits>
#include <tuple>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/structured_op.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;
using Dims = std::bitset<at::dim_bitset_size>;
using at::OptionalIntArrayRef;

// --- Shapes --------------------------------------------------------------

Dims AllDims(const Tensor& self) {
  Dims dims;
  for (int64_t d = 0; d < self.dim(); ++d) dims.set(static_cast<size_t>(d));
  return dims;
}

// No dims, or an empty list, means all of them.
Dims DimsOf(const Tensor& self, OptionalIntArrayRef dims) {
  if (!dims.has_value() || dims->empty()) return AllDims(self);
  return at::dim_list_to_bitset(*dims, self.dim());
}
Dims DimsOf(const Tensor& self, int64_t dim) {
  Dims dims;
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() > 0) dims.set(static_cast<size_t>(dim));
  return dims;
}
Dims DimsOf(const Tensor& self, std::optional<int64_t> dim) {
  return dim.has_value() ? DimsOf(self, *dim) : AllDims(self);
}

at::DimVector ReducedShape(const Tensor& self, const Dims& dims, bool keepdim) {
  at::DimVector shape;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!dims[static_cast<size_t>(d)]) {
      shape.push_back(self.size(d));
    } else if (keepdim) {
      shape.push_back(1);
    }
  }
  return shape;
}

// --- The launch ----------------------------------------------------------

struct Reduction {
  ReduceOp op;
  double scalar = 0;
};

// The result seen with the input's rank, size 1 where it is reduced.
void AddResult(LaunchBuilder& launch, const Tensor& self, const Dims& dims,
               const Tensor& result) {
  const bool kept = result.dim() == self.dim();
  at::DimVector sizes, strides;
  int64_t next = 0;
  for (int64_t d = 0; d < self.dim(); ++d) {
    const bool reduced = dims[static_cast<size_t>(d)];
    sizes.push_back(reduced ? 1 : self.size(d));
    strides.push_back(reduced ? 0 : result.stride(kept ? d : next));
    if (!reduced) ++next;
  }
  launch.DstAs(result, sizes, strides);
}

void Launch(const Tensor& self, const Dims& dims, const Reduction& reduction,
            const Tensor& result, const Tensor& second);

// More dimensions than an operand may have: as a [kept, reduced] matrix.
void LaunchFolded(const Tensor& self, const Dims& dims,
                  const Reduction& reduction, const Tensor& result,
                  const Tensor& second) {
  at::DimVector order, reduced;
  for (int64_t d = 0; d < self.dim(); ++d) {
    (dims[static_cast<size_t>(d)] ? reduced : order).push_back(d);
  }
  order.append(reduced.begin(), reduced.end());
  const int64_t kept = result.numel();
  const Tensor matrix =
      self.permute(order).reshape({kept, self.numel() / kept});
  Dims last;
  last.set(1);
  const Tensor values = EmptyLikeOf(result, {kept});
  const Tensor others =
      second.defined() ? EmptyLikeOf(second, {kept}) : Tensor();
  Launch(matrix, last, reduction, values, others);
  result.copy_(values.view(result.sizes()));
  if (second.defined()) second.copy_(others.view(second.sizes()));
}

void Launch(const Tensor& self, const Dims& dims, const Reduction& reduction,
            const Tensor& result, const Tensor& second) {
  if (result.numel() == 0) return;
  if (self.dim() > kMaxRank) {
    LaunchFolded(self, dims, reduction, result, second);
    return;
  }
  LaunchBuilder launch(Kernel::kReduce, self.device());
  AddResult(launch, self, dims, result);
  if (second.defined()) AddResult(launch, self, dims, second);
  launch.Src(self).Int(static_cast<int64_t>(reduction.op));
  launch.params().scalar = reduction.scalar;
  launch.Run();
}

// What a reduction over nothing gives.
Scalar IdentityOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProd:
    case ReduceOp::kAll:
      return 1;
    case ReduceOp::kMean:
    case ReduceOp::kVar:
    case ReduceOp::kStd:
      return std::numeric_limits<double>::quiet_NaN();
    case ReduceOp::kLogSumExp:
      return -std::numeric_limits<double>::infinity();
    default:
      return 0;
  }
}

void Reduce(const Tensor& self, const Dims& dims, const Reduction& reduction,
            const Tensor& result, const Tensor& second = {}) {
  if (self.numel() == 0) {
    if (result.numel() > 0) result.fill_(IdentityOf(reduction.op));
    if (second.defined() && second.numel() > 0) {
      second.fill_(IdentityOf(ReduceOp::kMean));
    }
    return;
  }
  Launch(self, dims, reduction, result, second);
}

// The input in the type that it is to be reduced in. Sums and products of
// integers widen in the kernel.
Tensor InType(const Tensor& self, ScalarType type) {
  const ScalarType own = self.scalar_type();
  if (own == type || (type == ScalarType::Long &&
                      c10::isIntegralType(own, /*includeBool=*/true))) {
    return self;
  }
  return self.to(type);
}

// --- Structured reductions -------------------------------------------------

constexpr bool WidensInput(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kMean ||
         op == ReduceOp::kProd || op == ReduceOp::kNanSum;
}

Dims DimsOfArguments(const Tensor& self) { return AllDims(self); }
template <class DimArgument, class... Rest>
Dims DimsOfArguments(const Tensor& self, const DimArgument& dim,
                     const Rest&...) {
  return DimsOf(self, dim);
}

// One result, whose type and shape the meta class knows: meta(self),
// meta(self, dim, keepdim) or meta(self, dim, keepdim, dtype).
template <Name name, Name overload, Name out_overload, auto meta, ReduceOp op>
struct ReductionOp;

template <Name name, Name overload, Name out_overload, ReduceOp reduce_op,
          class Meta, class Result, class... Rest,
          Result (Meta::*meta)(const Tensor& self, Rest...)>
struct ReductionOp<name, overload, out_overload, meta, reduce_op> {
  static Tensor Functional(const Tensor& self, Rest... rest) {
    if (NeedsFallback(self, rest...)) {
      return FallbackTensor(name.c_str(), overload.c_str(), self, rest...);
    }
    FunctionalOp<Meta> op;
    (op.*meta)(self, rest...);
    Run(self, op.result(), rest...);
    return op.Finish();
  }
  static Tensor& Out(const Tensor& self, Rest... rest, Tensor& out) {
    if (NeedsFallback(self, rest..., out)) {
      return FallbackInto(out, name.c_str(), out_overload.c_str(), self,
                          rest..., out);
    }
    OutOp<Meta> op(out);
    (op.*meta)(self, rest...);
    Run(self, op.result(), rest...);
    return op.Finish();
  }
  static void Register(torch::Library& m) {
    m.impl(FullName(name.c_str(), overload.c_str()).c_str(), &Functional);
    m.impl(FullName(name.c_str(), out_overload.c_str()).c_str(), &Out);
  }

 private:
  static void Run(const Tensor& self, const Tensor& result,
                  const Rest&... rest) {
    const Dims dims = DimsOfArguments(self, rest...);
    if constexpr (WidensInput(reduce_op)) {
      Reduce(InType(self, result.scalar_type()), dims, {reduce_op}, result);
    } else {
      Reduce(self, dims, {reduce_op}, result);
    }
  }
};

using SumOp =
    ReductionOp<"sum", "dim_IntList", "IntList_out",
                &meta::structured_sum_dim_IntList::meta, ReduceOp::kSum>;
using MeanOp = ReductionOp<"mean", "dim", "out",
                           &meta::structured_mean_dim::meta, ReduceOp::kMean>;
using AmaxOp = ReductionOp<"amax", "", "out", &meta::structured_amax::meta,
                           ReduceOp::kMax>;
using AminOp = ReductionOp<"amin", "", "out", &meta::structured_amin::meta,
                           ReduceOp::kMin>;

// --- Forms that PyTorch defines beside the structured ones -----------------

Tensor Sum(const Tensor& self, std::optional<ScalarType> dtype) {
  return SumOp::Functional(self, IntArrayRef{}, false, dtype);
}
Tensor Mean(const Tensor& self, std::optional<ScalarType> dtype) {
  return MeanOp::Functional(self, IntArrayRef{}, false, dtype);
}

// The type that a sum or product of this input has.
ScalarType SumType(const Tensor& self, std::optional<ScalarType> dtype) {
  if (dtype.has_value()) return *dtype;
  return c10::isIntegralType(self.scalar_type(), /*includeBool=*/true)
             ? ScalarType::Long
             : self.scalar_type();
}

Tensor Prod(const Tensor& self, std::optional<ScalarType> dtype) {
  if (NeedsFallback(self, dtype)) {
    return FallbackTensor("prod", "", self, dtype);
  }
  const ScalarType type = SumType(self, dtype);
  Tensor out = EmptyLikeOf(self, {}, type);
  Reduce(InType(self, type), AllDims(self), {ReduceOp::kProd}, out);
  return out;
}

Tensor& NansumOut(const Tensor& self, OptionalIntArrayRef dim, bool keepdim,
                  std::optional<ScalarType> dtype, Tensor& out) {
  if (NeedsFallback(self, dtype, out)) {
    return FallbackInto(out, "nansum", "out", self, dim, keepdim, dtype, out);
  }
  if (!self.is_floating_point()) {
    return SumOp::Out(self, dim, keepdim, dtype, out);
  }
  return ReductionOp<"nansum", "", "out",
                     &meta::structured_sum_dim_IntList::meta,
                     ReduceOp::kNanSum>::Out(self, dim, keepdim, dtype, out);
}

Tensor Nansum(const Tensor& self, OptionalIntArrayRef dim, bool keepdim,
              std::optional<ScalarType> dtype) {
  if (NeedsFallback(self, dtype)) {
    return FallbackTensor("nansum", "", self, dim, keepdim, dtype);
  }
  Tensor out = EmptyLikeOf(self, {0}, SumType(self, dtype));
  return NansumOut(self, dim, keepdim, dtype, out);
}

void CheckNotEmpty(const Tensor& self, const char* op) {
  TORCH_CHECK(self.numel() > 0, op,
              "(): Expected reduction dim to be specified for input.numel() "
              "== 0. Specify the reduction dim with the 'dim' argument.");
}

Tensor Max(const Tensor& self) {
  CheckNotEmpty(self, "max");
  return AmaxOp::Functional(self, {}, false);
}
Tensor Min(const Tensor& self) {
  CheckNotEmpty(self, "min");
  return AminOp::Functional(self, {}, false);
}
Tensor& MaxOut(const Tensor& self, Tensor& out) {
  CheckNotEmpty(self, "max");
  return AmaxOp::Out(self, {}, false, out);
}
Tensor& MinOut(const Tensor& self, Tensor& out) {
  CheckNotEmpty(self, "min");
  return AminOp::Out(self, {}, false, out);
}

// max.dim and min.dim: values and their first indices.
template <class Meta, ReduceOp reduce_op, Name name, Name out_overload>
struct ExtremeDim {
  static std::tuple<Tensor, Tensor> Functional(const Tensor& self, int64_t dim,
                                               bool keepdim) {
    if (NeedsFallback(self)) {
      const auto results = Fallback(name.c_str(), "dim", self, dim, keepdim);
      return {results[0].toTensor(), results[1].toTensor()};
    }
    FunctionalOp<Meta, 2> op;
    op.meta(self, dim, keepdim);
    Reduce(self, DimsOf(self, dim), {reduce_op}, op.result(0), op.result(1));
    return {op.result(0), op.result(1)};
  }
  static std::tuple<Tensor&, Tensor&> Out(const Tensor& self, int64_t dim,
                                          bool keepdim, Tensor& values,
                                          Tensor& indices) {
    if (NeedsFallback(self, values)) {
      Fallback(name.c_str(), out_overload.c_str(), self, dim, keepdim, values,
               indices);
      return {values, indices};
    }
    OutOp<Meta, 2> op(values, indices);
    op.meta(self, dim, keepdim);
    Reduce(self, DimsOf(self, dim), {reduce_op}, op.result(0), op.result(1));
    op.Finish();
    return {values, indices};
  }
};
using MaxDim =
    ExtremeDim<meta::structured_max_dim, ReduceOp::kMaxDim, "max", "dim_max">;
using MinDim =
    ExtremeDim<meta::structured_min_dim, ReduceOp::kMinDim, "min", "dim_min">;

std::tuple<Tensor&, Tensor&> AminmaxOut(const Tensor& self,
                                        std::optional<int64_t> dim,
                                        bool keepdim, Tensor& min,
                                        Tensor& max) {
  if (NeedsFallback(self, min, max)) {
    Fallback("aminmax", "out", self, dim, keepdim, min, max);
    return {min, max};
  }
  OutOp<meta::structured_aminmax, 2> op(min, max);
  op.meta(self, dim, keepdim);
  const Dims dims = DimsOf(self, dim);
  Reduce(self, dims, {ReduceOp::kMin}, op.result(0));
  Reduce(self, dims, {ReduceOp::kMax}, op.result(1));
  op.Finish();
  return {min, max};
}

Tensor CountNonzero(const Tensor& self, IntArrayRef dim) {
  if (NeedsFallback(self)) {
    return FallbackTensor("count_nonzero", "dim_IntList", self, dim);
  }
  const Dims dims = DimsOf(self, OptionalIntArrayRef(dim));
  Tensor out =
      EmptyLikeOf(self, ReducedShape(self, dims, false), ScalarType::Long);
  Reduce(self, dims, {ReduceOp::kCountNonzero}, out);
  return out;
}

// --- Norms ---------------------------------------------------------------

template <class Op>
void RunNorm(const Op& op, const Tensor& self, const Scalar& order,
             const Dims& dims) {
  Reduce(InType(self, op.result().scalar_type()), dims,
         {ReduceOp::kNorm, order.toDouble()}, op.result());
}

using VectorNormMeta = meta::structured_linalg_vector_norm;

Tensor VectorNorm(const Tensor& self, const Scalar& order,
                  OptionalIntArrayRef dim, bool keepdim,
                  std::optional<ScalarType> dtype) {
  if (NeedsFallback(self, dtype, order)) {
    return FallbackTensor("linalg_vector_norm", "", self, order, dim, keepdim,
                          dtype);
  }
  FunctionalOp<VectorNormMeta> op;
  op.meta(self, order, dim, keepdim, dtype);
  RunNorm(op, self, order, DimsOf(self, dim));
  return op.Finish();
}

Tensor& VectorNormOut(const Tensor& self, const Scalar& order,
                      OptionalIntArrayRef dim, bool keepdim,
                      std::optional<ScalarType> dtype, Tensor& out) {
  if (NeedsFallback(self, dtype, order, out)) {
    return FallbackInto(out, "linalg_vector_norm", "out", self, order, dim,
                        keepdim, dtype, out);
  }
  OutOp<VectorNormMeta> op(out);
  op.meta(self, order, dim, keepdim, dtype);
  RunNorm(op, self, order, DimsOf(self, dim));
  return op.Finish();
}

Tensor& NormOut(const Tensor& self, const std::optional<Scalar>& order,
                IntArrayRef dim, bool keepdim, Tensor& out) {
  if (NeedsFallback(self, order, out)) {
    return FallbackInto(out, "norm", "out", self, order, dim, keepdim, out);
  }
  OutOp<meta::structured_norm_ScalarOpt_dim> op(out);
  const Scalar p = order.value_or(2);
  op.meta(self,
          order.has_value() ? at::OptionalScalarRef(*order)
                            : at::OptionalScalarRef(),
          dim, keepdim);
  RunNorm(op, self, p, DimsOf(self, OptionalIntArrayRef(dim)));
  return op.Finish();
}

Tensor& NormDtypeOut(const Tensor& self, const std::optional<Scalar>& order,
                     IntArrayRef dim, bool keepdim, ScalarType dtype,
                     Tensor& out) {
  if (NeedsFallback(self, order, out)) {
    return FallbackInto(out, "norm", "dtype_out", self, order, dim, keepdim,
                        dtype, out);
  }
  OutOp<meta::structured_norm_ScalarOpt_dim_dtype> op(out);
  const Scalar p = order.value_or(2);
  op.meta(self,
          order.has_value() ? at::OptionalScalarRef(*order)
                            : at::OptionalScalarRef(),
          dim, keepdim, dtype);
  RunNorm(op, self, p, DimsOf(self, OptionalIntArrayRef(dim)));
  return op.Finish();
}

// --- Variance ------------------------------------------------------------

struct Spread {
  Dims dims;
  double correction;
  at::DimVector shape;
};

Spread SpreadOf(const Tensor& self, const char* op, OptionalIntArrayRef dim,
                const std::optional<Scalar>& correction, bool keepdim) {
  TORCH_CHECK(self.layout() == at::kStrided, op,
              "(): only supports strided layout, got: ", self.layout());
  TORCH_CHECK(self.is_floating_point() || self.is_complex(), op,
              " only support floating point and complex dtypes");
  Spread spread;
  spread.dims = DimsOf(self, dim);
  spread.correction = correction.has_value() ? correction->toDouble() : 1.0;
  spread.shape = ReducedShape(self, spread.dims, keepdim);
  double count = 1;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (spread.dims[static_cast<size_t>(d)]) {
      count *= static_cast<double>(self.size(d));
    }
  }
  if (self.numel() > 0 && spread.correction >= count) {
    TORCH_WARN(op,
               "(): degrees of freedom is <= 0. Correction should be strictly "
               "less than the reduction factor (input numel divided by output "
               "numel).");
  }
  return spread;
}

template <ReduceOp reduce_op, Name name>
struct SpreadOp {
  static std::string MeanName() { return std::string(name.c_str()) + "_mean"; }

  static Tensor Functional(const Tensor& self, OptionalIntArrayRef dim,
                           const std::optional<Scalar>& correction,
                           bool keepdim) {
    if (NeedsFallback(self)) {
      return FallbackTensor(name.c_str(), "correction", self, dim, correction,
                            keepdim);
    }
    const Spread spread =
        SpreadOf(self, name.c_str(), dim, correction, keepdim);
    Tensor out = EmptyLikeOf(self, spread.shape);
    Reduce(self, spread.dims, {reduce_op, spread.correction}, out);
    return out;
  }
  static Tensor& Out(const Tensor& self, OptionalIntArrayRef dim,
                     const std::optional<Scalar>& correction, bool keepdim,
                     Tensor& out) {
    if (NeedsFallback(self, out)) {
      return FallbackInto(out, name.c_str(), "correction_out", self, dim,
                          correction, keepdim, out);
    }
    const Spread spread =
        SpreadOf(self, name.c_str(), dim, correction, keepdim);
    ResizeOut(out, spread.shape, {}, self.options().dtype(out.scalar_type()));
    Reduce(InType(self, out.scalar_type()), spread.dims,
           {reduce_op, spread.correction}, out);
    return out;
  }
  static std::tuple<Tensor, Tensor> WithMean(
      const Tensor& self, OptionalIntArrayRef dim,
      const std::optional<Scalar>& correction, bool keepdim) {
    if (NeedsFallback(self)) {
      const auto results = Fallback(MeanName().c_str(), "correction", self, dim,
                                    correction, keepdim);
      return {results[0].toTensor(), results[1].toTensor()};
    }
    const Spread spread =
        SpreadOf(self, MeanName().c_str(), dim, correction, keepdim);
    Tensor out = EmptyLikeOf(self, spread.shape);
    Tensor mean = EmptyLikeOf(self, spread.shape);
    Reduce(self, spread.dims, {reduce_op, spread.correction}, out, mean);
    return {out, mean};
  }
  static void Register(torch::Library& m) {
    const std::string base = name.c_str();
    m.impl((base + ".correction").c_str(), &Functional);
    m.impl((base + ".correction_out").c_str(), &Out);
    m.impl((base + "_mean.correction").c_str(), &WithMean);
  }
};

// --- logsumexp -----------------------------------------------------------

Tensor& LogSumExpOut(const Tensor& self, IntArrayRef dim, bool keepdim,
                     Tensor& out) {
  TORCH_CHECK(c10::isFloatingType(out.scalar_type()) ||
                  c10::isComplexType(out.scalar_type()),
              "logsumexp(): Expected floating point type for result tensor, "
              "but got: ",
              out.scalar_type());
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "logsumexp", "out", self, dim, keepdim, out);
  }
  const Dims dims = DimsOf(self, OptionalIntArrayRef(dim));
  ResizeOut(out, ReducedShape(self, dims, keepdim), {},
            self.options().dtype(out.scalar_type()));
  Reduce(InType(self, out.scalar_type()), dims, {ReduceOp::kLogSumExp}, out);
  return out;
}

Tensor LogSumExp(const Tensor& self, IntArrayRef dim, bool keepdim) {
  if (NeedsFallback(self)) {
    return FallbackTensor("logsumexp", "", self, dim, keepdim);
  }
  const ScalarType type =
      self.is_floating_point()
          ? self.scalar_type()
          : c10::typeMetaToScalarType(c10::get_default_dtype());
  Tensor out = EmptyLikeOf(self, {0}, type);
  return LogSumExpOut(self, dim, keepdim, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  SumOp::Register(m);
  MeanOp::Register(m);
  AmaxOp::Register(m);
  AminOp::Register(m);
  ReductionOp<"prod", "dim_int", "int_out",
              &meta::structured_prod_dim_int::meta,
              ReduceOp::kProd>::Register(m);
  ReductionOp<"argmax", "", "out", &meta::structured_argmax::meta,
              ReduceOp::kArgMax>::Register(m);
  ReductionOp<"argmin", "", "out", &meta::structured_argmin::meta,
              ReduceOp::kArgMin>::Register(m);
  ReductionOp<"any", "", "all_out", &meta::structured_any::meta,
              ReduceOp::kAny>::Register(m);
  ReductionOp<"any", "dim", "out", &meta::structured_any_dim::meta,
              ReduceOp::kAny>::Register(m);
  ReductionOp<"any", "dims", "dims_out", &meta::structured_any_dims::meta,
              ReduceOp::kAny>::Register(m);
  ReductionOp<"all", "", "all_out", &meta::structured_all::meta,
              ReduceOp::kAll>::Register(m);
  ReductionOp<"all", "dim", "out", &meta::structured_all_dim::meta,
              ReduceOp::kAll>::Register(m);
  ReductionOp<"all", "dims", "dims_out", &meta::structured_all_dims::meta,
              ReduceOp::kAll>::Register(m);

  m.impl("sum", &Sum);
  m.impl("mean", &Mean);
  m.impl("prod", &Prod);
  m.impl("nansum", &Nansum);
  m.impl("nansum.out", &NansumOut);
  m.impl("max", &Max);
  m.impl("max.unary_out", &MaxOut);
  m.impl("max.dim", &MaxDim::Functional);
  m.impl("max.dim_max", &MaxDim::Out);
  m.impl("min", &Min);
  m.impl("min.unary_out", &MinOut);
  m.impl("min.dim", &MinDim::Functional);
  m.impl("min.dim_min", &MinDim::Out);
  m.impl("aminmax.out", &AminmaxOut);
  m.impl("count_nonzero.dim_IntList", &CountNonzero);
  m.impl("linalg_vector_norm", &VectorNorm);
  m.impl("linalg_vector_norm.out", &VectorNormOut);
  m.impl("norm.out", &NormOut);
  m.impl("norm.dtype_out", &NormDtypeOut);
  SpreadOp<ReduceOp::kVar, "var">::Register(m);
  SpreadOp<ReduceOp::kStd, "std">::Register(m);
  m.impl("logsumexp", &LogSumExp);
  m.impl("logsumexp.out", &LogSumExpOut);
}

}  // namespace tvarant::torch_plugin

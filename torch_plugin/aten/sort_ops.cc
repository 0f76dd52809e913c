// Order along one dimension: sort, topk, kthvalue, median, mode, running
// extremes.

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sort_meta.h>
#include <ATen/ops/topk_meta.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;
using Pair = std::tuple<Tensor, Tensor>;
using PairRef = std::tuple<Tensor&, Tensor&>;

// Lines that are far apart in memory are brought together first: from here on
// that is faster.
constexpr int64_t kMinMoved = 1 << 13;

bool FitsKernels(const Tensor& self) {
  return !LacksKernels(self) && self.dim() <= kMaxRank;
}

bool IsWorthMoving(const Tensor& self, int64_t dim) {
  return self.stride(dim) != 1 && self.size(dim) > 1 &&
         self.numel() >= kMinMoved;
}

void LaunchSort(const Tensor& values, const Tensor& indices, const Tensor& self,
                int64_t dim, bool descending) {
  LaunchBuilder launch(Kernel::kSort, self.device());
  launch.Dst(values).Dst(indices).Src(self).Int(dim).Int(descending).Run();
}

// The first values.size(dim) elements of each line in order.
void Sort(const Tensor& values, const Tensor& indices, const Tensor& self,
          int64_t dim, bool descending) {
  if (values.numel() == 0) return;
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return;
  }
  if (!IsWorthMoving(self, dim)) {
    const SafeResult safe(values, self);
    LaunchSort(safe.get(), indices, self, dim, descending);
    safe.Finish();
    return;
  }
  const Tensor lines = self.movedim(dim, -1).contiguous();
  const at::DimVector sizes(values.movedim(dim, -1).sizes());
  const Tensor sorted = EmptyLikeOf(values, sizes);
  const Tensor places = EmptyLikeOf(indices, sizes);
  LaunchSort(sorted, places, lines, lines.dim() - 1, descending);
  values.movedim(dim, -1).copy_(sorted);
  indices.movedim(dim, -1).copy_(places);
}

// --- sort, topk --------------------------------------------------------------

PairRef SortOut(const Tensor& self, std::optional<bool> stable, int64_t dim,
                bool descending, Tensor& values, Tensor& indices) {
  if (!FitsKernels(self) || LacksKernels(values)) {
    Fallback("sort", "values_stable", self, stable, dim, descending, values,
             indices);
    return {values, indices};
  }
  OutOp<meta::structured_sort_stable, 2> op(values, indices);
  op.meta(self, stable, dim, descending);
  Sort(op.result(0), op.result(1), self, at::maybe_wrap_dim(dim, self.dim()),
       descending);
  op.Finish();
  return {values, indices};
}

Pair SortStable(const Tensor& self, std::optional<bool> stable, int64_t dim,
                bool descending) {
  if (!FitsKernels(self)) {
    const auto results =
        Fallback("sort", "stable", self, stable, dim, descending);
    return {results[0].toTensor(), results[1].toTensor()};
  }
  FunctionalOp<meta::structured_sort_stable, 2> op;
  op.meta(self, stable, dim, descending);
  Sort(op.result(0), op.result(1), self, at::maybe_wrap_dim(dim, self.dim()),
       descending);
  return {op.result(0), op.result(1)};
}

PairRef TopkOut(const Tensor& self, int64_t k, int64_t dim, bool largest,
                bool sorted, Tensor& values, Tensor& indices) {
  if (!FitsKernels(self) || LacksKernels(values)) {
    Fallback("topk", "values", self, k, dim, largest, sorted, values, indices);
    return {values, indices};
  }
  OutOp<meta::structured_topk, 2> op(values, indices);
  op.meta(self, k, dim, largest, sorted);
  Sort(op.result(0), op.result(1), self,
       at::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/true), largest);
  op.Finish();
  return {values, indices};
}

Pair Topk(const Tensor& self, int64_t k, int64_t dim, bool largest,
          bool sorted) {
  if (!FitsKernels(self)) {
    const auto results = Fallback("topk", "", self, k, dim, largest, sorted);
    return {results[0].toTensor(), results[1].toTensor()};
  }
  FunctionalOp<meta::structured_topk, 2> op;
  op.meta(self, k, dim, largest, sorted);
  Sort(op.result(0), op.result(1), self,
       at::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/true), largest);
  return {op.result(0), op.result(1)};
}

// --- kthvalue, median, mode --------------------------------------------------

void LaunchStatistic(const Tensor& values, const Tensor& indices,
                     const Tensor& lines, OrderStatistic what, int64_t k) {
  at::DimVector sizes(lines.sizes());
  sizes.back() = 1;
  const Tensor value = values.view(sizes), index = indices.view(sizes);
  LaunchBuilder launch(Kernel::kOrderStatistic, lines.device());
  launch.Dst(value).Dst(index).Src(lines).Int(lines.dim() - 1);
  launch.Int(static_cast<int64_t>(what)).Int(k).Run();
}

// Resizes the results and fills them.
PairRef Statistic(const Tensor& self, int64_t dim, bool keepdim,
                  OrderStatistic what, int64_t k, Tensor& values,
                  Tensor& indices) {
  at::DimVector shape(self.sizes());
  if (self.dim() > 0) {
    if (keepdim) {
      shape[static_cast<size_t>(dim)] = 1;
    } else {
      shape.erase(shape.begin() + dim);
    }
  }
  at::native::resize_output(values, shape);
  at::native::resize_output(indices, shape);
  if (values.numel() == 0) return {values, indices};
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return {values, indices};
  }
  const Tensor moved = self.movedim(dim, -1);
  // The kernel takes no broadcast lines.
  const Tensor lines =
      IsWorthMoving(self, dim) || !self.is_non_overlapping_and_dense()
          ? moved.contiguous()
          : moved;
  const Tensor value = EmptyLikeOf(values, values.sizes());
  const Tensor index = EmptyLikeOf(indices, indices.sizes());
  const bool direct = values.is_contiguous() && indices.is_contiguous() &&
                      !values.is_alias_of(self);
  LaunchStatistic(direct ? values : value, direct ? indices : index, lines,
                  what, k);
  if (!direct) {
    values.copy_(value);
    indices.copy_(index);
  }
  return {values, indices};
}

void CheckPair(const char* op, const Tensor& self, const Tensor& values,
               const Tensor& indices) {
  DeviceCheck(op)
      .Add(values, "values")
      .Add(indices, "indices")
      .Add(self, "self");
  TORCH_CHECK(values.scalar_type() == self.scalar_type(),
              "output values must be of same type as input");
  TORCH_CHECK(indices.scalar_type() == ScalarType::Long,
              "output indices must be of scalar type Long");
  at::assert_no_internal_overlap(values);
  at::assert_no_internal_overlap(indices);
  at::assert_no_overlap(self, values);
}

PairRef KthvalueOut(const Tensor& self, int64_t k, int64_t given, bool keepdim,
                    Tensor& values, Tensor& indices) {
  if (!FitsKernels(self) || self.scalar_type() == ScalarType::Bool) {
    Fallback("kthvalue", "values", self, k, given, keepdim, values, indices);
    return {values, indices};
  }
  const int64_t dim =
      at::maybe_wrap_dim(given, self.dim(), /*wrap_scalar=*/true);
  CheckPair("wrapper_PrivateUse1_values_kthvalue_out", self, values, indices);
  at::native::zero_numel_check_dims(self, dim, "kthvalue()");
  const int64_t size = self.dim() == 0 ? 1 : self.size(dim);
  TORCH_CHECK(k >= 1 && k <= size,
              "kthvalue(): selected number k out of range for dimension ", dim);
  return Statistic(self, dim, keepdim, OrderStatistic::kKth, k - 1, values,
                   indices);
}

template <OrderStatistic what>
constexpr const char* MedianName() {
  return what == OrderStatistic::kMedian ? "median" : "nanmedian";
}

template <OrderStatistic what>
PairRef MedianDimOut(const Tensor& self, int64_t given, bool keepdim,
                     Tensor& values, Tensor& indices) {
  if (!FitsKernels(self) || self.scalar_type() == ScalarType::Bool) {
    Fallback(MedianName<what>(), "dim_values", self, given, keepdim, values,
             indices);
    return {values, indices};
  }
  const int64_t dim = at::maybe_wrap_dim(given, self.dim());
  CheckPair("wrapper_PrivateUse1_dim_values_median_out", self, values, indices);
  at::native::zero_numel_check_dims(self, dim, "median()");
  return Statistic(self, dim, keepdim, what, 0, values, indices);
}

template <OrderStatistic what>
Tensor Median(const Tensor& self) {
  if (LacksKernels(self) || self.scalar_type() == ScalarType::Bool) {
    return FallbackTensor(MedianName<what>(), "", self);
  }
  Tensor value = EmptyLikeOf(self, {});
  if (self.numel() == 0) {
    return value.fill_(std::numeric_limits<double>::quiet_NaN());
  }
  Tensor index = EmptyLikeOf(self, {}, ScalarType::Long);
  Statistic(self.reshape({-1}), 0, /*keepdim=*/false, what, 0, value, index);
  return value;
}

Pair Mode(const Tensor& self, int64_t given, bool keepdim) {
  if (!FitsKernels(self)) {
    const auto results = Fallback("mode", "", self, given, keepdim);
    return {results[0].toTensor(), results[1].toTensor()};
  }
  const int64_t dim = at::maybe_wrap_dim(given, self.dim());
  at::native::zero_numel_check_dims(self, dim, "mode()");
  Tensor values = EmptyLikeOf(self, {0});
  Tensor indices = EmptyLikeOf(self, {0}, ScalarType::Long);
  Statistic(self, dim, keepdim, OrderStatistic::kMode, 0, values, indices);
  return {values, indices};
}

PairRef ModeOut(const Tensor& self, int64_t given, bool keepdim, Tensor& values,
                Tensor& indices) {
  if (!FitsKernels(self)) {
    Fallback("mode", "values", self, given, keepdim, values, indices);
    return {values, indices};
  }
  const int64_t dim = at::maybe_wrap_dim(given, self.dim());
  CheckPair("wrapper_PrivateUse1_values_mode_out", self, values, indices);
  at::native::zero_numel_check_dims(self, dim, "mode()");
  return Statistic(self, dim, keepdim, OrderStatistic::kMode, 0, values,
                   indices);
}

// --- Running extremes, logcumsumexp ------------------------------------------

template <bool minimum>
void CumulateExtreme(const Tensor& self, Tensor& values, Tensor& indices,
                     int64_t dim) {
  if (!FitsKernels(self)) {
    Fallback(minimum ? "_cummin_helper" : "_cummax_helper", "", self, values,
             indices, dim);
    return;
  }
  if (self.numel() == 0) return;
  const SafeResult safe(values, self);
  LaunchBuilder launch(Kernel::kCumulateExtreme, self.device());
  launch.Dst(safe.get()).Dst(indices).Src(self);
  launch.Int(at::maybe_wrap_dim(dim, self.dim())).Int(minimum).Run();
  safe.Finish();
}

Tensor& LogCumsumExpOut(const Tensor& self, int64_t dim, Tensor& out) {
  if (!FitsKernels(self) || !self.is_floating_point()) {
    return FallbackInto(out, "_logcumsumexp", "out", self, dim, out);
  }
  const int64_t along = at::maybe_wrap_dim(dim, self.dim());
  at::native::resize_output(out, self.sizes());
  if (self.numel() == 0) return out;
  if (self.dim() == 0) return out.copy_(self);
  const SafeResult safe(out, self);
  LaunchBuilder launch(Kernel::kLogCumsumExp, self.device());
  launch.Dst(safe.get()).Src(self).Int(along).Run();
  safe.Finish();
  return out;
}

Tensor LogCumsumExp(const Tensor& self, int64_t dim) {
  Tensor out = EmptyLikeOf(self, self.sizes());
  return LogCumsumExpOut(self, dim, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("sort.stable", &SortStable);
  m.impl("sort.values_stable", &SortOut);
  m.impl("topk", &Topk);
  m.impl("topk.values", &TopkOut);
  m.impl("kthvalue.values", &KthvalueOut);
  m.impl("median", &Median<OrderStatistic::kMedian>);
  m.impl("median.dim_values", &MedianDimOut<OrderStatistic::kMedian>);
  m.impl("nanmedian", &Median<OrderStatistic::kNanMedian>);
  m.impl("nanmedian.dim_values", &MedianDimOut<OrderStatistic::kNanMedian>);
  m.impl("mode", &Mode);
  m.impl("mode.values", &ModeOut);
  m.impl("_cummax_helper", &CumulateExtreme<false>);
  m.impl("_cummin_helper", &CumulateExtreme<true>);
  m.impl("_logcumsumexp", &LogCumsumExp);
  m.impl("_logcumsumexp.out", &LogCumsumExpOut);
}

}  // namespace
}  // namespace tvarant::torch_plugin

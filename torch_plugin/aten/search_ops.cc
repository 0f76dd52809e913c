// Searching and counting: searchsorted, isin, bincount, histc.

#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/isin_meta.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sort.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

namespace meta = at::meta;
using OptionalTensor = std::optional<Tensor>;
using Side = std::optional<c10::string_view>;

// --- searchsorted ------------------------------------------------------------

// The kernel's sides.
constexpr int64_t kLeft = 0, kRight = 1, kNanLast = 2;

void LaunchSearch(const Tensor& sequence, const Tensor& values,
                  const Tensor& sorter, int64_t side, const Tensor& result) {
  if (result.numel() == 0) return;
  LaunchBuilder launch(Kernel::kSearchSorted, sequence.device());
  launch.Dst(result).Src(sequence).Src(values).SrcOrAbsent(sorter);
  launch.Int(side).Run();
}

ScalarType PlaceType(bool out_int32) {
  return out_int32 ? ScalarType::Int : ScalarType::Long;
}

Tensor& SearchsortedOut(const Tensor& sequence, const Tensor& self,
                        bool out_int32, bool right, Side side,
                        const OptionalTensor& given, Tensor& out) {
  if (NeedsFallback(sequence, self)) {
    return FallbackInto(out, "searchsorted", "Tensor_out", sequence, self,
                        out_int32, right, side, given, out);
  }
  const Tensor sorter = given.value_or(Tensor());
  at::native::searchsorted_pre_check(sequence, self, out, out_int32, right,
                                     side, sorter);
  at::native::resize_output(out, self.sizes());
  if (out.numel() == 0) return out;
  // A number takes part in the common type as numbers do.
  at::native::ResultTypeState state;
  state = at::native::update_result_type_state(sequence, state);
  state = at::native::update_result_type_state(self, state);
  const ScalarType type = at::native::result_type(state);
  const SafeResult safe(out, self, sequence);
  LaunchSearch(sequence.to(type), self.to(type), sorter,
               right || side == "right" ? kRight : kLeft, safe.get());
  safe.Finish();
  return out;
}

Tensor Searchsorted(const Tensor& sequence, const Tensor& self, bool out_int32,
                    bool right, Side side, const OptionalTensor& sorter) {
  Tensor out = EmptyLikeOf(sequence, {0}, PlaceType(out_int32));
  return SearchsortedOut(sequence, self, out_int32, right, side, sorter, out);
}

Tensor& SearchsortedScalarOut(const Tensor& sequence, const Scalar& self,
                              bool out_int32, bool right, Side side,
                              const OptionalTensor& sorter, Tensor& out) {
  const Tensor value =
      at::native::searchsorted_scalar_tensor(self, sequence.device());
  return SearchsortedOut(sequence, value, out_int32, right, side, sorter, out);
}

Tensor SearchsortedScalar(const Tensor& sequence, const Scalar& self,
                          bool out_int32, bool right, Side side,
                          const OptionalTensor& sorter) {
  const Tensor value =
      at::native::searchsorted_scalar_tensor(self, sequence.device());
  return Searchsorted(sequence, value, out_int32, right, side, sorter);
}

void CheckBoundaries(const Tensor& boundaries) {
  TORCH_CHECK(boundaries.dim() == 1,
              "bucketize(): boundaries tensor must be 1 dimension, but got "
              "dim(",
              boundaries.dim(), ")");
}

Tensor& BucketizeOut(const Tensor& self, const Tensor& boundaries,
                     bool out_int32, bool right, Tensor& out) {
  CheckBoundaries(boundaries);
  return SearchsortedOut(boundaries, self, out_int32, right, std::nullopt,
                         std::nullopt, out);
}

Tensor Bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32,
                 bool right) {
  CheckBoundaries(boundaries);
  return Searchsorted(boundaries, self, out_int32, right, std::nullopt,
                      std::nullopt);
}

Tensor BucketizeScalar(const Scalar& self, const Tensor& boundaries,
                       bool out_int32, bool right) {
  CheckBoundaries(boundaries);
  return SearchsortedScalar(boundaries, self, out_int32, right, std::nullopt,
                            std::nullopt);
}

// --- isin --------------------------------------------------------------------

// Each element is looked up among the sorted test elements.
void IsIn(const Tensor& elements, const Tensor& tests, bool invert,
          const Tensor& result) {
  if (result.numel() == 0) return;
  if (tests.numel() == 0) {
    result.fill_(invert);
    return;
  }
  const ScalarType type = at::result_type(elements, tests);
  const Tensor wanted = elements.to(type);
  const Tensor sorted =
      std::get<0>(at::sort(tests.to(type).reshape({-1}), 0, false));
  const Tensor places = EmptyLikeOf(result, result.sizes(), ScalarType::Long);
  LaunchSearch(sorted, wanted, Tensor(), kNanLast, places);
  places.clamp_max_(sorted.numel() - 1);
  const Tensor found = EmptyLikeOf(sorted, result.sizes());
  LaunchBuilder launch(Kernel::kIndexPick, result.device());
  launch.Dst(found).Src(sorted).Src(places).Int(0).Int(0).Run();
  result.copy_(invert ? found.ne(wanted) : found.eq(wanted));
}

Tensor& IsInOut(const Tensor& elements, const Tensor& tests, bool unique,
                bool invert, Tensor& out) {
  if (NeedsFallback(elements, tests)) {
    return FallbackInto(out, "isin", "Tensor_Tensor_out", elements, tests,
                        unique, invert, out);
  }
  DeviceCheck("wrapper_PrivateUse1_isin_out_Tensor_Tensor_out")
      .Add(out, "out")
      .Add(elements, "elements")
      .Add(tests, "test_elements");
  OutOp<meta::structured_isin_Tensor_Tensor> op(out);
  op.meta(elements, tests, unique, invert);
  IsIn(elements, tests, invert, op.result());
  return op.Finish();
}

Tensor& IsInScalarOut(const Tensor& elements, const Scalar& test, bool unique,
                      bool invert, Tensor& out) {
  if (NeedsFallback(elements, test)) {
    return FallbackInto(out, "isin", "Tensor_Scalar_out", elements, test,
                        unique, invert, out);
  }
  OutOp<meta::structured_isin_Tensor_Scalar> op(out);
  op.meta(elements, test, unique, invert);
  op.result().copy_(invert ? elements.ne(test) : elements.eq(test));
  return op.Finish();
}

Tensor& IsInElementOut(const Scalar& element, const Tensor& tests, bool unique,
                       bool invert, Tensor& out) {
  if (NeedsFallback(element, tests)) {
    return FallbackInto(out, "isin", "Scalar_Tensor_out", element, tests,
                        unique, invert, out);
  }
  ResizeOut(out, {}, {}, tests.options().dtype(ScalarType::Bool));
  const Tensor found = tests.eq(element).any();
  return out.copy_(invert ? found.logical_not() : found);
}

// --- bincount, histc ---------------------------------------------------------

void LaunchHistogram(const Tensor& bins, const Tensor& values,
                     const Tensor& weights, bool equal_bins, double low,
                     double high) {
  LaunchBuilder launch(Kernel::kHistogram, values.device());
  launch.Dst(bins).Src(values).SrcOrAbsent(weights);
  launch.Int(equal_bins).Float(low).Float(high).Run();
}

Tensor Bincount(const Tensor& self, const OptionalTensor& given,
                int64_t minlength) {
  const Tensor weights = given.value_or(Tensor());
  if (NeedsFallback(self, weights) ||
      !c10::isIntegralType(self.scalar_type(), /*includeBool=*/false)) {
    return FallbackTensor("bincount", "", self, given, minlength);
  }
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  TORCH_CHECK(self.dim() == 1 || self.numel() == 0,
              "bincount only supports 1-d non-negative integral inputs.");
  const bool weighted = weights.defined() && weights.numel() > 0;
  if (weights.defined()) {
    DeviceCheck("wrapper_PrivateUse1__bincount")
        .Add(self, "self")
        .Add(weights, "weights");
  }
  TORCH_CHECK(
      !weighted || (weights.dim() == 1 && weights.size(0) == self.size(0)),
      "weights should be 1-d and have the same length as input");
  if (self.dim() == 1 && self.numel() == 0) {
    return EmptyLikeOf(self, {minlength}, ScalarType::Long).zero_();
  }
  const auto [low, high] = self.aminmax();
  // One wait for both.
  const Tensor limits = EmptyLikeOf(self, {2}, ScalarType::Long);
  limits.select(0, 0).copy_(low);
  limits.select(0, 1).copy_(high);
  const Tensor host = limits.cpu();
  const int64_t* limit = host.const_data_ptr<int64_t>();
  TORCH_CHECK(limit[0] >= 0,
              "bincount only supports 1-d non-negative integral inputs.");
  const int64_t bins = std::max(minlength, limit[1] + 1);
  ScalarType type = ScalarType::Long;
  if (weighted) {
    type = weights.scalar_type() == ScalarType::Float ? ScalarType::Float
                                                      : ScalarType::Double;
  }
  Tensor result = EmptyLikeOf(self, {bins}, type);
  LaunchHistogram(result, self, weighted ? weights.to(type) : Tensor(), false,
                  0, 0);
  return result;
}

Tensor& HistcOut(const Tensor& self, int64_t bins, const Scalar& min,
                 const Scalar& max, Tensor& out) {
  if ((self.scalar_type() != ScalarType::Float &&
       self.scalar_type() != ScalarType::Double) ||
      self.scalar_type() != out.scalar_type() || self.dim() > kMaxRank) {
    return FallbackInto(out, "histc", "out", self, bins, min, max, out);
  }
  DeviceCheck("wrapper_PrivateUse1_out_histc_out")
      .Add(out, "out")
      .Add(self, "self");
  TORCH_CHECK(bins > 0, "torch.histogram(): bins must be > 0, but got ", bins,
              " for dimension 0");
  double low = min.toDouble(), high = max.toDouble();
  if (low == high && self.numel() > 0) {
    const auto [least, most] = self.aminmax();
    low = least.item<double>();
    high = most.item<double>();
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high),
              "torch.histc: range of [", low, ", ", high, "] is not finite");
  TORCH_CHECK(low < high, "torch.histc: max must be larger than min");
  at::native::resize_output(out, {bins});
  LaunchHistogram(out, self, Tensor(), true, low, high);
  return out;
}

Tensor Histc(const Tensor& self, int64_t bins, const Scalar& min,
             const Scalar& max) {
  Tensor out = EmptyLikeOf(self, {0});
  return HistcOut(self, bins, min, max, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("searchsorted.Tensor", &Searchsorted);
  m.impl("searchsorted.Tensor_out", &SearchsortedOut);
  m.impl("searchsorted.Scalar", &SearchsortedScalar);
  m.impl("searchsorted.Scalar_out", &SearchsortedScalarOut);
  m.impl("bucketize.Tensor", &Bucketize);
  m.impl("bucketize.Tensor_out", &BucketizeOut);
  m.impl("bucketize.Scalar", &BucketizeScalar);
  m.impl("isin.Tensor_Tensor_out", &IsInOut);
  m.impl("isin.Tensor_Scalar_out", &IsInScalarOut);
  m.impl("isin.Scalar_Tensor_out", &IsInElementOut);
  m.impl("bincount", &Bincount);
  m.impl("histc", &Histc);
  m.impl("histc.out", &HistcOut);
}

}  // namespace
}  // namespace tvarant::torch_plugin

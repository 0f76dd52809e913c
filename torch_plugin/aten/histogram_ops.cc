// histogram and histogramdd: each element's bin is searched among the edges,
// and bins are counted.
//
// What is asked wrongly goes to the CPU, which says so.

#include <ATen/ops/linspace.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/optional_tensor.h"

namespace tvarant::torch_plugin {
namespace {

using Range = std::optional<at::ArrayRef<double>>;
using Edges = std::vector<Tensor>;

c10::IValue ToIValue(const Range& range) {
  return range.has_value() ? c10::IValue(range->vec()) : c10::IValue();
}

bool HasWeightsFor(const Tensor& self, const OptionalTensor& weight,
                   IntArrayRef sizes) {
  return !Has(weight) ||
         (weight->device() == self.device() && weight->sizes() == sizes &&
          weight->scalar_type() == self.scalar_type());
}

bool IsCounted(const Tensor& self) {
  return self.scalar_type() == ScalarType::Float ||
         self.scalar_type() == ScalarType::Double;
}

// [M, D]
bool IsCountable(const Tensor& self, size_t bins,
                 const OptionalTensor& weight) {
  return IsCounted(self) && self.dim() >= 2 &&
         static_cast<size_t>(self.size(-1)) == bins && bins > 0 &&
         HasWeightsFor(self, weight, self.sizes().slice(0, self.dim() - 1));
}

bool AreEdges(const Tensor& self, at::TensorList edges) {
  return std::all_of(edges.begin(), edges.end(), [&](const Tensor& e) {
    return e.dim() == 1 && e.numel() > 0 && e.device() == self.device() &&
           e.scalar_type() == self.scalar_type();
  });
}

bool IsRange(const Range& range, size_t dims) {
  if (!range.has_value()) return true;
  if (range->size() != 2 * dims) return false;
  for (size_t d = 0; d < dims; ++d) {
    const double low = (*range)[2 * d], high = (*range)[2 * d + 1];
    if (!std::isfinite(low) || !std::isfinite(high) || low > high) return false;
  }
  return true;
}

// Equal bins between the least and the largest element, or in `range`. Waits
// for the device where it has to ask for those.
Edges EqualEdges(const Tensor& rows, IntArrayRef bins, const Range& range) {
  const size_t dims = bins.size();
  std::vector<double> limits(2 * dims, 0.0);
  for (size_t d = 0; d < dims; ++d) limits[2 * d + 1] = 1.0;
  if (range.has_value()) {
    limits = range->vec();
  } else if (rows.size(0) > 0) {
    const Tensor host =
        at::stack({rows.amin(0), rows.amax(0)}, 1).to(at::kDouble).cpu();
    const double* found = host.const_data_ptr<double>();
    for (size_t i = 0; i < 2 * dims; ++i) limits[i] = found[i];
  }
  Edges edges;
  for (size_t d = 0; d < dims; ++d) {
    double low = limits[2 * d], high = limits[2 * d + 1];
    TORCH_CHECK(std::isfinite(low) && std::isfinite(high),
                "torch.histogramdd: dimension ", d, "'s range [", low, ", ",
                high, "] is not finite");
    if (low == high) {
      low -= 0.5;
      high += 0.5;
    }
    edges.push_back(at::linspace(low, high, bins[d] + 1, rows.options()));
  }
  return edges;
}

// Counts, or sums of weights: [bins of each dimension].
Tensor Count(const Tensor& rows, at::TensorList edges,
             const OptionalTensor& weight, bool density) {
  const int64_t count = rows.size(0);
  at::DimVector sizes;
  int64_t total = 1;
  for (const Tensor& e : edges) {
    sizes.push_back(e.numel() - 1);
    total *= e.numel() - 1;
  }
  Tensor cells = EmptyLikeOf(rows, {total + 1});
  if (count == 0 || total == 0) {
    cells.zero_();
  } else {
    Tensor place, inside;
    for (size_t d = 0; d < edges.size(); ++d) {
      const Tensor x = rows.select(1, static_cast<int64_t>(d)).contiguous();
      const Tensor& e = edges[d];
      // The last bin holds its right edge too.
      const Tensor bin = at::searchsorted(e, x, false, /*right=*/true)
                             .sub_(1)
                             .clamp_(0, sizes[d] - 1);
      const Tensor fits =
          x.ge(e.select(0, 0)).logical_and_(x.le(e.select(0, e.numel() - 1)));
      place = d == 0 ? bin : place.mul(sizes[d]).add_(bin);
      inside = d == 0 ? fits : inside.logical_and(fits);
    }
    place.masked_fill_(inside.logical_not(), total);
    const Tensor weights =
        Has(weight) ? weight->reshape({-1}).contiguous() : Tensor();
    LaunchBuilder launch(Kernel::kHistogram, rows.device());
    launch.Dst(cells).Src(place).SrcOrAbsent(weights);
    launch.Int(0).Float(0).Float(0).Run();
  }
  Tensor result = cells.narrow(0, 0, total).reshape(sizes);
  if (density) {
    result = result.div(result.sum());
    for (size_t d = 0; d < edges.size(); ++d) {
      at::DimVector shape(edges.size(), 1);
      shape[d] = sizes[d];
      result = result.div(edges[d].diff().reshape(shape));
    }
  }
  return result;
}

Tensor RowsOf(const Tensor& self) { return self.reshape({-1, self.size(-1)}); }

// --- histogramdd -------------------------------------------------------------

std::vector<Tensor> BinEdges(const Tensor& self, IntArrayRef bins, Range range,
                             const OptionalTensor& weight, bool density) {
  if (!IsCountable(self, bins.size(), weight) || !IsRange(range, bins.size()) ||
      std::any_of(bins.begin(), bins.end(), [](int64_t n) { return n <= 0; })) {
    return Fallback("_histogramdd_bin_edges", "", self, bins, ToIValue(range),
                    weight, density)[0]
        .toTensorVector();
  }
  return EqualEdges(RowsOf(self), bins, range);
}

Tensor FromBinCounts(const Tensor& self, IntArrayRef bins, Range range,
                     const OptionalTensor& weight, bool density) {
  if (!IsCountable(self, bins.size(), weight) || !IsRange(range, bins.size()) ||
      std::any_of(bins.begin(), bins.end(), [](int64_t n) { return n <= 0; })) {
    return FallbackTensor("_histogramdd_from_bin_cts", "", self, bins,
                          ToIValue(range), weight, density);
  }
  const Tensor rows = RowsOf(self);
  return Count(rows, EqualEdges(rows, bins, range), weight, density);
}

Tensor FromBinTensors(const Tensor& self, at::TensorList bins,
                      const OptionalTensor& weight, bool density) {
  if (!IsCountable(self, bins.size(), weight) || !AreEdges(self, bins)) {
    return FallbackTensor("_histogramdd_from_bin_tensors", "", self, bins,
                          weight, density);
  }
  return Count(RowsOf(self), bins, weight, density);
}

// --- histogram ---------------------------------------------------------------

using Two = std::tuple<Tensor, Tensor>;
using TwoOut = std::tuple<Tensor&, Tensor&>;

Two ByEdges(const Tensor& self, const Tensor& bins,
            const OptionalTensor& weight, bool density) {
  if (!IsCounted(self) || !HasWeightsFor(self, weight, self.sizes()) ||
      !AreEdges(self, bins)) {
    const auto r =
        Fallback("histogram", "bins_tensor", self, bins, weight, density);
    return {r[0].toTensor(), r[1].toTensor()};
  }
  const Tensor rows = self.reshape({-1, 1});
  return {Count(rows, {bins}, weight, density), bins.clone()};
}

Two ByCount(const Tensor& self, int64_t bins, Range range,
            const OptionalTensor& weight, bool density) {
  if (!IsCounted(self) || !HasWeightsFor(self, weight, self.sizes()) ||
      !IsRange(range, 1) || bins <= 0) {
    const auto r = Fallback("histogram", "bin_ct", self, bins, ToIValue(range),
                            weight, density);
    return {r[0].toTensor(), r[1].toTensor()};
  }
  const Tensor rows = self.reshape({-1, 1});
  const Edges edges = EqualEdges(rows, bins, range);
  return {Count(rows, edges, weight, density), edges[0]};
}

TwoOut Into(const Tensor& self, const Two& results, Tensor& hist,
            Tensor& bin_edges) {
  TORCH_CHECK(hist.scalar_type() == self.scalar_type(),
              "torch.histogram: input tensor and hist tensor should have the "
              "same dtype, but got input ",
              self.scalar_type(), " and hist ", hist.scalar_type());
  TORCH_CHECK(bin_edges.scalar_type() == self.scalar_type(),
              "torch.histogram: input tensor and bins tensor should have the "
              "same dtype, but got input ",
              self.scalar_type(), " and bins ", bin_edges.scalar_type());
  const auto& [counts, edges] = results;
  ResizeOut(hist, counts.sizes(), {}, self.options());
  ResizeOut(bin_edges, edges.sizes(), {}, self.options());
  hist.copy_(counts);
  bin_edges.copy_(edges);
  return {hist, bin_edges};
}

TwoOut ByEdgesOut(const Tensor& self, const Tensor& bins,
                  const OptionalTensor& weight, bool density, Tensor& hist,
                  Tensor& bin_edges) {
  return Into(self, ByEdges(self, bins, weight, density), hist, bin_edges);
}

TwoOut ByCountOut(const Tensor& self, int64_t bins, Range range,
                  const OptionalTensor& weight, bool density, Tensor& hist,
                  Tensor& bin_edges) {
  return Into(self, ByCount(self, bins, range, weight, density), hist,
              bin_edges);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("histogram.bins_tensor", &ByEdges);
  m.impl("histogram.bins_tensor_out", &ByEdgesOut);
  m.impl("histogram.bin_ct", &ByCount);
  m.impl("histogram.bin_ct_out", &ByCountOut);
  m.impl("_histogramdd_bin_edges", &BinEdges);
  m.impl("_histogramdd_from_bin_cts", &FromBinCounts);
  m.impl("_histogramdd_from_bin_tensors", &FromBinTensors);
}

}  // namespace tvarant::torch_plugin

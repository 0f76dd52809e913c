// unique: elements or slices in order, equal neighbours joined. All of it runs
// on the device; only the number of distinct ones is waited for.

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/sort.h>
#include <torch/library.h>

#include <tuple>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

using Triple = std::tuple<Tensor, Tensor, Tensor>;

struct Wanted {
  bool inverse = false;
  bool counts = false;
};

struct Runs {
  Tensor starts;   // where each run of equal neighbours begins
  Tensor inverse;  // the run of each element, in the order given by `order`
  Tensor counts;
};

Tensor EmptyIndices(const Tensor& like) {
  return EmptyLikeOf(like, {0}, ScalarType::Long);
}

// `differs`, bool [n - 1]: whether an element differs from the one before it.
// `order` says where each element stood, undefined if right there.
Runs RunsOf(const Tensor& differs, const Tensor& order, Wanted wanted) {
  const int64_t n = differs.numel() + 1;
  const Tensor first = EmptyLikeOf(differs, {1}).fill_(true);
  const Tensor begins = at::cat({first, differs});
  Runs runs;
  runs.starts = at::nonzero(begins).view({-1});
  runs.inverse = EmptyIndices(differs);
  runs.counts = EmptyIndices(differs);
  if (wanted.inverse) {
    const Tensor numbers = begins.cumsum(0).sub_(1);
    if (order.defined()) {
      runs.inverse = EmptyLikeOf(numbers, {n});
      runs.inverse.scatter_(0, order, numbers);
    } else {
      runs.inverse = numbers;
    }
  }
  if (wanted.counts) {
    const Tensor end = EmptyLikeOf(runs.starts, {1}).fill_(n);
    const Tensor ends = at::cat({runs.starts.slice(0, 1), end});
    runs.counts = ends.sub_(runs.starts);
  }
  return runs;
}

// --- Elements ----------------------------------------------------------------

Triple UniqueElements(const Tensor& self, bool sorted, Wanted wanted) {
  if (self.numel() == 0) {
    return {EmptyLikeOf(self, {0}),
            wanted.inverse ? EmptyLikeOf(self, self.sizes(), ScalarType::Long)
                           : EmptyIndices(self),
            EmptyIndices(self)};
  }
  Tensor flat = self.reshape({-1}), order;
  if (sorted) {
    std::tie(flat, order) = at::sort(flat, 0, /*descending=*/false);
  }
  const int64_t n = flat.numel();
  const Tensor differs = flat.slice(0, 1).ne(flat.slice(0, 0, n - 1));
  Runs runs = RunsOf(differs, order, wanted);
  if (wanted.inverse) runs.inverse = runs.inverse.view(self.sizes());
  return {flat.index_select(0, runs.starts), runs.inverse, runs.counts};
}

Triple Unique2(const Tensor& self, bool sorted, bool return_inverse,
               bool return_counts) {
  if (LacksKernels(self)) {
    const auto r =
        Fallback("_unique2", "", self, sorted, return_inverse, return_counts);
    return {r[0].toTensor(), r[1].toTensor(), r[2].toTensor()};
  }
  return UniqueElements(self, true, {return_inverse, return_counts});
}

std::tuple<Tensor, Tensor> Unique(const Tensor& self, bool sorted,
                                  bool return_inverse) {
  const auto [values, inverse, counts] =
      Unique2(self, sorted, return_inverse, false);
  return {values, inverse};
}

// --- Slices ------------------------------------------------------------------

// The slices along dim as rows.
Triple UniqueSlices(const Tensor& self, int64_t dim, bool sorted,
                    Wanted wanted) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const int64_t n = self.size(dim);
  const Tensor moved = self.movedim(dim, 0).contiguous();
  if (self.numel() == 0) {
    // Slices without elements are all equal.
    TORCH_CHECK(n == 0 || self.dim() > 1,
                "There are 0 sized dimensions, and they aren't selected, so "
                "unique cannot be applied");
    for (int64_t d = 0; d < self.dim(); ++d) {
      TORCH_CHECK(d == dim || self.size(d) > 0,
                  "There are 0 sized dimensions, and they aren't selected, so "
                  "unique cannot be applied");
    }
    return {EmptyLikeOf(self, self.sizes()), EmptyIndices(self),
            EmptyIndices(self)};
  }
  const Tensor rows = moved.view({n, -1});
  Tensor in_order = rows, order;
  if (sorted) {
    order = EmptyLikeOf(self, {n}, ScalarType::Long);
    LaunchBuilder launch(Kernel::kSortRows, self.device());
    launch.Dst(order).Src(rows).Run();
    in_order = rows.index_select(0, order);
  }
  const Tensor differs =
      in_order.slice(0, 1).ne(in_order.slice(0, 0, n - 1)).any(1);
  const Runs runs = RunsOf(differs, order, wanted);
  at::DimVector sizes(moved.sizes());
  sizes[0] = runs.starts.numel();
  const Tensor values = in_order.index_select(0, runs.starts).view(sizes);
  return {values.movedim(0, dim), runs.inverse, runs.counts};
}

Triple UniqueDim(const Tensor& self, int64_t dim, bool sorted,
                 bool return_inverse, bool return_counts) {
  if (LacksKernels(self) || self.dim() == 0) {
    const auto r = Fallback("unique_dim", "", self, dim, sorted, return_inverse,
                            return_counts);
    return {r[0].toTensor(), r[1].toTensor(), r[2].toTensor()};
  }
  return UniqueSlices(self, dim, true, {return_inverse, return_counts});
}

Triple UniqueDimConsecutive(const Tensor& self, int64_t dim,
                            bool return_inverse, bool return_counts) {
  if (LacksKernels(self) || self.dim() == 0) {
    const auto r = Fallback("unique_dim_consecutive", "", self, dim,
                            return_inverse, return_counts);
    return {r[0].toTensor(), r[1].toTensor(), r[2].toTensor()};
  }
  return UniqueSlices(self, dim, false, {return_inverse, return_counts});
}

Triple UniqueConsecutive(const Tensor& self, bool return_inverse,
                         bool return_counts, std::optional<int64_t> dim) {
  if (LacksKernels(self)) {
    const auto r = Fallback("unique_consecutive", "", self, return_inverse,
                            return_counts, dim);
    return {r[0].toTensor(), r[1].toTensor(), r[2].toTensor()};
  }
  const Wanted wanted{return_inverse, return_counts};
  if (!dim.has_value() || (*dim == 0 && self.dim() == 1)) {
    return UniqueElements(self, /*sorted=*/false, wanted);
  }
  return UniqueDimConsecutive(self, *dim, return_inverse, return_counts);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_unique", &Unique);
  m.impl("_unique2", &Unique2);
  m.impl("unique_dim", &UniqueDim);
  m.impl("unique_consecutive", &UniqueConsecutive);
  m.impl("unique_dim_consecutive", &UniqueDimConsecutive);
}

}  // namespace
}  // namespace tvarant::torch_plugin

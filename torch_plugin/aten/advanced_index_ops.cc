// x[indices] and x[indices] = values, by index tensors and masks.
//
// Masks become the indices of their true elements. Indexed dimensions that are
// not neighbours are moved to the front, as in PyTorch.

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/IListRef.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/index_meta.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

using at::IOptTensorListRef;
using IndexList = c10::List<std::optional<Tensor>>;

// A tensor with the indices of neighbouring dimensions, broadcast to one shape.
struct Indexed {
  Tensor self;                  // indexed dimensions brought together
  std::vector<Tensor> indices;  // of dimensions first, first + 1, ..
  int64_t first = 0;
  std::vector<int64_t> names;  // those dimensions in the original
  at::DimVector result;        // what indexing gives
  // Whether PyTorch gives a contiguous result.
  bool contiguous = true;
};

std::string ShapesOf(const std::vector<Tensor>& tensors) {
  std::string shapes;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (!shapes.empty()) shapes += ", ";
    shapes += c10::str(tensor.sizes());
  }
  return shapes;
}

// Masks turned into indices, all on self's device; not yet broadcast.
std::vector<Tensor> WithoutMasks(const Tensor& self, const IndexList& list) {
  const IOptTensorListRef indices(list);
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(),
                    "too many indices for tensor of dimension ", self.dim(),
                    " (got ", indices.size(), ")");
  at::native::checkIndexTensorTypes(indices, /*allow_int=*/true);
  for (const at::OptionalTensorRef& index : indices) {
    if (!index.has_value() || !index->defined()) continue;
    TORCH_CHECK(index->device() == self.device() || index->device().is_cpu(),
                "indices should be either on cpu or on the same device as the "
                "indexed tensor (",
                self.device(), ")");
  }
  return at::native::expandTensors(self, indices, /*ensure_same_device=*/true);
}

Indexed Prepare(Tensor self, std::vector<Tensor> indices) {
  Indexed indexed;
  indexed.contiguous = self.is_contiguous();
  for (const Tensor& index : indices) {
    indexed.contiguous &= !index.defined() || index.is_contiguous();
  }
  try {
    indices = at::expand_outplace(indices);
  } catch (const std::exception&) {
    TORCH_CHECK_INDEX(
        false,
        "shape mismatch: indexing tensors could not be broadcast together with "
        "shapes ",
        ShapesOf(indices));
  }
  indices.resize(static_cast<size_t>(self.dim()));
  std::vector<int64_t> names(indices.size());
  std::iota(names.begin(), names.end(), 0);
  if (!at::native::hasContiguousSubspace(indices)) {
    std::stable_partition(names.begin(), names.end(), [&](int64_t dim) {
      return indices[static_cast<size_t>(dim)].defined();
    });
    std::tie(self, indices) = at::native::transposeToFront(self, indices);
  }
  while (indexed.first < self.dim() &&
         !indices[static_cast<size_t>(indexed.first)].defined()) {
    ++indexed.first;
  }
  const auto begin = static_cast<size_t>(indexed.first);
  size_t end = begin;
  while (end < indices.size() && indices[end].defined()) {
    indexed.indices.push_back(indices[end]);
    indexed.names.push_back(names[end]);
    ++end;
  }
  const IntArrayRef sizes = self.sizes();
  indexed.result.append(sizes.begin(), sizes.begin() + indexed.first);
  if (end > begin) {
    const IntArrayRef picked = indices[begin].sizes();
    indexed.result.append(picked.begin(), picked.end());
    const bool nothing =
        c10::multiply_integers(sizes.slice(begin, end - begin)) == 0;
    TORCH_CHECK_INDEX(!nothing || c10::multiply_integers(picked) == 0,
                      "index is out of bounds for dimension with size 0");
  }
  for (const int64_t size : sizes.slice(end)) indexed.result.push_back(size);
  indexed.self = std::move(self);
  return indexed;
}

void AddIndices(LaunchBuilder& launch, const Indexed& indexed) {
  for (const Tensor& index : indexed.indices) launch.Src(index);
  for (const int64_t name : indexed.names) launch.Int(name);
  launch.params().flags |= kWrapNegative;
}

void PickInto(const Indexed& indexed, const Tensor& result) {
  if (result.numel() == 0) return;
  if (indexed.indices.empty()) {
    result.copy_(indexed.self);
    return;
  }
  LaunchBuilder launch(Kernel::kIndexPick, result.device());
  launch.Dst(result).Src(indexed.self).Int(indexed.first);
  AddIndices(launch, indexed);
  launch.Run();
}

bool Supported(const Tensor& self, const IndexList& list) {
  if (!OnDevice(self) || ToDType(self.scalar_type()) == DType::kInvalid) {
    return false;
  }
  // The result has the kept dimensions and those of the widest index.
  int64_t rank = 0;
  for (const std::optional<Tensor>& index : list) {
    if (index.has_value() && index->defined()) {
      rank = std::max(rank, index->dim());
    }
  }
  return self.dim() + rank <= kMaxRank;
}

// Indices as the meta class takes them.
IndexList ListOf(const std::vector<Tensor>& indices) {
  IndexList list;
  for (const Tensor& index : indices) {
    list.push_back(index.defined() ? std::optional<Tensor>(index)
                                   : std::nullopt);
  }
  return list;
}

// The only index if it is a mask over all of self, else undefined.
Tensor WholeMask(const Tensor& self, const IndexList& list) {
  if (list.size() != 1 || self.dim() == 0) return {};
  const std::optional<Tensor> index = list.get(0);
  const bool whole = index.has_value() && index->defined() &&
                     index->scalar_type() == ScalarType::Bool &&
                     index->device() == self.device() &&
                     index->sizes() == self.sizes();
  return whole ? *index : Tensor();
}

Tensor Index(const Tensor& self, const IndexList& list) {
  if (!Supported(self, list)) {
    return Fallback("index", "Tensor", self, list)[0].toTensor();
  }
  const Tensor mask = WholeMask(self, list);
  if (mask.defined()) return self.masked_select(mask);
  const std::vector<Tensor> indices = WithoutMasks(self, list);
  const Indexed indexed = Prepare(self, indices);
  if (indexed.contiguous) {
    Tensor result = EmptyLikeOf(self, indexed.result);
    PickInto(indexed, result);
    return result;
  }
  // PyTorch lays the result out after self and the indices.
  FunctionalOp<at::meta::structured_index_Tensor> op;
  const IndexList expanded = ListOf(indices);
  op.meta(self, IOptTensorListRef(expanded));
  PickInto(indexed, op.result());
  return op.Finish();
}

Tensor& IndexOut(const Tensor& self, const IndexList& list, Tensor& out) {
  if (!Supported(self, list)) {
    Fallback("index", "Tensor_out", self, list, out);
    return out;
  }
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), "index_out: self (",
              self.scalar_type(), ") and result (", out.scalar_type(),
              ") must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  const Indexed indexed = Prepare(self, WithoutMasks(self, list));
  at::native::resize_output(out, indexed.result);
  PickInto(indexed, out);
  return out;
}

// --- Putting ---------------------------------------------------------------

Tensor& IndexPut(Tensor& self, const IndexList& list, const Tensor& given,
                 bool accumulate, bool unsafe) {
  // Writing to an expanded tensor is deprecated, and what comes of it is left
  // to PyTorch.
  if (!Supported(self, list) || (accumulate && LacksKernels(self)) ||
      at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    return FallbackInto(self, "_index_put_impl_", "", self, list, given,
                        accumulate, unsafe);
  }
  TORCH_CHECK_INDEX(static_cast<int64_t>(list.size()) <= self.dim(),
                    "too many indices for tensor of dimension ", self.dim(),
                    " (got ", list.size(), ")");
  if (!accumulate) {
    const auto [fills, mask] =
        at::native::canDispatchToMaskedFill(self, list, given);
    if (fills) return self.masked_fill_(mask, given.item());
  }
  Tensor values = given;
  if (given.device() != self.device() && given.numel() == 1 &&
      given.dim() == 0) {
    values = given.to(self.device());
  }
  TORCH_CHECK(values.device() == self.device(),
              "expected value to be on the device of self, ", self.device(),
              ", but got ", values.device());
  at::assert_no_overlap(self, given);
  for (const std::optional<Tensor>& index : list) {
    if (index.has_value() && index->defined()) {
      at::assert_no_overlap(self, *index);
    }
  }
  const Tensor whole = WholeMask(self, list);
  if (whole.defined() && !accumulate && values.dim() == 1 &&
      values.size(0) != 1 && values.scalar_type() == self.scalar_type() &&
      self.numel() > 0) {
    const auto count = whole.count_nonzero().item<int64_t>();
    if (count == values.size(0)) return self.masked_scatter_(whole, values);
  }
  const Indexed indexed = Prepare(self, WithoutMasks(self, list));
  TORCH_CHECK(at::is_expandable_to(values.sizes(), indexed.result),
              "shape mismatch: value tensor of shape ", values.sizes(),
              " cannot be broadcast to indexing result of shape ",
              IntArrayRef(indexed.result));
  TORCH_CHECK(values.scalar_type() == self.scalar_type(),
              "Index put requires the source and destination dtypes match, "
              "got ",
              self.scalar_type(), " for the destination and ",
              values.scalar_type(), " for the source.");
  values = values.expand(indexed.result);
  if (values.numel() == 0) return self;
  if (indexed.indices.empty()) {
    return accumulate ? self.add_(values) : self.copy_(values);
  }
  LaunchBuilder launch(Kernel::kIndexPut, self.device());
  launch.Dst(indexed.self).Src(values).Int(indexed.first);
  launch.Int(static_cast<int64_t>(accumulate ? PutMode::kAdd : PutMode::kSet));
  AddIndices(launch, indexed);
  launch.Run();
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index.Tensor", &Index);
  m.impl("index.Tensor_out", &IndexOut);
  m.impl("_index_put_impl_", &IndexPut);
}

}  // namespace
}  // namespace tvarant::torch_plugin

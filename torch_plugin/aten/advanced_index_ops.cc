// x[indices]: picking by index tensors.
//
// One index tensor is one launch of index_select. Several are first folded into
// one over the flattened dimensions, by element-wise ops on the device. Masks
// make the result's size depend on data and go to the CPU.

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/IListRef.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/index_meta.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <vector>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

using at::IOptTensorListRef;
using Indices = std::vector<Tensor>;

// An index beyond its dimension becomes this, which no fold brings back into
// range: the kernel reports it.
constexpr int64_t kBadIndex = -(int64_t{1} << 62);

bool HasMask(const IOptTensorListRef& indices) {
  for (const at::OptionalTensorRef& index : indices) {
    if (!index.has_value() || !index->defined()) continue;
    const ScalarType type = index->scalar_type();
    if (type == ScalarType::Bool || type == ScalarType::Byte) return true;
  }
  return false;
}

// The index tensors on self's device as int64, broadcast to one shape, with an
// undefined tensor for every dimension that is kept.
Indices Prepare(const Tensor& self, const IOptTensorListRef& indices) {
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(),
                    "too many indices for tensor of dimension ", self.dim(),
                    " (got ", indices.size(), ")");
  Indices prepared;
  for (const at::OptionalTensorRef& index : indices) {
    if (!index.has_value() || !index->defined()) {
      prepared.emplace_back();
      continue;
    }
    TORCH_CHECK_INDEX(index->scalar_type() == ScalarType::Long ||
                          index->scalar_type() == ScalarType::Int,
                      "tensors used as indices must be long, int, byte or bool "
                      "tensors");
    TORCH_CHECK(index->device() == self.device() || index->device().is_cpu(),
                "indices should be either on cpu or on the same device as the "
                "indexed tensor (",
                self.device(), ")");
    prepared.push_back(index->to(self.device(), ScalarType::Long));
  }
  try {
    prepared = at::expand_outplace(prepared);
  } catch (const std::exception&) {
    std::string shapes;
    for (const Tensor& index : prepared) {
      if (!index.defined()) continue;
      if (!shapes.empty()) shapes += ", ";
      shapes += c10::str(index.sizes());
    }
    TORCH_CHECK_INDEX(
        false,
        "shape mismatch: indexing tensors could not be broadcast together with "
        "shapes ",
        shapes);
  }
  prepared.resize(static_cast<size_t>(self.dim()));
  return prepared;
}

// One index over dimensions [first, first + count) flattened.
Tensor Fold(const Tensor& self, const Indices& indices, int64_t first,
            int64_t count) {
  Tensor folded;
  int64_t stride = 1;
  for (int64_t d = first + count - 1; d >= first; --d) {
    const Tensor& index = indices[static_cast<size_t>(d)];
    const int64_t size = self.size(d);
    const Tensor bad = index.lt(-size).logical_or(index.ge(size));
    const Tensor wrapped =
        at::where(index.lt(0), index.add(size), index).mul(stride);
    const Tensor part = at::where(bad, at::Scalar(kBadIndex), wrapped);
    folded = folded.defined()
                 ? at::where(folded.lt(0), folded,
                             at::where(part.lt(0), part, folded.add(part)))
                 : part;
    stride *= size;
  }
  return folded;
}

// The result, contiguous.
Tensor Pick(Tensor self, const IOptTensorListRef& list) {
  Indices indices = Prepare(self, list);
  if (!at::native::hasContiguousSubspace(indices)) {
    std::tie(self, indices) = at::native::transposeToFront(self, indices);
  }
  int64_t first = 0;
  while (first < self.dim() && !indices[static_cast<size_t>(first)].defined()) {
    ++first;
  }
  int64_t count = 0;
  while (first + count < self.dim() &&
         indices[static_cast<size_t>(first + count)].defined()) {
    ++count;
  }
  if (count == 0) return self.clone(at::MemoryFormat::Contiguous);

  const IntArrayRef sizes = self.sizes();
  const IntArrayRef picked = indices[static_cast<size_t>(first)].sizes();
  const auto begin = static_cast<size_t>(first);
  const auto end = static_cast<size_t>(first + count);
  const int64_t num_picked = indices[begin].numel();
  const int64_t extent =
      c10::multiply_integers(sizes.slice(begin, end - begin));
  at::DimVector flat(sizes.begin(), sizes.begin() + first);
  at::DimVector shape = flat, result = flat;
  flat.push_back(extent);
  shape.push_back(num_picked);
  result.append(picked.begin(), picked.end());
  for (const int64_t size : sizes.slice(end)) {
    flat.push_back(size);
    shape.push_back(size);
    result.push_back(size);
  }
  Tensor out = EmptyLikeOf(self, shape);
  if (out.numel() > 0) {
    TORCH_CHECK_INDEX(extent > 0,
                      "index is out of bounds for dimension with "
                      "size 0");
    const Tensor source = count == 1 ? self : self.reshape(flat);
    const Tensor index =
        (count == 1 ? indices[begin] : Fold(self, indices, first, count))
            .reshape({-1});
    LaunchBuilder launch(Kernel::kIndexSelect, self.device());
    if (count == 1) launch.params().flags |= kWrapNegative;
    launch.Dst(out).Src(source).Src(index).Int(first).Run();
  }
  return out.view(result);
}

bool Supported(const Tensor& self, const IOptTensorListRef& indices) {
  return OnDevice(self) && !HasMask(indices) && self.dim() > 0 &&
         self.dim() <= kMaxRank &&
         ToDType(self.scalar_type()) != DType::kInvalid;
}

using IndexList = c10::List<std::optional<Tensor>>;

Tensor Index(const Tensor& self, const IndexList& list) {
  const IOptTensorListRef indices(list);
  if (!Supported(self, indices)) {
    return Fallback("index", "Tensor", self, list)[0].toTensor();
  }
  Tensor picked = Pick(self, indices);
  if (self.is_contiguous()) return picked;
  // PyTorch lays the result out after self.
  FunctionalOp<at::meta::structured_index_Tensor> op;
  op.meta(self, indices);
  Tensor result = op.Finish();
  if (result.strides() == picked.strides()) return picked;
  return result.copy_(picked);
}

Tensor& IndexOut(const Tensor& self, const IndexList& list, Tensor& out) {
  const IOptTensorListRef indices(list);
  if (!Supported(self, indices)) {
    Fallback("index", "Tensor_out", self, list, out);
    return out;
  }
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), "index_out: self (",
              self.scalar_type(), ") and result (", out.scalar_type(),
              ") must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  const Tensor picked = Pick(self, indices);
  at::native::resize_output(out, picked.sizes());
  return out.copy_(picked);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index.Tensor", &Index);
  m.impl("index.Tensor_out", &IndexOut);
}

}  // namespace
}  // namespace tvarant::torch_plugin

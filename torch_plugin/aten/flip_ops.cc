// flip: operands have no negative strides, so the slices are picked backwards,
// one dimension after the other.

#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <torch/library.h>

#include <bitset>

#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

Tensor Flip(const Tensor& self, IntArrayRef dims) {
  if (NeedsFallback(self)) return FallbackTensor("flip", "", self, dims);
  std::bitset<at::dim_bitset_size> flipped =
      at::dim_list_to_bitset(dims, self.dim());
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self.size(d) <= 1) flipped.reset(static_cast<size_t>(d));
  }
  Tensor out = at::empty_like(self, c10::MemoryFormat::Preserve);
  if (flipped.none() || self.numel() == 0) return out.copy_(self);
  const at::TensorOptions indices =
      self.options().dtype(ScalarType::Long).requires_grad(false);
  Tensor current = self;
  for (int64_t d = 0; d < self.dim(); ++d) {
    const auto bit = static_cast<size_t>(d);
    if (!flipped[bit]) continue;
    flipped.reset(bit);
    const Tensor index = at::arange(self.size(d) - 1, -1, -1, indices);
    if (flipped.none()) {
      at::index_select_out(out, current, d, index);
    } else {
      current = at::index_select(current, d, index);
    }
  }
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("flip", &Flip); }

}  // namespace
}  // namespace tvarant::torch_plugin

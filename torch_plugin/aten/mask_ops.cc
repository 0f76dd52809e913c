// Elements under a mask, and where they are: the results' sizes depend on the
// data, so these ops wait for the device.

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/count_nonzero.h>
#include <torch/library.h>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

// Writes the coordinates of the first rows; `fill` where there are no more.
void Coordinates(const Tensor& self, int64_t fill, const Tensor& result) {
  if (result.numel() == 0) return;
  LaunchBuilder launch(Kernel::kNonzero, self.device());
  launch.Dst(result).Src(self).Int(fill).Run();
}

bool FitsKernels(const Tensor& self) {
  return !LacksKernels(self) && self.dim() <= kMaxRank;
}

int64_t CountTrue(const Tensor& self) {
  return self.numel() == 0 ? 0 : at::count_nonzero(self).item<int64_t>();
}

void CheckNonzeroOut(const Tensor& self, const Tensor& out, const char* op) {
  TORCH_CHECK(out.scalar_type() == ScalarType::Long, op,
              ": Expected out tensor to have scalar type Long but got scalar "
              "type",
              out.scalar_type());
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
}

Tensor& NonzeroOut(const Tensor& self, Tensor& out) {
  if (!FitsKernels(self)) return FallbackInto(out, "nonzero", "out", self, out);
  DeviceCheck("wrapper_PrivateUse1_out_nonzero_out")
      .Add(out, "out")
      .Add(self, "self");
  CheckNonzeroOut(self, out, "nonzero");
  const int64_t count = CountTrue(self);
  ResizeOut(out, {count, self.dim()}, {1, count}, out.options());
  Coordinates(self, 0, out);
  return out;
}

// As PyTorch lays it out: the places along one dimension are neighbours.
Tensor Nonzero(const Tensor& self) {
  if (!FitsKernels(self)) return FallbackTensor("nonzero", "", self);
  const int64_t count = CountTrue(self);
  Tensor out = CreateOut({count, self.dim()}, {1, count},
                         self.options().dtype(ScalarType::Long));
  Coordinates(self, 0, out);
  return out;
}

Tensor& NonzeroStaticOut(const Tensor& self, int64_t size, int64_t fill_value,
                         Tensor& out) {
  if (!FitsKernels(self)) {
    return FallbackInto(out, "nonzero_static", "out", self, size, fill_value,
                        out);
  }
  TORCH_CHECK(size >= 0,
              "nonzero_static: 'size' must be an non-negative "
              "integer");
  DeviceCheck("wrapper_PrivateUse1_out_nonzero_static_out")
      .Add(out, "out")
      .Add(self, "self");
  CheckNonzeroOut(self, out, "nonzero_static");
  at::native::resize_output(out, {size, self.dim()});
  if (out.numel() == 0) return out;
  if (self.numel() == 0) return out.fill_(fill_value);
  Coordinates(self, fill_value, out);
  return out;
}

Tensor NonzeroStatic(const Tensor& self, int64_t size, int64_t fill_value) {
  TORCH_CHECK(size >= 0,
              "nonzero_static: 'size' must be an non-negative "
              "integer");
  Tensor out = EmptyLikeOf(self, {size, self.dim()}, ScalarType::Long);
  return NonzeroStaticOut(self, size, fill_value, out);
}

// --- masked_select, masked_scatter -------------------------------------------

Tensor& MaskedSelectOut(const Tensor& self, const Tensor& mask, Tensor& out) {
  DeviceCheck("wrapper_PrivateUse1_out_masked_select_out")
      .Add(out, "out")
      .Add(self, "self")
      .Add(mask, "mask");
  TORCH_CHECK(mask.scalar_type() == ScalarType::Bool,
              "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar "
              "type");
  if (ToDType(self.scalar_type()) == DType::kInvalid ||
      std::max(self.dim(), mask.dim()) > kMaxRank) {
    return FallbackInto(out, "masked_select", "out", self, mask, out);
  }
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  const auto [wide_mask, wide_self] = at::expand_outplace(mask, self);
  // Of a broadcast mask only what it has is counted.
  int64_t count = CountTrue(mask);
  if (mask.numel() > 0) count *= wide_mask->numel() / mask.numel();
  at::native::resize_output(out, {count});
  if (count > 0) {
    LaunchBuilder launch(Kernel::kMaskedSelect, self.device());
    launch.Dst(out).Src(*wide_self).Src(*wide_mask).Run();
  }
  return out;
}

Tensor MaskedSelect(const Tensor& self, const Tensor& mask) {
  Tensor out = EmptyLikeOf(self, {0});
  return MaskedSelectOut(self, mask, out);
}

Tensor& MaskedScatter(Tensor& self, const Tensor& mask, const Tensor& source) {
  DeviceCheck("wrapper_PrivateUse1__masked_scatter_")
      .Add(self, "self")
      .Add(mask, "mask")
      .Add(source, "source");
  at::assert_no_internal_overlap(self);
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes "
              "but got ",
              self.scalar_type(), " and ", source.scalar_type());
  TORCH_CHECK(mask.scalar_type() == ScalarType::Bool,
              "masked_scatter_ only supports boolean masks, but got mask "
              "with dtype ",
              mask.scalar_type());
  if (ToDType(self.scalar_type()) == DType::kInvalid || self.dim() > kMaxRank) {
    return FallbackInto(self, "masked_scatter_", "", self, mask, source);
  }
  const auto wide_mask = at::expand_inplace(self, mask, "masked_scatter_");
  if (self.numel() == 0) return self;
  const Tensor apart = source.is_alias_of(self) ? source.clone() : source;
  const Tensor flat = apart.reshape({-1});
  LaunchBuilder launch(Kernel::kMaskedScatter, self.device());
  launch.Dst(self).Src(*wide_mask).Src(flat).Run();
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", &Nonzero);
  m.impl("nonzero.out", &NonzeroOut);
  m.impl("nonzero_static", &NonzeroStatic);
  m.impl("nonzero_static.out", &NonzeroStaticOut);
  m.impl("masked_select", &MaskedSelect);
  m.impl("masked_select.out", &MaskedSelectOut);
  m.impl("masked_scatter_", &MaskedScatter);
}

}  // namespace
}  // namespace tvarant::torch_plugin

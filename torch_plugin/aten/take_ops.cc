// take and put_: elements by their row-major number.

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

Tensor& TakeOut(const Tensor& self, const Tensor& index, Tensor& out) {
  TORCH_CHECK(index.scalar_type() == ScalarType::Long,
              "take(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK_INDEX(!(self.numel() == 0 && index.numel() != 0),
                    "take(): tried to take from an empty tensor");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "take(): self and out expected to have the same dtype, but got "
              "self.dtype = ",
              self.scalar_type(), " and out.dtype = ", out.scalar_type());
  TORCH_CHECK(self.device() == out.device() && self.device() == index.device(),
              "take(): self, index and out expected to be in the same device, "
              "but got self.device = ",
              self.device(), ", index.device = ", index.device(),
              ", and out.device = ", out.device());
  if (ToDType(self.scalar_type()) == DType::kInvalid) {
    return FallbackInto(out, "take", "out", self, index, out);
  }
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, index);
  at::assert_no_overlap(out, self);
  at::native::resize_output(out, index.sizes());
  if (index.numel() == 0) return out;
  const Tensor flat = self.reshape({-1});
  LaunchBuilder launch(Kernel::kIndexPick, self.device());
  launch.Dst(out).Src(flat).Src(index).Int(0).Int(0);
  launch.params().flags |= kWrapNegative;
  launch.Run();
  return out;
}

Tensor Take(const Tensor& self, const Tensor& index) {
  Tensor out = EmptyLikeOf(self, index.sizes());
  return TakeOut(self, index, out);
}

Tensor& PutAll(Tensor& self, const Tensor& index, const Tensor& source,
               bool accumulate) {
  TORCH_CHECK(index.scalar_type() == ScalarType::Long,
              "put_(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "put_(): self and source expected to have the same dtype, but "
              "got self.dtype = ",
              self.scalar_type(), " and source.dtype = ", source.scalar_type());
  TORCH_CHECK(
      self.device() == source.device() && self.device() == index.device(),
      "put_(): self, index and source expected to be in the same device, but "
      "got self.device = ",
      self.device(), ", index.device = ", index.device(),
      ", and source.device = ", source.device());
  TORCH_CHECK_INDEX(
      source.numel() == index.numel(),
      "put_(): Expected source and index to have the same number of elements, "
      "but got source.numel() = ",
      source.numel(), ", index.numel() = ", index.numel());
  TORCH_CHECK_INDEX(!(self.numel() == 0 && index.numel() != 0),
                    "put_(): Tried to put elements into an empty tensor");
  if (ToDType(self.scalar_type()) == DType::kInvalid ||
      (accumulate && LacksKernels(self))) {
    return FallbackInto(self, "put_", "", self, index, source, accumulate);
  }
  at::assert_no_internal_overlap(self);
  at::assert_no_overlap(self, index);
  at::assert_no_overlap(self, source);
  if (index.numel() == 0) return self;
  const Tensor dense = self.contiguous(), y = dense.view({-1});
  const Tensor values = source.reshape({-1}), places = index.reshape({-1});
  LaunchBuilder launch(Kernel::kIndexPut, self.device());
  launch.Dst(y).Src(values).Src(places).Int(0);
  launch.Int(static_cast<int64_t>(accumulate ? PutMode::kAdd : PutMode::kSet));
  launch.Int(0);
  launch.params().flags |= kWrapNegative;
  launch.Run();
  if (!dense.is_same(self)) self.copy_(dense);
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("take", &Take);
  m.impl("take.out", &TakeOut);
  m.impl("put_", &PutAll);
}

}  // namespace
}  // namespace tvarant::torch_plugin

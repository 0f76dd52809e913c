// Elements put elsewhere by a rule: roll, repeat_interleave, indices of
// triangles.

#include <ATen/TensorUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/roll_native.h>
#include <ATen/ops/tril_indices.h>
#include <ATen/ops/triu_indices.h>
#include <torch/library.h>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

// [2, 0, 1] -> [0, 0, 2]: each number as often as it is repeated. That is the
// place of 0, 1, 2 .. among the running sums.
Tensor RepeatInterleave(const Tensor& repeats,
                        std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1,
              "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == ScalarType::Long ||
                  repeats.scalar_type() == ScalarType::Int,
              "repeats has to be Long or Int tensor");
  Tensor result = EmptyLikeOf(repeats, {0});
  if (repeats.size(0) == 0) {
    TORCH_CHECK(output_size.value_or(0) == 0,
                "allocated size does not match required size");
    return result;
  }
  const Tensor ends = repeats.cumsum(0, ScalarType::Long);
  int64_t total = 0;
  if (output_size.has_value()) {
    total = *output_size;
  } else {
    const Tensor least = repeats.min().to(ScalarType::Long).view({1});
    const Tensor both = EmptyLikeOf(ends, {2});
    both.narrow(0, 0, 1).copy_(ends.narrow(0, ends.size(0) - 1, 1));
    both.narrow(0, 1, 1).copy_(least);
    const Tensor host = both.cpu();
    total = host.const_data_ptr<int64_t>()[0];
    TORCH_CHECK(host.const_data_ptr<int64_t>()[1] >= 0,
                "repeats can not be negative");
  }
  result = EmptyLikeOf(repeats, {total});
  if (total == 0) return result;
  const Tensor numbers =
      at::arange(total, repeats.options().dtype(ScalarType::Long));
  LaunchBuilder launch(Kernel::kSearchSorted, repeats.device());
  launch.Dst(result).Src(ends).Src(numbers).SrcOrAbsent(Tensor());
  launch.Int(/*right=*/1).Run();
  return result;
}

// Made on the host, which needs no values of the device.
Tensor TrilIndices(int64_t row, int64_t col, int64_t offset,
                   std::optional<ScalarType> dtype,
                   std::optional<at::Layout> layout,
                   std::optional<at::Device> device, std::optional<bool> pin) {
  return at::tril_indices(row, col, offset, dtype.value_or(ScalarType::Long),
                          layout, at::Device(at::kCPU), pin)
      .to(device.value_or(at::Device(at::kPrivateUse1)));
}

Tensor TriuIndices(int64_t row, int64_t col, int64_t offset,
                   std::optional<ScalarType> dtype,
                   std::optional<at::Layout> layout,
                   std::optional<at::Device> device, std::optional<bool> pin) {
  return at::triu_indices(row, col, offset, dtype.value_or(ScalarType::Long),
                          layout, at::Device(at::kCPU), pin)
      .to(device.value_or(at::Device(at::kPrivateUse1)));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  // PyTorch's own: slices, joined.
  m.impl("roll", &at::native::roll);
  m.impl("repeat_interleave.Tensor", &RepeatInterleave);
  m.impl("tril_indices", &TrilIndices);
  m.impl("triu_indices", &TriuIndices);
}

}  // namespace
}  // namespace tvarant::torch_plugin

// Lists of tensors, each reduced to a number, in one launch.

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_max_native.h>
#include <ATen/ops/_foreach_norm_native.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

using at::TensorList;

constexpr size_t kMaxReduced = 512;

bool FitsOneLaunch(TensorList self) {
  if (self.empty() || !OnDevice(self[0])) return false;
  for (const Tensor& tensor : self) {
    if (tensor.device() != self[0].device() ||
        tensor.scalar_type() != self[0].scalar_type() ||
        !c10::isFloatingType(tensor.scalar_type()) ||
        !HasKernels(tensor.scalar_type()) || tensor.dim() > kMaxRank ||
        tensor.layout() != c10::kStrided) {
      return false;
    }
  }
  return true;
}

// Each tensor to a number of one common tensor.
std::vector<Tensor> ReduceList(TensorList self, ReduceOp op, double scalar,
                               ScalarType type) {
  const auto count = static_cast<int64_t>(self.size());
  const Tensor all = EmptyLikeOf(self[0], {count}, type);
  for (int64_t begin = 0; begin < count; begin += kMaxReduced) {
    const int64_t size = std::min<int64_t>(kMaxReduced, count - begin);
    LaunchBuilder launch(Kernel::kReduceForeach, self[0].device());
    const Tensor part = all.narrow(0, begin, size);
    launch.Dst(part);
    for (int64_t i = 0; i < size; ++i) {
      launch.Src(self[static_cast<size_t>(begin + i)]);
    }
    launch.params().scalar = scalar;
    launch.Int(static_cast<int64_t>(op)).Run();
  }
  return all.unbind(0);
}

std::vector<Tensor> ForeachNorm(TensorList self, const Scalar& order,
                                std::optional<ScalarType> dtype) {
  const bool is_simple = FitsOneLaunch(self) && !order.isComplex() &&
                         (!dtype.has_value() ||
                          (c10::isFloatingType(*dtype) && HasKernels(*dtype)));
  const double p = is_simple ? order.toDouble() : 0;
  // The largest of nothing is an error: PyTorch's own.
  bool has_empty = false;
  for (const Tensor& tensor : self) has_empty |= tensor.numel() == 0;
  if (!is_simple || (has_empty && (p < 0 || std::isinf(p)))) {
    return at::native::foreach_tensor_norm_slow(self, order, dtype);
  }
  return ReduceList(self, ReduceOp::kNorm, p,
                    dtype.value_or(self[0].scalar_type()));
}

std::vector<Tensor> ForeachMax(TensorList self) {
  bool has_empty = false;
  for (const Tensor& tensor : self) has_empty |= tensor.numel() == 0;
  if (!FitsOneLaunch(self) || has_empty) {
    return at::native::foreach_tensor_max_slow(self);
  }
  return ReduceList(self, ReduceOp::kMax, 0, self[0].scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_foreach_norm.Scalar", &ForeachNorm);
  m.impl("_foreach_max", &ForeachMax);
}

}  // namespace tvarant::torch_plugin

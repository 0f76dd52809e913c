// quantile and nanquantile of several q: PyTorch's own ops, which look at the
// values of q on the CPU alone.

#include <ATen/ops/nanquantile_native.h>
#include <ATen/ops/quantile_native.h>
#include <torch/library.h>

#include "torch_plugin/aten/data_check.h"

namespace tvarant::torch_plugin {
namespace {

Tensor Quantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim,
                bool keepdim, c10::string_view interpolation) {
  CheckData(DataCheck::kQuantile, q, 0, 1);
  return at::native::quantile(self, q, dim, keepdim, interpolation);
}

Tensor NanQuantile(const Tensor& self, const Tensor& q,
                   std::optional<int64_t> dim, bool keepdim,
                   c10::string_view interpolation) {
  CheckData(DataCheck::kQuantile, q, 0, 1);
  return at::native::nanquantile(self, q, dim, keepdim, interpolation);
}

}  // namespace

// Made of ops that differentiate themselves: the same with autograd.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("quantile", &Quantile);
  m.impl("nanquantile", &NanQuantile);
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("quantile", &Quantile);
  m.impl("nanquantile", &NanQuantile);
}

}  // namespace tvarant::torch_plugin

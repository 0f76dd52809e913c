// Views: metadata over the same storage, PyTorch's own code for it.

#include <ATen/core/Tensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

namespace tvarant::torch_plugin {
namespace {

at::Tensor View(const at::Tensor& self, at::IntArrayRef size) {
  return at::native::view(self, size);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("alias", TORCH_FN(at::native::alias));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view", TORCH_FN(View));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
}

}  // namespace
}  // namespace tvarant::torch_plugin

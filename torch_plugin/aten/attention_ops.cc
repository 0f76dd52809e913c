// Scaled dot product attention: which of PyTorch's ways to take.
//
// Until the device has a fused kernel, the answer is always the composite of
// matrix products and softmax. PyTorch asks through a dispatch stub and, from
// some callers, through the op.

#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

#include <optional>

namespace tvarant::torch_plugin {
namespace {

int64_t FusedSdpChoice(const at::Tensor& /*query*/, const at::Tensor& /*key*/,
                       const at::Tensor& /*value*/,
                       const std::optional<at::Tensor>& /*mask*/,
                       double /*dropout_p*/, bool /*is_causal*/,
                       std::optional<double> /*scale*/, bool /*enable_gqa*/) {
  return static_cast<int64_t>(sdp::SDPBackend::math);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", &FusedSdpChoice);
}

}  // namespace tvarant::torch_plugin

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub,
                              &tvarant::torch_plugin::FusedSdpChoice)

}  // namespace at::native

// What autocast does with each op on tvarant: PyTorch's own lists.
//
// PyTorch brings no list for out-of-tree devices; without one autocast silently
// does nothing.

#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace at::autocast {
namespace {

Tensor BinaryCrossEntropyIsUnsafe(const Tensor&, const Tensor&,
                                  const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are "
      "unsafe to autocast.\nMany models use a sigmoid layer right before the "
      "binary cross entropy layer.\nIn this case, combine the two layers using "
      "torch.nn.functional.binary_cross_entropy_with_logits\nor "
      "torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and "
      "BCEWithLogits are\nsafe to autocast.");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define TVARANT_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(TVARANT_LOWER)
#undef TVARANT_LOWER
#define TVARANT_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(TVARANT_FP32)
#undef TVARANT_FP32
#define TVARANT_SET_DTYPE(...) \
  KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(TVARANT_SET_DTYPE)
#undef TVARANT_SET_DTYPE
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(
      KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define TVARANT_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(TVARANT_PROMOTE)
#undef TVARANT_PROMOTE
  m.impl("binary_cross_entropy", &BinaryCrossEntropyIsUnsafe);
}

// bfloat16 needs no loss scaling and has the range of float32.
const bool default_is_set = [] {
  set_autocast_dtype(c10::DeviceType::PrivateUse1, at::kBFloat16);
  return true;
}();

}  // namespace
}  // namespace at::autocast

// Optional tensors of ATen's signatures: absent, or there but undefined.

#ifndef TVARANT_TORCH_PLUGIN_ATEN_OPTIONAL_TENSOR_H_
#define TVARANT_TORCH_PLUGIN_ATEN_OPTIONAL_TENSOR_H_

#include <ATen/core/Tensor.h>

#include <optional>

namespace tvarant::torch_plugin {

using OptionalTensor = std::optional<at::Tensor>;

inline bool Has(const OptionalTensor& tensor) {
  return tensor.has_value() && tensor->defined();
}

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_OPTIONAL_TENSOR_H_

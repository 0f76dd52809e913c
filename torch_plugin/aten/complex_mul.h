// Products of complex tensors, from the kernels of real ones.

#ifndef TVARANT_TORCH_PLUGIN_ATEN_COMPLEX_MUL_H_
#define TVARANT_TORCH_PLUGIN_ATEN_COMPLEX_MUL_H_

#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {

// Whether ComplexMul can: complex numbers of floats on the device, times such
// or real ones, or times a number.
bool IsComplexMul(const Tensor& self, const Tensor& other);

// `out` is undefined, or given (then resized and checked as PyTorch does).
Tensor ComplexMul(const Tensor& self, const Tensor& other, const Tensor& out);

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_COMPLEX_MUL_H_

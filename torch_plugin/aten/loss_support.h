// What losses share: from the loss of each element to their sum or mean.

#ifndef TVARANT_TORCH_PLUGIN_ATEN_LOSS_SUPPORT_H_
#define TVARANT_TORCH_PLUGIN_ATEN_LOSS_SUPPORT_H_

#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

#include <cstdint>

namespace tvarant::torch_plugin {

// The sum or mean of `each` in `out`; reduction is one of at::Reduction, but
// none.
inline at::Tensor& Reduced(const at::Tensor& each, int64_t reduction,
                           at::Tensor& out) {
  if (reduction == at::Reduction::Mean) {
    return at::mean_out(out, each, at::IntArrayRef{});
  }
  return at::sum_out(out, each, at::IntArrayRef{});
}

// What the gradient of a mean over `count` elements is divided by, as a factor.
inline double MeanFactor(int64_t count, int64_t reduction) {
  return reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(count)
                                          : 1.0;
}

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_LOSS_SUPPORT_H_

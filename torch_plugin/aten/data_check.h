// What only the data can tell to be wrong, checked by the device.
//
// Queued before the op that relies on it: the stream fails with the op's name
// and PyTorch's sentence, and whoever waits next raises it.
//
// Example:
//   CheckData(DataCheck::kBernoulli, p, 0, 1);

#ifndef TVARANT_TORCH_PLUGIN_ATEN_DATA_CHECK_H_
#define TVARANT_TORCH_PLUGIN_ATEN_DATA_CHECK_H_

#include <ATen/core/Tensor.h>

#include "proto/ops/data_checks.h"
#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {

// All elements in [low, high]; NaN is not.
inline void CheckData(DataCheck check, const at::Tensor& tensor, double low,
                      double high) {
  if (tensor.numel() == 0 || !OnDevice(tensor) || LacksKernels(tensor)) return;
  LaunchBuilder launch(Kernel::kWithin, tensor.device());
  launch.Src(tensor).Int(static_cast<int64_t>(check));
  launch.Int(static_cast<int64_t>(low)).Int(static_cast<int64_t>(high));
  launch.Float(low).Float(high).Run();
}

// All indices in [0, size).
inline void CheckIndex(DataCheck check, const at::Tensor& index, int64_t size) {
  CheckData(check, index, 0, static_cast<double>(size - 1));
}

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_DATA_CHECK_H_

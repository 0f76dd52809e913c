// Numbers of devices: how many there may be, and whether one is there.

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_DEVICE_INDEX_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_DEVICE_INDEX_H_

#include <cstdint>

#include "torch_plugin/runtime/connection.h"

namespace tvarant::torch_plugin {

// The length of tables by device; Device::Count() is how many there are.
inline constexpr int kDeviceLimit = kMaxEndpoints;

// Raises unless there is such a device, or it is the first, which has an error
// of its own when it can't be reached.
void CheckDeviceIndex(int64_t index);

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_DEVICE_INDEX_H_

// Copies between tensors in every direction.

#ifndef TVARANT_TORCH_PLUGIN_ATEN_COPY_OPS_H_
#define TVARANT_TORCH_PLUGIN_ATEN_COPY_OPS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tvarant::torch_plugin {

// dst := src, with broadcasting, dtype conversion, any strides, conjugate and
// negative bits; at least one of them on the device. Host bytes have been
// taken when it returns; to the host it waits. From pinned memory it waits,
// too, but for non_blocking, which copies the bytes first.
void CopyTensor(const at::Tensor& src, const at::Tensor& dst,
                bool non_blocking = false);

// Copy kernel between device tensors of equal sizes. conjugate: also
// conjugates. Raises on partial overlap.
void CopyOnDevice(const at::Tensor& src, const at::Tensor& dst,
                  bool conjugate = false);

// A new device tensor of the CPU tensor's bytes, with its sizes and strides if
// these leave no gaps.
at::Tensor ToDevice(const at::Tensor& host, c10::Device device);

// A CPU tensor of the device tensor's values, dense with its strides if it is
// dense. Waits.
at::Tensor ToHost(const at::Tensor& tensor);

// Bytes that went from device to device, over the host, in this process.
uint64_t BytesCopiedBetweenDevices();

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_COPY_OPS_H_

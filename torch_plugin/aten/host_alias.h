// CPU tensors that stand on the bytes of device tensors.
//
// Where the simulator's memory is mapped, a device tensor's bytes can be read
// and written by PyTorch's CPU code in place, once the streams that use them
// have passed. An alias owns nothing: the device tensor must outlive it.
//
// Example:
//   device.Wait(stream);
//   host.copy_(HostAlias(device_tensor));

#ifndef TVARANT_TORCH_PLUGIN_ATEN_HOST_ALIAS_H_
#define TVARANT_TORCH_PLUGIN_ATEN_HOST_ALIAS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

namespace tvarant::torch_plugin {

// A tensor of `storage` with everything else as in `like`: dtype, sizes,
// strides, offset, conjugate and negative bits, wrapped-number flag. The
// storage is on the CPU (is_cpu) or the device.
at::Tensor TensorLike(const at::Tensor& like, c10::Storage storage,
                      bool is_cpu);

// A CPU storage on a mapped device storage's bytes.
c10::Storage HostStorageOn(const c10::Storage& storage);

// Both in one: for tensors that are mapped.
at::Tensor HostAlias(const at::Tensor& tensor);

// The bytes of its storage that a tensor reaches: [begin, end).
struct ByteSpan {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool empty() const { return begin >= end; }
  void Join(const ByteSpan& other);
};
ByteSpan SpanOf(const at::Tensor& tensor);

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_HOST_ALIAS_H_

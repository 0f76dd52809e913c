#include "torch_plugin/aten/host_alias.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace tvarant::torch_plugin {

at::Tensor TensorLike(const at::Tensor& like, c10::Storage storage,
                      bool is_cpu) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage),
      c10::DispatchKeySet(is_cpu ? c10::DispatchKey::CPU
                                 : c10::DispatchKey::PrivateUse1),
      like.dtype());
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(),
                              like.storage_offset());
  if (like.is_conj()) impl->_set_conj(true);
  if (like.is_neg()) impl->_set_neg(true);
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return tensor;
}

c10::Storage HostStorageOn(const c10::Storage& storage) {
  // With the CPU allocator, so that an op may resize an output: it then moves
  // to memory of its own, which the caller notices.
  return c10::Storage(
      c10::Storage::use_byte_size_t(), storage.nbytes(),
      c10::DataPtr(storage.mutable_data(), c10::Device(c10::kCPU)),
      c10::GetCPUAllocator(), /*resizable=*/true);
}

at::Tensor HostAlias(const at::Tensor& tensor) {
  return TensorLike(tensor, HostStorageOn(tensor.storage()), /*is_cpu=*/true);
}

void ByteSpan::Join(const ByteSpan& other) {
  if (other.empty()) return;
  if (empty()) {
    *this = other;
    return;
  }
  begin = std::min(begin, other.begin);
  end = std::max(end, other.end);
}

ByteSpan SpanOf(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return ByteSpan{};
  uint64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    last += static_cast<uint64_t>(tensor.size(i) - 1) *
            static_cast<uint64_t>(tensor.stride(i));
  }
  const uint64_t item = tensor.itemsize();
  const uint64_t begin = static_cast<uint64_t>(tensor.storage_offset()) * item;
  return ByteSpan{begin, begin + (last + 1) * item};
}

}  // namespace tvarant::torch_plugin

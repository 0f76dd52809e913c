// The caching allocator as PyTorch's allocator of the device.
//
// Example:
//   at::detail::empty_generic(sizes, &DeviceAllocator::Get(), keys, ...);
//   Block* block = DeviceAllocator::BlockOf(tensor.storage().data_ptr());

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_ALLOCATOR_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_ALLOCATOR_H_

#include <c10/core/CachingDeviceAllocator.h>

#include "torch_plugin/runtime/caching_allocator.h"

namespace tvarant::torch_plugin {

// Thread-safe; takes no GIL. Freeing is silent whatever has happened to the
// daemon, and does nothing in a forked child.
class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  static DeviceAllocator& Get();
  // The block behind memory that came from here, else null.
  static Block* BlockOf(const c10::DataPtr& data) noexcept;

  c10::DataPtr allocate(size_t size_bytes) override;
  bool is_simple_data_ptr(const c10::DataPtr& data) const override;
  void copy_data(void* dest, const void* src, size_t count) const override;

  bool initialized() override;
  void emptyCache(c10::MempoolId_t pool = {0, 0}) override;
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(
      c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;
};

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_ALLOCATOR_H_

// "Pinned" host memory: page-aligned memory that is known to be such.
//
// Uploads take their bytes before they return, so nothing of the device ever
// reads host memory later, and a freed block can be reused at once. What pinned
// memory gives here is its meaning to PyTorch (pin_memory, DataLoader,
// is_pinned) and pages that have been touched already.

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_HOST_ALLOCATOR_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_HOST_ALLOCATOR_H_

#include <ATen/core/CachingHostAllocator.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace tvarant::torch_plugin {

// Thread-safe; takes no GIL.
class HostAllocator final : public at::HostAllocator {
 public:
  static HostAllocator& Get();

  c10::DataPtr allocate(size_t size_bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* dest, const void* src, size_t count) const override;

  bool record_event(void* data, void* context, c10::Stream stream) override;
  void empty_cache() override;
  at::HostStats get_stats() override;
  void reset_accumulated_stats() override;
  void reset_peak_stats() override;

  // True if an address lies in a live block.
  bool Owns(const void* address);

 private:
  static void Delete(void* data);
  void Free(void* data);

  std::mutex mutex_;
  std::map<const char*, size_t> live_;           // address -> bytes
  std::map<size_t, std::vector<void*>> cached_;  // bytes -> free blocks
  at::HostStats stats_;
};

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_HOST_ALLOCATOR_H_

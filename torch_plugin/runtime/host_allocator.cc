#include "torch_plugin/runtime/host_allocator.h"

#include <c10/util/Exception.h>

#include <bit>
#include <cstdlib>
#include <cstring>

namespace tvarant::torch_plugin {
namespace {

constexpr size_t kPage = 4096;

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &HostAllocator::Get())

}  // namespace

HostAllocator& HostAllocator::Get() {
  static auto* allocator = new HostAllocator;
  return *allocator;
}

c10::DataPtr HostAllocator::allocate(size_t size_bytes) {
  if (size_bytes == 0) return c10::DataPtr(nullptr, c10::Device(at::kCPU));
  TORCH_CHECK_WITH(OutOfMemoryError, size_bytes <= size_t{1} << 47,
                   "tvarant: can't pin ", size_bytes, " bytes");
  const size_t bytes = std::bit_ceil(std::max(size_bytes, kPage));
  void* data = nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<void*>& free = cached_[bytes];
  if (!free.empty()) {
    data = free.back();
    free.pop_back();
  } else {
    if (posix_memalign(&data, kPage, bytes) != 0) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, "tvarant: can't pin ",
                       size_bytes, " bytes: the host has no memory left");
    }
    stats_.allocations.increase(1);
    stats_.allocated_bytes.increase(bytes);
    ++stats_.num_host_alloc;
  }
  live_.emplace(static_cast<const char*>(data), bytes);
  stats_.active_requests.increase(1);
  stats_.active_bytes.increase(bytes);
  return c10::DataPtr(data, data, &Delete, c10::Device(at::kCPU));
}

void HostAllocator::Delete(void* data) { Get().Free(data); }

void HostAllocator::Free(void* data) {
  if (data == nullptr) return;
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = live_.find(static_cast<const char*>(data));
  if (it == live_.end()) return;
  stats_.active_requests.decrease(1);
  stats_.active_bytes.decrease(it->second);
  cached_[it->second].push_back(data);
  live_.erase(it);
}

c10::DeleterFnPtr HostAllocator::raw_deleter() const { return &Delete; }

void HostAllocator::copy_data(void* dest, const void* src, size_t count) const {
  std::memcpy(dest, src, count);
}

bool HostAllocator::record_event(void* data, void*, c10::Stream) {
  return Owns(data);  // nothing to wait for
}

void HostAllocator::empty_cache() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [bytes, blocks] : cached_) {
    for (void* data : blocks) {
      std::free(data);
      stats_.allocations.decrease(1);
      stats_.allocated_bytes.decrease(bytes);
      ++stats_.num_host_free;
    }
  }
  cached_.clear();
}

at::HostStats HostAllocator::get_stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

void HostAllocator::reset_accumulated_stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  stats_.active_requests.reset_accumulated();
  stats_.active_bytes.reset_accumulated();
  stats_.allocations.reset_accumulated();
  stats_.allocated_bytes.reset_accumulated();
  stats_.num_host_alloc = 0;
  stats_.num_host_free = 0;
}

void HostAllocator::reset_peak_stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  stats_.active_requests.reset_peak();
  stats_.active_bytes.reset_peak();
  stats_.allocations.reset_peak();
  stats_.allocated_bytes.reset_peak();
}

bool HostAllocator::Owns(const void* address) {
  std::lock_guard<std::mutex> lock(mutex_);
  const char* p = static_cast<const char*>(address);
  auto it = live_.upper_bound(p);
  if (it == live_.begin()) return false;
  --it;
  return p < it->first + it->second;
}

}  // namespace tvarant::torch_plugin

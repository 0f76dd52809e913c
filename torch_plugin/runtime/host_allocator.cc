#include "torch_plugin/runtime/host_allocator.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "torch_plugin/runtime/device_impl.h"

namespace tvarant::torch_plugin {
namespace {

constexpr size_t kPage = 4096;
// From here on it pays to have the daemon map a block: a round trip and 0.1 us
// a page once, against a copy each time.
constexpr size_t kMinSharedBytes = 256 << 10;
// Larger sizes are not rounded to a power of two.
constexpr size_t kLargeBytes = 64 << 20;
constexpr size_t kLargeStep = 2 << 20;

size_t Round(size_t bytes) {
  if (bytes <= kLargeBytes) return std::bit_ceil(std::max(bytes, kPage));
  return (bytes + kLargeStep - 1) / kLargeStep * kLargeStep;
}

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &HostAllocator::Get())

}  // namespace

HostAllocator& HostAllocator::Get() {
  static auto* allocator = new HostAllocator;
  return *allocator;
}

client::Session* HostAllocator::SessionFor(size_t bytes) {
  if (bytes < kMinSharedBytes || InBadFork()) return nullptr;
  DeviceImpl* device = DeviceImpl::GetIfConnected(CurrentDevice());
  if (device == nullptr || device->is_mapped() || device->lost()) {
    return nullptr;
  }
  return &device->session();  // lives as long as the process
}

HostAllocator::Block HostAllocator::Make(size_t bytes,
                                         client::Session* session) {
  Block block;
  block.bytes = bytes;
  if (session != nullptr) {
    auto memory = session->CreateHostMemory(bytes);
    if (memory.ok()) {
      block.memory = std::move(memory.value());
      block.session = session;
      block.data = static_cast<char*>(block.memory->data());
      return block;
    }
    // A remote daemon has none, and there may be a limit: it is only slower.
    if (memory.status().code() != client::Code::kFailedPrecondition) {
      TORCH_WARN_ONCE("pinned memory of ", bytes,
                      " bytes is ordinary memory, which takes another copy: ",
                      memory.status().message());
    }
  }
  void* data = nullptr;
  TORCH_CHECK_WITH(OutOfMemoryError, posix_memalign(&data, kPage, bytes) == 0,
                   "tvarant: can't pin ", bytes,
                   " bytes: the host has no memory left");
  block.data = static_cast<char*>(data);
  return block;
}

void HostAllocator::Destroy(Block block) {
  if (block.memory == nullptr) std::free(block.data);
}

c10::DataPtr HostAllocator::allocate(size_t size_bytes) {
  if (size_bytes == 0) return c10::DataPtr(nullptr, c10::Device(at::kCPU));
  TORCH_CHECK_WITH(OutOfMemoryError, size_bytes <= size_t{1} << 47,
                   "tvarant: can't pin ", size_bytes, " bytes");
  const size_t bytes = Round(size_bytes);
  client::Session* session = SessionFor(bytes);
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = cached_.find({bytes, session});
  Block block;
  if (found != cached_.end() && !found->second.empty()) {
    block = std::move(found->second.back());
    found->second.pop_back();
  } else {
    lock.unlock();  // it may wait for the daemon
    block = Make(bytes, session);
    lock.lock();
    stats_.allocations.increase(1);
    stats_.allocated_bytes.increase(bytes);
    ++stats_.num_host_alloc;
  }
  stats_.active_requests.increase(1);
  stats_.active_bytes.increase(bytes);
  char* data = block.data;
  live_.emplace(data, std::move(block));
  return c10::DataPtr(data, data, &Delete, c10::Device(at::kCPU));
}

void HostAllocator::Delete(void* data) { Get().Free(data); }

void HostAllocator::Free(void* data) {
  if (data == nullptr) return;
  Block gone;  // destroyed without the lock
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = live_.find(static_cast<const char*>(data));
  if (it == live_.end()) return;
  Block block = std::move(it->second);
  live_.erase(it);
  stats_.active_requests.decrease(1);
  stats_.active_bytes.decrease(block.bytes);
  if (block.memory == nullptr || block.memory->usable()) {
    cached_[{block.bytes, block.session}].push_back(std::move(block));
    return;
  }
  stats_.allocations.decrease(1);
  stats_.allocated_bytes.decrease(block.bytes);
  ++stats_.num_host_free;
  gone = std::move(block);
}

c10::DeleterFnPtr HostAllocator::raw_deleter() const { return &Delete; }

void HostAllocator::copy_data(void* dest, const void* src, size_t count) const {
  std::memcpy(dest, src, count);
}

bool HostAllocator::record_event(void* data, void*, c10::Stream) {
  return Owns(data);  // nothing to wait for
}

void HostAllocator::empty_cache() {
  decltype(cached_) dropped;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    dropped.swap(cached_);
    for (const auto& [key, blocks] : dropped) {
      const auto count = static_cast<int64_t>(blocks.size());
      stats_.allocations.decrease(blocks.size());
      stats_.allocated_bytes.decrease(key.first * blocks.size());
      stats_.num_host_free += count;
    }
  }
  for (auto& [key, blocks] : dropped) {
    for (Block& block : blocks) Destroy(std::move(block));
  }
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

const HostAllocator::Block* HostAllocator::FindLocked(
    const void* address) const {
  const char* p = static_cast<const char*>(address);
  auto it = live_.upper_bound(p);
  if (it == live_.begin()) return nullptr;
  --it;
  return p < it->first + it->second.bytes ? &it->second : nullptr;
}

bool HostAllocator::Owns(const void* address) {
  std::lock_guard<std::mutex> lock(mutex_);
  return FindLocked(address) != nullptr;
}

std::optional<HostAllocator::Place> HostAllocator::Find(
    const client::Session& session, const void* address, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Block* block = FindLocked(address);
  if (block == nullptr || block->session != &session) return std::nullopt;
  const size_t offset = static_cast<const char*>(address) - block->data;
  if (bytes > block->bytes - offset) return std::nullopt;
  return Place{block->memory, offset};
}

}  // namespace tvarant::torch_plugin

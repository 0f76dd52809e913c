#include "torch_plugin/runtime/allocator.h"

#include <c10/util/Exception.h>

#include "torch_plugin/runtime/device_impl.h"

namespace tvarant::torch_plugin {
namespace {

c10::DeviceIndex IndexOf(const Block& block) {
  return static_cast<const DeviceImpl*>(block.segment->owner)->index();
}

void Report(const Block& block, int64_t change) {
  if (C10_LIKELY(!c10::memoryProfilingEnabled())) return;
  c10::reportMemoryUsageToProfiler(
      block.address, change, block.allocator->AllocatedBytes(),
      block.allocator->ReservedBytes(),
      c10::Device(c10::DeviceType::PrivateUse1, IndexOf(block)));
}

c10::CachingAllocator::Stat ToStat(const MemoryStat& stat) {
  return {stat.current, stat.peak, stat.allocated, stat.freed};
}
c10::CachingAllocator::StatArray ToStats(const PooledStat& stat) {
  return {ToStat(stat.all), ToStat(stat.small_pool), ToStat(stat.large_pool)};
}

void Delete(void* context) {
  if (InBadFork()) return;
  auto* block = static_cast<Block*>(context);
  Report(*block, -static_cast<int64_t>(block->size_bytes));
  block->allocator->Free(block);
}

[[maybe_unused]] const bool g_registered = [] {
  c10::SetAllocator(c10::DeviceType::PrivateUse1, &DeviceAllocator::Get());
  return true;
}();

}  // namespace

DeviceAllocator& DeviceAllocator::Get() {
  // Never destroyed: tensors may outlive every static object.
  static auto* allocator = new DeviceAllocator;
  return *allocator;
}

Block* DeviceAllocator::BlockOf(const c10::DataPtr& data) noexcept {
  return data.get_deleter() == &Delete ? static_cast<Block*>(data.get_context())
                                       : nullptr;
}

c10::DataPtr DeviceAllocator::allocate(size_t size_bytes) {
  DeviceImpl& device = DeviceImpl::Get(CurrentDevice());
  const c10::Device where(c10::DeviceType::PrivateUse1, device.index());
  if (size_bytes == 0) return c10::DataPtr(nullptr, where);
  Block* block = device.allocator().Allocate(
      size_bytes, static_cast<int>(CurrentStreamId(device.index())));
  Report(*block, static_cast<int64_t>(block->size_bytes));
  return c10::DataPtr(block->address, block, &Delete, where);
}

bool DeviceAllocator::is_simple_data_ptr(const c10::DataPtr& data) const {
  return data.get_context() == nullptr || BlockOf(data) != nullptr;
}

void DeviceAllocator::copy_data(void* dest, const void* src,
                                size_t count) const {
  if (count == 0) return;
  DeviceImpl& device = DeviceImpl::Get(CurrentDevice());
  device.CopyBytes(CurrentStreamId(device.index()), dest, src, count);
}

bool DeviceAllocator::initialized() {
  for (c10::DeviceIndex i = 0; i < Device::Count(); ++i) {
    if (DeviceImpl::GetIfConnected(i) != nullptr) return true;
  }
  return false;
}

void DeviceAllocator::emptyCache(c10::MempoolId_t) {
  for (c10::DeviceIndex i = 0; i < Device::Count(); ++i) {
    if (DeviceImpl* device = DeviceImpl::GetIfConnected(i)) {
      device->allocator().EmptyCache();
    }
  }
}

void DeviceAllocator::recordStream(const c10::DataPtr& data,
                                   c10::Stream stream) {
  Block* block = BlockOf(data);
  if (block == nullptr || InBadFork()) return;
  block->allocator->RecordStream(block, static_cast<int>(stream.id()));
}

c10::CachingDeviceAllocator::DeviceStats DeviceAllocator::getDeviceStats(
    c10::DeviceIndex device) {
  c10::CachingDeviceAllocator::DeviceStats stats;
  DeviceImpl* impl = DeviceImpl::GetIfConnected(device);
  if (impl == nullptr) return stats;
  const MemoryStats counted = impl->allocator().Stats();
  stats.allocation = ToStats(counted.allocation);
  stats.segment = ToStats(counted.segment);
  stats.active = ToStats(counted.active);
  stats.inactive_split = ToStats(counted.inactive_split);
  stats.allocated_bytes = ToStats(counted.allocated_bytes);
  stats.reserved_bytes = ToStats(counted.reserved_bytes);
  stats.active_bytes = ToStats(counted.active_bytes);
  stats.inactive_split_bytes = ToStats(counted.inactive_split_bytes);
  stats.requested_bytes = ToStats(counted.requested_bytes);
  stats.num_alloc_retries = counted.num_alloc_retries;
  stats.num_ooms = counted.num_ooms;
  stats.num_device_alloc = counted.num_device_alloc;
  stats.num_device_free = counted.num_device_free;
  return stats;
}

void DeviceAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  if (DeviceImpl* impl = DeviceImpl::GetIfConnected(device)) {
    impl->allocator().ResetAccumulatedStats();
  }
}

void DeviceAllocator::resetPeakStats(c10::DeviceIndex device) {
  if (DeviceImpl* impl = DeviceImpl::GetIfConnected(device)) {
    impl->allocator().ResetPeakStats();
  }
}

std::pair<size_t, size_t> DeviceAllocator::getMemoryInfo(
    c10::DeviceIndex device) {
  client::Result<client::MemoryInfo> info =
      DeviceImpl::Get(device).session().GetMemoryInfo();
  TVARANT_THROW_IF_ERROR(info.status());
  return {info.value().free_bytes, info.value().total_bytes};
}

}  // namespace tvarant::torch_plugin

// What PyTorch asks of an accelerator outside of ops.

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Storage.h>
#include <c10/util/Exception.h>

#include "torch_plugin/runtime/connection.h"
#include "torch_plugin/runtime/device_impl.h"
#include "torch_plugin/runtime/device_index.h"
#include "torch_plugin/runtime/generator.h"
#include "torch_plugin/runtime/host_allocator.h"
#include "torch_plugin/runtime/storage.h"

namespace tvarant::torch_plugin {
namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  // May be asked at import and in forked children: never connects.
  bool isAvailable() const override { return Device::Count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return Device::GetIfConnected(index) != nullptr;
  }
  void init() const override { Device::Get(CurrentDevice()); }

  c10::DeviceIndex deviceCount() const override { return Device::Count(); }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    CheckDeviceIndex(index);
    ExchangeDevice(index);
  }
  c10::DeviceIndex getCurrentDevice() const override { return CurrentDevice(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    CheckDeviceIndex(index);
    return ExchangeDevice(index);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? CurrentDevice() : exchangeDevice(index);
  }

  const at::Generator& getDefaultGenerator(
      c10::DeviceIndex index) const override {
    return DefaultGenerator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return NewGenerator(index);
  }

  c10::Device getDeviceFromPtr(void* data) const override {
    const Arena* arena = Arena::GetIfMade();
    TORCH_CHECK(arena != nullptr && arena->Contains(data),
                "the pointer is no tvarant memory");
    const ArenaSegment* segment = arena->Find(data);
    const c10::DeviceIndex index =
        segment == nullptr
            ? c10::DeviceIndex{0}
            : static_cast<const DeviceImpl*>(segment->owner)->index();
    return c10::Device(c10::DeviceType::PrivateUse1, index);
  }
  bool isPinnedPtr(const void* data) const override {
    return HostAllocator::Get().Owns(data);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return &HostAllocator::Get();
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage,
                              size_t size_bytes) const override {
    ResizeStorage(storage.unsafeGetStorageImpl(), size_bytes);
  }
};

[[maybe_unused]] const bool g_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace tvarant::torch_plugin

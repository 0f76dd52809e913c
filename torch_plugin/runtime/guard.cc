// Device guard: current device and stream, events.
//
// An event is a place in a stream: its sequence number says locally whether it
// has passed, a handle lets other streams wait for it on the device. Recording
// and blocking are messages; nothing here waits but what says so.

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <atomic>

#include "torch_plugin/runtime/allocator.h"
#include "torch_plugin/runtime/device_impl.h"
#include "torch_plugin/runtime/device_index.h"

namespace tvarant::torch_plugin {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

struct Event {
  bool has_time = false;
  // Of the last record; null before. A new handle each time, so that a wait
  // queued earlier keeps meaning the earlier record.
  DeviceImpl* device = nullptr;
  c10::StreamId stream = 0;
  uint64_t handle = 0;
  uint64_t sequence = 0;
  uint64_t marker = 0;
};

std::atomic<unsigned> g_next_normal{0};
std::atomic<unsigned> g_next_high{0};

c10::Stream ToStream(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, index), id);
}

c10::DeviceIndex IndexOf(c10::Device device) {
  return device.has_index() ? device.index() : CurrentDevice();
}

class DeviceGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous(kType, CurrentDevice());
    setDevice(device);
    return previous;
  }
  c10::Device getDevice() const override {
    return c10::Device(kType, CurrentDevice());
  }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == kType, "expected a tvarant device, got ",
                device);
    if (!device.has_index()) return;
    CheckDeviceIndex(device.index());
    ExchangeDevice(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) ExchangeDevice(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return Device::Count();
  }

  c10::Stream getStream(c10::Device device) const noexcept override {
    const c10::DeviceIndex index = IndexOf(device);
    return ToStream(index, CurrentStreamId(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return ToStream(IndexOf(device), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device,
                                      bool is_high_priority) const override {
    const c10::StreamId id =
        is_high_priority ? kNormalStreams + g_next_high++ % kHighPriorityStreams
                         : 1 + g_next_normal++ % (kNormalStreams - 1);
    return ToStream(IndexOf(device), id);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return getStreamFromGlobalPool(device, priority < 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    const c10::DeviceIndex index = stream.device_index();
    return ToStream(index, ExchangeStreamId(index, stream.id()));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return &DeviceImpl::Get(stream.device_index()).stream(stream.id());
  }
  bool queryStream(const c10::Stream& stream) const override {
    client::Stream& s =
        DeviceImpl::Get(stream.device_index()).stream(stream.id());
    return s.IsDone(s.last_sequence());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    DeviceImpl::Get(stream.device_index()).Wait(stream.id());
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    // An unused device has nothing to wait for.
    if (DeviceImpl::GetIfConnected(index) == nullptr && !InBadFork()) return;
    DeviceImpl::Get(index).Synchronize();
  }

  void record(void** event, const c10::Stream& stream,
              const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(),
                "Event device index ", static_cast<int>(index),
                " does not match recording stream's device index ",
                static_cast<int>(stream.device_index()), ".");
    DeviceImpl& device = DeviceImpl::Get(stream.device_index());
    client::Stream& s = device.stream(stream.id());
    if (*event == nullptr) {
      auto* made = new Event;
      made->has_time = flag == c10::EventFlag::BACKEND_DEFAULT;
      *event = made;
    }
    auto* e = static_cast<Event*>(*event);
    Event recorded;
    recorded.has_time = e->has_time;
    recorded.device = &device;
    recorded.stream = stream.id();
    if (e->has_time) {
      client::Result<uint64_t> marker = s.Marker();
      TVARANT_THROW_IF_ERROR(marker.status());
      recorded.marker = marker.value();
    }
    recorded.handle = device.session().NewHandle();
    client::Result<uint64_t> sequence = s.RecordEvent(recorded.handle);
    TVARANT_THROW_IF_ERROR(sequence.status());
    recorded.sequence = sequence.value();
    *e = recorded;
  }

  void block(void* event, const c10::Stream& stream) const override {
    const auto* e = static_cast<const Event*>(event);
    if (e == nullptr || e->device == nullptr) return;
    DeviceImpl& device = DeviceImpl::Get(stream.device_index());
    // On a device that was lost everything has ended; in its own stream the
    // event lies before whatever comes.
    if (e->device != &device || e->stream == stream.id()) return;
    if (device.stream(e->stream).completed_sequence() >= e->sequence) return;
    client::Result<uint64_t> queued =
        device.stream(stream.id()).WaitEvent(e->handle);
    TVARANT_THROW_IF_ERROR(queued.status());
  }

  bool queryEvent(void* event) const override {
    const auto* e = static_cast<const Event*>(event);
    if (e == nullptr || e->device == nullptr) return true;
    if (e->device != &DeviceImpl::Get(e->device->index())) return true;
    return e->device->stream(e->stream).IsDone(e->sequence);
  }

  void synchronizeEvent(void* event) const override {
    const auto* e = static_cast<const Event*>(event);
    if (e == nullptr || e->device == nullptr) return;
    if (e->device != &DeviceImpl::Get(e->device->index())) return;
    e->device->Wait(e->stream, e->sequence);
  }

  void destroyEvent(void* event,
                    const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }

  double elapsedTime(void* start, void* end,
                     const c10::DeviceIndex) const override {
    const auto* first = static_cast<const Event*>(start);
    const auto* second = static_cast<const Event*>(end);
    TORCH_CHECK(first != nullptr && second != nullptr &&
                    first->device != nullptr && second->device != nullptr,
                "Both events must be recorded before calculating elapsed "
                "time.");
    TORCH_CHECK(first->has_time && second->has_time,
                "Both events must be created with argument "
                "'enable_timing=True'.");
    return (TimeNs(*second) - TimeNs(*first)) / 1e6;
  }

  void recordDataPtrOnStream(const c10::DataPtr& data,
                             const c10::Stream& stream) const override {
    DeviceAllocator::Get().recordStream(data, stream);
  }

 private:
  static double TimeNs(const Event& event) {
    client::Result<uint64_t> time =
        event.device->stream(event.stream).MarkerTimeNs(event.marker);
    TVARANT_THROW_IF_ERROR(time.status());
    return static_cast<double>(time.value());
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, DeviceGuard)

}  // namespace
}  // namespace tvarant::torch_plugin

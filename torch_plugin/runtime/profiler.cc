// What torch.profiler asks a device for: marks in the stream with their times.
//
// The profiler records one before and one after each operator; the time between
// the two is what the device spent on it.

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <memory>

#include "torch_plugin/runtime/device.h"

namespace tvarant::torch_plugin {
namespace {

using torch::profiler::impl::ProfilerStubs;
using torch::profiler::impl::ProfilerVoidEventStub;

constexpr auto kType = c10::DeviceType::PrivateUse1;

struct TvarantProfilerStubs final : ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event,
              int64_t* cpu_ns) const override {
    const c10::impl::VirtualGuardImpl guard(kType);
    const c10::Device current = guard.getDevice();
    if (device != nullptr) *device = current.index();
    auto made =
        std::make_shared<c10::Event>(kType, c10::EventFlag::BACKEND_DEFAULT);
    made->record(guard.getStream(current));
    *event = std::move(made);
    if (cpu_ns != nullptr) *cpu_ns = c10::getTime();
  }

  // Microseconds. Waits until the device has passed both.
  float elapsed(const ProfilerVoidEventStub* first,
                const ProfilerVoidEventStub* second) const override {
    const auto& begin = *std::static_pointer_cast<c10::Event>(*first);
    const auto& end = *std::static_pointer_cast<c10::Event>(*second);
    begin.synchronize();
    end.synchronize();
    return static_cast<float>(begin.elapsedTime(end) * 1e3);
  }

  // There is no tool on the device's side to show ranges to.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}

  bool enabled() const override { return true; }

  void onEachDevice(std::function<void(int)> op) const override {
    for (c10::DeviceIndex i = 0; i < Device::Count(); ++i) op(i);
  }

  void synchronize() const override {
    Device* device = Device::GetIfConnected(CurrentDevice());
    if (device != nullptr) device->Synchronize();
  }
};

const bool g_registered = [] {
  static TvarantProfilerStubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
  return true;
}();

}  // namespace
}  // namespace tvarant::torch_plugin

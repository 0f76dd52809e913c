// Finding, making and replacing the process's device; errors; current device
// and stream of a thread.

#include "torch_plugin/runtime/device.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>
#include <mutex>

#include "torch_plugin/runtime/arena.h"
#include "torch_plugin/runtime/connection.h"
#include "torch_plugin/runtime/device_impl.h"
#include "torch_plugin/runtime/device_index.h"

namespace tvarant::torch_plugin {

namespace {

std::atomic<DeviceImpl*> g_devices[kDeviceLimit] = {};
std::atomic<DeviceImpl*> g_newest{nullptr};  // heads the list of all
std::atomic<bool> g_connecting{false};
std::atomic<bool> g_bad_fork{false};

thread_local c10::DeviceIndex t_device = 0;
thread_local c10::StreamId t_streams[kDeviceLimit] = {};

// -1 is the current one.
c10::DeviceIndex Resolve(c10::DeviceIndex index) noexcept {
  return index < 0 ? t_device : index;
}

// In a forked child the sockets, threads and mappings of the parent are not
// ours. Nothing here locks, allocates or frees.
void ForkChildHandler() {
  DeviceImpl* newest = g_newest.load(std::memory_order_acquire);
  if (newest == nullptr && !g_connecting.load()) return;
  g_bad_fork.store(true);
  for (auto& device : g_devices) device.store(nullptr);
  if (Arena* arena = Arena::GetIfMade()) arena->ForkChild();
  for (DeviceImpl* device = newest; device != nullptr; device = device->older) {
    device->ForkChild();
  }
}

[[maybe_unused]] const int g_atfork =
    pthread_atfork(nullptr, nullptr, &ForkChildHandler);

DeviceImpl& GetSlowly(c10::DeviceIndex index) {
  CheckDeviceIndex(index);
  TORCH_CHECK(!g_bad_fork.load(),
              "Cannot re-initialize tvarant in forked subprocess. To use "
              "tvarant with multiprocessing, you must use the 'spawn' start "
              "method");
  static std::mutex* mutex = new std::mutex;
  std::lock_guard<std::mutex> lock(*mutex);
  DeviceImpl* device = g_devices[index].load(std::memory_order_acquire);
  if (device != nullptr) {
    if (!device->lost()) return *device;
    // Work may have been lost without anybody waiting for it: say so once.
    if (device->TakeLossReport()) ThrowStatus(device->session().death());
  }
  g_connecting.store(true);
  struct Connecting {
    ~Connecting() { g_connecting.store(false); }
  } connecting;
  client::Result<Connection> connection = Connect(index);
  TVARANT_THROW_IF_ERROR(connection.status());
  DeviceImpl* newest = g_newest.load();
  auto* made =
      new DeviceImpl(index, newest == nullptr ? 1 : newest->epoch() + 1,
                     std::move(connection.value()));
  made->older = newest;
  g_newest.store(made, std::memory_order_release);
  g_devices[index].store(made, std::memory_order_release);
  if (device != nullptr) device->Abandon();
  return *made;
}

// Kernels whose ops raise no IndexError for an index out of range. The text
// begins with the kernel's name.
bool IsRuntimeErrorOfPyTorch(const std::string& text) {
  for (const char* kernel :
       {"gather:", "scatter:", "scatter_add:", "embedding_bag:"}) {
    if (text.rfind(kernel, 0) == 0) return true;
  }
  return false;
}

}  // namespace

void ThrowStatus(const client::Status& status) {
  // The check names the op itself.
  constexpr const char kCheck[] = "within: ";
  const bool is_check = status.message().rfind(kCheck, 0) == 0;
  const std::string text =
      status.message().substr(is_check ? sizeof(kCheck) - 1 : 0);
  switch (status.code()) {
    case client::Code::kResourceExhausted:
      TORCH_CHECK_WITH(OutOfMemoryError, false, text);
    case client::Code::kOutOfRange:
      TORCH_CHECK(!IsRuntimeErrorOfPyTorch(text), text);
      TORCH_CHECK_INDEX(false, text);
    case client::Code::kUnimplemented:
      TORCH_CHECK_NOT_IMPLEMENTED(false, text);
    case client::Code::kUnavailable:
      for (auto& entry : g_devices) {
        DeviceImpl* device = entry.load(std::memory_order_acquire);
        if (device != nullptr && device->lost() &&
            device->session().death().message() == text) {
          device->MarkLossReported();
        }
      }
      throw c10::AcceleratorError({__func__, __FILE__, uint32_t{__LINE__}},
                                  static_cast<int32_t>(status.code()), text);
    default:
      TORCH_CHECK(false, text);
  }
  TORCH_CHECK(false, text);  // not reached
}

Device& Device::Get(c10::DeviceIndex index) {
  const c10::DeviceIndex resolved = Resolve(index);
  if (C10_LIKELY(resolved < kDeviceLimit)) {
    DeviceImpl* device = g_devices[resolved].load(std::memory_order_acquire);
    if (C10_LIKELY(device != nullptr && !device->lost())) return *device;
  }
  return GetSlowly(resolved);
}

Device* Device::GetIfConnected(c10::DeviceIndex index) noexcept {
  const c10::DeviceIndex resolved = Resolve(index);
  if (resolved >= kDeviceLimit) return nullptr;
  return g_devices[resolved].load(std::memory_order_acquire);
}

void CheckDeviceIndex(int64_t index) {
  // The first has an error of its own when there is none.
  if (index == 0) return;
  const int count = Device::Count();
  TORCH_CHECK(index > 0 && index < count, "invalid device ordinal ", index,
              ": tvarant has ", count, count == 1 ? " device" : " devices");
}

c10::DeviceIndex Device::Count() noexcept {
  // The autograd engine and others size tables by the first answer.
  static const c10::DeviceIndex count =
      static_cast<c10::DeviceIndex>(MayConnect() ? EndpointCount() : 0);
  return count;
}

client::Stream& Device::current_stream() {
  return stream(CurrentStreamId(index()));
}

c10::DeviceIndex CurrentDevice() noexcept { return t_device; }

c10::DeviceIndex ExchangeDevice(c10::DeviceIndex index) noexcept {
  const c10::DeviceIndex previous = t_device;
  if (index >= 0 && index < kDeviceLimit) t_device = index;
  return previous;
}

c10::StreamId CurrentStreamId(c10::DeviceIndex index) noexcept {
  return t_streams[Resolve(index)];
}

c10::StreamId ExchangeStreamId(c10::DeviceIndex index,
                               c10::StreamId id) noexcept {
  c10::StreamId& current = t_streams[Resolve(index)];
  const c10::StreamId previous = current;
  current = id;
  return previous;
}

bool InBadFork() noexcept { return g_bad_fork.load(std::memory_order_relaxed); }

}  // namespace tvarant::torch_plugin

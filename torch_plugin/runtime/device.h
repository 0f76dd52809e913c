// The plugin's devices: connection, streams and memory behind the PyTorch
// device "tvarant".
//
// One process-wide Device per index, connected lazily at first use. All of
// this is GIL-free and safe to call from any thread. In a forked child every
// use raises PyTorch's error and nothing touches gRPC.
//
// Example (an op):
//   Device& device = Device::Get(self.device().index());
//   device.Launch(params);    // current stream of this thread

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_DEVICE_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_DEVICE_H_

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "proto/wire/launch_params.h"

namespace tvarant::torch_plugin {

// Raises the PyTorch error that fits a client status: OutOfMemoryError for
// kResourceExhausted, IndexError for kOutOfRange (but where PyTorch's op raises
// none), NotImplementedError for kUnimplemented, RuntimeError else.
[[noreturn]] void ThrowStatus(const client::Status& status);

#define TVARANT_THROW_IF_ERROR(expr)                        \
  do {                                                      \
    ::tvarant::client::Status tvarant_status = (expr);      \
    if (__builtin_expect(!tvarant_status.ok(), 0)) {        \
      ::tvarant::torch_plugin::ThrowStatus(tvarant_status); \
    }                                                       \
  } while (false)

// Where an address of the device's reserved range lies.
struct Location {
  uint64_t segment = 0;
  uint64_t offset_bytes = 0;
};

inline constexpr int kMaxDevices = 1;  // until several endpoints are served

class Device {
 public:
  // Connects at first use. Raises RuntimeError with one sentence when no
  // daemon can be reached or started, and in a forked child.
  static Device& Get(c10::DeviceIndex index);
  // The device if it is connected, else null. Never raises, never connects.
  static Device* GetIfConnected(c10::DeviceIndex index) noexcept;

  // Number of devices; answers from configuration, never connects.
  static c10::DeviceIndex Count() noexcept;

  virtual ~Device() = default;

  virtual client::Session& session() = 0;
  virtual c10::DeviceIndex index() const = 0;
  virtual const client::DeviceProperties& properties() const = 0;

  // True when the simulator's memory can be read and written at its address
  // (after the streams that use it have passed).
  virtual bool is_mapped() const = 0;

  // Address in the reserved range -> place in device memory. Wait-free. The
  // address must lie in a live allocation (or be null: {0, 0}).
  virtual Location Locate(const void* address) const = 0;
  // True when an address lies in this device's reserved range.
  virtual bool Owns(const void* address) const = 0;

  // Stream by its PyTorch id (0 = default).
  virtual client::Stream& stream(c10::StreamId id) = 0;
  // This thread's current stream on this device.
  client::Stream& current_stream();

  // Queues a launch on this thread's current stream; waits for it when
  // TVARANT_LAUNCH_BLOCKING=1. Raises on error.
  virtual void Launch(const LaunchParams& params) = 0;
  // Handle of a program; cached by content.
  virtual uint64_t DefineProgram(const Program& program) = 0;
  // Changes when the session is replaced (the daemon was lost, a new one
  // serves): program handles kept from an earlier epoch are void. Wait-free.
  virtual uint64_t epoch() const = 0;

  // Waits for all streams; raises the first latched error of any.
  virtual void Synchronize() = 0;
};

// Thread-local current device and stream, as CUDA's.
c10::DeviceIndex CurrentDevice() noexcept;
c10::DeviceIndex ExchangeDevice(c10::DeviceIndex index) noexcept;
c10::StreamId CurrentStreamId(c10::DeviceIndex index) noexcept;
c10::StreamId ExchangeStreamId(c10::DeviceIndex index,
                               c10::StreamId id) noexcept;

// True in a process forked after the device was used.
bool InBadFork() noexcept;

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_DEVICE_H_

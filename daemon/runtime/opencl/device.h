// The OpenCL devices of this machine, and one of them opened.
//
// Everything goes through the ICD loader. Listing a device's properties opens
// no context.

#ifndef TVARANT_DAEMON_RUNTIME_OPENCL_DEVICE_H_
#define TVARANT_DAEMON_RUNTIME_OPENCL_DEVICE_H_

#include <CL/cl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/jit/cl_handle.h"

namespace tvarant::opencl {

// In the order in which a device is taken where nobody chooses.
enum class DeviceKind { kTvarant, kAccelerator, kGpu, kOther };

// What kernels and their launches are chosen by.
struct DeviceTraits {
  std::string platform_name;
  std::string platform_version;
  std::string name;
  std::string vendor;
  std::string device_version;
  std::string driver_version;
  DeviceKind kind = DeviceKind::kOther;
  bool is_cpu = false;
  bool is_nvidia = false;
  bool has_double = false;
  bool correctly_rounded_divide = false;  // for float, on request
  uint32_t compute_units = 1;
  uint32_t max_group_size = 1;
  // Work-items of a group where a kernel has no reason to choose: a multiple
  // of 32, and 32 on the Tvarant card.
  uint32_t group_size = 32;
  uint64_t local_bytes = 0;
  uint64_t global_bytes = 0;
  uint64_t max_buffer_bytes = 0;
};

// Which devices to take. Empty: the default. A name is a part of the real
// name, case ignored; a number counts from 0, devices within the platforms
// that match.
struct DeviceChoice {
  std::string platform = {};
  std::string device = {};  // one, or several with commas
  // Overrides DeviceTraits::group_size; 0: chosen by the device.
  uint32_t group_size = 0;
};

struct FoundDevice {
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;
  DeviceTraits traits;
};

// All devices of all platforms, in the loader's order. Empty where there is
// none. INTERNAL if the loader fails.
absl::StatusOr<std::vector<FoundDevice>> ListDevices();

// The chosen ones of `found`. Without a choice: the Tvarant cards, else the
// accelerators, else the GPUs, else the CPUs, of the first platform that has
// one. NOT_FOUND, with a list of what there is, if nothing matches.
absl::StatusOr<std::vector<FoundDevice>> ChooseDevices(
    const std::vector<FoundDevice>& found, const DeviceChoice& choice);

// A device with a context. Thread-safe.
class Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> Open(const FoundDevice& found);

  const DeviceTraits& traits() const { return traits_; }
  cl_device_id id() const { return id_; }
  cl_context context() const { return context_.get(); }

  absl::StatusOr<ClHandle<cl_command_queue>> MakeQueue() const;

 private:
  Device(const FoundDevice& found, ClHandle<cl_context> context);

  const DeviceTraits traits_;
  const cl_device_id id_;
  const ClHandle<cl_context> context_;
};

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_RUNTIME_OPENCL_DEVICE_H_

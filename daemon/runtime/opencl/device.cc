#include "daemon/runtime/opencl/device.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/jit/cl_status.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

// From cl_khr_icd: the loader found no platform.
constexpr cl_int kNoPlatforms = -1001;

bool ContainsIgnoreCase(absl::string_view text, absl::string_view part) {
  return absl::StrContains(absl::AsciiStrToLower(text),
                           absl::AsciiStrToLower(part));
}

std::string PlatformText(cl_platform_id platform, cl_platform_info what) {
  size_t size = 0;
  if (clGetPlatformInfo(platform, what, 0, nullptr, &size) != CL_SUCCESS) {
    return "";
  }
  std::string text(size, '\0');
  if (clGetPlatformInfo(platform, what, size, text.data(), nullptr) !=
      CL_SUCCESS) {
    return "";
  }
  return std::string(absl::StripAsciiWhitespace(text.c_str()));
}

std::string DeviceText(cl_device_id device, cl_device_info what) {
  size_t size = 0;
  if (clGetDeviceInfo(device, what, 0, nullptr, &size) != CL_SUCCESS) return "";
  std::string text(size, '\0');
  if (clGetDeviceInfo(device, what, size, text.data(), nullptr) != CL_SUCCESS) {
    return "";
  }
  return std::string(absl::StripAsciiWhitespace(text.c_str()));
}

// 0 where the device does not say.
template <typename T>
T DeviceNumber(cl_device_id device, cl_device_info what) {
  T value = 0;
  if (clGetDeviceInfo(device, what, sizeof(value), &value, nullptr) !=
      CL_SUCCESS) {
    return 0;
  }
  return value;
}

DeviceKind KindOf(const DeviceTraits& traits, cl_device_type type) {
  if (ContainsIgnoreCase(traits.name, "tvarant") ||
      ContainsIgnoreCase(traits.vendor, "tvarant")) {
    return DeviceKind::kTvarant;
  }
  if (type & CL_DEVICE_TYPE_ACCELERATOR) return DeviceKind::kAccelerator;
  if (type & CL_DEVICE_TYPE_GPU) return DeviceKind::kGpu;
  return DeviceKind::kOther;
}

uint32_t DefaultGroupSize(const DeviceTraits& traits) {
  const uint32_t size = traits.kind == DeviceKind::kTvarant ? 32
                        : traits.is_cpu                     ? 64
                                                            : 256;
  return std::max<uint32_t>(1, std::min(size, traits.max_group_size));
}

DeviceTraits ReadTraits(cl_platform_id platform, cl_device_id id) {
  DeviceTraits traits;
  traits.platform_name = PlatformText(platform, CL_PLATFORM_NAME);
  traits.platform_version = PlatformText(platform, CL_PLATFORM_VERSION);
  traits.name = DeviceText(id, CL_DEVICE_NAME);
  traits.vendor = DeviceText(id, CL_DEVICE_VENDOR);
  traits.device_version = DeviceText(id, CL_DEVICE_VERSION);
  traits.driver_version = DeviceText(id, CL_DRIVER_VERSION);
  const auto type = DeviceNumber<cl_device_type>(id, CL_DEVICE_TYPE);
  traits.kind = KindOf(traits, type);
  traits.is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
  traits.is_nvidia = ContainsIgnoreCase(traits.vendor, "nvidia");
  traits.has_double =
      DeviceNumber<cl_device_fp_config>(id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  traits.correctly_rounded_divide =
      (DeviceNumber<cl_device_fp_config>(id, CL_DEVICE_SINGLE_FP_CONFIG) &
       CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  traits.compute_units =
      std::max(1u, DeviceNumber<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS));
  traits.max_group_size = static_cast<uint32_t>(std::max<size_t>(
      1, DeviceNumber<size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE)));
  traits.local_bytes = DeviceNumber<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE);
  traits.global_bytes = DeviceNumber<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE);
  traits.max_buffer_bytes =
      DeviceNumber<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  traits.group_size = DefaultGroupSize(traits);
  return traits;
}

std::string Describe(const std::vector<FoundDevice>& found) {
  if (found.empty()) {
    return "no OpenCL device was found: is a driver (ICD) installed? "
           "`clinfo -l` lists what the loader sees";
  }
  std::string text = "there is:";
  cl_platform_id last = nullptr;
  int platform = -1, device = 0;
  for (const FoundDevice& each : found) {
    if (each.platform != last) {
      last = each.platform;
      device = 0;
      absl::StrAppend(&text, platform >= 0 ? ";" : "", " platform ",
                      platform + 1, " \"", each.traits.platform_name,
                      "\" with");
      ++platform;
    }
    absl::StrAppend(&text, device > 0 ? "," : "", " device ", device, " \"",
                    each.traits.name, "\"");
    ++device;
  }
  return text;
}

// Keeps those whose name or number (as `number_of` counts) is `wanted`.
bool Matches(absl::string_view wanted, int number, const std::string& name) {
  int as_number = 0;
  if (absl::SimpleAtoi(wanted, &as_number)) return as_number == number;
  return ContainsIgnoreCase(name, wanted);
}

}  // namespace

absl::StatusOr<std::vector<FoundDevice>> ListDevices() {
  cl_uint num_platforms = 0;
  cl_int error = clGetPlatformIDs(0, nullptr, &num_platforms);
  if (error == kNoPlatforms || num_platforms == 0) {
    return std::vector<FoundDevice>();
  }
  if (error != CL_SUCCESS) return ClStatus(error, "clGetPlatformIDs");
  std::vector<cl_platform_id> platforms(num_platforms);
  RETURN_IF_CL_ERROR(
      clGetPlatformIDs(num_platforms, platforms.data(), nullptr));
  std::vector<FoundDevice> found;
  for (const cl_platform_id platform : platforms) {
    cl_uint count = 0;
    // A platform without devices is no error.
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) !=
        CL_SUCCESS) {
      continue;
    }
    std::vector<cl_device_id> ids(count);
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(),
                       nullptr) != CL_SUCCESS) {
      continue;
    }
    for (const cl_device_id id : ids) {
      found.push_back({platform, id, ReadTraits(platform, id)});
    }
  }
  return found;
}

absl::StatusOr<std::vector<FoundDevice>> ChooseDevices(
    const std::vector<FoundDevice>& found, const DeviceChoice& choice) {
  // Platforms count in the order of their first device.
  std::vector<FoundDevice> on_platform;
  cl_platform_id last = nullptr;
  int platform = -1;
  for (const FoundDevice& device : found) {
    if (device.platform != last) {
      last = device.platform;
      ++platform;
    }
    if (choice.platform.empty() ||
        Matches(choice.platform, platform, device.traits.platform_name)) {
      on_platform.push_back(device);
    }
  }
  if (on_platform.empty()) {
    return absl::NotFoundError(
        choice.platform.empty()
            ? Describe(found)
            : absl::StrCat("no OpenCL platform is or contains \"",
                           choice.platform, "\"; ", Describe(found)));
  }

  std::vector<FoundDevice> chosen;
  if (choice.device.empty()) {
    const auto best =
        std::min_element(on_platform.begin(), on_platform.end(),
                         [](const FoundDevice& a, const FoundDevice& b) {
                           return a.traits.kind < b.traits.kind;
                         });
    for (const FoundDevice& device : on_platform) {
      if (device.platform == best->platform &&
          device.traits.kind == best->traits.kind) {
        chosen.push_back(device);
      }
    }
  } else {
    for (const absl::string_view wanted : absl::StrSplit(choice.device, ',')) {
      const size_t before = chosen.size();
      int number = 0;
      for (const FoundDevice& device : on_platform) {
        if (Matches(absl::StripAsciiWhitespace(wanted), number++,
                    device.traits.name)) {
          chosen.push_back(device);
        }
      }
      if (chosen.size() == before) {
        return absl::NotFoundError(
            absl::StrCat("no OpenCL device is or contains \"", wanted, "\"; ",
                         Describe(found)));
      }
    }
  }
  for (FoundDevice& device : chosen) {
    if (choice.group_size == 0) continue;
    if (choice.group_size > device.traits.max_group_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "work-groups of ", choice.group_size, " asked for, but \"",
          device.traits.name, "\" has at most ", device.traits.max_group_size));
    }
    device.traits.group_size = choice.group_size;
  }
  return chosen;
}

Device::Device(const FoundDevice& found, ClHandle<cl_context> context)
    : traits_(found.traits), id_(found.id), context_(std::move(context)) {}

absl::StatusOr<std::unique_ptr<Device>> Device::Open(const FoundDevice& found) {
  const cl_context_properties properties[] = {
      CL_CONTEXT_PLATFORM,
      reinterpret_cast<cl_context_properties>(found.platform), 0};
  cl_int error = CL_SUCCESS;
  ClHandle<cl_context> context(
      clCreateContext(properties, 1, &found.id, nullptr, nullptr, &error));
  RETURN_IF_ERROR(ClStatus(error, "clCreateContext"));
  return absl::WrapUnique(new Device(found, std::move(context)));
}

absl::StatusOr<ClHandle<cl_command_queue>> Device::MakeQueue() const {
  cl_int error = CL_SUCCESS;
  // The 1.2 call, which every driver has. In order, without profiling: events
  // of a profiling queue cost more than a launch on NVIDIA's driver.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  ClHandle<cl_command_queue> queue(
      clCreateCommandQueue(context_.get(), id_, 0, &error));
#pragma GCC diagnostic pop
  RETURN_IF_ERROR(ClStatus(error, "clCreateCommandQueue"));
  return queue;
}

}  // namespace tvarant::opencl

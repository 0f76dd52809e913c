// torch_tvarant._C: what the Python package asks of the plugin.
//
// Loading it registers everything with PyTorch and starts nothing. Whatever
// may wait releases the GIL.

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <string>
#include <utility>

#include "torch_plugin/aten/copy_ops.h"
#include "torch_plugin/aten/fallback.h"
#include "torch_plugin/runtime/allocator.h"
#include "torch_plugin/runtime/autograd_threads.h"
#include "torch_plugin/runtime/connection.h"
#include "torch_plugin/runtime/device_impl.h"
#include "torch_plugin/runtime/device_index.h"
#include "torch_plugin/runtime/generator.h"

namespace tvarant::torch_plugin {
namespace {

namespace py = pybind11;
using torch::wrap_pybind_function;
using torch::wrap_pybind_function_no_gil;

c10::DeviceIndex ToIndex(int64_t device) {
  if (device < 0) return CurrentDevice();
  CheckDeviceIndex(device);
  return static_cast<c10::DeviceIndex>(device);
}

// --- Devices -----------------------------------------------------------------

bool IsAvailable() { return Device::Count() > 0; }
int64_t DeviceCount() { return Device::Count(); }
int64_t GetCurrentDevice() { return CurrentDevice(); }
void SetDevice(int64_t device) { ExchangeDevice(ToIndex(device)); }
int64_t Exchange(int64_t device) { return ExchangeDevice(ToIndex(device)); }
void Init() { Device::Get(CurrentDevice()); }
bool IsInBadFork() { return InBadFork(); }
// Calls `visit` with each device that has been connected.
template <typename Visit>
void ForEachConnected(Visit visit) {
  for (c10::DeviceIndex i = 0; i < Device::Count(); ++i) {
    if (DeviceImpl* device = DeviceImpl::GetIfConnected(i)) visit(*device);
  }
}

bool IsInitialized() {
  bool any = false;
  ForEachConnected([&any](DeviceImpl&) { any = true; });
  return any;
}

void Synchronize(int64_t device) {
  const c10::DeviceIndex index = ToIndex(device);
  // A device that was never used has nothing to wait for.
  if (Device::GetIfConnected(index) == nullptr && !InBadFork()) return;
  Device::Get(index).Synchronize();
}

std::string Backend() {
  Device* device = Device::GetIfConnected(CurrentDevice());
  return device != nullptr ? device->properties().runtime : BackendName();
}

c10::Device CurrentDeviceObject() {
  return c10::Device(c10::DeviceType::PrivateUse1, CurrentDevice());
}

py::dict Properties(int64_t device) {
  const c10::DeviceIndex index = ToIndex(device);
  DeviceImpl* impl;
  {
    py::gil_scoped_release no_gil;
    impl = &DeviceImpl::Get(index);
  }
  const client::DeviceProperties& properties = impl->properties();
  py::dict dict;
  dict["name"] = properties.name;
  dict["runtime"] = properties.runtime;
  dict["vendor"] = properties.vendor;
  dict["driver_version"] = properties.driver_version;
  dict["instruction_set"] = properties.instruction_set;
  dict["daemon_version"] = properties.daemon_version;
  dict["total_memory"] = properties.total_memory_bytes;
  dict["max_segment"] = properties.max_segment_bytes;
  dict["compute_units"] = properties.compute_units;
  dict["simt_width"] = properties.simt_width;
  dict["endpoint"] = impl->endpoint();
  dict["mapped"] = impl->is_mapped();
  return dict;
}

int64_t DaemonPid() {
  DeviceImpl* device = DeviceImpl::GetIfConnected(CurrentDevice());
  return device == nullptr ? 0 : device->daemon_pid();
}

std::string Endpoint() {
  DeviceImpl* device = DeviceImpl::GetIfConnected(CurrentDevice());
  return device == nullptr ? std::string() : device->endpoint();
}

py::dict Counters() {
  // Of all devices together.
  client::Counters counters;
  ForEachConnected([&counters](DeviceImpl& device) {
    const client::Counters of_one = device.session().counters();
    counters.launches += of_one.launches;
    counters.records += of_one.records;
    counters.batches += of_one.batches;
    counters.round_trips += of_one.round_trips;
    counters.uploaded_bytes += of_one.uploaded_bytes;
    counters.downloaded_bytes += of_one.downloaded_bytes;
  });
  py::dict dict;
  dict["launches"] = counters.launches;
  dict["records"] = counters.records;
  dict["batches"] = counters.batches;
  dict["round_trips"] = counters.round_trips;
  dict["uploaded_bytes"] = counters.uploaded_bytes;
  dict["downloaded_bytes"] = counters.downloaded_bytes;
  dict["copied_between_devices_bytes"] = BytesCopiedBetweenDevices();
  return dict;
}

// --- Memory
// --------------------------------------------------------------------

std::pair<size_t, size_t> MemGetInfo(int64_t device) {
  return DeviceAllocator::Get().getMemoryInfo(ToIndex(device));
}

py::dict GetMemoryStats(int64_t device) {
  using c10::CachingAllocator::Stat;
  using c10::CachingAllocator::StatArray;
  const c10::CachingDeviceAllocator::DeviceStats stats =
      DeviceAllocator::Get().getDeviceStats(ToIndex(device));
  py::dict dict;
  auto add = [&dict](const std::string& name, const Stat& stat) {
    dict[py::str(name + ".current")] = stat.current;
    dict[py::str(name + ".peak")] = stat.peak;
    dict[py::str(name + ".allocated")] = stat.allocated;
    dict[py::str(name + ".freed")] = stat.freed;
  };
  auto add_all = [&add](const std::string& name, const StatArray& stat) {
    add(name + ".all", stat[0]);
    add(name + ".small_pool", stat[1]);
    add(name + ".large_pool", stat[2]);
  };
  add_all("allocation", stats.allocation);
  add_all("segment", stats.segment);
  add_all("active", stats.active);
  add_all("inactive_split", stats.inactive_split);
  add_all("allocated_bytes", stats.allocated_bytes);
  add_all("reserved_bytes", stats.reserved_bytes);
  add_all("active_bytes", stats.active_bytes);
  add_all("inactive_split_bytes", stats.inactive_split_bytes);
  add_all("requested_bytes", stats.requested_bytes);
  add("oversize_allocations", stats.oversize_allocations);
  add("oversize_segments", stats.oversize_segments);
  dict["num_alloc_retries"] = stats.num_alloc_retries;
  dict["num_ooms"] = stats.num_ooms;
  dict["num_sync_all_streams"] = stats.num_sync_all_streams;
  dict["num_device_alloc"] = stats.num_device_alloc;
  dict["num_device_free"] = stats.num_device_free;
  dict["max_split_size"] = stats.max_split_size;
  return dict;
}

void ResetPeakMemoryStats(int64_t device) {
  DeviceAllocator::Get().resetPeakStats(ToIndex(device));
}
void ResetAccumulatedMemoryStats(int64_t device) {
  DeviceAllocator::Get().resetAccumulatedStats(ToIndex(device));
}
void EmptyCache() { DeviceAllocator::Get().emptyCache(); }

py::list MemorySnapshot(int64_t device) {
  py::list list;
  DeviceImpl* impl = DeviceImpl::GetIfConnected(ToIndex(device));
  if (impl == nullptr) return list;
  for (const SegmentSnapshot& segment : impl->allocator().Snapshot()) {
    py::list blocks;
    uint64_t address = segment.address;
    uint64_t allocated = 0, active = 0, requested = 0;
    for (const SegmentSnapshot::Part& part : segment.parts) {
      py::dict block;
      block["address"] = address;
      block["size"] = part.size_bytes;
      block["requested_size"] = part.requested_bytes;
      block["state"] = part.is_allocated ? "active_allocated"
                       : part.is_active  ? "active_pending_free"
                                         : "inactive";
      blocks.append(block);
      address += part.size_bytes;
      if (part.is_allocated) allocated += part.size_bytes;
      if (part.is_active) active += part.size_bytes;
      requested += part.requested_bytes;
    }
    py::dict entry;
    entry["device"] = static_cast<int>(impl->index());
    entry["address"] = segment.address;
    entry["total_size"] = segment.size_bytes;
    entry["allocated_size"] = allocated;
    entry["active_size"] = active;
    entry["requested_size"] = requested;
    entry["stream"] = segment.stream;
    entry["segment_type"] = segment.is_small ? "small" : "large";
    entry["blocks"] = blocks;
    list.append(entry);
  }
  return list;
}

// --- Random numbers ----------------------------------------------------------

at::Generator GetDefaultGenerator(int64_t device) {
  return DefaultGenerator(ToIndex(device));
}

void ManualSeed(uint64_t seed, int64_t device) {
  at::Generator generator = DefaultGenerator(ToIndex(device));
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

uint64_t InitialSeed(int64_t device) {
  at::Generator generator = DefaultGenerator(ToIndex(device));
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.current_seed();
}

at::Tensor GetRngState(int64_t device) {
  at::Generator generator = DefaultGenerator(ToIndex(device));
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void SetRngState(const at::Tensor& state, int64_t device) {
  at::Generator generator = DefaultGenerator(ToIndex(device));
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  using py::arg;
  m.doc() = "The native part of torch_tvarant.";
  RegisterStructuredFallbacks();
  m.def("is_available", wrap_pybind_function_no_gil(IsAvailable));
  m.def("device_count", wrap_pybind_function_no_gil(DeviceCount));
  m.def("current_device", wrap_pybind_function(GetCurrentDevice));
  m.def("set_device", wrap_pybind_function(SetDevice), arg("device"));
  m.def("exchange_device", wrap_pybind_function(Exchange), arg("device"));
  m.def("init", wrap_pybind_function_no_gil(Init));
  m.def("is_initialized", wrap_pybind_function(IsInitialized));
  m.def("synchronize", wrap_pybind_function_no_gil(Synchronize),
        arg("device") = -1);
  m.def("backend", wrap_pybind_function(Backend));
  m.def("device", wrap_pybind_function(CurrentDeviceObject));
  m.def("device_properties", wrap_pybind_function(Properties),
        arg("device") = -1);
  m.def("daemon_pid", wrap_pybind_function(DaemonPid));
  m.def("endpoint", wrap_pybind_function(Endpoint));
  m.def("counters", wrap_pybind_function(Counters));
  m.def("in_bad_fork", wrap_pybind_function(IsInBadFork));

  m.def("mem_get_info", wrap_pybind_function_no_gil(MemGetInfo),
        arg("device") = -1);
  m.def("memory_stats", wrap_pybind_function(GetMemoryStats),
        arg("device") = -1);
  m.def("reset_peak_memory_stats", wrap_pybind_function(ResetPeakMemoryStats),
        arg("device") = -1);
  m.def("reset_accumulated_memory_stats",
        wrap_pybind_function(ResetAccumulatedMemoryStats), arg("device") = -1);
  m.def("empty_cache", wrap_pybind_function_no_gil(EmptyCache));
  m.def("memory_snapshot", wrap_pybind_function(MemorySnapshot),
        arg("device") = -1);

  m.def("default_generator", wrap_pybind_function(GetDefaultGenerator),
        arg("device") = -1);
  m.def("manual_seed", wrap_pybind_function(ManualSeed), arg("seed"),
        arg("device") = -1);
  m.def("initial_seed", wrap_pybind_function(InitialSeed), arg("device") = -1);
  m.def("get_rng_state", wrap_pybind_function(GetRngState), arg("device") = -1);
  m.def("set_rng_state", wrap_pybind_function(SetRngState), arg("state"),
        arg("device") = -1);

  m.def("fallback_stats", wrap_pybind_function(FallbackStats));
  m.def("reset_fallback_stats", wrap_pybind_function(ResetFallbackStats));

  m.def("_set_daemon_path", wrap_pybind_function(SetDaemonPath), arg("path"));
  m.def("_wait_for_autograd_threads",
        wrap_pybind_function_no_gil(WaitForAutogradThreads), arg("timeout_ms"));
}

}  // namespace tvarant::torch_plugin

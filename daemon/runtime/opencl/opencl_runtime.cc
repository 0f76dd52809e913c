#include "daemon/runtime/opencl/opencl_runtime.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "daemon/jit/binary_store.h"
#include "daemon/jit/cl_status.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/runtime/host_backed.h"
#include "daemon/runtime/host_memory.h"
#include "daemon/runtime/opencl/driver_folders.h"
#include "daemon/runtime/opencl/host_run_counts.h"
#include "daemon/runtime/opencl/opencl_stream.h"
#include "proto/base/logging.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

using opencl::ClHandle;
using opencl::ClStatus;

// Left to the driver for programs, queues and pinned memory.
constexpr uint64_t kReservedBytes = 512 << 20;

uint64_t DefaultMemoryBytes(const opencl::DeviceTraits& traits) {
  if (traits.is_cpu) {
    return std::min(traits.global_bytes, UsableMemoryBytes() / 2);
  }
  return traits.global_bytes > 2 * kReservedBytes
             ? traits.global_bytes - kReservedBytes
             : traits.global_bytes / 2;
}

// All that a driver's binary may depend on.
std::string IdentityOf(const opencl::DeviceTraits& traits) {
  std::string identity =
      absl::StrCat(traits.platform_name, "\n", traits.platform_version, "\n",
                   traits.vendor, "\n", traits.name, "\n",
                   traits.device_version, "\n", traits.driver_version, "\n",
                   traits.compute_units, "\n", host::InstructionSetName());
  for (const char* variable : {"POCL_AFFINITY", "POCL_WORK_GROUP_METHOD",
                               "POCL_LLVM_CPU_NAME", "CUDA_FORCE_PTX_JIT"}) {
    const char* value = std::getenv(variable);
    absl::StrAppend(&identity, "\n", value == nullptr ? "" : value);
  }
  return identity;
}

// One device: its context, programs and memory.
class OpenedDevice {
 public:
  static absl::StatusOr<std::unique_ptr<OpenedDevice>> Open(
      const opencl::FoundDevice& found, uint64_t memory_bytes,
      const BinaryStore* store, host::ThreadPool& pool) {
    ASSIGN_OR_RETURN(std::unique_ptr<opencl::Device> device,
                     opencl::Device::Open(found));
    auto opened = absl::WrapUnique(
        new OpenedDevice(std::move(device), memory_bytes, store, pool));
    ASSIGN_OR_RETURN(opened->service_, opened->MakeStream());
    return opened;
  }

  const opencl::DeviceTraits& traits() const { return device_->traits(); }
  const MemoryAccount& account() const { return *account_; }
  const opencl::KernelCache& kernels() const { return kernels_; }
  const opencl::HostRunCounts& host_runs() const { return host_runs_; }

  absl::StatusOr<std::unique_ptr<opencl::OpenClStream>> MakeStream() {
    return opencl::OpenClStream::Create(
        {.device = *device_, .kernels = kernels_, .account = account_},
        {.pool = pool_, .counts = host_runs_});
  }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> MakeBuffer(uint64_t bytes) {
    ASSIGN_OR_RETURN(std::shared_ptr<void> charge, account_->Take(bytes));
    cl_int error = CL_SUCCESS;
    ClHandle<cl_mem> memory(clCreateBuffer(
        device_->context(), CL_MEM_READ_WRITE, bytes, nullptr, &error));
    RETURN_IF_ERROR(ClStatus(error, "clCreateBuffer"));
    {
      // What another had here must be gone before it is handed out.
      base::MutexLock lock(service_mutex_);
      RETURN_IF_ERROR(
          opencl::ZeroMemory(service_->context(), memory.get(), bytes));
      RETURN_IF_CL_ERROR(clFinish(service_->context().queue()));
    }
    return std::make_unique<opencl::OpenClBuffer>(bytes, std::move(charge),
                                                  std::move(memory));
  }

  absl::StatusOr<std::unique_ptr<StagingBuffer>> MakeStaging(uint64_t bytes) {
    ASSIGN_OR_RETURN(std::shared_ptr<void> charge, staging_->Take(bytes));
    ASSIGN_OR_RETURN(SealedMemory memory,
                     SealedMemory::Create("tvarant-staging", bytes));
    cl_int error = CL_SUCCESS;
    // Pinned once. Where the driver can't, transfers are slower and as right.
    ClHandle<cl_mem> pinned(clCreateBuffer(
        device_->context(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
        memory.size_bytes(), memory.data(), &error));
    if (error != CL_SUCCESS) {
      static base::LogLimiter limiter(1, 0.1);
      if (limiter.Allow()) {
        spdlog::warn("event=staging_not_pinned error={}",
                     opencl::ClErrorName(error));
      }
    }
    return std::make_unique<opencl::OpenClStaging>(
        bytes, std::move(charge), std::move(memory), std::move(pinned));
  }

 private:
  OpenedDevice(std::unique_ptr<opencl::Device> device, uint64_t memory_bytes,
               const BinaryStore* store, host::ThreadPool& pool)
      : device_(std::move(device)),
        account_(std::make_shared<MemoryAccount>(memory_bytes)),
        staging_(std::make_shared<MemoryAccount>(UsableMemoryBytes() / 2)),
        kernels_(device_->context(), device_->id(),
                 IdentityOf(device_->traits()), store),
        pool_(pool) {}

  const std::unique_ptr<opencl::Device> device_;
  const std::shared_ptr<MemoryAccount> account_;
  const std::shared_ptr<MemoryAccount> staging_;  // the host's memory
  opencl::KernelCache kernels_;
  opencl::HostRunCounts host_runs_;
  host::ThreadPool& pool_;
  base::Mutex service_mutex_;  // held while service_ is used
  std::unique_ptr<opencl::OpenClStream> service_;
};

class OpenClRuntime : public TvarantRuntime {
 public:
  OpenClRuntime(std::unique_ptr<BinaryStore> store, int num_threads)
      : store_(std::move(store)), pool_(num_threads) {}

  absl::Status Open(const std::vector<opencl::FoundDevice>& chosen,
                    uint64_t memory_bytes) {
    for (const opencl::FoundDevice& found : chosen) {
      const uint64_t bytes =
          memory_bytes != 0 ? memory_bytes : DefaultMemoryBytes(found.traits);
      if (bytes > found.traits.global_bytes) {
        return absl::InvalidArgumentError(absl::StrCat(
            "memory of ", bytes, " bytes asked for, but \"", found.traits.name,
            "\" has ", found.traits.global_bytes));
      }
      ASSIGN_OR_RETURN(std::unique_ptr<OpenedDevice> device,
                       OpenedDevice::Open(found, bytes, store_.get(), pool_));
      devices_.push_back(std::move(device));
    }
    return absl::OkStatus();
  }

  std::string name() const override { return "opencl"; }
  int device_count() const override {
    return static_cast<int>(devices_.size());
  }
  bool memory_is_mappable() const override { return false; }
  uint64_t free_memory_bytes(int device) const override {
    return devices_[device]->account().free_bytes();
  }

  KernelCacheInfo kernel_cache() const override {
    KernelCacheInfo info;
    for (const auto& device : devices_) {
      const opencl::KernelCacheCounts counts = device->kernels().counts();
      info.compiled += counts.compiled;
      info.loaded += counts.loaded;
      info.hits += counts.hits;
      info.failed += counts.failed;
      info.compile_ns += counts.compile_ns;
    }
    if (store_ == nullptr) return info;
    info.folder = store_->folder();
    for (const BinaryStore::Entry& entry : store_->List()) {
      info.entries.push_back({entry.key, entry.bytes, entry.last_used_s});
    }
    return info;
  }
  KernelCacheCleared ClearKernelCache() override {
    if (store_ == nullptr) return {};
    const BinaryStore::Cleared cleared = store_->Clear();
    return {cleared.entries, cleared.bytes};
  }
  std::vector<HostRun> host_runs() const override {
    std::vector<HostRun> runs;
    for (int id = 0; id < opencl::HostRunCounts::kSize; ++id) {
      HostRun run{static_cast<Kernel>(id), 0};
      for (const auto& device : devices_) {
        run.count += device->host_runs().Get(run.kernel);
      }
      if (run.count > 0) runs.push_back(run);
    }
    return runs;
  }

 private:
  RuntimeDeviceProperties DoGetProperties(int device) const override {
    const opencl::DeviceTraits& traits = devices_[device]->traits();
    RuntimeDeviceProperties properties;
    properties.name = traits.name;
    properties.vendor = traits.vendor;
    properties.driver_version = traits.driver_version;
    properties.instruction_set = traits.device_version;
    properties.total_memory_bytes = devices_[device]->account().total_bytes();
    properties.max_buffer_bytes =
        std::min(traits.max_buffer_bytes, properties.total_memory_bytes);
    properties.compute_units = traits.compute_units;
    properties.simt_width = 32;
    return properties;
  }
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> DoCreateBuffer(
      int device, uint64_t size_bytes) override {
    return devices_[device]->MakeBuffer(size_bytes);
  }
  absl::StatusOr<std::unique_ptr<StagingBuffer>> DoCreateStaging(
      uint64_t size_bytes) override {
    return devices_[0]->MakeStaging(size_bytes);
  }
  absl::StatusOr<std::unique_ptr<DeviceStream>> DoCreateStream(
      int device) override {
    return devices_[device]->MakeStream();
  }

  const std::unique_ptr<BinaryStore> store_;  // may be null
  host::ThreadPool pool_;
  std::vector<std::unique_ptr<OpenedDevice>> devices_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TvarantRuntime>> MakeOpenClRuntime(
    const OpenClOptions& options) {
  std::unique_ptr<BinaryStore> store;
  if (!options.cache_folder.empty()) {
    auto opened = BinaryStore::Open(options.cache_folder, options.cache_bytes);
    if (opened.ok()) {
      store = *std::move(opened);
    } else {
      spdlog::warn("event=no_kernel_cache error={}",
                   base::LogValue(std::string(opened.status().message())));
    }
  }
  const std::string folder = store == nullptr ? "" : store->folder();
  opencl::GivePoclAFolder(folder);
  opencl::GiveNvidiaAFolder(folder);
  ASSIGN_OR_RETURN(const auto found, opencl::ListDevices());
  ASSIGN_OR_RETURN(const auto chosen,
                   opencl::ChooseDevices(found, options.choice));
  auto runtime = std::make_unique<OpenClRuntime>(
      std::move(store),
      options.num_threads > 0 ? options.num_threads : UsableProcessors());
  RETURN_IF_ERROR(runtime->Open(chosen, options.memory_bytes));
  return runtime;
}

}  // namespace tvarant

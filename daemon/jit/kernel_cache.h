// KernelCache: OpenCL programs of one device, each built once.
//
// A program is known by a SHA-256 over everything its binary depends on: source
// text, options, platform, device and driver, and the version of this cache.
// It is looked for in memory, then in the store on disk, and only then
// compiled; a binary that the driver refuses is compiled anew.
//
// Example:
//   KernelCache cache(context, device, "PoCL 3.1 ...", store.get());
//   ASSIGN_OR_RETURN(auto program, cache.Get("softmax", text, "-DT=f32"));
//   clCreateKernel(program->get(), "softmax_forward", &error);

#ifndef TVARANT_DAEMON_JIT_KERNEL_CACHE_H_
#define TVARANT_DAEMON_JIT_KERNEL_CACHE_H_

#include <CL/cl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/jit/binary_store.h"
#include "daemon/jit/cl_handle.h"
#include "proto/base/mutex.h"

namespace tvarant::opencl {

// A built program. Kernels keep what they need of it alive by themselves.
class BuiltProgram {
 public:
  cl_program get() const { return program_.get(); }

 private:
  friend class KernelCache;
  ClHandle<cl_program> program_;
  std::string name_;
  std::string key_;
  std::atomic<bool> saved_{false};
};

struct KernelCacheCounts {
  uint64_t compiled = 0;    // from source
  uint64_t loaded = 0;      // from disk
  uint64_t hits = 0;        // in memory
  uint64_t failed = 0;      // that don't compile
  uint64_t compile_ns = 0;  // spent in the compiler
};

// What turns the driver's form of a program into another, before it runs.
// Returns the binary to build instead. Its version is part of the key.
struct BinaryPatch {
  std::string version;
  std::function<absl::StatusOr<std::string>(std::string)> apply;
};

// Thread-safe. A program that several ask for at once is built once.
class KernelCache {
 public:
  // `identity` names platform, device and driver with their versions. `store`
  // may be null: nothing is kept on disk. Both handles must outlive the cache.
  KernelCache(cl_context context, cl_device_id device, std::string identity,
              const BinaryStore* store, size_t max_programs = 4096)
      : context_(context),
        device_(device),
        identity_(std::move(identity)),
        store_(store),
        max_programs_(max_programs) {}

  // INTERNAL, with the name and the first line of the compiler's log, if it
  // does not build; the whole log goes to the daemon's log.
  absl::StatusOr<std::shared_ptr<BuiltProgram>> Get(
      const std::string& name, const std::string& source,
      const std::string& options, const BinaryPatch* patch = nullptr);

  // Writes to disk what has been compiled since the last call. Only once the
  // programs have run: some drivers finish the binary with the first launch.
  void SaveNew();
  bool has_new() const { return has_new_.load(std::memory_order_relaxed); }

  KernelCacheCounts counts() const;

 private:
  struct Slot {
    base::Mutex mutex;  // held while it is built
    std::shared_ptr<BuiltProgram> program ABSL_GUARDED_BY(mutex);
    std::list<std::string>::iterator age;
  };

  std::shared_ptr<Slot> FindSlot(const std::string& key);
  absl::StatusOr<ClHandle<cl_program>> FromBinary(const std::string& binary,
                                                  const std::string& options);
  absl::StatusOr<ClHandle<cl_program>> FromSource(const std::string& name,
                                                  const std::string& source,
                                                  const std::string& options);
  absl::StatusOr<ClHandle<cl_program>> Build(const std::string& name,
                                             const std::string& key,
                                             const std::string& source,
                                             const std::string& options,
                                             const BinaryPatch* patch,
                                             bool* from_store);

  const cl_context context_;
  const cl_device_id device_;
  const std::string identity_;
  const BinaryStore* const store_;
  const size_t max_programs_;

  base::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Slot>> slots_
      ABSL_GUARDED_BY(mutex_);
  // Keys, the one used last in front.
  std::list<std::string> ages_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<BuiltProgram>> new_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_new_{false};

  std::atomic<uint64_t> compiled_{0};
  std::atomic<uint64_t> loaded_{0};
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> compile_ns_{0};
};

// The binary that the driver made of a program: PTX text on NVIDIA.
absl::StatusOr<std::string> BinaryOf(cl_program program);

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_JIT_KERNEL_CACHE_H_

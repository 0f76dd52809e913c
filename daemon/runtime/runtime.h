// TvarantRuntime: the one abstract device that the daemon drives.
//
// A runtime makes buffers (device memory) and device streams. The server
// resolves and checks every handle, bound and shape before it calls a runtime
// (daemon/server/launch_resolver.h, proto/ops/shape_rules.h); public calls
// here check what is left once, then call a private virtual, so that a new
// runtime can't forget it.
//
// A runtime joins by one factory, called in main.cc alone.
//
// Example:
//   ASSIGN_OR_RETURN(auto runtime, MakeCpuSimRuntime({.memory_bytes = 4 GiB}));
//   ASSIGN_OR_RETURN(auto buffer, runtime->CreateBuffer(0, 1 << 20));
//   ASSIGN_OR_RETURN(auto stream, runtime->CreateStream(0));
//   RETURN_IF_ERROR(stream->Launch(launch));

#ifndef TVARANT_DAEMON_RUNTIME_RUNTIME_H_
#define TVARANT_DAEMON_RUNTIME_RUNTIME_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/base/yield_point.h"
#include "proto/ops/program.h"
#include "proto/wire/launch_params.h"

namespace tvarant {

struct RuntimeDeviceProperties {
  std::string name;
  std::string vendor;
  std::string driver_version;
  std::string instruction_set;
  uint64_t total_memory_bytes = 0;
  uint64_t max_buffer_bytes = 0;
  uint32_t compute_units = 1;
  uint32_t simt_width = 32;
};

// What a runtime that compiles kernels has compiled, and keeps on disk.
struct KernelCacheInfo {
  uint64_t compiled = 0;    // from source, since the start
  uint64_t loaded = 0;      // from disk
  uint64_t hits = 0;        // found in memory
  uint64_t failed = 0;      // that the compiler refused
  uint64_t compile_ns = 0;  // spent in the compiler
  std::string folder;       // empty: nothing is kept
  struct Entry {
    std::string key;  // NAME-DIGEST
    uint64_t bytes = 0;
    int64_t last_used_s = 0;  // Unix time
  };
  std::vector<Entry> entries;  // on disk, most recently used first
};

struct KernelCacheCleared {
  uint64_t entries = 0;
  uint64_t bytes = 0;
};

// Launches of one kernel that the device could not run itself.
struct HostRun {
  Kernel kernel = Kernel::kInvalid;
  uint64_t count = 0;
};

// Device memory. Zeroed when made. Owned by the session that made it; freed by
// the destructor, which the server calls only when no queued work uses it.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  uint64_t size_bytes() const { return size_bytes_; }

  // A sealed memfd over the memory that another process may map, or -1 where
  // device memory can't be shared. Owned by the buffer.
  virtual int shareable_fd() const { return -1; }

 protected:
  explicit DeviceBuffer(uint64_t size_bytes) : size_bytes_(size_bytes) {}

 private:
  uint64_t size_bytes_;
};

// Host memory that a client shares for uploads and downloads, in the form the
// runtime transfers fastest from.
class StagingBuffer {
 public:
  virtual ~StagingBuffer() = default;
  uint64_t size_bytes() const { return size_bytes_; }
  virtual int shareable_fd() const = 0;

 protected:
  explicit StagingBuffer(uint64_t size_bytes) : size_bytes_(size_bytes) {}

 private:
  uint64_t size_bytes_;
};

// An operand whose handle, bounds and strides have been checked: every element
// lies inside the buffer.
struct ResolvedOperand {
  // Null for an absent optional operand (dtype kInvalid), and perhaps for an
  // empty tensor.
  DeviceBuffer* buffer = nullptr;
  uint64_t offset_bytes = 0;
  DType dtype = DType::kInvalid;
  int rank = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;  // in elements
};

// A launch that has passed every check of proto/ops/shape_rules.h.
struct ResolvedLaunch {
  Kernel kernel = Kernel::kInvalid;
  Act act = Act::kNone;
  uint32_t flags = 0;
  const Program* program = nullptr;  // pointwise kernels
  uint64_t program_key = 0;          // identifies *program for caches
  int64_t m = 0, n = 0, k = 0, batch = 0;
  double alpha = 1, beta = 0, scalar = 0;
  absl::Span<const int64_t> ints = {};
  absl::Span<const double> floats = {};
  absl::Span<const ResolvedOperand> dst = {};
  absl::Span<const ResolvedOperand> src = {};
};

// Payload of the status that WhenDone gives: which of the launches since the
// last WhenDone it was, from 1, in decimal. Not there if nobody knows.
inline constexpr char kFailedLaunch[] = "tvarant/failed_launch";

// An in-order queue of one device. Thread-compatible: one thread at a time.
// Calls may return before the work is done; what they borrow (buffers, spans
// of host bytes) must live until WhenDone's callback has run.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;

  // Errors: UNIMPLEMENTED kernel or dtype not on this runtime; OUT_OF_RANGE a
  // bad index in the data (may come from WhenDone instead); INTERNAL.
  absl::Status Launch(const ResolvedLaunch& launch) { return DoLaunch(launch); }

  // Ranges are checked: INVALID_ARGUMENT if they pass an end.
  absl::Status Write(DeviceBuffer& dst, uint64_t offset_bytes,
                     absl::Span<const char> bytes);
  absl::Status Read(DeviceBuffer& src, uint64_t offset_bytes,
                    absl::Span<char> bytes);
  absl::Status CopyFromStaging(DeviceBuffer& dst, uint64_t dst_offset_bytes,
                               StagingBuffer& src, uint64_t src_offset_bytes,
                               uint64_t bytes);
  absl::Status CopyToStaging(StagingBuffer& dst, uint64_t dst_offset_bytes,
                             DeviceBuffer& src, uint64_t src_offset_bytes,
                             uint64_t bytes);
  // Ranges may overlap only if they are the same.
  absl::Status CopyBytes(DeviceBuffer& dst, uint64_t dst_offset_bytes,
                         DeviceBuffer& src, uint64_t src_offset_bytes,
                         uint64_t bytes);

  // True when every call above has finished its work by the time it returns.
  virtual bool is_synchronous() const { return false; }

  // Calls `done` once with the first error of the work queued so far when all
  // of it has finished, on any thread, possibly before this returns. Starts
  // the work if the runtime batches it.
  virtual void WhenDone(std::function<void(absl::Status)> done) = 0;

  // Monotonic device clock at the end of the work so far, nanoseconds.
  // Waits for it.
  virtual uint64_t SynchronizeAndGetTimeNs() = 0;

  // Once *cancelled is true nobody wants the results of the work queued so far
  // or later, and a runtime may leave it out. The flag outlives the stream.
  void set_cancelled(const std::atomic<bool>* cancelled) {
    cancelled_ = cancelled;
  }

  // Asked in long launches whether others are to be let in, by a runtime that
  // runs them on the calling thread. Not used while no call is under way.
  void set_yield_point(YieldPoint* yield_point) { yield_point_ = yield_point; }

 protected:
  // May be null.
  const std::atomic<bool>* cancelled() const { return cancelled_; }
  YieldPoint* yield_point() const { return yield_point_; }

 private:
  const std::atomic<bool>* cancelled_ = nullptr;
  YieldPoint* yield_point_ = nullptr;

  virtual absl::Status DoLaunch(const ResolvedLaunch& launch) = 0;
  virtual absl::Status DoWrite(DeviceBuffer& dst, uint64_t offset_bytes,
                               absl::Span<const char> bytes) = 0;
  virtual absl::Status DoRead(DeviceBuffer& src, uint64_t offset_bytes,
                              absl::Span<char> bytes) = 0;
  virtual absl::Status DoCopyFromStaging(DeviceBuffer& dst,
                                         uint64_t dst_offset_bytes,
                                         StagingBuffer& src,
                                         uint64_t src_offset_bytes,
                                         uint64_t bytes) = 0;
  virtual absl::Status DoCopyToStaging(StagingBuffer& dst,
                                       uint64_t dst_offset_bytes,
                                       DeviceBuffer& src,
                                       uint64_t src_offset_bytes,
                                       uint64_t bytes) = 0;
  virtual absl::Status DoCopyBytes(DeviceBuffer& dst, uint64_t dst_offset_bytes,
                                   DeviceBuffer& src, uint64_t src_offset_bytes,
                                   uint64_t bytes) = 0;
};

// Thread-safe.
class TvarantRuntime {
 public:
  virtual ~TvarantRuntime() = default;

  virtual std::string name() const = 0;  // "sim", "opencl"
  virtual int device_count() const = 0;

  // INVALID_ARGUMENT for an index outside [0, device_count()).
  absl::StatusOr<RuntimeDeviceProperties> GetProperties(int device) const;

  // True when CreateBuffer's memory has a shareable_fd().
  virtual bool memory_is_mappable() const = 0;

  // RESOURCE_EXHAUSTED with the asked and free bytes when there is not enough,
  // or more than max_buffer_bytes is asked for; INVALID_ARGUMENT for 0.
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> CreateBuffer(
      int device, uint64_t size_bytes);
  absl::StatusOr<std::unique_ptr<StagingBuffer>> CreateStaging(
      uint64_t size_bytes);
  absl::StatusOr<std::unique_ptr<DeviceStream>> CreateStream(int device);

  virtual uint64_t free_memory_bytes(int device) const = 0;

  // For the operator; all of them empty for a runtime that compiles nothing.
  virtual KernelCacheInfo kernel_cache() const { return {}; }
  // Forgets what is on disk.
  virtual KernelCacheCleared ClearKernelCache() { return {}; }
  virtual std::vector<HostRun> host_runs() const { return {}; }

 private:
  absl::Status CheckDevice(int device) const;

  virtual RuntimeDeviceProperties DoGetProperties(int device) const = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceBuffer>> DoCreateBuffer(
      int device, uint64_t size_bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<StagingBuffer>> DoCreateStaging(
      uint64_t size_bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceStream>> DoCreateStream(
      int device) = 0;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_RUNTIME_RUNTIME_H_

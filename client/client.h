// The client library: a device of tvarantd, from a C++ program.
//
// Plain C++ (no gRPC, protobuf, abseil or spdlog types), so that a program
// needs this header, proto/wire/launch_params.h, proto/ops/*.h and the library.
//
// Example:
//
//   auto session = client::Session::Connect({.endpoint = "unix:/run/t.sock"});
//   if (!session.ok()) return puts(session.status().message().c_str());
//
//   auto segment = session.value()->CreateSegment(1 << 20, nullptr);
//   auto stream = session.value()->CreateStream();
//
//   stream.value()->Upload(segment.value(), 0, data, bytes);
//
//   stream.value()->Launch(params);  // returns at once
//
//   Status status = stream.value()->Download(segment.value(), 0, out, bytes);
//
// Launches, uploads and events never wait for the daemon: ids and sequence
// numbers are made here, records go out in batches. What fails on the device
// latches on the stream; the first failure, with the op's name, is returned
// once by the next call that waits (Wait, Synchronize, Download). After that
// the stream goes on. Every wait ends when the daemon dies (UNAVAILABLE).
//
// After fork() the child must not use a session: ForkChild() in an atfork
// handler makes every call there return FAILED_PRECONDITION without touching
// gRPC.

#ifndef TVARANT_CLIENT_CLIENT_H_
#define TVARANT_CLIENT_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "proto/ops/program.h"
#include "proto/wire/launch_params.h"

namespace tvarant::client {

// Same numbers as google.rpc.Code.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kPermissionDenied = 7,
  kResourceExhausted = 8,   // free memory
  kFailedPrecondition = 9,  // fix state (wrong version, forked child)
  kOutOfRange = 11,         // a bad index in the data
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,  // the daemon can't be reached, or is lost
};

// One word when OK.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message);
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return ok() ? Code::kOk : rep_->code; }
  const std::string& message() const;

 private:
  struct Rep {
    Code code;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(Status status) : status_(std::move(status)) {}  // NOLINT
  Result(T value) : value_(std::move(value)) {}          // NOLINT
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  T& value() { return value_; }
  const T& value() const { return value_; }

 private:
  Status status_;
  T value_{};
};

struct DeviceProperties {
  std::string name;
  std::string runtime;  // "sim" or "opencl"
  std::string vendor;
  std::string driver_version;
  std::string instruction_set;
  std::string daemon_version;
  uint64_t total_memory_bytes = 0;
  uint64_t max_segment_bytes = 0;
  uint32_t compute_units = 0;
  uint32_t simt_width = 0;
  int device_count = 1;
};

struct MemoryInfo {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  uint64_t session_bytes = 0;
};

struct ConnectOptions {
  // "unix:PATH". An absent or foreign socket is UNAVAILABLE with one sentence.
  std::string endpoint;
  int device_index = 0;
  // Map device memory into this process where the runtime can share it.
  bool map_memory = true;
  // Use shared memory for progress and staging at all (false: everything goes
  // through gRPC, as for a remote daemon).
  bool shared_memory = true;
  int connect_timeout_ms = 10000;
  std::string client_name{};  // for the operator; empty: the process's name
};

// What left this process and what came back, since the session began.
struct Counters {
  uint64_t launches = 0;
  uint64_t records = 0;
  uint64_t batches = 0;
  // Times that a call had to wait for an answer of the daemon: calls of the
  // RPC kind, waits for progress that had not yet been made, reads by message.
  uint64_t round_trips = 0;
  uint64_t uploaded_bytes = 0;
  uint64_t downloaded_bytes = 0;
};

class Session;

// Host memory that the daemon reads and writes in place, as pinned memory of
// other devices. Page-aligned, zeroed. Stays valid when the session ends, then
// as ordinary memory; a forked child has a copy of its own. Thread-safe.
class HostMemory {
 public:
  virtual ~HostMemory() = default;  // queued work may still use it
  virtual void* data() const = 0;
  virtual uint64_t size_bytes() const = 0;
  virtual bool usable() const = 0;  // its session is alive, and of this process
};

// An in-order queue of the device. Thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;

  virtual int id() const = 0;  // 0, 1, ... in its session

  // Queues a kernel. Returns its sequence number. Never waits for the daemon,
  // except for flow control when it is far behind. INVALID_ARGUMENT if the
  // record can't be encoded; UNAVAILABLE once the daemon is lost.
  virtual Result<uint64_t> Launch(const LaunchParams& params) = 0;

  // Host bytes -> segment, in stream order. The bytes have been taken when it
  // returns: through staging memory, or in the record itself when small.
  virtual Result<uint64_t> Upload(uint64_t segment, uint64_t offset_bytes,
                                  const void* data, uint64_t bytes) = 0;

  // Segment -> host bytes, after all that was queued before. Waits.
  virtual Status Download(uint64_t segment, uint64_t offset_bytes, void* data,
                          uint64_t bytes) = 0;

  // The same with memory of this stream's session, with no copy on the way.
  // The bytes of an upload must stay as they are until the stream has passed
  // the number. INVALID_ARGUMENT for memory of another session, or a range
  // outside it.
  virtual Result<uint64_t> UploadFrom(uint64_t segment, uint64_t offset_bytes,
                                      const HostMemory& memory,
                                      uint64_t memory_offset_bytes,
                                      uint64_t bytes) = 0;
  virtual Status DownloadTo(uint64_t segment, uint64_t offset_bytes,
                            HostMemory& memory, uint64_t memory_offset_bytes,
                            uint64_t bytes) = 0;

  virtual Result<uint64_t> CopyBytes(uint64_t dst_segment,
                                     uint64_t dst_offset_bytes,
                                     uint64_t src_segment,
                                     uint64_t src_offset_bytes,
                                     uint64_t bytes) = 0;

  // Events: client-made handles from Session::NewHandle(). A wait for an event
  // that no stream has recorded when the wait is queued returns at once.
  virtual Result<uint64_t> RecordEvent(uint64_t event) = 0;
  virtual Result<uint64_t> WaitEvent(uint64_t event) = 0;
  // Asks for the device's clock at this point; MarkerTimeNs gives it later.
  virtual Result<uint64_t> Marker() = 0;
  // Waits for the marker. INVALID_ARGUMENT for a number that is no marker.
  virtual Result<uint64_t> MarkerTimeNs(uint64_t sequence) = 0;

  // Last sequence number given out, and the last known to be done. Neither
  // waits; IsDone sends what is still pending, so that polling makes progress.
  virtual uint64_t last_sequence() const = 0;
  virtual uint64_t completed_sequence() const = 0;
  virtual bool IsDone(uint64_t sequence) = 0;

  // Sends what is pending now.
  virtual Status Flush() = 0;

  // Waits until `sequence` is done; returns the first latched failure, once.
  virtual Status Wait(uint64_t sequence) = 0;
  Status Synchronize() { return Wait(last_sequence()); }
};

// A device of one daemon. Thread-safe.
class Session {
 public:
  // UNAVAILABLE nobody answers; PERMISSION_DENIED not allowed;
  // FAILED_PRECONDITION another version (the text names both).
  static Result<std::shared_ptr<Session>> Connect(
      const ConnectOptions& options);

  virtual ~Session() = default;

  virtual const DeviceProperties& properties() const = 0;
  // True when CreateSegment maps memory at `map_at`.
  virtual bool memory_is_mapped() const = 0;
  virtual bool alive() const = 0;
  // Why it is not alive.
  virtual Status death() const = 0;

  // Reserves device memory, zeroed; one round trip. With memory_is_mapped()
  // and map_at not null the memory is mapped there (MAP_FIXED, MAP_SHARED,
  // MADV_DONTFORK), read and write; map_at is page-aligned, reserved by the
  // caller for size_bytes. RESOURCE_EXHAUSTED: the text has asked and free
  // bytes.
  virtual Result<uint64_t> CreateSegment(uint64_t size_bytes, void* map_at) = 0;
  // Frees segments when the work queued so far on all streams has passed.
  // Doesn't wait for that. The caller unmaps.
  virtual Status ReleaseSegments(const uint64_t* segments, int count) = 0;

  // One round trip; making it known to the device takes a while, so keep it.
  // FAILED_PRECONDITION without shared memory (a remote daemon),
  // RESOURCE_EXHAUSTED beyond a limit.
  virtual Result<std::shared_ptr<HostMemory>> CreateHostMemory(
      uint64_t size_bytes) = 0;

  virtual Result<std::shared_ptr<Stream>> CreateStream(
      bool high_priority = false) = 0;

  // Handle of a program; identical programs give the same handle. The program
  // reaches each stream before its first launch there. INVALID_ARGUMENT if it
  // fails ValidateProgram.
  virtual Result<uint64_t> DefineProgram(const Program& program) = 0;

  virtual uint64_t NewHandle() = 0;
  virtual Result<MemoryInfo> GetMemoryInfo() = 0;
  virtual Counters counters() const = 0;

  // In the child of a fork, from an atfork handler: async-signal-safe. Every
  // later call on the session or its streams returns FAILED_PRECONDITION and
  // destructors do nothing.
  virtual void ForkChild() = 0;
};

// A private daemon: a child process that serves one endpoint of its own and
// ends when this process does, however it ends.
struct PrivateDaemonOptions {
  std::string binary;  // path of tvarantd
  std::string runtime = "sim";
  uint64_t memory_bytes = 0;  // 0: the daemon's default
  int start_timeout_ms = 20000;
};
class PrivateDaemon {
 public:
  // Started with setsid and detached stdio, on a socket in a fresh folder of
  // mode 0700. UNAVAILABLE with the daemon's own words if it does not come up.
  static Result<std::unique_ptr<PrivateDaemon>> Start(
      const PrivateDaemonOptions& options);
  virtual ~PrivateDaemon() = default;  // ends the daemon (SIGTERM), bounded
  virtual const std::string& endpoint() const = 0;
  virtual int pid() const = 0;
  virtual bool running() = 0;
  virtual void ForkChild() = 0;  // destructor does nothing from now on
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_CLIENT_H_

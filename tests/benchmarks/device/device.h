// A device of a daemon as the benchmark uses it: memory filled with random
// numbers, strided tensors on it, launches. Thread-compatible.
//
// Example:
//   auto device = Device::Open({.endpoint = "unix:/run/tvarant/tvarant.sock"});
//   Scope scope(*device.value());
//   Tensor x, y;
//   if (Status s = scope.Make(DType::kFloat32, {1024}, &x); !s.ok()) ...
//   device.value()->Launch(LaunchOf(Kernel::kCopy, {y}, {x}));

#ifndef TVARANT_TESTS_BENCHMARKS_DEVICE_DEVICE_H_
#define TVARANT_TESTS_BENCHMARKS_DEVICE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "proto/ops/program.h"
#include "proto/wire/launch_params.h"

namespace tvarant::benchmarks {

using client::Code;
using client::Result;
using client::Status;

using Dims = std::vector<int64_t>;

// A view of device memory.
struct Tensor {
  uint64_t segment = 0;
  uint64_t offset_bytes = 0;
  DType dtype = DType::kInvalid;
  Dims sizes;
  Dims strides;

  int64_t numel() const;
  uint64_t bytes() const { return numel() * SizeOf(dtype); }
  // The same memory with two dimensions exchanged.
  Tensor Transposed(int a, int b) const;
  // The same memory, read as if repeated along dimension `dim`.
  Tensor Broadcast(int dim, int64_t size) const;
  // The same memory with other sizes, dense.
  Tensor Reshaped(Dims new_sizes) const;
};

// A launch that owns what LaunchParams points to.
class LaunchOf {
 public:
  LaunchOf(Kernel kernel, std::vector<Tensor> dst, std::vector<Tensor> src);
  LaunchOf(const LaunchOf&) = delete;
  LaunchOf& operator=(const LaunchOf&) = delete;

  LaunchOf& Ints(std::vector<int64_t> ints);
  LaunchParams& params() { return params_; }
  const LaunchParams& params() const { return params_; }

 private:
  std::vector<Tensor> tensors_;
  std::vector<Operand> operands_;
  std::vector<int64_t> ints_;
  LaunchParams params_;
};

struct DeviceOptions {
  std::string endpoint;  // empty: a private daemon
  std::string daemon;    // path of tvarantd, for a private one
  std::string runtime = "sim";
  uint64_t memory_bytes = 0;
};

class Device {
 public:
  static Result<std::unique_ptr<Device>> Open(const DeviceOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  client::Session& session() { return *session_; }
  client::Stream& stream() { return *stream_; }
  // Bytes that may be taken now, and the largest single piece.
  Result<uint64_t> FreeBytes();

  // Queues; doesn't wait.
  Status Launch(const LaunchOf& launch);

 private:
  friend class Scope;
  Device() = default;

  std::unique_ptr<client::PrivateDaemon> daemon_;
  std::shared_ptr<client::Session> session_;
  std::shared_ptr<client::Stream> stream_;
};

// Device memory of one measurement; given back at its end.
class Scope {
 public:
  explicit Scope(Device& device) : device_(device) {}
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // A dense tensor of random numbers between -1 and 1 (floating types), or
  // zeros. RESOURCE_EXHAUSTED as CreateSegment.
  Status Make(DType dtype, Dims sizes, Tensor* tensor, bool random = true);

 private:
  Device& device_;
  std::vector<uint64_t> segments_;
};

// Bytes of `count` numbers of a floating dtype between -1 and 1, never 0: data
// that a device can't save energy on. The same on every call.
std::string RandomBytes(DType dtype, uint64_t count);

}  // namespace tvarant::benchmarks

#endif  // TVARANT_TESTS_BENCHMARKS_DEVICE_DEVICE_H_

// KernelContext: what a family of OpenCL kernels needs to run on one stream.
//
// It finds and builds kernels, holds the stream's scratch memory and the record
// of faults that kernels report, and queues launches. KernelCall puts the
// arguments of one launch together.
//
// Example (kernels take a buffer as `__global char*` and a byte offset):
//   KernelCall call(context, kSoftmaxCl, "softmax_rows",
//                   absl::StrCat("-DT=", ClTypeName(x.dtype)));
//   call.Operand(y).Operand(x).Long(rows).Long(columns);
//   return call.RunGroups(rows, context.traits().group_size);

#ifndef TVARANT_DAEMON_RUNTIME_OPENCL_KERNEL_CONTEXT_H_
#define TVARANT_DAEMON_RUNTIME_OPENCL_KERNEL_CONTEXT_H_

#include <CL/cl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/jit/cl_handle.h"
#include "daemon/jit/cl_source.h"
#include "daemon/jit/kernel_cache.h"
#include "daemon/runtime/opencl/device.h"
#include "daemon/runtime/opencl/opencl_buffer.h"
#include "daemon/runtime/runtime.h"

namespace tvarant::opencl {

// What one device's streams share.
struct DeviceState {
  const Device& device;
  KernelCache& kernels;
  std::shared_ptr<MemoryAccount> account;
};

// What the device says when data is wrong; see fault() in prelude.cl.
struct Fault {
  int64_t value = 0;     // a bad index, say
  int64_t position = 0;  // of the element, as the kernel counts
};
using FaultText = std::function<absl::Status(const Fault&)>;

// "index 7 is out of bounds for dimension 1 with size 5", OUT_OF_RANGE.
FaultText BadIndex(int64_t dim, int64_t size);

// The suffix of prelude.cl's names for a dtype: "f32", "bf16", "bool", "c64".
const char* ClTypeName(DType dtype);

// Thread-compatible: belongs to one stream. An argument that is set stays in
// the kernel object, so these objects are never shared.
class KernelContext {
 public:
  static absl::StatusOr<std::unique_ptr<KernelContext>> Create(
      const DeviceState& state, cl_command_queue queue);

  const DeviceTraits& traits() const { return state_.device.traits(); }
  cl_command_queue queue() const { return queue_; }
  KernelCache& cache() { return state_.kernels; }

  // The kernel `name` of prelude + source, built with `options`. `patch` may
  // change the driver's binary (see kernel_cache.h).
  absl::StatusOr<cl_kernel> GetKernel(const ClSource& source, const char* name,
                                      const std::string& options,
                                      const BinaryPatch* patch = nullptr);
  // The same for text made at run time, known by `key` (unique among its
  // uses). `make` is called where the kernel is not known yet; the note that it
  // gives is kept with the kernel.
  struct Generated {
    std::string source;
    std::shared_ptr<const void> note;
  };
  struct Entry {
    ClHandle<cl_kernel> kernel;
    std::shared_ptr<const void> note;
  };
  absl::StatusOr<const Entry*> GetGenerated(
      const std::string& key, const char* name,
      absl::FunctionRef<absl::StatusOr<Generated>()> make);

  // Device memory of this stream, contents undefined, for launches queued from
  // now until the next call with the same slot. Slots let one launch hold
  // several.
  static constexpr int kScratchSlots = 6;
  absl::StatusOr<cl_mem> Scratch(uint64_t bytes, int slot = 0);

  // Work-groups of `local` items; `global` is a multiple in each dimension.
  absl::Status Enqueue(cl_kernel kernel, int dims, const size_t* global,
                       const size_t* local);

  // Faults. The memory is 4 words, see prelude.cl. Each launch that may fail
  // has a number of its own, under which its text is kept until TakeFault.
  cl_mem fault_memory() const { return faults_.get(); }
  int32_t AddFaultText(FaultText text);
  // A launch of the stream begins; its kernels' faults are its own.
  void BeginLaunch() { ++launches_; }
  // Waits for the queue and returns the first fault since the last call, with
  // the payload kFailedLaunch.
  absl::Status TakeFault();

 private:
  KernelContext(const DeviceState& state, cl_command_queue queue);
  absl::Status MakeFaultMemory();
  absl::StatusOr<const Entry*> Remember(std::string key, const char* name,
                                        std::shared_ptr<BuiltProgram> program,
                                        std::shared_ptr<const void> note);

  struct ScratchMemory {
    uint64_t bytes = 0;
    std::shared_ptr<void> charge;
    ClHandle<cl_mem> memory;
  };

  const DeviceState state_;
  const cl_command_queue queue_;
  const std::string base_options_;
  // By address: an entry stays where it is.
  absl::flat_hash_map<std::string, std::unique_ptr<Entry>> kernels_;
  std::string key_;  // kept for its capacity
  ScratchMemory scratch_[kScratchSlots];
  ClHandle<cl_mem> faults_;
  struct KnownFault {
    FaultText text;
    int64_t launch;  // since the last TakeFault
  };
  std::vector<KnownFault> known_faults_;
  int64_t launches_ = 0;
};

// One launch being put together. The first error is kept and returned by Run.
class KernelCall {
 public:
  KernelCall(KernelContext& context, const ClSource& source, const char* name,
             const std::string& options = "",
             const BinaryPatch* patch = nullptr);
  KernelCall(KernelContext& context, absl::StatusOr<cl_kernel> kernel);

  // Two arguments: the buffer (null for an absent operand), the byte offset.
  KernelCall& Operand(const ResolvedOperand& operand);
  KernelCall& Memory(cl_mem memory);
  KernelCall& Int(int32_t value) { return Bytes(&value, sizeof(value)); }
  KernelCall& Long(int64_t value) { return Bytes(&value, sizeof(value)); }
  KernelCall& Float(float value) { return Bytes(&value, sizeof(value)); }
  KernelCall& Double(double value) { return Bytes(&value, sizeof(value)); }
  // A struct laid out alike in prelude.cl or the source: 8-byte members.
  template <typename T>
  KernelCall& Struct(const T& value) {
    return Bytes(&value, sizeof(value));
  }
  // Local memory.
  KernelCall& Local(size_t bytes) { return Bytes(nullptr, bytes); }
  // Two arguments: the fault memory and this launch's number.
  KernelCall& Faults(FaultText text);

  // At least `items` work-items in one dimension, in groups of `group` (0: the
  // device's choice). Kernels check their number. Nothing for 0 items.
  absl::Status Run(int64_t items, uint32_t group = 0);
  // Exactly `groups` work-groups.
  absl::Status RunGroups(int64_t groups, uint32_t group);
  absl::Status RunGrid(int dims, const size_t* groups, const size_t* group);

 private:
  KernelCall& Bytes(const void* value, size_t size);

  KernelContext& context_;
  cl_kernel kernel_ = nullptr;
  cl_uint next_ = 0;
  absl::Status status_;
};

// A strided tensor as kernels take it by value: `View` of prelude.cl.
struct ClView {
  int64_t rank = 0;
  int64_t sizes[kMaxRank] = {};
  int64_t strides[kMaxRank] = {};  // in elements
};
ClView ViewOf(const ResolvedOperand& operand);

// The same without dimensions of 1, neighbours joined that are walked as one;
// for operands that all have the sizes of the first. Rank at least 1.
// kMemory: where the order of elements does not matter, dimensions are put in
// the order of the first operand's memory.
enum class ViewOrder { kRowMajor, kMemory };
std::vector<ClView> JoinedViews(
    absl::Span<const ResolvedOperand* const> operands, ViewOrder order);

int64_t NumElements(const ResolvedOperand& operand);
bool IsContiguous(const ResolvedOperand& operand);

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_RUNTIME_OPENCL_KERNEL_CONTEXT_H_

#include "daemon/runtime/opencl/kernel_context.h"

#include <algorithm>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "daemon/jit/cl_status.h"
#include "daemon/runtime/opencl/prelude.h"
#include "proto/base/status_macros.h"
#include "proto/base/strided.h"

namespace tvarant::opencl {
namespace {

struct FaultRecord {
  int32_t launch;  // 0: none
  int32_t unused;
  int64_t value;
  int64_t position;
};
static_assert(sizeof(FaultRecord) == 24);

constexpr uint64_t kScratchGrain = 64 << 10;
constexpr size_t kMaxKernels = 8192;

std::string BaseOptions(const DeviceTraits& traits) {
  // Warnings would go to the daemon's standard error.
  std::string options = " -w";
  if (traits.has_double) options += " -DTV_DOUBLE";
  if (traits.is_cpu) options += " -DTV_CPU";
  if (traits.is_nvidia) options += " -DTV_NVIDIA";
  if (traits.correctly_rounded_divide) {
    options += " -cl-fp32-correctly-rounded-divide-sqrt";
  }
  return options;
}

}  // namespace

FaultText BadIndex(int64_t dim, int64_t size) {
  return [dim, size](const Fault& fault) {
    return absl::OutOfRangeError(
        absl::StrCat("index ", fault.value, " is out of bounds for dimension ",
                     dim, " with size ", size));
  };
}

const char* ClTypeName(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kUInt8:
      return "u8";
    case DType::kInt8:
      return "i8";
    case DType::kInt16:
      return "i16";
    case DType::kInt32:
      return "i32";
    case DType::kInt64:
      return "i64";
    case DType::kFloat16:
      return "f16";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat32:
      return "f32";
    case DType::kFloat64:
      return "f64";
    case DType::kComplex64:
      return "c64";
    case DType::kComplex128:
      return "c128";
    case DType::kUInt16:
      return "u16";
    case DType::kUInt32:
      return "u32";
    case DType::kUInt64:
      return "u64";
    case DType::kInvalid:
      break;
  }
  return "none";
}

absl::StatusOr<std::unique_ptr<KernelContext>> KernelContext::Create(
    const DeviceState& state, cl_command_queue queue) {
  auto context = absl::WrapUnique(new KernelContext(state, queue));
  RETURN_IF_ERROR(context->MakeFaultMemory());
  return context;
}

KernelContext::KernelContext(const DeviceState& state, cl_command_queue queue)
    : state_(state),
      queue_(queue),
      base_options_(BaseOptions(state.device.traits())) {}

absl::Status KernelContext::MakeFaultMemory() {
  FaultRecord none{};
  cl_int error = CL_SUCCESS;
  faults_ = ClHandle<cl_mem>(clCreateBuffer(
      state_.device.context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
      sizeof(none), &none, &error));
  return ClStatus(error, "clCreateBuffer");
}

absl::StatusOr<cl_kernel> KernelContext::GetKernel(const ClSource& source,
                                                   const char* name,
                                                   const std::string& options,
                                                   const BinaryPatch* patch) {
  key_.assign(source.name)
      .append("\n")
      .append(name)
      .append("\n")
      .append(options);
  const auto found = kernels_.find(key_);
  if (found != kernels_.end()) return found->second->kernel.get();
  ASSIGN_OR_RETURN(auto program,
                   state_.kernels.Get(
                       source.name, absl::StrCat(kPreludeCl.text, source.text),
                       absl::StrCat(options, base_options_), patch));
  ASSIGN_OR_RETURN(const Entry* entry,
                   Remember(key_, name, std::move(program), nullptr));
  return entry->kernel.get();
}

absl::StatusOr<const KernelContext::Entry*> KernelContext::GetGenerated(
    const std::string& key, const char* name,
    absl::FunctionRef<absl::StatusOr<Generated>()> make) {
  const auto found = kernels_.find(key);
  if (found != kernels_.end()) return found->second.get();
  ASSIGN_OR_RETURN(Generated generated, make());
  ASSIGN_OR_RETURN(
      auto program,
      state_.kernels.Get(name, absl::StrCat(kPreludeCl.text, generated.source),
                         base_options_));
  return Remember(key, name, std::move(program), std::move(generated.note));
}

absl::StatusOr<const KernelContext::Entry*> KernelContext::Remember(
    std::string key, const char* name, std::shared_ptr<BuiltProgram> program,
    std::shared_ptr<const void> note) {
  cl_int error = CL_SUCCESS;
  auto entry = std::make_unique<Entry>();
  entry->kernel =
      ClHandle<cl_kernel>(clCreateKernel(program->get(), name, &error));
  RETURN_IF_ERROR(ClStatus(error, absl::StrCat("clCreateKernel ", name)));
  entry->note = std::move(note);
  // Bounded: what is used again is soon found again in the cache.
  if (kernels_.size() >= kMaxKernels) kernels_.clear();
  return kernels_.emplace(std::move(key), std::move(entry)).first->second.get();
}

absl::StatusOr<cl_mem> KernelContext::Scratch(uint64_t bytes, int slot) {
  ScratchMemory& scratch = scratch_[slot];
  if (scratch.bytes >= bytes && scratch.memory) return scratch.memory.get();
  const uint64_t grown = std::max(bytes, scratch.bytes * 2);
  const uint64_t size =
      (grown + kScratchGrain - 1) / kScratchGrain * kScratchGrain;
  // The queue keeps the old memory until its launches are done.
  scratch = ScratchMemory();
  ASSIGN_OR_RETURN(scratch.charge, state_.account->Take(size));
  cl_int error = CL_SUCCESS;
  scratch.memory = ClHandle<cl_mem>(clCreateBuffer(
      state_.device.context(), CL_MEM_READ_WRITE, size, nullptr, &error));
  if (error != CL_SUCCESS) {
    scratch = ScratchMemory();
    return ClStatus(error, "clCreateBuffer");
  }
  scratch.bytes = size;
  return scratch.memory.get();
}

absl::Status KernelContext::Enqueue(cl_kernel kernel, int dims,
                                    const size_t* global, const size_t* local) {
  RETURN_IF_CL_ERROR(
      clEnqueueNDRangeKernel(queue_, kernel, static_cast<cl_uint>(dims),
                             nullptr, global, local, 0, nullptr, nullptr));
  return absl::OkStatus();
}

int32_t KernelContext::AddFaultText(FaultText text) {
  known_faults_.push_back({std::move(text), launches_});
  return static_cast<int32_t>(known_faults_.size());
}

absl::Status KernelContext::TakeFault() {
  const std::vector<KnownFault> known = std::exchange(known_faults_, {});
  launches_ = 0;
  if (known.empty()) {
    RETURN_IF_CL_ERROR(clFinish(queue_));
    return absl::OkStatus();
  }
  FaultRecord record{};
  RETURN_IF_CL_ERROR(clEnqueueReadBuffer(queue_, faults_.get(), CL_TRUE, 0,
                                         sizeof(record), &record, 0, nullptr,
                                         nullptr));
  if (record.launch == 0) return absl::OkStatus();
  const FaultRecord none{};
  RETURN_IF_CL_ERROR(clEnqueueWriteBuffer(queue_, faults_.get(), CL_TRUE, 0,
                                          sizeof(none), &none, 0, nullptr,
                                          nullptr));
  const size_t number = static_cast<size_t>(std::clamp<int64_t>(
      record.launch, 1, static_cast<int64_t>(known.size())));
  absl::Status status = known[number - 1].text(
      Fault{.value = record.value, .position = record.position});
  status.SetPayload(kFailedLaunch,
                    absl::Cord(absl::StrCat(known[number - 1].launch)));
  return status;
}

KernelCall::KernelCall(KernelContext& context, const ClSource& source,
                       const char* name, const std::string& options,
                       const BinaryPatch* patch)
    : KernelCall(context, context.GetKernel(source, name, options, patch)) {}

KernelCall::KernelCall(KernelContext& context, absl::StatusOr<cl_kernel> kernel)
    : context_(context) {
  if (kernel.ok()) {
    kernel_ = *kernel;
  } else {
    status_ = kernel.status();
  }
}

KernelCall& KernelCall::Bytes(const void* value, size_t size) {
  if (status_.ok()) {
    status_ =
        ClStatus(clSetKernelArg(kernel_, next_, size, value), "clSetKernelArg");
  }
  ++next_;
  return *this;
}

KernelCall& KernelCall::Memory(cl_mem memory) {
  return Bytes(&memory, sizeof(memory));
}

KernelCall& KernelCall::Operand(const ResolvedOperand& operand) {
  Memory(operand.buffer == nullptr ? nullptr : MemoryOf(*operand.buffer));
  return Long(static_cast<int64_t>(operand.offset_bytes));
}

KernelCall& KernelCall::Faults(FaultText text) {
  Memory(context_.fault_memory());
  return Int(context_.AddFaultText(std::move(text)));
}

absl::Status KernelCall::Run(int64_t items, uint32_t group) {
  if (group == 0) group = context_.traits().group_size;
  return RunGroups((items + group - 1) / group, group);
}

absl::Status KernelCall::RunGroups(int64_t groups, uint32_t group) {
  const size_t count = static_cast<size_t>(groups);
  const size_t size = group;
  return RunGrid(1, &count, &size);
}

absl::Status KernelCall::RunGrid(int dims, const size_t* groups,
                                 const size_t* group) {
  RETURN_IF_ERROR(status_);
  size_t global[3];
  for (int d = 0; d < dims; ++d) {
    if (groups[d] == 0) return absl::OkStatus();
    global[d] = groups[d] * group[d];
  }
  return context_.Enqueue(kernel_, dims, global, group);
}

ClView ViewOf(const ResolvedOperand& operand) {
  ClView view;
  view.rank = operand.rank;
  for (int d = 0; d < operand.rank; ++d) {
    view.sizes[d] = operand.sizes[d];
    view.strides[d] = operand.strides[d];
  }
  if (view.rank == 0) {
    view.rank = 1;
    view.sizes[0] = 1;
  }
  return view;
}

std::vector<ClView> JoinedViews(
    absl::Span<const ResolvedOperand* const> operands, ViewOrder order) {
  const ResolvedOperand& first = *operands[0];
  int dims[kMaxRank];
  int count = 0;
  for (int d = 0; d < first.rank; ++d) {
    if (first.sizes[d] == 1) continue;
    int at = count++;
    if (order == ViewOrder::kMemory) {
      for (; at > 0 && first.strides[dims[at - 1]] < first.strides[d]; --at) {
        dims[at] = dims[at - 1];
      }
    }
    dims[at] = d;
  }

  std::vector<ClView> views(operands.size());
  int rank = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t size = first.sizes[dims[i]];
    bool joins = rank > 0;
    for (size_t k = 0; k < operands.size() && joins; ++k) {
      joins =
          views[k].strides[rank - 1] == operands[k]->strides[dims[i]] * size;
    }
    const int at = joins ? rank - 1 : rank++;
    for (size_t k = 0; k < operands.size(); ++k) {
      views[k].sizes[at] = joins ? views[k].sizes[at] * size : size;
      views[k].strides[at] = operands[k]->strides[dims[i]];
    }
  }
  for (ClView& view : views) {
    view.rank = std::max(rank, 1);
    if (rank == 0) view.sizes[0] = 1;
  }
  return views;
}

int64_t NumElements(const ResolvedOperand& operand) {
  int64_t count = 1;
  for (int d = 0; d < operand.rank; ++d) count *= operand.sizes[d];
  return count;
}

bool IsContiguous(const ResolvedOperand& operand) {
  return base::IsContiguous(operand.sizes, operand.strides, operand.rank);
}

}  // namespace tvarant::opencl

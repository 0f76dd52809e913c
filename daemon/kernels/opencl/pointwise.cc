// Pointwise programs, compiled for how their operands lie in memory.

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/jit/pointwise_source.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

// A work-group must move this much, or starting groups takes the time.
constexpr int64_t kMinGroupBytes = 3 << 10;
constexpr int kMaxLoops = 8;

struct Group {
  absl::Span<const ResolvedOperand> dst;
  absl::Span<const ResolvedOperand> src;
  absl::Span<const double> floats;
  absl::Span<const int64_t> ints;
};

// One launch: the walk over its elements and the class of its kernel.
struct Plan {
  PointwiseShape shape;
  std::vector<ClView> views;  // dst, then src
  int64_t count = 0;          // elements
  bool flat = true;           // by elements' order alone
  int64_t steps = 0;          // of a vector each
  uint32_t group = 0;
  int loops = 1;
  int64_t num_groups = 0;
};

// How an operand lies where nothing but its elements' order matters.
Walk FlatWalkOf(const ClView& view) {
  bool uniform = true, dense = true;
  int64_t expected = 1;
  for (int d = static_cast<int>(view.rank) - 1; d >= 0; --d) {
    uniform &= view.strides[d] == 0 || view.sizes[d] == 1;
    dense &= view.strides[d] == expected || view.sizes[d] == 1;
    expected *= view.sizes[d];
  }
  // A single element is both; as an output it is written where it is.
  return dense ? Walk::kDense : uniform ? Walk::kUniform : Walk::kStrided;
}

bool NeedsWideIndex(const Plan& plan) {
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max() - (1 << 20);
  if (plan.count > kLimit) return true;
  for (const ClView& view : plan.views) {
    int64_t last = 0;
    for (int d = 0; d < view.rank; ++d) {
      last += (view.sizes[d] - 1) * view.strides[d];
    }
    if (last > kLimit) return true;
  }
  return false;
}

// All operands of a plan, as its shape has them.
std::vector<PointwiseOperand*> OperandsOf(PointwiseShape* shape) {
  std::vector<PointwiseOperand*> operands;
  for (PointwiseOperand& operand : shape->dst) operands.push_back(&operand);
  for (PointwiseOperand& operand : shape->src) operands.push_back(&operand);
  return operands;
}

// 16 bytes of the widest element, between 4 and 8 elements.
int VectorFor(const std::vector<PointwiseOperand*>& operands) {
  size_t widest = 1;
  for (const PointwiseOperand* operand : operands) {
    if (operand->walk == Walk::kUniform) continue;
    widest = std::max(widest, SizeOf(operand->dtype));
  }
  return widest <= 2 ? 8 : 4;
}

// Whether vectors can be loaded and stored from rows of the last dimension:
// sizes, strides and addresses are multiples of a vector.
bool RowsAreAligned(const ClView& view, const PointwiseOperand& operand,
                    uint64_t offset_bytes, int vector) {
  const int last = static_cast<int>(view.rank) - 1;
  if (view.sizes[last] % vector != 0 || view.strides[last] > 1) return false;
  if (view.strides[last] == 0) return true;
  if (offset_bytes % (vector * SizeOf(operand.dtype)) != 0) return false;
  for (int d = 0; d < last; ++d) {
    if (view.strides[d] % vector != 0) return false;
  }
  return true;
}

// Few kinds of kernels, since each is compiled: rows of vectors where that
// can be, and dimensions of 1 in front up to a rank of 4 or the largest.
void WalkByDimensions(absl::Span<const ResolvedOperand* const> given,
                      size_t num_dst, Plan* plan) {
  const auto operands = OperandsOf(&plan->shape);
  const int vector = VectorFor(operands);
  const int rank = static_cast<int>(plan->views[0].rank);
  const int last = rank - 1;
  bool rows = true;
  for (size_t i = 0; i < operands.size(); ++i) {
    rows &= RowsAreAligned(plan->views[i], *operands[i], given[i]->offset_bytes,
                           vector) &&
            (i >= num_dst || plan->views[i].strides[last] == 1);
  }
  plan->shape.vector = rows ? vector : 1;
  plan->shape.rank = rank <= 4 ? 4 : kMaxRank;
  const int added = plan->shape.rank - rank;
  for (size_t i = 0; i < operands.size(); ++i) {
    ClView& view = plan->views[i];
    operands[i]->walk = !rows                     ? Walk::kStrided
                        : view.strides[last] == 0 ? Walk::kInnerUniform
                                                  : Walk::kInner;
    view.sizes[last] /= plan->shape.vector;
    view.strides[last] *= plan->shape.vector;
    for (int d = last; d >= 0; --d) {
      view.sizes[d + added] = view.sizes[d];
      view.strides[d + added] = view.strides[d];
    }
    for (int d = 0; d < added; ++d) {
      view.sizes[d] = 1;
      view.strides[d] = 0;
    }
    view.rank = plan->shape.rank;
  }
  plan->steps = plan->count / plan->shape.vector;
}

Plan MakePlan(const DeviceTraits& traits, const Group& launch) {
  Plan plan;
  plan.count = NumElements(launch.dst[0]);
  std::vector<const ResolvedOperand*> given;
  for (const auto span : {launch.dst, launch.src}) {
    for (const ResolvedOperand& operand : span) given.push_back(&operand);
  }
  plan.views = JoinedViews(given, ViewOrder::kMemory);
  for (size_t i = 0; i < given.size(); ++i) {
    (i < launch.dst.size() ? plan.shape.dst : plan.shape.src)
        .push_back({given[i]->dtype, FlatWalkOf(plan.views[i])});
  }
  const auto operands = OperandsOf(&plan.shape);
  plan.shape.wide_index = NeedsWideIndex(plan);
  plan.shape.vector = VectorFor(operands);
  bool flat = true;
  int64_t bytes = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const uint64_t size = SizeOf(operands[i]->dtype);
    const bool aligned =
        plan.count < plan.shape.vector ||
        given[i]->offset_bytes % (plan.shape.vector * size) == 0;
    flat &= operands[i]->walk == Walk::kUniform ||
            (operands[i]->walk == Walk::kDense && aligned);
    if (operands[i]->walk != Walk::kUniform)
      bytes += static_cast<int64_t>(size);
  }
  plan.steps = (plan.count + plan.shape.vector - 1) / plan.shape.vector;
  plan.flat = flat;
  if (!flat) WalkByDimensions(given, launch.dst.size(), &plan);

  plan.group = traits.group_size;
  const int64_t group_bytes = bytes * plan.shape.vector * plan.group;
  plan.loops = static_cast<int>(std::clamp<int64_t>(
      (kMinGroupBytes + group_bytes - 1) / std::max<int64_t>(group_bytes, 1), 1,
      kMaxLoops));
  const int64_t steps = int64_t{plan.group} * plan.loops;
  plan.num_groups = (plan.steps + steps - 1) / steps;
  return plan;
}

// Under which the kernel of a plan is kept.
std::string KeyOf(const std::string& structure, const PointwiseShape& shape) {
  std::string key =
      absl::StrCat("pointwise|", shape.rank, "|", shape.wide_index ? 1 : 0, "|",
                   shape.vector, "|", shape.dst.size(), "|");
  for (const auto* operands : {&shape.dst, &shape.src}) {
    for (const PointwiseOperand& operand : *operands) {
      key += static_cast<char>('A' + static_cast<int>(operand.dtype));
      key += static_cast<char>('0' + static_cast<int>(operand.walk));
    }
  }
  return key + structure;
}

absl::Status ZeroDivision(const Fault&) {
  return absl::InvalidArgumentError("ZeroDivisionError");  // PyTorch's text
}

void AddConstant(const Program& program, const PointwiseConstant& constant,
                 const Group& launch, KernelCall* call) {
  const ProgramNode& node = program.nodes[constant.node];
  const bool immediate = constant.from == PointwiseConstant::From::kImmediate;
  switch (constant.type) {
    case ComputeClass::kF32:
    case ComputeClass::kF64: {
      const double value =
          immediate ? node.immediate_double() : launch.floats[node.index];
      if (constant.type == ComputeClass::kF32) {
        call->Float(static_cast<float>(value));
      } else {
        call->Double(value);
      }
      return;
    }
    default: {
      int64_t value =
          immediate ? node.immediate_int() : launch.ints[node.index];
      if (node.dtype == DType::kBool) value = value != 0;
      if (constant.type == ComputeClass::kI32) {
        call->Int(static_cast<int32_t>(value));
      } else {
        call->Long(value);
      }
    }
  }
}

void AddIndex(const Plan& plan, int64_t value, KernelCall* call) {
  if (plan.shape.wide_index) {
    call->Long(value);
  } else {
    call->Int(static_cast<int32_t>(value));
  }
}

// Sizes and strides of a walk by dimensions.
void AddWalk(const Plan& plan, KernelCall* call) {
  if (plan.flat) return;
  for (int d = 1; d < plan.shape.rank; ++d) {
    AddIndex(plan, plan.views[0].sizes[d], call);
  }
  for (const ClView& view : plan.views) {
    for (int d = 0; d < plan.shape.rank; ++d) {
      AddIndex(plan, view.strides[d], call);
    }
  }
}

absl::Status CheckScalars(const Program& program, const Group& launch) {
  if (program.stores.size() != launch.dst.size() ||
      program.num_inputs() > static_cast<int>(launch.src.size()) ||
      program.num_float_scalars() > static_cast<int>(launch.floats.size()) ||
      program.num_int_scalars() > static_cast<int>(launch.ints.size())) {
    return absl::InvalidArgumentError(
        "pointwise: operands or scalars do not fit the program");
  }
  return absl::OkStatus();
}

absl::Status RunGroup(KernelContext& context, const Program& program,
                      const std::string& structure, const Group& launch) {
  RETURN_IF_ERROR(CheckScalars(program, launch));
  if (NumElements(launch.dst[0]) == 0) return absl::OkStatus();
  const Plan plan = MakePlan(context.traits(), launch);
  const bool has_double = context.traits().has_double;
  const std::string key = KeyOf(structure, plan.shape);
  ASSIGN_OR_RETURN(
      const KernelContext::Entry* entry,
      context.GetGenerated(key, kPointwiseKernelName,
                           [&]() -> absl::StatusOr<KernelContext::Generated> {
                             auto kernel = std::make_shared<PointwiseKernel>();
                             ASSIGN_OR_RETURN(*kernel,
                                              MakePointwise(program, plan.shape,
                                                            has_double));
                             std::string source = std::move(kernel->source);
                             return KernelContext::Generated{std::move(source),
                                                             std::move(kernel)};
                           }));
  const auto& kernel = *static_cast<const PointwiseKernel*>(entry->note.get());
  KernelCall call(context, entry->kernel.get());
  for (const auto span : {launch.dst, launch.src}) {
    for (const ResolvedOperand& operand : span) call.Operand(operand);
  }
  AddWalk(plan, &call);
  for (const PointwiseConstant& constant : kernel.constants) {
    AddConstant(program, constant, launch, &call);
  }
  call.Long(plan.flat ? plan.count : plan.steps).Int(plan.loops);
  if (kernel.checks_zero) call.Faults(ZeroDivision);
  return call.RunGroups(plan.num_groups, plan.group);
}

}  // namespace

absl::Status RunPointwise(KernelContext& context,
                          const ResolvedLaunch& launch) {
  return RunGroup(context, *launch.program, StructureOf(*launch.program),
                  {launch.dst, launch.src, launch.floats, launch.ints});
}

absl::Status RunPointwiseForeach(KernelContext& context,
                                 const ResolvedLaunch& launch) {
  const size_t batch = static_cast<size_t>(launch.batch);
  const size_t num_dst = launch.dst.size() / batch;
  const size_t num_src = launch.src.size() / batch;
  const bool own_scalars = (launch.flags & kPerGroupScalars) != 0;
  const size_t num_floats = launch.floats.size() / batch;
  const size_t num_ints = launch.ints.size() / batch;
  const std::string structure = StructureOf(*launch.program);
  for (size_t g = 0; g < batch; ++g) {
    Group group{launch.dst.subspan(g * num_dst, num_dst),
                launch.src.subspan(g * num_src, num_src), launch.floats,
                launch.ints};
    if (own_scalars) {
      group.floats = launch.floats.subspan(g * num_floats, num_floats);
      group.ints = launch.ints.subspan(g * num_ints, num_ints);
    }
    RETURN_IF_ERROR(RunGroup(context, *launch.program, structure, group));
  }
  return absl::OkStatus();
}

}  // namespace tvarant::opencl

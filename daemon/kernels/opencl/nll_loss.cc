// nll_loss and its gradient.

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

constexpr int64_t kNone = 0, kMean = 1;
constexpr int kLoops = 8;  // rows or elements of an item

struct Steps {
  int64_t n = 0, l = 0, c = 0;
};
// [N, C] or [N, C, L].
Steps StepsOfClasses(const ResolvedOperand& t) {
  return {t.strides[0], t.rank == 3 ? t.strides[2] : 0, t.strides[1]};
}
// [], [N] or [N, L].
Steps StepsOf(const ResolvedOperand& t) {
  if (t.rank == 0) return {};
  return {t.strides[0], t.rank == 2 ? t.strides[1] : 0, 0};
}

FaultText BadTarget() {
  return [](const Fault& fault) {
    return absl::OutOfRangeError(
        absl::StrCat("Target ", fault.value, " is out of bounds."));
  };
}

// Options; UNIMPLEMENTED unless all floats are of one dtype.
absl::StatusOr<std::string> OptionsOf(const KernelContext& context,
                                      const ResolvedLaunch& launch,
                                      DType dtype) {
  const DType target = launch.src[1].dtype;
  bool fits = IsFloating(dtype) &&
              (target == DType::kInt64 || target == DType::kUInt8) &&
              (dtype != DType::kFloat64 || context.traits().has_double);
  for (const ResolvedOperand& t : launch.dst) fits &= t.dtype == dtype;
  for (size_t i = 0; i < launch.src.size(); ++i) {
    const DType found = launch.src[i].dtype;
    fits &= i == 1 || found == dtype || found == DType::kInvalid;
  }
  if (!fits) {
    return absl::UnimplementedError(absl::StrCat(
        NameOf(launch.kernel), ": no OpenCL kernel for dtype ", NameOf(dtype)));
  }
  return absl::StrCat("-DT=", ClTypeName(dtype),
                      " -DTARGET=", ClTypeName(target));
}

void AddWeight(const ResolvedOperand& weight, KernelCall* call) {
  const bool present = weight.dtype != DType::kInvalid;
  call->Long(present ? weight.strides[0] : 0).Int(present ? 1 : 0);
}

}  // namespace

absl::Status RunNllLoss(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& logp = launch.src[0];
  const ResolvedOperand& target = launch.src[1];
  const ResolvedOperand& weight = launch.src[2];
  const ResolvedOperand& loss = launch.dst[0];
  ASSIGN_OR_RETURN(const std::string options,
                   OptionsOf(context, launch, logp.dtype));
  const int64_t inner = logp.rank == 3 ? logp.sizes[2] : 1;
  const int64_t rows = logp.sizes[0] * inner;
  const int64_t reduction = launch.ints[0];
  const uint32_t group = PowerOfTwoGroup(context.traits());
  const int loops = static_cast<int>(std::clamp<int64_t>(
      rows / (group * EnoughGroups(context.traits())), 1, kLoops));
  const int64_t groups = (rows + group * loops - 1) / (group * loops);
  const size_t lane_bytes = group * sizeof(double);
  ASSIGN_OR_RETURN(cl_mem sums, context.Scratch(static_cast<uint64_t>(
                                    std::max<int64_t>(groups, 1) * 2 * 8)));
  KernelCall call(context, kNllLossCl, "nll_loss_rows", options);
  call.Operand(loss).Operand(logp).Operand(target).Operand(weight);
  call.Struct(StepsOf(loss))
      .Struct(StepsOfClasses(logp))
      .Struct(StepsOf(target));
  AddWeight(weight, &call);
  call.Long(rows).Long(inner).Long(logp.sizes[1]).Long(launch.ints[1]);
  call.Int(static_cast<int32_t>(reduction)).Int(loops).Memory(sums);
  call.Local(lane_bytes).Faults(BadTarget());
  RETURN_IF_ERROR(call.RunGroups(groups, group));
  return KernelCall(context, kNllLossCl, "nll_loss_join", options)
      .Operand(loss)
      .Operand(launch.dst[1])
      .Memory(sums)
      .Long(reduction == kNone ? 0 : groups)
      .Int(static_cast<int32_t>(reduction))
      .Local(lane_bytes)
      .RunGroups(1, group);
}

absl::Status RunNllLossBackward(KernelContext& context,
                                const ResolvedLaunch& launch) {
  const ResolvedOperand& dlogp = launch.dst[0];
  const ResolvedOperand& weight = launch.src[2];
  ASSIGN_OR_RETURN(const std::string options,
                   OptionsOf(context, launch, dlogp.dtype));
  if (NumElements(dlogp) == 0) return absl::OkStatus();
  const int64_t inner = dlogp.rank == 3 ? dlogp.sizes[2] : 1;
  const int64_t classes = dlogp.sizes[1];
  const uint32_t group = context.traits().group_size;
  const int loops =
      static_cast<int>(std::clamp<int64_t>(classes * inner / group, 1, kLoops));
  const int64_t chunks =
      (classes * inner + group * loops - 1) / (group * loops);
  KernelCall call(context, kNllLossCl, "nll_loss_backward", options);
  call.Operand(dlogp)
      .Operand(launch.src[0])
      .Operand(launch.src[1])
      .Operand(weight)
      .Operand(launch.src[3]);
  call.Struct(StepsOfClasses(dlogp))
      .Struct(StepsOf(launch.src[0]))
      .Struct(StepsOf(launch.src[1]));
  AddWeight(weight, &call);
  call.Long(inner).Long(classes).Long(launch.ints[1]);
  call.Int(launch.ints[0] == kMean ? 1 : 0).Int(loops).Long(chunks);
  call.Faults(BadTarget());
  return call.RunGroups(dlogp.sizes[0] * chunks, group);
}

}  // namespace tvarant::opencl

// Reductions over any dimensions, and of lists of tensors.

#include "daemon/kernels/opencl/reduce.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"
#include "daemon/runtime/opencl/opencl_buffer.h"
#include "proto/base/status_macros.h"
#include "proto/ops/op_ids.h"

namespace tvarant::opencl {
namespace {

// Of reduce.cl.
enum class Finish {
  kValue,
  kMean,
  kRoot,
  kPower,
  kVariance,
  kDeviation,
  kLog,
  kAny,
  kAll,
  kPlace
};
constexpr int64_t kStateBytes = 24;  // the largest

// What is gathered, and what becomes of it.
struct Recipe {
  const char* gather = nullptr;  // GATHER_... of reduce.cl; null: unknown
  int mode = 0;
  Finish finish = Finish::kValue;
  bool in_order = false;
};

Recipe NormOf(double p) {
  if (p == 0) return {"COUNT"};
  if (p == 1) return {"SUM", 2};
  if (p == 2) return {"SUM", 3, Finish::kRoot};
  if (std::isinf(p)) return {"EXTREME", p > 0 ? 2 : 3};
  return {"POWERS", 0, Finish::kPower};
}

Recipe RecipeOf(ReduceOp op, double scalar) {
  switch (op) {
    case ReduceOp::kSum:
      return {"SUM"};
    case ReduceOp::kNanSum:
      return {"SUM", 1};
    case ReduceOp::kSumSquares:
      return {"SUM", 3};
    case ReduceOp::kMean:
      return {"SUM", 0, Finish::kMean};
    case ReduceOp::kProd:
      return {"PRODUCT"};
    case ReduceOp::kMax:
      return {"EXTREME", 0};
    case ReduceOp::kMin:
      return {"EXTREME", 1};
    case ReduceOp::kArgMax:
      return {"PLACE", 0, Finish::kPlace, true};
    case ReduceOp::kArgMin:
      return {"PLACE", 1, Finish::kPlace, true};
    case ReduceOp::kMaxDim:
      return {"PLACE", 0, Finish::kValue, true};
    case ReduceOp::kMinDim:
      return {"PLACE", 1, Finish::kValue, true};
    case ReduceOp::kAny:
      return {"COUNT", 0, Finish::kAny};
    case ReduceOp::kAll:
      return {"COUNT", 0, Finish::kAll};
    case ReduceOp::kCountNonzero:
      return {"COUNT"};
    case ReduceOp::kNorm:
      return NormOf(scalar);
    case ReduceOp::kVar:
      return {"MOMENTS", 0, Finish::kVariance};
    case ReduceOp::kStd:
      return {"MOMENTS", 0, Finish::kDeviation};
    case ReduceOp::kLogSumExp:
      return {"LOG_SUM", 0, Finish::kLog};
  }
  return {};
}

struct Kept {
  int64_t rank = 0;
  int64_t sizes[kMaxRank] = {};
  int64_t src[kMaxRank] = {};
  int64_t dst[kMaxRank] = {};
  int64_t second[kMaxRank] = {};
};

struct Plan {
  Kept kept;
  ClView reduced;
  int64_t outputs = 1;
  int64_t count = 1;  // of elements of each
  bool by_columns = false;
  bool by_vectors = false;
};

ResolvedOperand With(const ResolvedOperand& like, int rank,
                     const int64_t* sizes, const int64_t* strides) {
  ResolvedOperand operand = like;
  operand.rank = rank;
  operand.sizes = sizes;
  operand.strides = strides;
  return operand;
}

// `second` may be null.
Plan MakePlan(const ResolvedOperand& x, const ResolvedOperand& y,
              const ResolvedOperand* second, bool in_order) {
  int64_t kept_sizes[kMaxRank], kept_strides[3][kMaxRank];
  int64_t reduced_sizes[kMaxRank], reduced_strides[kMaxRank];
  int num_kept = 0, num_reduced = 0;
  Plan plan;
  for (int d = 0; d < x.rank; ++d) {
    if (y.sizes[d] == x.sizes[d] && x.sizes[d] != 1) {
      kept_sizes[num_kept] = x.sizes[d];
      kept_strides[0][num_kept] = x.strides[d];
      kept_strides[1][num_kept] = y.strides[d];
      kept_strides[2][num_kept++] = second ? second->strides[d] : 0;
      plan.outputs *= x.sizes[d];
    } else {
      reduced_sizes[num_reduced] = x.sizes[d];
      reduced_strides[num_reduced++] = x.strides[d];
      plan.count *= x.sizes[d];
    }
  }
  ResolvedOperand kept[3], reduced;
  for (int i = 0; i < 3; ++i) {
    kept[i] = With(i == 0 ? x : y, num_kept, kept_sizes, kept_strides[i]);
  }
  reduced = With(x, num_reduced, reduced_sizes, reduced_strides);
  const ResolvedOperand* const kept_list[] = {&kept[0], &kept[1], &kept[2]};
  const ResolvedOperand* const reduced_list[] = {&reduced};
  const std::vector<ClView> views = JoinedViews(kept_list, ViewOrder::kMemory);
  plan.reduced = JoinedViews(
      reduced_list, in_order ? ViewOrder::kRowMajor : ViewOrder::kMemory)[0];
  plan.kept.rank = views[0].rank;
  for (int d = 0; d < views[0].rank; ++d) {
    plan.kept.sizes[d] = views[0].sizes[d];
    plan.kept.src[d] = views[0].strides[d];
    plan.kept.dst[d] = views[1].strides[d];
    plan.kept.second[d] = views[2].strides[d];
  }

  const int last = static_cast<int>(plan.reduced.rank) - 1;
  int64_t nearest = plan.reduced.strides[last];
  for (int d = 0; d < last; ++d) {
    nearest = std::min(nearest, plan.reduced.strides[d]);
  }
  plan.by_columns = plan.outputs > 1 && plan.count > 1 &&
                    plan.kept.src[plan.kept.rank - 1] < nearest;
  plan.by_vectors = !plan.by_columns && last == 0 && nearest == 1 &&
                    plan.count >= 4 &&
                    x.offset_bytes % (4 * SizeOf(x.dtype)) == 0;
  for (int d = 0; d < plan.kept.rank; ++d) {
    plan.by_vectors &= plan.kept.src[d] % 4 == 0;
  }
  return plan;
}

// Where results go; no memory for an absent second output.
struct Target {
  cl_mem memory = nullptr;
  int64_t offset_bytes = 0;
};

Target TargetOf(const ResolvedOperand& operand) {
  if (operand.buffer == nullptr) return {};
  return {MemoryOf(*operand.buffer),
          static_cast<int64_t>(operand.offset_bytes)};
}

// One reduction put together, for one tensor or for one of a list.
class Reducer {
 public:
  Reducer(KernelContext& context, const Recipe& recipe, DType x, DType y,
          double scalar)
      : context_(context), recipe_(recipe), scalar_(scalar) {
    options_ = absl::StrCat("-DT=", ClTypeName(x), " -DOT=", ClTypeName(y),
                            " -DGATHER_", recipe.gather);
    if (IsFloating(x)) options_ += " -DT_FLOAT";
    if (x == DType::kFloat64) options_ += " -DT_F64";
  }

  // The states of `plan.outputs` times `pieces` go to `states` (null: results
  // are written).
  absl::Status Gather(const Plan& plan, const LineShape& lines,
                      const ResolvedOperand& x, const Target& y,
                      const Target& second, cl_mem states,
                      int64_t first_state) {
    KernelCall call(context_, kReduceCl, "reduce_gather", options_);
    AddTargets(y, second, &call);
    call.Operand(x)
        .Struct(plan.kept)
        .Struct(plan.reduced)
        .Memory(states)
        .Long(first_state)
        .Local(static_cast<size_t>(lines.group * kStateBytes))
        .Long(plan.outputs)
        .Long(plan.count)
        .Long(lines.piece)
        .Long(lines.pieces)
        .Int(lines.height)
        .Int(plan.by_columns ? 1 : 0)
        .Int(plan.by_vectors ? 1 : 0);
    AddFinish(second, &call);
    return call.RunGroups(lines.num_groups, lines.group);
  }

  // The joined states of each output, results written.
  absl::Status Join(const Kept& kept, int64_t outputs, int64_t count,
                    int64_t pieces, const Target& y, const Target& second,
                    cl_mem states) {
    const uint32_t group = PowerOfTwoGroup(context_.traits());
    const int height =
        static_cast<int>(std::min<int64_t>(group, PowerOfTwoFrom(pieces)));
    const int64_t width = group / height;
    KernelCall call(context_, kReduceCl, "reduce_join", options_);
    AddTargets(y, second, &call);
    call.Struct(kept)
        .Memory(states)
        .Local(static_cast<size_t>(group * kStateBytes))
        .Long(outputs)
        .Long(count)
        .Long(pieces)
        .Int(height);
    AddFinish(second, &call);
    return call.RunGroups((outputs + width - 1) / width, group);
  }

 private:
  void AddTargets(const Target& y, const Target& second,
                  KernelCall* call) const {
    for (const Target& target : {y, second}) {
      call->Memory(target.memory).Long(target.offset_bytes);
    }
  }
  void AddFinish(const Target& second, KernelCall* call) const {
    call->Int(second.memory != nullptr ? 1 : 0)
        .Int(recipe_.mode)
        .Int(static_cast<int>(recipe_.finish));
    AddWide(context_, scalar_, call);
  }

  KernelContext& context_;
  const Recipe recipe_;
  const double scalar_;
  std::string options_;
};

absl::Status CheckTypes(const KernelContext& context, const ResolvedOperand& x,
                        const ResolvedOperand& y) {
  for (const DType dtype : {x.dtype, y.dtype}) {
    const bool known = IsFloating(dtype) || IsIntegral(dtype);
    if (!known || (dtype == DType::kFloat64 && !context.traits().has_double)) {
      return absl::UnimplementedError(
          absl::StrCat("reduce: no OpenCL kernel for ", NameOf(dtype)));
    }
  }
  return absl::OkStatus();
}

absl::Status RunPlan(KernelContext& context, const Plan& plan,
                     const Recipe& recipe, DType result, double scalar,
                     const ResolvedOperand& x, const Target& y,
                     const Target& second) {
  const LineShape lines =
      LinesOf(context.traits(), plan.outputs, plan.count, plan.by_columns);
  Reducer reducer(context, recipe, x.dtype, result, scalar);
  if (lines.pieces == 1) {
    return reducer.Gather(plan, lines, x, y, second, nullptr, 0);
  }
  ASSIGN_OR_RETURN(cl_mem states,
                   context.Scratch(static_cast<uint64_t>(
                       plan.outputs * lines.pieces * kStateBytes)));
  RETURN_IF_ERROR(reducer.Gather(plan, lines, x, y, second, states, 0));
  return reducer.Join(plan.kept, plan.outputs, plan.count, lines.pieces, y,
                      second, states);
}

}  // namespace

absl::Status RunReduce(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& x = launch.src[0];
  const ResolvedOperand& y = launch.dst[0];
  RETURN_IF_ERROR(CheckTypes(context, x, y));
  const Recipe recipe =
      RecipeOf(static_cast<ReduceOp>(launch.ints[0]), launch.scalar);
  const ResolvedOperand none;
  const ResolvedOperand& second = launch.dst.size() > 1 ? launch.dst[1] : none;
  const Plan plan =
      MakePlan(x, y, second.dtype == DType::kInvalid ? nullptr : &second,
               recipe.in_order);
  if (plan.outputs == 0) return absl::OkStatus();
  return RunPlan(context, plan, recipe, y.dtype, launch.scalar, x, TargetOf(y),
                 TargetOf(second));
}

absl::Status ReduceMoments(KernelContext& context, const ResolvedOperand& x,
                           const ResolvedOperand& y, cl_mem mean,
                           cl_mem variance) {
  RETURN_IF_ERROR(CheckTypes(context, x, x));
  const Recipe recipe = RecipeOf(ReduceOp::kVar, 0);
  const Plan plan = MakePlan(x, y, &y, recipe.in_order);
  if (plan.outputs == 0) return absl::OkStatus();
  const DType wide =
      context.traits().has_double ? DType::kFloat64 : DType::kFloat32;
  return RunPlan(context, plan, recipe, wide, 0, x, {variance}, {mean});
}

absl::Status RunReduceForeach(KernelContext& context,
                              const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const int64_t n = static_cast<int64_t>(launch.src.size());
  for (const ResolvedOperand& x : launch.src) {
    RETURN_IF_ERROR(CheckTypes(context, x, y));
  }
  const Recipe recipe =
      RecipeOf(static_cast<ReduceOp>(launch.ints[0]), launch.scalar);
  // Each tensor as one output of as many pieces as the longest has; those
  // behind a tensor's end stay empty.
  static constexpr int64_t kOnes[kMaxRank] = {1, 1, 1, 1, 1, 1, 1, 1,
                                              1, 1, 1, 1, 1, 1, 1, 1};
  std::vector<Plan> plans;
  int64_t pieces = 1;
  for (const ResolvedOperand& x : launch.src) {
    plans.push_back(MakePlan(x, With(y, x.rank, kOnes, kOnes), nullptr, false));
    pieces = std::max(
        pieces, LinesOf(context.traits(), 1, plans.back().count, false).pieces);
  }
  ASSIGN_OR_RETURN(
      cl_mem states,
      context.Scratch(static_cast<uint64_t>(n * pieces * kStateBytes)));
  for (int64_t i = 0; i < n; ++i) {
    const ResolvedOperand& x = launch.src[i];
    LineShape lines = LinesOf(context.traits(), 1, plans[i].count, false);
    lines.pieces = lines.num_groups = pieces;
    lines.piece = std::max<int64_t>((plans[i].count + pieces - 1) / pieces, 1);
    lines.piece = (lines.piece + 3) / 4 * 4;
    RETURN_IF_ERROR(
        Reducer(context, recipe, x.dtype, y.dtype, launch.scalar)
            .Gather(plans[i], lines, x, TargetOf(y), {}, states, i * pieces));
  }
  Kept kept;
  kept.rank = 1;
  kept.sizes[0] = n;
  kept.dst[0] = y.strides[0];
  return Reducer(context, recipe, launch.src[0].dtype, y.dtype, launch.scalar)
      .Join(kept, n, 1, pieces, TargetOf(y), {}, states);
}

}  // namespace tvarant::opencl

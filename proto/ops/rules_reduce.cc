// Rules of reduce, reduce_foreach and cumulate.

#include "absl/strings/str_cat.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {
namespace {

bool IsKnownReduceOp(int64_t op) {
  return op >= static_cast<int64_t>(ReduceOp::kSum) &&
         op <= static_cast<int64_t>(ReduceOp::kNanSum);
}

bool HasIndices(ReduceOp op) {
  return op == ReduceOp::kMaxDim || op == ReduceOp::kMinDim;
}

// Sums of floats stay floats; anything else may widen.
absl::Status WantSumType(const LaunchParams& params, const Operand& y,
                         const Operand& x) {
  return IsFloating(x.dtype) ? WantFloating(params, y)
                             : WantComputable(params, y);
}

absl::Status CheckReduceTypes(const LaunchParams& params, ReduceOp op) {
  const Operand& x = params.src[0];
  const Operand& y = params.dst[0];
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProd:
    case ReduceOp::kNanSum:
    case ReduceOp::kSumSquares:
      return WantSumType(params, y, x);
    case ReduceOp::kMean:
      return WantFloating(params, y);
    case ReduceOp::kMax:
    case ReduceOp::kMin:
    case ReduceOp::kMaxDim:
    case ReduceOp::kMinDim:
      return WantDType(params, y, x.dtype);
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
    case ReduceOp::kCountNonzero:
      return WantDType(params, y, DType::kInt64);
    case ReduceOp::kAny:
    case ReduceOp::kAll:
      return y.dtype == DType::kUInt8 ? absl::OkStatus()
                                      : WantDType(params, y, DType::kBool);
    case ReduceOp::kNorm:
    case ReduceOp::kVar:
    case ReduceOp::kStd:
    case ReduceOp::kLogSumExp:
      RETURN_IF_ERROR(WantFloating(params, x));
      return WantFloating(params, y);
  }
  return LaunchError(params, "unknown reduction");
}

absl::Status CheckSecondOutput(const LaunchParams& params, ReduceOp op) {
  const Operand& y = params.dst[0];
  if (params.num_dst == 1) {
    return HasIndices(op) ? CountError(params, "dst operands", 1, 2)
                          : absl::OkStatus();
  }
  const Operand& second = params.dst[1];
  if (HasIndices(op)) {
    RETURN_IF_ERROR(WantDType(params, second, DType::kInt64));
  } else if (op == ReduceOp::kVar || op == ReduceOp::kStd) {
    RETURN_IF_ERROR(WantDType(params, second, y.dtype));
  } else {
    return CountError(params, "dst operands", 2, 1);
  }
  return WantSizesOf(params, second, y);
}

// Reductions of which nothing comes from nothing.
bool NeedsAnElement(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMax:
    case ReduceOp::kMin:
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
    case ReduceOp::kMaxDim:
    case ReduceOp::kMinDim:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Status CheckReduce(const LaunchParams& params, const Program*) {
  const Operand& x = params.src[0];
  const Operand& y = params.dst[0];
  RETURN_IF_ERROR(WantParameters(params, 1, 0));
  if (!IsKnownReduceOp(params.ints[0])) {
    return ParameterError(params, "reduction", params.ints[0],
                          "a known number");
  }
  const ReduceOp op = static_cast<ReduceOp>(params.ints[0]);
  RETURN_IF_ERROR(WantComputable(params, x));
  RETURN_IF_ERROR(WantRank(params, y, x.rank));
  for (int i = 0; i < x.rank; ++i) {
    if (y.sizes[i] != x.sizes[i] && y.sizes[i] != 1) {
      return OperandError(
          params, y,
          absl::StrCat("has size ", y.sizes[i], " in dimension ", i,
                       ", want 1 or ", x.sizes[i]));
    }
  }
  RETURN_IF_ERROR(CheckReduceTypes(params, op));
  RETURN_IF_ERROR(CheckSecondOutput(params, op));
  if (NeedsAnElement(op) && NumElements(x) == 0 && NumElements(y) != 0) {
    return OperandError(params, x,
                        "is empty where the reduction needs an element");
  }
  return absl::OkStatus();
}

absl::Status CheckReduceForeach(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  RETURN_IF_ERROR(WantParameters(params, 1, 0));
  const ReduceOp op = static_cast<ReduceOp>(params.ints[0]);
  if (params.ints[0] != static_cast<int64_t>(ReduceOp::kNorm) &&
      params.ints[0] != static_cast<int64_t>(ReduceOp::kMax)) {
    return ParameterError(params, "reduction", params.ints[0], "norm or max");
  }
  RETURN_IF_ERROR(WantSizes(params, y, {params.num_src}));
  for (int i = 0; i < params.num_src; ++i) {
    const Operand& x = params.src[i];
    if (op == ReduceOp::kMax) {
      RETURN_IF_ERROR(WantComputable(params, x));
      RETURN_IF_ERROR(WantDType(params, x, y.dtype));
      if (NumElements(x) == 0) return OperandError(params, x, "is empty");
    } else {
      RETURN_IF_ERROR(WantFloating(params, x));
      RETURN_IF_ERROR(WantFloating(params, y));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCumulate(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 2, 0));
  RETURN_IF_ERROR(WantSizesOf(params, x, y));
  RETURN_IF_ERROR(WantDim(params, x, params.ints[0]));
  if (params.ints[1] != 0 && params.ints[1] != 1) {
    return ParameterError(params, "operation", params.ints[1],
                          "0 (sum) or 1 (product)");
  }
  RETURN_IF_ERROR(WantComputable(params, x));
  return WantSumType(params, y, x);
}

}  // namespace tvarant::rules

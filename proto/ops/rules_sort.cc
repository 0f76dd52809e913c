// Rules of sort, order_statistic, sort_rows, search_sorted, histogram,
// cumulate_extreme, log_cumsum_exp.

#include "absl/strings/str_cat.h"
#include "proto/base/strided.h"
#include "proto/ops/op_ids.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {
namespace {

// An operand that repeats its elements has no memory behind its sizes; a
// kernel that keeps a copy of it must not be asked for more than the client's.
absl::Status WantNoRepeat(const LaunchParams& params, const Operand& operand) {
  if (base::MayOverlapItself(operand.sizes, operand.strides, operand.rank)) {
    return OperandError(params, operand, "repeats its elements");
  }
  return absl::OkStatus();
}

absl::Status WantFlag(const LaunchParams& params, const char* name,
                      int64_t value) {
  if (value == 0 || value == 1) return absl::OkStatus();
  return ParameterError(params, name, value, "0 or 1");
}

// Values like x, and int64 indices of the same sizes.
absl::Status CheckValuesAndIndices(const LaunchParams& params) {
  const Operand& values = params.dst[0];
  RETURN_IF_ERROR(WantComputable(params, params.src[0]));
  RETURN_IF_ERROR(WantDType(params, values, params.src[0].dtype));
  RETURN_IF_ERROR(WantDType(params, params.dst[1], DType::kInt64));
  return WantSizesOf(params, params.dst[1], values);
}

}  // namespace

absl::Status CheckSort(const LaunchParams& params, const Program*) {
  const Operand& values = params.dst[0];
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 2, 0));
  const int64_t dim = params.ints[0];
  RETURN_IF_ERROR(WantDim(params, x, dim));
  RETURN_IF_ERROR(WantFlag(params, "descending", params.ints[1]));
  RETURN_IF_ERROR(CheckValuesAndIndices(params));
  RETURN_IF_ERROR(WantSizesOfExcept(params, values, x, dim));
  if (values.sizes[dim] > x.sizes[dim]) {
    return OperandError(
        params, values,
        absl::StrCat("has size ", values.sizes[dim], " in dimension ", dim,
                     ", want at most ", x.sizes[dim]));
  }
  return absl::OkStatus();
}

absl::Status CheckOrderStatistic(const LaunchParams& params, const Program*) {
  const Operand& values = params.dst[0];
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 3, 0));
  const int64_t dim = params.ints[0];
  RETURN_IF_ERROR(WantDim(params, x, dim));
  if (params.ints[1] < static_cast<int64_t>(OrderStatistic::kKth) ||
      params.ints[1] > static_cast<int64_t>(OrderStatistic::kMode)) {
    return ParameterError(params, "statistic", params.ints[1],
                          "an OrderStatistic");
  }
  RETURN_IF_ERROR(CheckValuesAndIndices(params));
  RETURN_IF_ERROR(WantSizesOfExcept(params, values, x, dim));
  if (values.sizes[dim] != 1) {
    return OperandError(params, values, "has no size of 1 in dim");
  }
  if (x.sizes[dim] == 0 || params.ints[2] < 0 ||
      params.ints[2] >= x.sizes[dim]) {
    return ParameterError(params, "k", params.ints[2], "an element of dim");
  }
  return WantNoRepeat(params, x);
}

absl::Status CheckSortRows(const LaunchParams& params, const Program*) {
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 0, 0));
  RETURN_IF_ERROR(WantComputable(params, x));
  RETURN_IF_ERROR(WantRank(params, x, 2));
  RETURN_IF_ERROR(WantDType(params, params.dst[0], DType::kInt64));
  RETURN_IF_ERROR(WantSizes(params, params.dst[0], {x.sizes[0]}));
  return WantNoRepeat(params, x);
}

absl::Status CheckSearchSorted(const LaunchParams& params, const Program*) {
  const Operand& sequence = params.src[0];
  const Operand& values = params.src[1];
  const Operand& sorter = params.src[2];
  RETURN_IF_ERROR(WantParameters(params, 1, 0));
  if (params.ints[0] < 0 || params.ints[0] > 2) {
    return ParameterError(params, "side", params.ints[0], "0, 1 or 2");
  }
  RETURN_IF_ERROR(WantIndex(params, params.dst[0]));
  RETURN_IF_ERROR(WantSizesOf(params, params.dst[0], values));
  RETURN_IF_ERROR(WantComputable(params, sequence));
  RETURN_IF_ERROR(WantDType(params, values, sequence.dtype));
  RETURN_IF_ERROR(WantRankAtLeast(params, sequence, 1));
  if (sequence.rank > 1) {
    RETURN_IF_ERROR(
        WantSizesOfExcept(params, sequence, values, sequence.rank - 1));
  }
  if (IsPresent(sorter)) {
    RETURN_IF_ERROR(WantDType(params, sorter, DType::kInt64));
    RETURN_IF_ERROR(WantSizesOf(params, sorter, sequence));
  }
  return absl::OkStatus();
}

absl::Status CheckHistogram(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& x = params.src[0];
  const Operand& weights = params.src[1];
  RETURN_IF_ERROR(WantParameters(params, 1, 2));
  RETURN_IF_ERROR(WantFlag(params, "equal bins", params.ints[0]));
  RETURN_IF_ERROR(WantRank(params, y, 1));
  RETURN_IF_ERROR(WantComputable(params, x));
  if (IsFloating(x.dtype) != (params.ints[0] == 1)) {
    return DTypeError(params, x, "a float dtype for equal bins, else integers");
  }
  if (params.ints[0] == 1) {
    if (y.sizes[0] == 0) return OperandError(params, y, "has no bins");
    if (!(params.floats[0] < params.floats[1])) {
      return ParameterError(params, "high", params.floats[1], "more than low");
    }
  }
  if (IsPresent(weights)) {
    if (y.dtype != DType::kFloat32 && y.dtype != DType::kFloat64) {
      return DTypeError(params, y, "float32 or float64");
    }
    RETURN_IF_ERROR(WantRank(params, x, 1));
    RETURN_IF_ERROR(WantDType(params, weights, y.dtype));
    return WantSizesOf(params, weights, x);
  }
  if (y.dtype == DType::kInt64) return absl::OkStatus();
  return WantFloating(params, y);
}

absl::Status CheckCumulateExtreme(const LaunchParams& params, const Program*) {
  RETURN_IF_ERROR(WantParameters(params, 2, 0));
  RETURN_IF_ERROR(WantDim(params, params.src[0], params.ints[0]));
  RETURN_IF_ERROR(WantFlag(params, "minimum", params.ints[1]));
  RETURN_IF_ERROR(CheckValuesAndIndices(params));
  return WantSizesOf(params, params.dst[0], params.src[0]);
}

absl::Status CheckLogCumsumExp(const LaunchParams& params, const Program*) {
  RETURN_IF_ERROR(WantParameters(params, 1, 0));
  RETURN_IF_ERROR(WantDim(params, params.src[0], params.ints[0]));
  RETURN_IF_ERROR(WantFloating(params, params.src[0]));
  RETURN_IF_ERROR(WantDType(params, params.dst[0], params.src[0].dtype));
  return WantSizesOf(params, params.dst[0], params.src[0]);
}

}  // namespace tvarant::rules

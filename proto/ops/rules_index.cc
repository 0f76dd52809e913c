// Rules of index_select, gather, scatter_add, embedding_backward, cat.

#include "absl/strings/str_cat.h"
#include "proto/base/checked_math.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {

absl::Status CheckIndexSelect(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& x = params.src[0];
  const Operand& index = params.src[1];
  RETURN_IF_ERROR(WantParameters(params, 1, 0));
  const int64_t dim = params.ints[0];
  RETURN_IF_ERROR(WantDim(params, x, dim));
  RETURN_IF_ERROR(WantDType(params, y, x.dtype));
  RETURN_IF_ERROR(WantIndex(params, index));
  RETURN_IF_ERROR(WantRank(params, index, 1));
  RETURN_IF_ERROR(WantSizesOfExcept(params, y, x, dim));
  if (y.sizes[dim] != index.sizes[0]) {
    return OperandError(
        params, y,
        absl::StrCat("has size ", y.sizes[dim], " in dimension ", dim,
                     ", want the number of indices, ", index.sizes[0]));
  }
  return absl::OkStatus();
}

absl::Status CheckGather(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& x = params.src[0];
  const Operand& index = params.src[1];
  RETURN_IF_ERROR(WantParameters(params, 1, 0));
  RETURN_IF_ERROR(WantDim(params, x, params.ints[0]));
  RETURN_IF_ERROR(WantDType(params, y, x.dtype));
  RETURN_IF_ERROR(WantDType(params, index, DType::kInt64));
  RETURN_IF_ERROR(WantSizesOf(params, y, index));
  return WantSizesWithin(params, index, x, params.ints[0]);
}

absl::Status CheckScatterAdd(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& index = params.src[0];
  const Operand& values = params.src[1];
  RETURN_IF_ERROR(WantParameters(params, 1, 0));
  RETURN_IF_ERROR(WantDim(params, y, params.ints[0]));
  RETURN_IF_ERROR(WantComputable(params, y));
  RETURN_IF_ERROR(WantDType(params, values, y.dtype));
  RETURN_IF_ERROR(WantDType(params, index, DType::kInt64));
  RETURN_IF_ERROR(WantSizesOf(params, values, index));
  return WantSizesWithin(params, index, y, params.ints[0]);
}

absl::Status CheckEmbeddingBackward(const LaunchParams& params,
                                    const Program*) {
  const Operand& dweight = params.dst[0];
  const Operand& dy = params.src[0];
  const Operand& index = params.src[1];
  RETURN_IF_ERROR(WantParameters(params, 2, 0));
  RETURN_IF_ERROR(WantFloating(params, dweight));
  RETURN_IF_ERROR(WantRank(params, dweight, 2));
  RETURN_IF_ERROR(WantDType(params, dy, dweight.dtype));
  RETURN_IF_ERROR(WantIndex(params, index));
  RETURN_IF_ERROR(WantRank(params, index, 1));
  RETURN_IF_ERROR(WantSizes(params, dy, {index.sizes[0], dweight.sizes[1]}));
  if (params.ints[0] < -1 || params.ints[0] >= dweight.sizes[0]) {
    return ParameterError(params, "padding index", params.ints[0],
                          "-1 or a row of dst 0");
  }
  if (params.ints[1] != 0 && params.ints[1] != 1) {
    return ParameterError(params, "scale by frequency", params.ints[1],
                          "0 or 1");
  }
  return absl::OkStatus();
}

absl::Status CheckCat(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  RETURN_IF_ERROR(WantParameters(params, 1, 0));
  const int64_t dim = params.ints[0];
  RETURN_IF_ERROR(WantDim(params, y, dim));
  int64_t total = 0;
  for (int i = 0; i < params.num_src; ++i) {
    const Operand& x = params.src[i];
    RETURN_IF_ERROR(WantSizesOfExcept(params, x, y, dim));
    if (x.dtype != y.dtype &&
        !(IsComputable(x.dtype) && IsComputable(y.dtype))) {
      return DTypeError(params, x, NameOf(y.dtype));
    }
    if (!base::CheckedAdd(total, x.sizes[dim], &total)) {
      return OperandError(params, x, "is too large");
    }
  }
  if (total != y.sizes[dim]) {
    return OperandError(
        params, y,
        absl::StrCat("has size ", y.sizes[dim], " in dimension ", dim,
                     ", want the sum of the inputs', ", total));
  }
  return absl::OkStatus();
}

}  // namespace tvarant::rules

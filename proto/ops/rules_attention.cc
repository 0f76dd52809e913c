// Rule of attention.

#include "proto/ops/rule_checks.h"

namespace tvarant::rules {

absl::Status CheckAttention(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& sums = params.dst[1];
  const Operand& q = params.src[0];
  const Operand& k = params.src[1];
  const Operand& v = params.src[2];
  const Operand& mask = params.src[3];
  RETURN_IF_ERROR(WantParameters(params, 1, 0));
  if (params.ints[0] != 0 && params.ints[0] != 1) {
    return ParameterError(params, "causal", params.ints[0], "0 or 1");
  }
  RETURN_IF_ERROR(WantFloating(params, q));
  RETURN_IF_ERROR(WantRank(params, q, 4));
  for (const Operand* other : {&k, &v, &y}) {
    RETURN_IF_ERROR(WantDType(params, *other, q.dtype));
    RETURN_IF_ERROR(WantRank(params, *other, 4));
  }
  const int64_t batch = q.sizes[0], heads = q.sizes[1], queries = q.sizes[2];
  const int64_t groups = k.sizes[1], keys = k.sizes[2];
  RETURN_IF_ERROR(WantSizes(params, k, {batch, groups, keys, q.sizes[3]}));
  RETURN_IF_ERROR(WantSizes(params, v, {batch, groups, keys, v.sizes[3]}));
  RETURN_IF_ERROR(WantSizes(params, y, {batch, heads, queries, v.sizes[3]}));
  if (groups == 0 ? heads != 0 : heads % groups != 0) {
    return ParameterError(params, "number of heads", heads,
                          "a multiple of the keys' heads");
  }
  if (IsPresent(mask)) {
    if (mask.dtype != DType::kBool && mask.dtype != DType::kFloat32) {
      RETURN_IF_ERROR(WantDType(params, mask, q.dtype));
    }
    RETURN_IF_ERROR(WantSizes(params, mask, {batch, heads, queries, keys}));
  }
  if (IsPresent(sums)) {
    RETURN_IF_ERROR(WantDType(
        params, sums,
        q.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32));
    RETURN_IF_ERROR(WantSizes(params, sums, {batch, heads, queries}));
  }
  return absl::OkStatus();
}

}  // namespace tvarant::rules

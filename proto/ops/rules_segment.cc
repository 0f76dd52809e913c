// Rules of segment_reduce and its gradient.

#include <cstdint>

#include "proto/ops/op_ids.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {
namespace {

// data [O, L, I], reduced [O, S, I], offsets [O, S + 1]
absl::Status CheckSegments(const LaunchParams& params, const Operand& data,
                           const Operand& reduced, const Operand& offsets) {
  RETURN_IF_ERROR(WantParameters(params, 2, 1));
  const int64_t op = params.ints[0];
  if (op < static_cast<int64_t>(ReduceOp::kSum) ||
      op > static_cast<int64_t>(ReduceOp::kMin)) {
    return ParameterError(params, "reduction", op,
                          "a sum, mean, product, maximum or minimum");
  }
  if (params.ints[1] != 0 && params.ints[1] != 1) {
    return ParameterError(params, "initial", params.ints[1], "0 or 1");
  }
  RETURN_IF_ERROR(WantFloating(params, data));
  RETURN_IF_ERROR(WantRank(params, data, 3));
  RETURN_IF_ERROR(WantRank(params, reduced, 3));
  RETURN_IF_ERROR(WantDType(params, reduced, data.dtype));
  RETURN_IF_ERROR(WantIndex(params, offsets));
  RETURN_IF_ERROR(WantSizes(params, reduced,
                            {data.sizes[0], reduced.sizes[1], data.sizes[2]}));
  return WantSizes(params, offsets, {data.sizes[0], reduced.sizes[1] + 1});
}

}  // namespace

absl::Status CheckSegmentReduce(const LaunchParams& params, const Program*) {
  return CheckSegments(params, params.src[0], params.dst[0], params.src[1]);
}

absl::Status CheckSegmentReduceBackward(const LaunchParams& params,
                                        const Program*) {
  const Operand& data = params.src[2];
  RETURN_IF_ERROR(CheckSegments(params, data, params.src[1], params.src[3]));
  RETURN_IF_ERROR(WantDType(params, params.src[0], data.dtype));
  RETURN_IF_ERROR(WantSizesOf(params, params.src[0], params.src[1]));
  RETURN_IF_ERROR(WantDType(params, params.dst[0], data.dtype));
  return WantSizesOf(params, params.dst[0], data);
}

}  // namespace tvarant::rules

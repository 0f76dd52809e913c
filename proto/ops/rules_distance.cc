// Rules of pair_distance and its gradient.

#include "absl/strings/str_cat.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {
namespace {

// a [B, N, K] and b [B, M, K] give y [B, N, M]; a [N, K] alone gives y of its
// N (N - 1) / 2 pairs.
absl::Status CheckPairs(const LaunchParams& params, const Operand& y,
                        const Operand& a, const Operand& b) {
  RETURN_IF_ERROR(WantParameters(params, 0, 0));
  if (!(params.scalar >= 0)) {
    return ParameterError(params, "p", params.scalar, "a number from 0");
  }
  if (a.dtype != DType::kFloat64) {
    RETURN_IF_ERROR(WantDType(params, a, DType::kFloat32));
  }
  RETURN_IF_ERROR(WantDType(params, y, a.dtype));
  if (!IsPresent(b)) {
    RETURN_IF_ERROR(WantRank(params, a, 2));
    const int64_t n = a.sizes[0];
    if (n > (int64_t{1} << 31)) return OperandError(params, a, "is too large");
    return WantSizes(params, y, {n < 2 ? 0 : n * (n - 1) / 2});
  }
  RETURN_IF_ERROR(WantRank(params, a, 3));
  RETURN_IF_ERROR(WantDType(params, b, a.dtype));
  RETURN_IF_ERROR(WantSizesOfExcept(params, b, a, 1));
  return WantSizes(params, y, {a.sizes[0], a.sizes[1], b.sizes[1]});
}

}  // namespace

absl::Status CheckPairDistance(const LaunchParams& params, const Program*) {
  return CheckPairs(params, params.dst[0], params.src[0], params.src[1]);
}

absl::Status CheckPairDistanceBackward(const LaunchParams& params,
                                       const Program*) {
  const Operand& a = params.src[1];
  RETURN_IF_ERROR(CheckPairs(params, params.src[0], a, params.src[2]));
  RETURN_IF_ERROR(WantDType(params, params.src[3], a.dtype));
  RETURN_IF_ERROR(WantSizesOf(params, params.src[3], params.src[0]));
  RETURN_IF_ERROR(WantDType(params, params.dst[0], a.dtype));
  return WantSizesOf(params, params.dst[0], a);
}

}  // namespace tvarant::rules

// Rule of gemm_bias_act.

#include <algorithm>

#include "proto/base/checked_math.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {

absl::Status CheckGemm(const LaunchParams& params, const Program*) {
  const Operand& c = params.dst[0];
  RETURN_IF_ERROR(WantParameters(params, 0, 0));
  if (params.m < 0 || params.n < 0 || params.k < 0 || params.batch < 0) {
    return LaunchError(params, "m, n, k or batch is negative");
  }
  int64_t work = std::max<int64_t>(params.batch, 1);
  for (const int64_t extent : {params.m, params.n, params.k}) {
    if (!base::CheckedMul(work, std::max<int64_t>(extent, 1), &work)) {
      return LaunchError(params, "m, n, k and batch are too large");
    }
  }
  if (params.act > Act::kGeluTanh) {
    return ParameterError(params, "act", static_cast<int64_t>(params.act),
                          "a known activation");
  }
  RETURN_IF_ERROR(WantComputable(params, c));
  if (params.act > Act::kRelu) RETURN_IF_ERROR(WantFloating(params, c));
  RETURN_IF_ERROR(WantSizes(params, c, {params.batch, params.m, params.n}));
  const Operand& a = params.src[0];
  RETURN_IF_ERROR(WantDType(params, a, c.dtype));
  RETURN_IF_ERROR(WantSizes(params, a, {params.batch, params.m, params.k}));
  const Operand& b = params.src[1];
  RETURN_IF_ERROR(WantDType(params, b, c.dtype));
  RETURN_IF_ERROR(WantSizes(params, b, {params.batch, params.k, params.n}));
  if (params.num_src < 3 || !IsPresent(params.src[2])) return absl::OkStatus();
  const Operand& bias = params.src[2];
  RETURN_IF_ERROR(WantDType(params, bias, c.dtype));
  return WantSizes(params, bias, {params.batch, params.m, params.n});
}

}  // namespace tvarant::rules

// Rules of random and dropout.

#include "proto/ops/rule_checks.h"

namespace tvarant::rules {

// Comparisons are written so that NaN fails them.
absl::Status CheckRandom(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  RETURN_IF_ERROR(WantParameters(params, 5, 2));
  const double a = params.floats[0], b = params.floats[1];
  if (params.ints[0] < 0 || params.ints[0] > UINT8_MAX) {
    return ParameterError(params, "distribution", params.ints[0],
                          "a known number");
  }
  switch (static_cast<Distribution>(params.ints[0])) {
    case Distribution::kUniform:
      if (!(a <= b)) return ParameterError(params, "low", a, "at most high");
      return WantFloating(params, y);
    case Distribution::kNormal:
      if (!(b >= 0)) {
        return ParameterError(params, "standard deviation", b, "at least 0");
      }
      return WantFloating(params, y);
    case Distribution::kBernoulli:
      if (!(a >= 0 && a <= 1)) {
        return ParameterError(params, "probability", a, "0 to 1");
      }
      return WantComputable(params, y);
    case Distribution::kInteger:
      if (params.ints[3] >= params.ints[4]) {
        return ParameterError(params, "low", params.ints[3], "less than high");
      }
      return WantComputable(params, y);
    case Distribution::kExponential:
      if (!(a > 0)) return ParameterError(params, "rate", a, "more than 0");
      return WantFloating(params, y);
    case Distribution::kFullInteger:
      return WantComputable(params, y);
  }
  return ParameterError(params, "distribution", params.ints[0],
                        "a known number");
}

absl::Status CheckDropout(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& mask = params.dst[1];
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 2, 1));
  if (!(params.floats[0] >= 0 && params.floats[0] <= 1)) {
    return ParameterError(params, "probability", params.floats[0], "0 to 1");
  }
  RETURN_IF_ERROR(WantFloating(params, x));
  RETURN_IF_ERROR(WantDType(params, y, x.dtype));
  RETURN_IF_ERROR(WantDType(params, mask, DType::kBool));
  RETURN_IF_ERROR(WantSizesOf(params, y, x));
  return WantSizesOf(params, mask, x);
}

}  // namespace tvarant::rules

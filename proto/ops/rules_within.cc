// Rules of within.

#include "proto/ops/data_checks.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {

absl::Status CheckWithin(const LaunchParams& params, const Program*) {
  RETURN_IF_ERROR(WantParameters(params, 3, 2));
  if (!IsDataCheck(params.ints[0])) {
    return ParameterError(params, "check", params.ints[0],
                          "a number of data_checks.inc");
  }
  return WantComputable(params, params.src[0]);
}

}  // namespace tvarant::rules

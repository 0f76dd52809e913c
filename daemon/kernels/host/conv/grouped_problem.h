// All groups of a convolution, and what its launches share.

#ifndef TVARANT_DAEMON_KERNELS_HOST_CONV_GROUPED_PROBLEM_H_
#define TVARANT_DAEMON_KERNELS_HOST_CONV_GROUPED_PROBLEM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/conv/conv_problem.h"
#include "daemon/kernels/host/host_kernels.h"

namespace tvarant::host {

// Products below which a second thread costs more than it brings.
inline constexpr int64_t kProductsPerTask = 1 << 19;

inline int64_t BytesOf(DType dtype) {
  return static_cast<int64_t>(SizeOf(dtype));
}

inline absl::Status NoMemory(const HostLaunch& launch) {
  return absl::ResourceExhaustedError(absl::StrCat(
      NameOf(launch.kernel), ": no host memory for packed operands"));
}

// The problem of the first group and the way to the next one, in bytes.
struct GroupedProblem {
  ConvProblem first;
  int64_t groups = 1;
  int64_t x_step = 0, y_step = 0, weight_step = 0, bias_step = 0;

  ConvProblem Group(int64_t g) const {
    ConvProblem p = first;
    p.x.data += g * x_step;
    p.y.data += g * y_step;
    p.weight += g * weight_step;
    if (p.bias != nullptr) p.bias += g * bias_step;
    return p;
  }
};

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_CONV_GROUPED_PROBLEM_H_

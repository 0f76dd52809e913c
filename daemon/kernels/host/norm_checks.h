// Refusals that the norms share.

#ifndef TVARANT_DAEMON_KERNELS_HOST_NORM_CHECKS_H_
#define TVARANT_DAEMON_KERNELS_HOST_NORM_CHECKS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "daemon/kernels/host/host_kernels.h"

namespace tvarant::host {

// UNIMPLEMENTED unless all operands that are there are floats that compute in
// the same type as x.
inline absl::Status CheckNormDTypes(const HostLaunch& launch, DType x) {
  for (absl::Span<const Tensor> list : {launch.dst, launch.src}) {
    for (const Tensor& t : list) {
      if (!t.present() && IsFloating(x)) continue;
      if (!IsFloating(t.dtype) ||
          ComputeClassOf(t.dtype) != ComputeClassOf(x)) {
        return absl::UnimplementedError(
            absl::StrCat(NameOf(launch.kernel), ": no kernel for ",
                         NameOf(t.dtype), " with ", NameOf(x)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_NORM_CHECKS_H_

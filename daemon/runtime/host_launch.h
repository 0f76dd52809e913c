// A resolved launch as the host kernels take it.

#ifndef TVARANT_DAEMON_RUNTIME_HOST_LAUNCH_H_
#define TVARANT_DAEMON_RUNTIME_HOST_LAUNCH_H_

#include "absl/types/span.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/runtime/runtime.h"

namespace tvarant {

// `data`: where the operand's first element is; null for an empty tensor.
inline host::Tensor ToHostTensor(const ResolvedOperand& operand, char* data) {
  return {.data = data,
          .dtype = operand.dtype,
          .rank = operand.rank,
          .sizes = operand.sizes,
          .strides = operand.strides};
}

// `tensors`: the launch's dst, then its src; borrowed.
inline host::HostLaunch ToHostLaunch(const ResolvedLaunch& launch,
                                     absl::Span<const host::Tensor> tensors) {
  return {
      .kernel = launch.kernel,
      .act = launch.act,
      .flags = launch.flags,
      .program = launch.program,
      .program_key = launch.program_key,
      .m = launch.m,
      .n = launch.n,
      .k = launch.k,
      .batch = launch.batch,
      .alpha = launch.alpha,
      .beta = launch.beta,
      .scalar = launch.scalar,
      .ints = launch.ints,
      .floats = launch.floats,
      .dst = tensors.first(launch.dst.size()),
      .src = tensors.subspan(launch.dst.size()),
  };
}

}  // namespace tvarant

#endif  // TVARANT_DAEMON_RUNTIME_HOST_LAUNCH_H_

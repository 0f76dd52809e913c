// Convolutions whose groups have one row and one channel: each channel has a
// filter of its own.

#ifndef TVARANT_DAEMON_KERNELS_HOST_CONV_DEPTHWISE_H_
#define TVARANT_DAEMON_KERNELS_HOST_CONV_DEPTHWISE_H_

#include "absl/status/status.h"
#include "daemon/kernels/host/conv/grouped_problem.h"

namespace tvarant::host {

inline bool IsDepthwise(const ConvProblem& p) {
  return p.rows == 1 && p.channels == 1 && p.num_taps > 0;
}

// *done says whether they took the problem: not if its planes are too large.
absl::Status RunDepthwise(const HostLaunch& launch, const GroupedProblem& all,
                          const ConvKernel& kernel, ThreadPool& pool,
                          bool* done);
absl::Status RunDepthwiseWeight(const HostLaunch& launch,
                                const GroupedProblem& all,
                                const ConvKernel& kernel, ThreadPool& pool,
                                bool* done);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_CONV_DEPTHWISE_H_

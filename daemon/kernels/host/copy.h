// Copies between tensors, for kernels that consist of copies.

#ifndef TVARANT_DAEMON_KERNELS_HOST_COPY_H_
#define TVARANT_DAEMON_KERNELS_HOST_COPY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/thread_pool.h"

namespace tvarant::host {

// dst = src converted to dst's dtype; kConjugate and kNegate of `flags` apply
// to src. Same sizes, no overlap. UNIMPLEMENTED between uint16, uint32, uint64
// and another dtype.
absl::Status CopyTensor(const Tensor& dst, const Tensor& src, uint32_t flags,
                        ThreadPool& pool);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_COPY_H_

// Copies elements as they stand, with strides.

#ifndef TVARANT_DAEMON_KERNELS_HOST_BIT_COPY_H_
#define TVARANT_DAEMON_KERNELS_HOST_BIT_COPY_H_

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/thread_pool.h"

namespace tvarant::host {

// dst and src have the same sizes and the same bytes per element.
void BitCopy(const Tensor& dst, const Tensor& src, ThreadPool& pool);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_BIT_COPY_H_

// Fills tensors with one bit pattern.

#ifndef TVARANT_DAEMON_KERNELS_HOST_FILL_H_
#define TVARANT_DAEMON_KERNELS_HOST_FILL_H_

#include <cstdint>

#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/thread_pool.h"

namespace tvarant::host {

// Every element becomes the lowest bytes of low, then of high.
void FillTensor(const Tensor& dst, uint64_t low, uint64_t high,
                ThreadPool& pool);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_FILL_H_

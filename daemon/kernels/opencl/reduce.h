// What other families take of the reductions.

#ifndef TVARANT_DAEMON_KERNELS_OPENCL_REDUCE_H_
#define TVARANT_DAEMON_KERNELS_OPENCL_REDUCE_H_

#include <CL/cl.h>

#include "absl/status/status.h"
#include "daemon/runtime/opencl/kernel_context.h"
#include "daemon/runtime/runtime.h"

namespace tvarant::opencl {

// Mean and variance (not corrected) of floats over the dimensions of x that
// `y` has with size 1. Both are written as `wide` of AddWide (double, or float
// where there is none) at y's strides; `y` gives sizes and strides only. Uses
// scratch slot 0. UNIMPLEMENTED for x's dtype.
absl::Status ReduceMoments(KernelContext& context, const ResolvedOperand& x,
                           const ResolvedOperand& y, cl_mem mean,
                           cl_mem variance);

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_KERNELS_OPENCL_REDUCE_H_

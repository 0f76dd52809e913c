// OpenClKernels: the kernels that run on an OpenCL device.
//
// RunOpenClKernel dispatches a checked launch to its family, which queues it on
// the context's stream. What each kernel computes: proto/ops/kernels.md.
//
// A family is one .cl file (or several) beside the .cc file that chooses
// among its kernels and puts their arguments together. To add one: a function
// below, a row in opencl_kernels.cc, its files in BUILD.bazel.

#ifndef TVARANT_DAEMON_KERNELS_OPENCL_OPENCL_KERNELS_H_
#define TVARANT_DAEMON_KERNELS_OPENCL_OPENCL_KERNELS_H_

#include "absl/status/status.h"
#include "daemon/runtime/opencl/kernel_context.h"
#include "daemon/runtime/runtime.h"

namespace tvarant::opencl {

// UNIMPLEMENTED when there is no such kernel here, or not for these dtypes: the
// caller may run the launch elsewhere. Nothing has been queued then. Other
// errors are the launch's own.
absl::Status RunOpenClKernel(KernelContext& context,
                             const ResolvedLaunch& launch);

// One function per family; each may answer UNIMPLEMENTED.
absl::Status RunPointwise(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunPointwiseForeach(KernelContext& context,
                                 const ResolvedLaunch& launch);
absl::Status RunCopy(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunFill(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunArange(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunReduce(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunReduceForeach(KernelContext& context,
                              const ResolvedLaunch& launch);
absl::Status RunSoftmax(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunSoftmaxBackward(KernelContext& context,
                                const ResolvedLaunch& launch);
absl::Status RunLayerNorm(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunLayerNormBackward(KernelContext& context,
                                  const ResolvedLaunch& launch);
absl::Status RunNllLoss(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunNllLossBackward(KernelContext& context,
                                const ResolvedLaunch& launch);
absl::Status RunCumulate(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunCumulateExtreme(KernelContext& context,
                                const ResolvedLaunch& launch);
absl::Status RunLogCumsumExp(KernelContext& context,
                             const ResolvedLaunch& launch);
absl::Status RunRandom(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunDropout(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunTriangle(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunWithin(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunChannelNorm(KernelContext& context,
                            const ResolvedLaunch& launch);
absl::Status RunChannelNormBackward(KernelContext& context,
                                    const ResolvedLaunch& launch);
absl::Status RunMaxPool(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunAvgPool(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunAvgPoolBackward(KernelContext& context,
                                const ResolvedLaunch& launch);
absl::Status RunIndexSelect(KernelContext& context,
                            const ResolvedLaunch& launch);
absl::Status RunIndexPick(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunGather(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunCat(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunScatter(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunScatterAdd(KernelContext& context,
                           const ResolvedLaunch& launch);
absl::Status RunIndexPut(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunEmbeddingBackward(KernelContext& context,
                                  const ResolvedLaunch& launch);
absl::Status RunConvolution(KernelContext& context,
                            const ResolvedLaunch& launch);
absl::Status RunConvolutionTranspose(KernelContext& context,
                                     const ResolvedLaunch& launch);
absl::Status RunConvolutionWeight(KernelContext& context,
                                  const ResolvedLaunch& launch);
absl::Status RunNonzero(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunMaskedSelect(KernelContext& context,
                             const ResolvedLaunch& launch);
absl::Status RunMaskedScatter(KernelContext& context,
                              const ResolvedLaunch& launch);
absl::Status RunSort(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunOrderStatistic(KernelContext& context,
                               const ResolvedLaunch& launch);
absl::Status RunSearchSorted(KernelContext& context,
                             const ResolvedLaunch& launch);
absl::Status RunHistogram(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunResample(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunResampleBackward(KernelContext& context,
                                 const ResolvedLaunch& launch);
absl::Status RunPairDistance(KernelContext& context,
                             const ResolvedLaunch& launch);
absl::Status RunPairDistanceBackward(KernelContext& context,
                                     const ResolvedLaunch& launch);
absl::Status RunEmbeddingBag(KernelContext& context,
                             const ResolvedLaunch& launch);
absl::Status RunEmbeddingRenorm(KernelContext& context,
                                const ResolvedLaunch& launch);
absl::Status RunSortRows(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunFft(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunAttention(KernelContext& context, const ResolvedLaunch& launch);
absl::Status RunGemm(KernelContext& context, const ResolvedLaunch& launch);

// Queues the zeroing of memory.
absl::Status ZeroMemory(KernelContext& context, cl_mem memory, uint64_t bytes);

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_KERNELS_OPENCL_OPENCL_KERNELS_H_

// HostKernels: the simulator's kernels, on plain host memory.
//
// RunHostKernel dispatches a checked launch to its family. Kernels compute in
// parallel on the pool given to them; they allocate no device memory, take no
// locks and log nothing. What each kernel computes: proto/ops/kernels.md.

#ifndef TVARANT_DAEMON_KERNELS_HOST_HOST_KERNELS_H_
#define TVARANT_DAEMON_KERNELS_HOST_HOST_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/kernels/host/thread_pool.h"
#include "proto/base/dtype.h"
#include "proto/ops/op_ids.h"
#include "proto/ops/program.h"
#include "proto/wire/launch_params.h"

namespace tvarant::host {

// A strided tensor in host memory. Every element is inside its allocation.
struct Tensor {
  char* data = nullptr;  // null: absent optional operand
  DType dtype = DType::kInvalid;
  int rank = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;  // in elements

  bool present() const { return dtype != DType::kInvalid; }
  int64_t numel() const {
    int64_t count = 1;
    for (int i = 0; i < rank; ++i) count *= sizes[i];
    return count;
  }
};

struct HostLaunch {
  Kernel kernel = Kernel::kInvalid;
  Act act = Act::kNone;
  uint32_t flags = 0;
  const Program* program = nullptr;
  uint64_t program_key = 0;
  int64_t m = 0, n = 0, k = 0, batch = 0;
  double alpha = 1, beta = 0, scalar = 0;
  absl::Span<const int64_t> ints;
  absl::Span<const double> floats;
  absl::Span<const Tensor> dst;
  absl::Span<const Tensor> src;
};

// Errors: UNIMPLEMENTED for a dtype a kernel has not; OUT_OF_RANGE for a bad
// index in the data (the text names kernel, index and size); all else was
// checked before.
absl::Status RunHostKernel(const HostLaunch& launch, ThreadPool& pool);

// One function per family; the dispatch table is in host_kernels.cc.
absl::Status RunPointwise(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunPointwiseForeach(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunCopy(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunFill(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunArange(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunReduce(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunGemm(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunSoftmax(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunSoftmaxBackward(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunLayerNorm(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunLayerNormBackward(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunNllLoss(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunNllLossBackward(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunIndexSelect(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunGather(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunScatterAdd(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunConvolution(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunConvolutionTranspose(const HostLaunch& launch,
                                     ThreadPool& pool);
absl::Status RunConvolutionWeight(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunChannelNorm(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunChannelNormBackward(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunMaxPool(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunAvgPool(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunAvgPoolBackward(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunResample(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunResampleBackward(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunEmbeddingBackward(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunRandom(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunDropout(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunCat(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunTriangle(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunCumulate(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunIndexPick(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunIndexPut(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunScatter(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunNonzero(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunMaskedSelect(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunMaskedScatter(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunSort(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunOrderStatistic(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunSearchSorted(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunHistogram(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunSortRows(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunCumulateExtreme(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunLogCumsumExp(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunEmbeddingBag(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunEmbeddingRenorm(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunPairDistance(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunPairDistanceBackward(const HostLaunch& launch,
                                     ThreadPool& pool);
absl::Status RunReduceForeach(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunCtcLoss(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunCtcLossBackward(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunWithin(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunGridSample(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunGridSampleBackward(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunFractionalMaxPool(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunSegmentReduce(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunSegmentReduceBackward(const HostLaunch& launch,
                                      ThreadPool& pool);
absl::Status RunAttention(const HostLaunch& launch, ThreadPool& pool);
absl::Status RunFft(const HostLaunch& launch, ThreadPool& pool);

// The instruction set that the kernels chose: "avx512", "avx2", "baseline".
// TVARANT_ISA in the environment may ask for a lower one.
const char* InstructionSetName();

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_HOST_KERNELS_H_

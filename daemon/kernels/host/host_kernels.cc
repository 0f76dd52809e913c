#include "daemon/kernels/host/host_kernels.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "daemon/kernels/host/isa.h"
#include "proto/base/dtype.h"
#include "proto/base/status_macros.h"

namespace tvarant::host {
namespace {

// Byte offsets come from clients; loops assume that elements are aligned.
absl::Status CheckAlignment(absl::Span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    const uintptr_t mask = std::min<uintptr_t>(SizeOf(tensor.dtype), 8) - 1;
    if (tensor.present() &&
        (reinterpret_cast<uintptr_t>(tensor.data) & mask) != 0) {
      return absl::InvalidArgumentError(
          "an operand is not aligned to its elements");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunHostKernel(const HostLaunch& launch, ThreadPool& pool) {
  RETURN_IF_ERROR(CheckAlignment(launch.dst));
  RETURN_IF_ERROR(CheckAlignment(launch.src));
  switch (launch.kernel) {
    case Kernel::kPointwise:
      return RunPointwise(launch, pool);
    case Kernel::kPointwiseForeach:
      return RunPointwiseForeach(launch, pool);
    case Kernel::kCopy:
      return RunCopy(launch, pool);
    case Kernel::kFill:
      return RunFill(launch, pool);
    case Kernel::kArange:
      return RunArange(launch, pool);
    case Kernel::kReduce:
      return RunReduce(launch, pool);
    case Kernel::kGemm:
      return RunGemm(launch, pool);
    case Kernel::kSoftmax:
    case Kernel::kLogSoftmax:
      return RunSoftmax(launch, pool);
    case Kernel::kSoftmaxBackward:
    case Kernel::kLogSoftmaxBackward:
      return RunSoftmaxBackward(launch, pool);
    case Kernel::kLayerNorm:
      return RunLayerNorm(launch, pool);
    case Kernel::kLayerNormBackward:
      return RunLayerNormBackward(launch, pool);
    case Kernel::kNllLoss:
      return RunNllLoss(launch, pool);
    case Kernel::kNllLossBackward:
      return RunNllLossBackward(launch, pool);
    case Kernel::kIndexSelect:
      return RunIndexSelect(launch, pool);
    case Kernel::kGather:
      return RunGather(launch, pool);
    case Kernel::kEmbeddingBackward:
      return RunEmbeddingBackward(launch, pool);
    case Kernel::kRandom:
      return RunRandom(launch, pool);
    case Kernel::kDropout:
      return RunDropout(launch, pool);
    case Kernel::kCat:
      return RunCat(launch, pool);
    case Kernel::kTriangle:
      return RunTriangle(launch, pool);
    case Kernel::kCumulate:
      return RunCumulate(launch, pool);
    case Kernel::kConvolution:
      return RunConvolution(launch, pool);
    case Kernel::kConvolutionTranspose:
      return RunConvolutionTranspose(launch, pool);
    case Kernel::kConvolutionWeight:
      return RunConvolutionWeight(launch, pool);
    case Kernel::kChannelNorm:
      return RunChannelNorm(launch, pool);
    case Kernel::kChannelNormBackward:
      return RunChannelNormBackward(launch, pool);
    case Kernel::kMaxPool:
      return RunMaxPool(launch, pool);
    case Kernel::kAvgPool:
      return RunAvgPool(launch, pool);
    case Kernel::kAvgPoolBackward:
      return RunAvgPoolBackward(launch, pool);
    case Kernel::kResample:
      return RunResample(launch, pool);
    case Kernel::kResampleBackward:
      return RunResampleBackward(launch, pool);
    case Kernel::kScatterAdd:
      return RunScatterAdd(launch, pool);
    case Kernel::kIndexPick:
      return RunIndexPick(launch, pool);
    case Kernel::kIndexPut:
      return RunIndexPut(launch, pool);
    case Kernel::kScatter:
      return RunScatter(launch, pool);
    case Kernel::kNonzero:
      return RunNonzero(launch, pool);
    case Kernel::kMaskedSelect:
      return RunMaskedSelect(launch, pool);
    case Kernel::kMaskedScatter:
      return RunMaskedScatter(launch, pool);
    case Kernel::kSort:
      return RunSort(launch, pool);
    case Kernel::kOrderStatistic:
      return RunOrderStatistic(launch, pool);
    case Kernel::kSearchSorted:
      return RunSearchSorted(launch, pool);
    case Kernel::kHistogram:
      return RunHistogram(launch, pool);
    case Kernel::kSortRows:
      return RunSortRows(launch, pool);
    case Kernel::kCumulateExtreme:
      return RunCumulateExtreme(launch, pool);
    case Kernel::kLogCumsumExp:
      return RunLogCumsumExp(launch, pool);
    case Kernel::kEmbeddingBag:
      return RunEmbeddingBag(launch, pool);
    case Kernel::kEmbeddingRenorm:
      return RunEmbeddingRenorm(launch, pool);
    case Kernel::kPairDistance:
      return RunPairDistance(launch, pool);
    case Kernel::kPairDistanceBackward:
      return RunPairDistanceBackward(launch, pool);
    case Kernel::kReduceForeach:
      return RunReduceForeach(launch, pool);
    case Kernel::kCtcLoss:
      return RunCtcLoss(launch, pool);
    case Kernel::kCtcLossBackward:
      return RunCtcLossBackward(launch, pool);
    case Kernel::kWithin:
      return RunWithin(launch, pool);
    case Kernel::kGridSample:
      return RunGridSample(launch, pool);
    case Kernel::kGridSampleBackward:
      return RunGridSampleBackward(launch, pool);
    case Kernel::kFractionalMaxPool:
      return RunFractionalMaxPool(launch, pool);
    case Kernel::kSegmentReduce:
      return RunSegmentReduce(launch, pool);
    case Kernel::kSegmentReduceBackward:
      return RunSegmentReduceBackward(launch, pool);
    case Kernel::kAttention:
      return RunAttention(launch, pool);
    case Kernel::kFft:
      return RunFft(launch, pool);
    case Kernel::kInvalid:
      break;
  }
  return absl::UnimplementedError(absl::StrCat(
      "kernel ", static_cast<int>(launch.kernel), " is not known"));
}

const char* InstructionSetName() { return NameOf(CurrentIsa()); }

}  // namespace tvarant::host

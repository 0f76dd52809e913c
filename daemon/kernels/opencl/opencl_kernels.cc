#include "daemon/kernels/opencl/opencl_kernels.h"

#include "absl/strings/str_cat.h"

namespace tvarant::opencl {

absl::Status RunOpenClKernel(KernelContext& context,
                             const ResolvedLaunch& launch) {
  switch (launch.kernel) {
    case Kernel::kPointwise:
      return RunPointwise(context, launch);
    case Kernel::kPointwiseForeach:
      return RunPointwiseForeach(context, launch);
    case Kernel::kCopy:
      return RunCopy(context, launch);
    case Kernel::kFill:
      return RunFill(context, launch);
    case Kernel::kArange:
      return RunArange(context, launch);
    case Kernel::kReduce:
      return RunReduce(context, launch);
    case Kernel::kReduceForeach:
      return RunReduceForeach(context, launch);
    case Kernel::kSoftmax:
    case Kernel::kLogSoftmax:
      return RunSoftmax(context, launch);
    case Kernel::kSoftmaxBackward:
    case Kernel::kLogSoftmaxBackward:
      return RunSoftmaxBackward(context, launch);
    case Kernel::kLayerNorm:
      return RunLayerNorm(context, launch);
    case Kernel::kLayerNormBackward:
      return RunLayerNormBackward(context, launch);
    case Kernel::kNllLoss:
      return RunNllLoss(context, launch);
    case Kernel::kNllLossBackward:
      return RunNllLossBackward(context, launch);
    case Kernel::kCumulate:
      return RunCumulate(context, launch);
    case Kernel::kCumulateExtreme:
      return RunCumulateExtreme(context, launch);
    case Kernel::kLogCumsumExp:
      return RunLogCumsumExp(context, launch);
    case Kernel::kRandom:
      return RunRandom(context, launch);
    case Kernel::kDropout:
      return RunDropout(context, launch);
    case Kernel::kTriangle:
      return RunTriangle(context, launch);
    case Kernel::kChannelNorm:
      return RunChannelNorm(context, launch);
    case Kernel::kChannelNormBackward:
      return RunChannelNormBackward(context, launch);
    case Kernel::kMaxPool:
      return RunMaxPool(context, launch);
    case Kernel::kAvgPool:
      return RunAvgPool(context, launch);
    case Kernel::kAvgPoolBackward:
      return RunAvgPoolBackward(context, launch);
    case Kernel::kIndexSelect:
      return RunIndexSelect(context, launch);
    case Kernel::kIndexPick:
      return RunIndexPick(context, launch);
    case Kernel::kGather:
      return RunGather(context, launch);
    case Kernel::kCat:
      return RunCat(context, launch);
    case Kernel::kScatter:
      return RunScatter(context, launch);
    case Kernel::kScatterAdd:
      return RunScatterAdd(context, launch);
    case Kernel::kIndexPut:
      return RunIndexPut(context, launch);
    case Kernel::kEmbeddingBackward:
      return RunEmbeddingBackward(context, launch);
    case Kernel::kConvolution:
      return RunConvolution(context, launch);
    case Kernel::kConvolutionTranspose:
      return RunConvolutionTranspose(context, launch);
    case Kernel::kConvolutionWeight:
      return RunConvolutionWeight(context, launch);
    case Kernel::kNonzero:
      return RunNonzero(context, launch);
    case Kernel::kMaskedSelect:
      return RunMaskedSelect(context, launch);
    case Kernel::kMaskedScatter:
      return RunMaskedScatter(context, launch);
    case Kernel::kSort:
      return RunSort(context, launch);
    case Kernel::kOrderStatistic:
      return RunOrderStatistic(context, launch);
    case Kernel::kSearchSorted:
      return RunSearchSorted(context, launch);
    case Kernel::kHistogram:
      return RunHistogram(context, launch);
    case Kernel::kResample:
      return RunResample(context, launch);
    case Kernel::kResampleBackward:
      return RunResampleBackward(context, launch);
    case Kernel::kPairDistance:
      return RunPairDistance(context, launch);
    case Kernel::kPairDistanceBackward:
      return RunPairDistanceBackward(context, launch);
    case Kernel::kEmbeddingBag:
      return RunEmbeddingBag(context, launch);
    case Kernel::kEmbeddingRenorm:
      return RunEmbeddingRenorm(context, launch);
    case Kernel::kSortRows:
      return RunSortRows(context, launch);
    case Kernel::kFft:
      return RunFft(context, launch);
    case Kernel::kWithin:
      return RunWithin(context, launch);
    case Kernel::kAttention:
      return RunAttention(context, launch);
    case Kernel::kGemm:
      return RunGemm(context, launch);
    default:
      return absl::UnimplementedError(
          absl::StrCat("no OpenCL kernel for ", NameOf(launch.kernel)));
  }
}

}  // namespace tvarant::opencl

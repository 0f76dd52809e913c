#include "daemon/kernels/host/host_kernels.h"

#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/isa.h"

namespace tvarant::host {

absl::Status RunHostKernel(const HostLaunch& launch, ThreadPool& pool) {
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
    case Kernel::kScatterAdd:
      return RunScatterAdd(launch, pool);
    case Kernel::kInvalid:
      break;
  }
  return absl::UnimplementedError(
      absl::StrCat("kernel ", static_cast<int>(launch.kernel),
                   " is not known"));
}

const char* InstructionSetName() { return NameOf(CurrentIsa()); }

}  // namespace tvarant::host

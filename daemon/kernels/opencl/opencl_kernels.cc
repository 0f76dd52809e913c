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
    default:
      return absl::UnimplementedError(
          absl::StrCat("no OpenCL kernel for ", NameOf(launch.kernel)));
  }
}

}  // namespace tvarant::opencl

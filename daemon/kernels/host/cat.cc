// cat: copies every input into its place of the output.

#include "absl/status/status.h"
#include "daemon/kernels/host/copy.h"
#include "daemon/kernels/host/host_kernels.h"
#include "proto/base/status_macros.h"

namespace tvarant::host {

absl::Status RunCat(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& dst = launch.dst[0];
  if (launch.ints.empty() || launch.ints[0] < 0 || launch.ints[0] >= dst.rank) {
    return absl::InvalidArgumentError("cat: dim is out of range");
  }
  const int dim = static_cast<int>(launch.ints[0]);
  const int64_t step =
      dst.strides[dim] * static_cast<int64_t>(SizeOf(dst.dtype));
  int64_t done = 0;
  for (const Tensor& src : launch.src) {
    // PyTorch lets an empty tensor of any shape take part.
    if (src.numel() == 0) continue;
    if (src.rank != dst.rank || src.sizes[dim] > dst.sizes[dim] - done) {
      return absl::InvalidArgumentError("cat: inputs don't fit the output");
    }
    Tensor place = dst;
    place.data += done * step;
    place.sizes = src.sizes;
    RETURN_IF_ERROR(CopyTensor(place, src, 0, pool));
    done += src.sizes[dim];
  }
  return absl::OkStatus();
}

}  // namespace tvarant::host

// reduce_foreach: each tensor of a list to one number.

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/kernels/host/host_kernels.h"
#include "proto/base/dtype.h"
#include "proto/base/status_macros.h"
#include "proto/wire/launch_params.h"

namespace tvarant::host {

absl::Status RunReduceForeach(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& y = launch.dst[0];
  const int64_t step = y.strides[0] * static_cast<int64_t>(SizeOf(y.dtype));
  // The number seen with the rank of what it is reduced from.
  int64_t ones[kMaxRank], zeros[kMaxRank];
  std::fill(ones, ones + kMaxRank, 1);
  std::fill(zeros, zeros + kMaxRank, 0);
  HostLaunch one = launch;
  one.kernel = Kernel::kReduce;
  for (size_t i = 0; i < launch.src.size(); ++i) {
    const Tensor number = {.data = y.data + static_cast<int64_t>(i) * step,
                           .dtype = y.dtype,
                           .rank = launch.src[i].rank,
                           .sizes = ones,
                           .strides = zeros};
    one.dst = absl::MakeConstSpan(&number, 1);
    one.src = launch.src.subspan(i, 1);
    RETURN_IF_ERROR(RunReduce(one, pool));
  }
  return absl::OkStatus();
}

}  // namespace tvarant::host

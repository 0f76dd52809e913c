#include "daemon/kernels/opencl/sort_pairs.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "daemon/kernels/opencl/sources.h"
#include "proto/base/checked_math.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

constexpr int64_t kTile = 1024;  // of sort_pairs.cl

}  // namespace

absl::StatusOr<PairSort> PairSort::Create(KernelContext& context, int64_t rows,
                                          int64_t n, bool wide_keys) {
  int64_t total = 0, bytes = 0;
  if (n >= std::numeric_limits<uint32_t>::max() ||
      !base::CheckedMul(rows, n, &total) ||
      !base::CheckedMul(total, int64_t{12}, &bytes)) {
    return absl::UnimplementedError("too many elements to sort");
  }
  PairSort sort(rows, n, wide_keys);
  const uint64_t size =
      std::max<int64_t>(1, sort.total_) * (sort.key_bytes() + 4);
  ASSIGN_OR_RETURN(sort.from_, context.Scratch(size, 0));
  if (n > kTile) {
    ASSIGN_OR_RETURN(sort.to_, context.Scratch(size, 1));
  }
  return sort;
}

absl::Status PairSort::Sort(KernelContext& context) {
  const char* options = wide_keys_ ? "-DWIDE=1" : "-DWIDE=0";
  const uint32_t group = context.traits().group_size;
  const int64_t tiles = (n_ + kTile - 1) / kTile;
  int64_t span = 1;
  while (span < std::min(n_, kTile)) span *= 2;
  RETURN_IF_ERROR(
      KernelCall(context, kSortPairsCl, "sort_tiles", options)
          .Memory(from_)
          .Long(total_)
          .Long(n_)
          .Long(tiles)
          .Int(static_cast<int32_t>(span))
          .RunGroups(
              rows_ * tiles,
              static_cast<uint32_t>(std::min<int64_t>(
                  std::max<int64_t>(group, span / 8),
                  std::max(group,
                           std::min(256u, context.traits().max_group_size))))));
  for (int64_t width = kTile; width < n_; width *= 2) {
    RETURN_IF_ERROR(KernelCall(context, kSortPairsCl, "merge_runs", options)
                        .Memory(from_)
                        .Memory(to_)
                        .Long(total_)
                        .Long(n_)
                        .Long(width)
                        .Run(total_));
    std::swap(from_, to_);
  }
  return absl::OkStatus();
}

}  // namespace tvarant::opencl

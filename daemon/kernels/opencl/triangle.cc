// triangle: keeps the lower or the upper triangle of each matrix.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"

namespace tvarant::opencl {

absl::Status RunTriangle(KernelContext& context, const ResolvedLaunch& launch) {
  constexpr int64_t kMaxLoops = 8;
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& x = launch.src[0];
  if (y.dtype != x.dtype || y.rank < 2) {
    return absl::UnimplementedError("triangle: dtypes differ");
  }
  if (NumElements(y) == 0) return absl::OkStatus();
  // Row-major, neither sorted nor joined: a row's number matters.
  RowSet::Rows rows;
  int64_t num_rows = 1;
  rows.rank = y.rank - 1;
  for (int d = 0; d < rows.rank; ++d) {
    rows.sizes[d] = y.sizes[d];
    rows.strides[0][d] = y.strides[d];
    rows.strides[1][d] = x.strides[d];
    num_rows *= y.sizes[d];
  }
  const int64_t n = y.sizes[y.rank - 1];
  const int64_t group = context.traits().group_size;
  const int64_t loops = std::clamp<int64_t>(n / group, 1, kMaxLoops);
  const int64_t chunks = (n + group * loops - 1) / (group * loops);
  // Indices stay below 2^62, so that a far diagonal saturates.
  const int64_t far = int64_t{1} << 62;
  return KernelCall(context, kTriangleCl, "triangle",
                    absl::StrCat("-DBYTES=", SizeOf(y.dtype)))
      .Operand(y)
      .Operand(x)
      .Struct(rows)
      .Long(y.sizes[y.rank - 2])
      .Long(n)
      .Long(y.strides[y.rank - 1])
      .Long(x.strides[x.rank - 1])
      .Long(chunks)
      .Int(static_cast<int32_t>(loops))
      .Long(std::clamp(launch.ints[0], -far, far))
      .Int(launch.ints[1] != 0 ? 1 : 0)
      .RunGroups(num_rows * chunks, context.traits().group_size);
}

}  // namespace tvarant::opencl

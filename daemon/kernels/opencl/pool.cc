// max_pool, avg_pool and its gradient; the adaptive forms too.

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

// Of pool.cl.
struct Pool {
  int64_t large_size[3];
  int64_t small_size[3];
  int64_t window[3];
  int64_t stride[3];
  int64_t padding[3];
  int64_t dilation[3] = {1, 1, 1};
  int64_t large[5];
  int64_t small[5];
  int64_t indices[5] = {};
  int64_t channels;
  int64_t channels_last;
  int64_t adaptive;
  int64_t count_padding = 0;
  int64_t divisor = 0;
  int64_t lowest = 0;
};

// `walked` is the volume that items are counted over.
Pool PoolOf(const ResolvedLaunch& launch, const ResolvedOperand& large,
            const ResolvedOperand& small, const ResolvedOperand& walked) {
  Pool pool;
  for (int d = 0; d < 5; ++d) {
    pool.large[d] = large.strides[d];
    pool.small[d] = small.strides[d];
  }
  for (int d = 0; d < 3; ++d) {
    pool.large_size[d] = large.sizes[2 + d];
    pool.small_size[d] = small.sizes[2 + d];
    pool.window[d] = launch.ints[1 + d];
    pool.stride[d] = launch.ints[4 + d];
    pool.padding[d] = launch.ints[7 + d];
  }
  pool.channels = large.sizes[1];
  pool.channels_last =
      walked.sizes[1] > 1 && walked.strides[1] == 1 && walked.strides[4] != 1;
  pool.adaptive = launch.ints[0] != 0;
  return pool;
}

int64_t LowestOf(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return std::numeric_limits<int8_t>::min();
    case DType::kInt16:
      return std::numeric_limits<int16_t>::min();
    case DType::kInt32:
      return std::numeric_limits<int32_t>::min();
    case DType::kInt64:
      return std::numeric_limits<int64_t>::min();
    default:
      return 0;
  }
}

absl::Status Check(const KernelContext& context, const ResolvedLaunch& launch,
                   bool known) {
  const DType dtype = launch.dst[0].dtype;
  if (known && dtype == launch.src[0].dtype &&
      (dtype != DType::kFloat64 || context.traits().has_double)) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      NameOf(launch.kernel), ": no OpenCL kernel for dtype ", NameOf(dtype)));
}

std::string OptionsOf(DType dtype) {
  return absl::StrCat("-DT=", ClTypeName(dtype),
                      IsFloating(dtype) ? " -DT_FLOAT" : "");
}

absl::Status RunAverage(KernelContext& context, const ResolvedLaunch& launch,
                        const char* kernel, Pool pool) {
  const DType dtype = launch.dst[0].dtype;
  RETURN_IF_ERROR(
      Check(context, launch, IsFloating(dtype) || dtype == DType::kInt64));
  pool.count_padding = launch.ints[10] != 0;
  pool.divisor = launch.ints[11];
  const int64_t count = NumElements(launch.dst[0]);
  return KernelCall(context, kPoolCl, kernel, OptionsOf(dtype))
      .Operand(launch.dst[0])
      .Operand(launch.src[0])
      .Struct(pool)
      .Long(count)
      .Run(count);
}

}  // namespace

absl::Status RunMaxPool(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& indices = launch.dst[1];
  RETURN_IF_ERROR(Check(
      context, launch,
      IsFloating(y.dtype) || (IsIntegral(y.dtype) && y.dtype != DType::kBool)));
  Pool pool = PoolOf(launch, launch.src[0], y, y);
  for (int d = 0; d < 3; ++d) pool.dilation[d] = launch.ints[10 + d];
  for (int d = 0; d < 5; ++d) pool.indices[d] = indices.strides[d];
  pool.lowest = LowestOf(y.dtype);
  const int64_t count = NumElements(y);
  return KernelCall(context, kPoolCl, "max_pool", OptionsOf(y.dtype))
      .Operand(y)
      .Operand(indices)
      .Operand(launch.src[0])
      .Struct(pool)
      .Long(count)
      .Run(count);
}

absl::Status RunAvgPool(KernelContext& context, const ResolvedLaunch& launch) {
  return RunAverage(
      context, launch, "avg_pool",
      PoolOf(launch, launch.src[0], launch.dst[0], launch.dst[0]));
}

absl::Status RunAvgPoolBackward(KernelContext& context,
                                const ResolvedLaunch& launch) {
  return RunAverage(
      context, launch, "avg_pool_backward",
      PoolOf(launch, launch.dst[0], launch.src[0], launch.dst[0]));
}

}  // namespace tvarant::opencl

// Rules of grid_sample, its gradients, and fractional_max_pool.

#include <cstdint>

#include "proto/ops/rule_checks.h"

namespace tvarant::rules {
namespace {

// Extents of space below this keep places of elements exact in float32.
constexpr int64_t kMaxExtent = int64_t{1} << 24;

// [N, C, D, H, W]
absl::Status WantVolume(const LaunchParams& params, const Operand& operand) {
  RETURN_IF_ERROR(WantRank(params, operand, 5));
  for (int i = 2; i < 5; ++i) {
    if (operand.sizes[i] >= kMaxExtent) {
      return OperandError(params, operand, "is too large");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGrid(const LaunchParams& params, const Operand& x,
                       const Operand& grid, const Operand& y) {
  RETURN_IF_ERROR(WantParameters(params, 3, 0));
  RETURN_IF_ERROR(WantFloating(params, x));
  RETURN_IF_ERROR(WantVolume(params, x));
  RETURN_IF_ERROR(WantVolume(params, y));
  RETURN_IF_ERROR(WantDType(params, grid, x.dtype));
  RETURN_IF_ERROR(WantDType(params, y, x.dtype));
  const int64_t axes = grid.rank == 5 ? grid.sizes[4] : 0;
  if (axes != 2 && axes != 3) {
    return OperandError(params, grid, "has no places of 2 or 3 numbers");
  }
  RETURN_IF_ERROR(WantSizes(
      params, grid, {x.sizes[0], y.sizes[2], y.sizes[3], y.sizes[4], axes}));
  if (y.sizes[0] != x.sizes[0] || y.sizes[1] != x.sizes[1]) {
    return OperandError(params, y, "has another batch or channels than x");
  }
  if (axes == 2 && (x.sizes[2] != 1 || y.sizes[2] != 1)) {
    return OperandError(params, grid, "has places of 2 numbers for volumes");
  }
  for (int i = 2; i < 5; ++i) {
    if (x.sizes[i] == 0) return OperandError(params, x, "is empty");
  }
  const int64_t mode = params.ints[0], padding = params.ints[1];
  if (mode < 0 || mode > (axes == 2 ? 2 : 1)) {
    return ParameterError(params, "interpolation", mode,
                          "0, 1, or 2 for images");
  }
  if (padding < 0 || padding > 2) {
    return ParameterError(params, "padding", padding, "0, 1 or 2");
  }
  if (params.ints[2] != 0 && params.ints[2] != 1) {
    return ParameterError(params, "align_corners", params.ints[2], "0 or 1");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckGridSample(const LaunchParams& params, const Program*) {
  return CheckGrid(params, params.src[0], params.src[1], params.dst[0]);
}

absl::Status CheckGridSampleBackward(const LaunchParams& params,
                                     const Program*) {
  const Operand& x = params.src[1];
  const Operand& grid = params.src[2];
  RETURN_IF_ERROR(CheckGrid(params, x, grid, params.src[0]));
  if (IsPresent(params.dst[0])) {
    RETURN_IF_ERROR(WantDType(params, params.dst[0], x.dtype));
    RETURN_IF_ERROR(WantSizesOf(params, params.dst[0], x));
  }
  if (!IsPresent(params.dst[1])) return absl::OkStatus();
  RETURN_IF_ERROR(WantDType(params, params.dst[1], grid.dtype));
  return WantSizesOf(params, params.dst[1], grid);
}

absl::Status CheckFractionalMaxPool(const LaunchParams& params,
                                    const Program*) {
  const Operand& y = params.dst[0];
  const Operand& x = params.src[0];
  const Operand& samples = params.src[1];
  RETURN_IF_ERROR(WantParameters(params, 3, 0));
  RETURN_IF_ERROR(WantFloating(params, x));
  RETURN_IF_ERROR(WantVolume(params, x));
  RETURN_IF_ERROR(WantVolume(params, y));
  RETURN_IF_ERROR(WantDType(params, y, x.dtype));
  RETURN_IF_ERROR(WantDType(params, samples, x.dtype));
  RETURN_IF_ERROR(WantDType(params, params.dst[1], DType::kInt64));
  RETURN_IF_ERROR(WantSizesOf(params, params.dst[1], y));
  RETURN_IF_ERROR(WantSizes(params, samples, {x.sizes[0], x.sizes[1], 3}));
  if (y.sizes[0] != x.sizes[0] || y.sizes[1] != x.sizes[1]) {
    return OperandError(params, y, "has another batch or channels than x");
  }
  for (int i = 0; i < 3; ++i) {
    const int64_t kernel = params.ints[i];
    if (kernel < 1 || kernel > x.sizes[2 + i]) {
      return ParameterError(params, "kernel", kernel, "from 1 to the input's");
    }
  }
  return absl::OkStatus();
}

}  // namespace tvarant::rules

// Rule of fft.

#include "absl/strings/str_cat.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {
namespace {

constexpr int64_t kMaxLength = int64_t{1} << 26;

DType ComplexOf(DType dtype) {
  return dtype == DType::kFloat64 || dtype == DType::kComplex128
             ? DType::kComplex128
             : DType::kComplex64;
}

// The half of a real line's transform that says it all.
absl::Status WantHalf(const LaunchParams& params, const Operand& half,
                      const Operand& real, int64_t dim) {
  if (half.sizes[dim] == real.sizes[dim] / 2 + 1) return absl::OkStatus();
  return OperandError(
      params, half,
      absl::StrCat("has size ", half.sizes[dim], " in dimension ", dim,
                   ", want ", real.sizes[dim] / 2 + 1));
}

}  // namespace

absl::Status CheckFft(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 2, 1));
  const int64_t dim = params.ints[0], forward = params.ints[1];
  RETURN_IF_ERROR(WantDim(params, x, dim));
  RETURN_IF_ERROR(WantSizesOfExcept(params, y, x, dim));
  if (forward != 0 && forward != 1) {
    return ParameterError(params, "direction", forward,
                          "0 (inverse) or 1 (forward)");
  }
  for (const Operand* operand : {&y, &x}) {
    if (operand->sizes[dim] < 1 || operand->sizes[dim] > kMaxLength) {
      return OperandError(params, *operand,
                          "has a length that is 0 or too large");
    }
  }
  const bool from_real = !IsComplex(x.dtype), to_real = !IsComplex(y.dtype);
  if (from_real) {
    if (x.dtype != DType::kFloat64) {
      RETURN_IF_ERROR(WantDType(params, x, DType::kFloat32));
    }
    RETURN_IF_ERROR(WantDType(params, y, ComplexOf(x.dtype)));
    if (forward != 1) {
      return ParameterError(params, "direction", forward, "1 for real lines");
    }
    return WantHalf(params, y, x, dim);
  }
  if (to_real) {
    RETURN_IF_ERROR(WantDType(
        params, y,
        x.dtype == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32));
    if (forward != 0) {
      return ParameterError(params, "direction", forward, "0 to real lines");
    }
    return WantHalf(params, x, y, dim);
  }
  RETURN_IF_ERROR(WantDType(params, y, x.dtype));
  return WantSizesOf(params, y, x);
}

}  // namespace tvarant::rules

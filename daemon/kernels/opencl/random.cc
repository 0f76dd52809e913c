// random and dropout, by Philox.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"
#include "proto/ops/op_ids.h"

namespace tvarant::opencl {
namespace {

// Of a binary format: digits, exponent of the smallest normal number, largest
// number.
struct Format {
  int digits;
  int lowest_exponent;
  double largest;
};

// The largest number of the format below b.
double Below(const Format& format, double b) {
  if (b > format.largest) return format.largest;
  const double size = std::abs(b);
  const int exponent = size == 0
                           ? format.lowest_exponent
                           : std::max(std::ilogb(size), format.lowest_exponent);
  const auto step = [&](int e) {
    return std::ldexp(
        1.0, std::max(e, format.lowest_exponent) - (format.digits - 1));
  };
  if (b <= 0) {
    return -(std::floor(size / step(exponent)) + 1) * step(exponent);
  }
  const double below = (std::ceil(size / step(exponent)) - 1) * step(exponent);
  // Under a power of two numbers lie twice as near.
  if (below >= std::ldexp(1.0, exponent)) return below;
  const double near = step(exponent - 1);
  return (std::ceil(size / near) - 1) * near;
}

// The largest value below b that dtype has, but not less than a.
double LimitOf(DType dtype, double a, double b) {
  switch (dtype) {
    case DType::kFloat16:
      return std::max(Below({11, -14, 65504.0}, b), a);
    case DType::kBFloat16:
      return std::max(Below({8, -126, 0x1.FEp127}, b), a);
    case DType::kFloat32: {
      float below = static_cast<float>(b);
      if (below >= b) {
        below = std::nextafter(below, -std::numeric_limits<float>::infinity());
      }
      return std::max<double>(below, a);
    }
    default:
      return std::max(
          std::nextafter(b, -std::numeric_limits<double>::infinity()), a);
  }
}

// Words below it are kept, with probability p.
int64_t BernoulliLimit(double p, bool pairs) {
  const double inside = p > 0 ? (p < 1 ? p : 1) : 0;  // NaN gives 0
  return static_cast<int64_t>(inside * (pairs ? 0x1p53 : 0x1p32));
}

bool IsPairs(DType dtype) { return SizeOf(dtype) == 8; }

int64_t CountersOf(DType dtype, int64_t count) {
  const int64_t per_counter = IsPairs(dtype) ? 2 : 4;
  return (count + per_counter - 1) / per_counter;
}

void AddReal(DType dtype, double value, KernelCall* call) {
  if (dtype == DType::kFloat64) {
    call->Double(value);
  } else {
    call->Float(static_cast<float>(value));
  }
}

absl::Status Unimplemented(const ResolvedLaunch& launch, DType dtype) {
  return absl::UnimplementedError(absl::StrCat(
      NameOf(launch.kernel), ": no OpenCL kernel for dtype ", NameOf(dtype)));
}

absl::Status RunFloats(KernelContext& context, const ResolvedLaunch& launch,
                       Distribution distribution) {
  const ResolvedOperand& y = launch.dst[0];
  const DeviceTraits& traits = context.traits();
  // Roots and quotients have to be exact.
  const bool exact = y.dtype == DType::kFloat64
                         ? traits.has_double
                         : distribution == Distribution::kUniform ||
                               traits.correctly_rounded_divide;
  if (!IsFloating(y.dtype) || !exact) return Unimplemented(launch, y.dtype);
  const double a = launch.floats.size() > 0 ? launch.floats[0] : 0;
  const double b = launch.floats.size() > 1 ? launch.floats[1] : 0;
  const int64_t count = NumElements(y);
  const ResolvedOperand* operands[] = {&y};
  const ClView view = JoinedViews(operands, ViewOrder::kRowMajor)[0];
  KernelCall call(context, kRandomCl, "random_floats",
                  absl::StrCat("-DFLOATS -DT=", ClTypeName(y.dtype),
                               IsPairs(y.dtype) ? " -DPAIRS" : ""));
  call.Operand(y)
      .Struct(view)
      .Int(view.rank == 1 && view.strides[0] == 1 ? 1 : 0)
      .Long(count)
      .Long(launch.ints[1])
      .Long(launch.ints[2])
      .Int(static_cast<int32_t>(distribution));
  AddReal(y.dtype, a, &call);
  AddReal(y.dtype, b, &call);
  AddReal(y.dtype, LimitOf(y.dtype, a, b), &call);
  return call.Run(CountersOf(y.dtype, count));
}

absl::Status RunIntegers(KernelContext& context, const ResolvedLaunch& launch,
                         Distribution distribution) {
  const ResolvedOperand& y = launch.dst[0];
  const bool known =
      (IsFloating(y.dtype) || IsIntegral(y.dtype)) &&
      (y.dtype != DType::kFloat64 || context.traits().has_double);
  if (!known) return Unimplemented(launch, y.dtype);
  const bool pairs = IsPairs(y.dtype);
  uint64_t low = 0, range = 0;
  int64_t limit = 0;
  if (distribution == Distribution::kBernoulli) {
    limit = BernoulliLimit(launch.floats[0], pairs);
  } else if (distribution == Distribution::kInteger) {
    low = static_cast<uint64_t>(launch.ints[3]);
    range = static_cast<uint64_t>(launch.ints[4]) - low;
    if (range == 0) {
      return absl::InvalidArgumentError("random: low must be below high");
    }
    if (!pairs && range >> 32 != 0) range = 0;
  }
  const int64_t count = NumElements(y);
  const ResolvedOperand* operands[] = {&y};
  const ClView view = JoinedViews(operands, ViewOrder::kRowMajor)[0];
  return KernelCall(context, kRandomCl, "random_integers",
                    absl::StrCat("-DINTEGERS -DT=", ClTypeName(y.dtype),
                                 y.dtype == DType::kBool ? " -DT_BOOL" : "",
                                 pairs ? " -DPAIRS" : ""))
      .Operand(y)
      .Struct(view)
      .Int(view.rank == 1 && view.strides[0] == 1 ? 1 : 0)
      .Long(count)
      .Long(launch.ints[1])
      .Long(launch.ints[2])
      .Int(static_cast<int32_t>(distribution))
      .Long(limit)
      .Long(static_cast<int64_t>(low))
      .Long(static_cast<int64_t>(range))
      .Run(CountersOf(y.dtype, count));
}

}  // namespace

absl::Status RunRandom(KernelContext& context, const ResolvedLaunch& launch) {
  const auto distribution = static_cast<Distribution>(launch.ints[0]);
  switch (distribution) {
    case Distribution::kUniform:
    case Distribution::kNormal:
    case Distribution::kExponential:
      return RunFloats(context, launch, distribution);
    case Distribution::kBernoulli:
    case Distribution::kInteger:
    case Distribution::kFullInteger:
      return RunIntegers(context, launch, distribution);
  }
  return Unimplemented(launch, launch.dst[0].dtype);
}

absl::Status RunDropout(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& x = launch.src[0];
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& mask = launch.dst[1];
  if (x.dtype != y.dtype || mask.dtype != DType::kBool ||
      !IsFloating(x.dtype) ||
      (x.dtype == DType::kFloat64 && !context.traits().has_double)) {
    return Unimplemented(launch, x.dtype);
  }
  const double p = launch.floats[0];
  const int64_t count = NumElements(x);
  const ResolvedOperand* operands[] = {&y, &mask, &x};
  const std::vector<ClView> views = JoinedViews(operands, ViewOrder::kRowMajor);
  struct Walk {
    int64_t rank = 0;
    int64_t sizes[kMaxRank] = {};
    int64_t strides[3][kMaxRank] = {};
  } walk;
  walk.rank = views[0].rank;
  bool dense = walk.rank == 1;
  for (int d = 0; d < walk.rank; ++d) {
    walk.sizes[d] = views[0].sizes[d];
    for (int k = 0; k < 3; ++k) {
      walk.strides[k][d] = views[k].strides[d];
      dense &= views[k].strides[d] == 1;
    }
  }
  const bool pairs = IsPairs(x.dtype);
  KernelCall call(context, kRandomCl, "dropout",
                  absl::StrCat("-DDROPOUT -DT=", ClTypeName(x.dtype),
                               pairs ? " -DPAIRS" : ""));
  call.Operand(y)
      .Operand(mask)
      .Operand(x)
      .Struct(walk)
      .Int(dense ? 1 : 0)
      .Long(count)
      .Long(launch.ints[0])
      .Long(launch.ints[1])
      .Long(BernoulliLimit(1 - p, pairs));
  // p = 1 drops all; without the test 1 / 0 would make every y NaN.
  AddReal(x.dtype, p < 1 ? 1 / (1 - p) : 0, &call);
  return call.Run(CountersOf(x.dtype, count));
}

}  // namespace tvarant::opencl

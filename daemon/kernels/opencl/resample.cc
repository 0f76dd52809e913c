// resample and its gradient.

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/part_of.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

constexpr int64_t kLinear = 2, kCubic = 3, kReflect = 4, kReplicate = 5;
// Along a reflected dimension each element looks at all of y.
constexpr int64_t kMaxReflected = 4096;

// Of resample.cl.
struct Resample {
  int64_t mode = 0;
  int64_t align_corners = 0;
  int64_t x_size[3] = {};
  int64_t y_size[3] = {};
  int64_t pad[3] = {};
  int64_t x[5] = {};
  int64_t y[5] = {};
  int64_t channels = 0;
  int64_t channels_last = 0;
};

Resample ResampleOf(const ResolvedLaunch& launch, const ResolvedOperand& x,
                    const ResolvedOperand& y, const ResolvedOperand& walked) {
  Resample p;
  p.mode = launch.ints[0];
  p.align_corners = launch.ints[1];
  for (int d = 0; d < 3; ++d) {
    p.x_size[d] = x.sizes[2 + d];
    p.y_size[d] = y.sizes[2 + d];
    p.pad[d] = launch.ints[2 + d];
  }
  for (int d = 0; d < 5; ++d) {
    p.x[d] = x.strides[d];
    p.y[d] = y.strides[d];
  }
  p.channels = x.sizes[1];
  p.channels_last =
      walked.sizes[1] > 1 && walked.strides[1] == 1 && walked.strides[4] != 1;
  return p;
}

absl::Status Run(KernelContext& context, const ResolvedLaunch& launch,
                 const char* kernel, const std::string& type,
                 const Resample& p) {
  const bool wide =
      launch.dst[0].dtype == DType::kFloat64 && context.traits().has_double;
  const int64_t count = NumElements(launch.dst[0]);
  KernelCall call(
      context, kResampleCl, kernel,
      absl::StrCat(type, " -DCOORDINATE=", wide ? "double" : "float"));
  call.Operand(launch.dst[0]).Operand(launch.src[0]).Struct(p);
  if (wide) {
    const double scales[] = {launch.floats[0], launch.floats[1],
                             launch.floats[2]};
    call.Struct(scales);
  } else {
    const float scales[] = {static_cast<float>(launch.floats[0]),
                            static_cast<float>(launch.floats[1]),
                            static_cast<float>(launch.floats[2])};
    call.Struct(scales);
  }
  return call.Long(count).Run(count);
}

bool Blends(const ResolvedLaunch& launch) {
  return launch.ints[0] == kLinear || launch.ints[0] == kCubic;
}

absl::Status CheckFloating(const KernelContext& context,
                           const ResolvedLaunch& launch) {
  const DType dtype = launch.dst[0].dtype;
  if (IsFloating(dtype) && Computes(context, dtype)) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      NameOf(launch.kernel), ": no OpenCL kernel for ", NameOf(dtype)));
}

// Antialiased modes have any number of taps: the host's.
absl::Status CheckMode(const ResolvedLaunch& launch) {
  if (launch.ints[0] <= kReplicate) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(NameOf(launch.kernel), ": no antialiasing OpenCL kernel"));
}

std::string TypeOption(DType dtype) {
  return absl::StrCat("-DT=", ClTypeName(dtype));
}

}  // namespace

absl::Status RunResample(KernelContext& context, const ResolvedLaunch& launch) {
  RETURN_IF_ERROR(CheckMode(launch));
  const ResolvedOperand& y = launch.dst[0];
  const Resample p = ResampleOf(launch, launch.src[0], y, y);
  if (Blends(launch)) {
    RETURN_IF_ERROR(CheckFloating(context, launch));
    return Run(context, launch, "resample", TypeOption(y.dtype), p);
  }
  // Coordinates of float64 are float64's.
  if (y.dtype == DType::kFloat64 && !context.traits().has_double) {
    return CheckFloating(context, launch);
  }
  return Run(context, launch, "resample_move",
             absl::StrCat("-DBYTES=", SizeOf(y.dtype)), p);
}

absl::Status RunResampleBackward(KernelContext& context,
                                 const ResolvedLaunch& launch) {
  const ResolvedOperand& dx = launch.dst[0];
  const ResolvedOperand& dy = launch.src[0];
  RETURN_IF_ERROR(CheckMode(launch));
  RETURN_IF_ERROR(CheckFloating(context, launch));
  const Resample p = ResampleOf(launch, dx, dy, dx);
  for (const int64_t size : p.y_size) {
    if (p.mode == kReflect && size > kMaxReflected) {
      return absl::UnimplementedError(
          "resample_backward: a reflected dimension that is too long");
    }
  }
  return Run(context, launch, "resample_backward", TypeOption(dx.dtype), p);
}

}  // namespace tvarant::opencl

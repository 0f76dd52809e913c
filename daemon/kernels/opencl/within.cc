// within: whether all elements lie between two limits.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/ops/data_checks.h"

namespace tvarant::opencl {

absl::Status RunWithin(KernelContext& context, const ResolvedLaunch& launch) {
  constexpr int64_t kLoops = 16;  // elements of an item, about
  const ResolvedOperand& x = launch.src[0];
  const int64_t n = NumElements(x);
  if (n == 0) return absl::OkStatus();
  if (x.dtype == DType::kFloat64 && !context.traits().has_double) {
    return absl::UnimplementedError("within: no float64 on this device");
  }
  const bool floating = IsFloating(x.dtype);
  const int64_t check = launch.ints[0];
  KernelCall call(
      context, kWithinCl, "within",
      absl::StrCat("-DT=", ClTypeName(x.dtype), floating ? " -DFLOATING" : ""));
  call.Operand(x).Struct(ViewOf(x)).Long(n);
  if (!floating) {
    call.Long(launch.ints[1]).Long(launch.ints[2]);
  } else if (x.dtype == DType::kFloat64) {
    call.Double(launch.floats[0]).Double(launch.floats[1]);
  } else {
    call.Float(static_cast<float>(launch.floats[0]))
        .Float(static_cast<float>(launch.floats[1]));
  }
  call.Faults([check](const Fault&) {
    return absl::InvalidArgumentError(SentenceOf(check));
  });
  const int64_t group = context.traits().group_size;
  return call.RunGroups(
      std::clamp<int64_t>((n + group * kLoops - 1) / (group * kLoops), 1,
                          4 * EnoughGroups(context.traits())),
      context.traits().group_size);
}

}  // namespace tvarant::opencl

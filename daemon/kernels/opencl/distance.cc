// pair_distance and its gradient.

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/part_of.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

// Of distance.cl.
struct Pairs {
  int64_t batches = 1, rows = 0, columns = 0, width = 0;
  int64_t condensed = 0;
  int64_t a[3] = {}, b[3] = {}, y[3] = {}, dy[3] = {}, da[3] = {};
  int64_t norm = 0;
};

// Strides as of rank 3.
void Read(const ResolvedOperand& x, int64_t* strides) {
  for (int d = 0; d < x.rank; ++d) strides[3 - x.rank + d] = x.strides[d];
}

int64_t NormOf(double p) {
  if (p == 0 || p == 1 || p == 2) return static_cast<int64_t>(p);
  return std::isinf(p) ? 3 : 4;
}

Pairs PairsOf(const ResolvedLaunch& launch, const ResolvedOperand& a,
              const ResolvedOperand& b, const ResolvedOperand& y) {
  Pairs p;
  p.condensed = b.dtype == DType::kInvalid;
  p.rows = a.sizes[a.rank - 2];
  p.width = a.sizes[a.rank - 1];
  p.columns = p.condensed ? p.rows : b.sizes[1];
  p.batches = p.condensed ? 1 : a.sizes[0];
  Read(a, p.a);
  Read(p.condensed ? a : b, p.b);
  Read(y, p.y);
  p.norm = NormOf(launch.scalar);
  return p;
}

absl::Status CheckDType(const KernelContext& context,
                        const ResolvedLaunch& launch) {
  if (Computes(context, launch.dst[0].dtype)) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(NameOf(launch.kernel),
                                               ": no OpenCL kernel for ",
                                               NameOf(launch.dst[0].dtype)));
}

absl::Status Finish(const ResolvedLaunch& launch, const Pairs& p, int64_t count,
                    KernelCall* call) {
  call->Struct(p);
  if (launch.dst[0].dtype == DType::kFloat64) {
    call->Double(launch.scalar);
  } else {
    call->Float(static_cast<float>(launch.scalar));
  }
  return call->Long(count).Run(count);
}

std::string OptionsOf(const ResolvedLaunch& launch) {
  return absl::StrCat("-DT=", ClTypeName(launch.dst[0].dtype));
}

}  // namespace

absl::Status RunPairDistance(KernelContext& context,
                             const ResolvedLaunch& launch) {
  RETURN_IF_ERROR(CheckDType(context, launch));
  const ResolvedOperand& y = launch.dst[0];
  if (NumElements(y) == 0) return absl::OkStatus();
  const ResolvedOperand& a = launch.src[0];
  const Pairs p = PairsOf(launch, a, launch.src[1], y);
  KernelCall call(context, kDistanceCl, "pair_distance", OptionsOf(launch));
  call.Operand(y).Operand(a).Operand(p.condensed ? a : launch.src[1]);
  return Finish(launch, p, p.batches * p.rows * p.columns, &call);
}

absl::Status RunPairDistanceBackward(KernelContext& context,
                                     const ResolvedLaunch& launch) {
  RETURN_IF_ERROR(CheckDType(context, launch));
  const ResolvedOperand& da = launch.dst[0];
  if (NumElements(da) == 0) return absl::OkStatus();
  const ResolvedOperand& dy = launch.src[0];
  const ResolvedOperand& a = launch.src[1];
  const ResolvedOperand& y = launch.src[3];
  Pairs p = PairsOf(launch, a, launch.src[2], y);
  Read(dy, p.dy);
  Read(da, p.da);
  KernelCall call(context, kDistanceCl, "pair_distance_backward",
                  OptionsOf(launch));
  call.Operand(da).Operand(dy).Operand(a);
  call.Operand(p.condensed ? a : launch.src[2]).Operand(y);
  return Finish(launch, p, p.batches * p.rows * p.width, &call);
}

}  // namespace tvarant::opencl

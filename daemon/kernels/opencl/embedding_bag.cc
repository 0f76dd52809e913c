// embedding_bag and embedding_renorm.

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/part_of.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

// Of embedding_bag.cl.
struct Bags {
  int64_t bags = 0, width = 0, vocabulary = 0, total = 0;
  int64_t offsets_size = 0;
  int64_t mode = 0, padding = 0;
  int64_t y[2] = {}, weight[2] = {}, rows[2] = {};
  int64_t sizes = 0, index = 0, offsets = 0, scales = 0;
  int64_t has_rows = 0, has_scales = 0;
};

bool IsPresent(const ResolvedOperand& x) { return x.dtype != DType::kInvalid; }

absl::Status CheckDTypes(const KernelContext& context,
                         const ResolvedLaunch& launch, DType weights,
                         bool one_index_type) {
  if (Computes(context, weights) && one_index_type) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      NameOf(launch.kernel), ": no OpenCL kernel for ", NameOf(weights)));
}

std::string OptionsOf(DType weights, DType index) {
  return absl::StrCat("-DT=", ClTypeName(weights),
                      " -DINDEX=", ClTypeName(index));
}

}  // namespace

absl::Status RunEmbeddingBag(KernelContext& context,
                             const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& sizes = launch.dst[1];
  const ResolvedOperand& rows = launch.dst[2];
  const ResolvedOperand& weight = launch.src[0];
  const ResolvedOperand& index = launch.src[1];
  const ResolvedOperand& offsets = launch.src[2];
  const ResolvedOperand& scales = launch.src[3];
  RETURN_IF_ERROR(
      CheckDTypes(context, launch, weight.dtype, index.dtype == offsets.dtype));
  Bags p;
  p.bags = y.sizes[0];
  p.width = y.sizes[1];
  p.vocabulary = weight.sizes[0];
  p.total = index.sizes[0];
  p.offsets_size = offsets.sizes[0];
  p.mode = launch.ints[0];
  p.padding = launch.ints[1];
  for (int d = 0; d < 2; ++d) {
    p.y[d] = y.strides[d];
    p.weight[d] = weight.strides[d];
    if (IsPresent(rows)) p.rows[d] = rows.strides[d];
  }
  p.sizes = sizes.strides[0];
  p.index = index.strides[0];
  p.offsets = offsets.strides[0];
  p.has_rows = IsPresent(rows);
  p.has_scales = IsPresent(scales);
  if (p.has_scales) p.scales = scales.strides[0];
  const int64_t count = p.bags * std::max<int64_t>(p.width, 1);
  return KernelCall(context, kEmbeddingBagCl, "embedding_bag",
                    OptionsOf(weight.dtype, index.dtype))
      .Operand(y)
      .Operand(sizes)
      .Operand(rows)
      .Operand(weight)
      .Operand(index)
      .Operand(offsets)
      .Operand(scales)
      .Struct(p)
      .Long(count)
      .Faults(BadIndex(0, p.total + 1))
      .Faults(BadIndex(0, p.vocabulary))
      .Run(count);
}

absl::Status RunEmbeddingRenorm(KernelContext& context,
                                const ResolvedLaunch& launch) {
  const ResolvedOperand& weight = launch.dst[0];
  const ResolvedOperand& index = launch.src[0];
  RETURN_IF_ERROR(CheckDTypes(context, launch, weight.dtype, true));
  const int64_t vocabulary = weight.sizes[0], count = NumElements(index);
  // Without columns the number of rows has no memory behind it.
  if (NumElements(weight) == 0) {
    return count == 0 ? absl::OkStatus()
                      : CheckDTypes(context, launch, weight.dtype, false);
  }
  ASSIGN_OR_RETURN(const cl_mem named,
                   context.Scratch(static_cast<uint64_t>(vocabulary)));
  RETURN_IF_ERROR(
      ZeroMemory(context, named, static_cast<uint64_t>(vocabulary)));
  const std::string options = OptionsOf(weight.dtype, index.dtype);
  RETURN_IF_ERROR(KernelCall(context, kEmbeddingBagCl, "renorm_mark", options)
                      .Memory(named)
                      .Operand(index)
                      .Long(index.strides[0])
                      .Long(vocabulary)
                      .Long(count)
                      .Faults(BadIndex(0, vocabulary))
                      .Run(count));
  const double p = launch.floats[1];
  const int kind = p == 0 || p == 1 || p == 2 ? static_cast<int>(p)
                   : std::isinf(p)            ? 3
                                              : 4;
  const uint32_t group = PowerOfTwoGroup(context.traits());
  KernelCall call(context, kEmbeddingBagCl, "renorm_rows", options);
  call.Operand(weight)
      .Memory(named)
      .Long(weight.sizes[1])
      .Long(weight.strides[0])
      .Long(weight.strides[1]);
  AddWide(context, launch.floats[0], &call);
  call.Int(kind);
  AddWide(context, p, &call);
  return call.Local(group * (context.traits().has_double ? 8 : 4))
      .RunGroups(vocabulary, group);
}

}  // namespace tvarant::opencl

// nonzero, masked_select, masked_scatter: elements that are chosen, in order.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

constexpr int64_t kPerItem = 16;  // PER_ITEM * PASSES of compact.cl

// What is counted, and the counts: of the chosen ones before each part, and of
// all of them.
struct Parts {
  const ResolvedOperand& chooses;
  ClView view;  // joined
  int64_t n = 0;
  int64_t bits = 0;
  uint32_t group = 0;
  int64_t count = 0;
  cl_mem counts = nullptr;
};

int64_t ValueBits(DType dtype) {
  if (!IsFloating(dtype)) return -1;
  return static_cast<int64_t>(~(uint64_t{1} << (8 * SizeOf(dtype) - 1)));
}

std::string OptionsOf(const Parts& parts, const ResolvedOperand* moved) {
  return absl::StrCat(
      "-DBYTES=", SizeOf(parts.chooses.dtype),
      moved == nullptr ? "" : absl::StrCat(" -DMOVED=", SizeOf(moved->dtype)));
}

absl::Status Count(KernelContext& context, const ResolvedOperand* moved,
                   Parts* parts) {
  parts->n = NumElements(parts->chooses);
  parts->bits = ValueBits(parts->chooses.dtype);
  parts->group = PowerOfTwoGroup(context.traits());
  const int64_t part = parts->group * kPerItem;
  parts->count = (parts->n + part - 1) / part;
  ASSIGN_OR_RETURN(parts->counts,
                   context.Scratch(static_cast<uint64_t>(parts->count + 1) *
                                   sizeof(uint64_t)));
  const std::string options = OptionsOf(*parts, moved);
  RETURN_IF_ERROR(KernelCall(context, kCompactCl, "compact_count", options)
                      .Memory(parts->counts)
                      .Operand(parts->chooses)
                      .Struct(parts->view)
                      .Long(parts->n)
                      .Long(parts->bits)
                      .Local(parts->group * sizeof(uint32_t))
                      .RunGroups(parts->count, parts->group));
  return KernelCall(context, kCompactCl, "compact_sum", options)
      .Memory(parts->counts)
      .Long(parts->count)
      .Local(parts->group * sizeof(uint64_t))
      .RunGroups(1, parts->group);
}

}  // namespace

absl::Status RunNonzero(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& x = launch.src[0];
  const ResolvedOperand& y = launch.dst[0];
  if (NumElements(y) == 0) return absl::OkStatus();
  const ResolvedOperand* operands[] = {&x};
  Parts parts{x, JoinedViews(operands, ViewOrder::kRowMajor)[0]};
  RETURN_IF_ERROR(Count(context, nullptr, &parts));
  const std::string options = OptionsOf(parts, nullptr);
  RETURN_IF_ERROR(KernelCall(context, kCompactCl, "nonzero", options)
                      .Operand(y)
                      .Long(y.strides[0])
                      .Long(y.strides[1])
                      .Long(y.sizes[0])
                      .Memory(parts.counts)
                      .Operand(x)
                      .Struct(ViewOf(x))
                      .Int(x.rank)
                      .Long(parts.n)
                      .Long(parts.bits)
                      .Local(parts.group * sizeof(uint32_t))
                      .RunGroups(parts.count, parts.group));
  return KernelCall(context, kCompactCl, "nonzero_rest", options)
      .Operand(y)
      .Long(y.strides[0])
      .Long(y.strides[1])
      .Long(y.sizes[0])
      .Int(x.rank)
      .Memory(parts.counts)
      .Long(parts.count)
      .Long(launch.ints[0])
      .Run(y.sizes[0]);
}

absl::Status RunMaskedSelect(KernelContext& context,
                             const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& x = launch.src[0];
  const ResolvedOperand& mask = launch.src[1];
  if (NumElements(mask) == 0) return absl::OkStatus();
  const ResolvedOperand* operands[] = {&mask, &x};
  const std::vector<ClView> views = JoinedViews(operands, ViewOrder::kRowMajor);
  Parts parts{mask, views[0]};
  RETURN_IF_ERROR(Count(context, &x, &parts));
  const int64_t size = y.sizes[0];
  return KernelCall(context, kCompactCl, "masked_select", OptionsOf(parts, &x))
      .Operand(y)
      .Long(y.strides[0])
      .Long(size)
      .Memory(parts.counts)
      .Long(parts.count)
      .Operand(mask)
      .Struct(views[0])
      .Operand(x)
      .Struct(views[1])
      .Long(parts.n)
      .Long(parts.bits)
      .Local(parts.group * sizeof(uint32_t))
      .Faults([size](const Fault& fault) {
        return absl::InvalidArgumentError(
            absl::StrCat("masked_select: the mask has ", fault.value,
                         " true elements, the result ", size));
      })
      .RunGroups(parts.count, parts.group);
}

absl::Status RunMaskedScatter(KernelContext& context,
                              const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& mask = launch.src[0];
  const ResolvedOperand& source = launch.src[1];
  if (NumElements(mask) == 0) return absl::OkStatus();
  const ResolvedOperand* operands[] = {&mask, &y};
  const std::vector<ClView> views = JoinedViews(operands, ViewOrder::kRowMajor);
  Parts parts{mask, views[0]};
  RETURN_IF_ERROR(Count(context, &y, &parts));
  return KernelCall(context, kCompactCl, "masked_scatter", OptionsOf(parts, &y))
      .Operand(y)
      .Struct(views[1])
      .Memory(parts.counts)
      .Long(parts.count)
      .Operand(mask)
      .Struct(views[0])
      .Operand(source)
      .Long(source.strides[0])
      .Long(source.sizes[0])
      .Long(parts.n)
      .Long(parts.bits)
      .Local(parts.group * sizeof(uint32_t))
      .Faults([](const Fault&) {
        return absl::InvalidArgumentError(
            "masked_scatter: expected number of elements of source to be at "
            "least the number of ones in the mask");
      })
      .RunGroups(parts.count, parts.group);
}

}  // namespace tvarant::opencl

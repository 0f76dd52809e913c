// cumulate, cumulate_extreme, log_cumsum_exp: running values along rows.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

constexpr int64_t kStateBytes = 16;  // the largest of scan.cl

struct Scan {
  const char* define;
  bool smallest = false;
  bool has_places = false;
};

bool IsKnown(const KernelContext& context, DType dtype) {
  return (IsFloating(dtype) || IsIntegral(dtype)) &&
         (dtype != DType::kFloat64 || context.traits().has_double);
}

// Lines of one item where rows lie side by side and there are many of them.
LineShape ChooseLines(const DeviceTraits& traits, const RowSet& set) {
  const LineShape whole =
      WholeLinesOf(traits, set.num_rows, set.n, set.by_columns,
                   set.by_columns ? 1 << 20 : 4);
  if (whole.num_groups * 2 >= EnoughGroups(traits)) return whole;
  return LinesOf(traits, set.num_rows, set.n, set.by_columns);
}

absl::Status Run(KernelContext& context, const ResolvedLaunch& launch,
                 const Scan& scan) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& x = launch.src[0];
  if (!IsKnown(context, x.dtype) || !IsKnown(context, y.dtype)) {
    return absl::UnimplementedError(absl::StrCat(
        NameOf(launch.kernel), ": no OpenCL kernel for ", NameOf(x.dtype)));
  }
  if (NumElements(y) == 0) return absl::OkStatus();
  std::vector<const ResolvedOperand*> tensors = {&y};
  if (scan.has_places) tensors.push_back(&launch.dst[1]);
  tensors.push_back(&x);
  const int which = static_cast<int>(tensors.size()) - 1;  // x among them
  const RowSet set = SplitRows(tensors, launch.ints[0]);
  const LineShape lines = ChooseLines(context.traits(), set);
  const bool floating = IsFloating(x.dtype) || IsFloating(y.dtype);
  const std::string options =
      absl::StrCat("-DT=", ClTypeName(x.dtype), " -DOT=", ClTypeName(y.dtype),
                   " -D", scan.define, floating ? " -DSCAN_FLOAT" : "");
  const size_t lane_bytes = lines.group * kStateBytes;
  cl_mem totals = nullptr;
  const auto add_lines = [&](KernelCall& call) {
    call.Long(lines.piece)
        .Long(lines.pieces)
        .Int(lines.height)
        .Int(set.by_columns ? 1 : 0)
        .Int(scan.smallest ? 1 : 0)
        .Int(which)
        .Memory(totals)
        .Local(lane_bytes);
  };
  if (lines.pieces > 1) {
    ASSIGN_OR_RETURN(totals, context.Scratch(static_cast<uint64_t>(
                                 set.num_rows * lines.pieces * kStateBytes)));
    KernelCall call(context, kScanCl, "scan_totals", options);
    call.Operand(x)
        .Struct(set.rows)
        .Long(set.num_rows)
        .Long(set.n)
        .Long(set.steps[which]);
    add_lines(call);
    RETURN_IF_ERROR(call.RunGroups(lines.num_groups, lines.group));
  }
  KernelCall call(context, kScanCl, "scan_rows", options);
  call.Operand(y)
      .Operand(scan.has_places ? launch.dst[1] : ResolvedOperand())
      .Operand(x)
      .Struct(set.rows)
      .Long(set.num_rows)
      .Long(set.n)
      .Long(set.steps[0])
      .Long(set.steps[1])
      .Long(set.steps[which]);
  add_lines(call);
  return call.RunGroups(lines.num_groups, lines.group);
}

}  // namespace

absl::Status RunCumulate(KernelContext& context, const ResolvedLaunch& launch) {
  return Run(context, launch,
             {launch.ints[1] != 0 ? "SCAN_PRODUCT" : "SCAN_SUM"});
}

absl::Status RunCumulateExtreme(KernelContext& context,
                                const ResolvedLaunch& launch) {
  return Run(context, launch,
             {"SCAN_EXTREME", launch.ints[1] != 0, /*has_places=*/true});
}

absl::Status RunLogCumsumExp(KernelContext& context,
                             const ResolvedLaunch& launch) {
  return Run(context, launch, {"SCAN_LOG"});
}

}  // namespace tvarant::opencl

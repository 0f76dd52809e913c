// softmax, log_softmax and their gradients along any dimension.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

struct Plan {
  RowSet set;
  LineShape lines;
  int keep = 0;  // 0: rows of any length
  bool by_vectors = false;
};

// Output first.
Plan MakePlan(const DeviceTraits& traits, int64_t dim,
              absl::Span<const ResolvedOperand* const> tensors) {
  Plan plan;
  plan.set = SplitRows(tensors, dim);
  const RowSet& set = plan.set;
  bool by_vectors = set.n % 4 == 0;
  for (size_t k = 0; k < tensors.size(); ++k) {
    by_vectors &= set.steps[k] == 1 && AlignedBy4(*tensors[k]);
    for (int d = 0; d < set.rows.rank; ++d) {
      by_vectors &= set.rows.strides[k][d] % 4 == 0;
    }
  }
  plan.keep = KeepOf(traits, set.num_rows, set.n, set.by_columns);
  plan.by_vectors = by_vectors && plan.keep > 0;
  plan.lines = WholeLinesOf(traits, set.num_rows, set.n, set.by_columns,
                            plan.keep > 0 ? plan.keep : kMaxKeep);
  return plan;
}

absl::Status CheckTypes(const KernelContext& context,
                        const ResolvedLaunch& launch,
                        absl::Span<const ResolvedOperand* const> tensors) {
  const bool wide = tensors[0]->dtype == DType::kFloat64;
  for (const ResolvedOperand* tensor : tensors) {
    if (!IsFloating(tensor->dtype) ||
        (tensor->dtype == DType::kFloat64) != wide ||
        (wide && !context.traits().has_double)) {
      return absl::UnimplementedError(absl::StrCat(NameOf(launch.kernel),
                                                   ": no OpenCL kernel for ",
                                                   NameOf(tensor->dtype)));
    }
  }
  return absl::OkStatus();
}

absl::Status Run(KernelContext& context, const ResolvedLaunch& launch,
                 absl::Span<const ResolvedOperand* const> tensors,
                 const char* kernel, const char* long_kernel, bool log) {
  RETURN_IF_ERROR(CheckTypes(context, launch, tensors));
  if (NumElements(*tensors[0]) == 0) return absl::OkStatus();
  const Plan plan = MakePlan(context.traits(), launch.ints[0], tensors);
  std::string options = absl::StrCat("-DT=", ClTypeName(tensors[1]->dtype),
                                     " -DOT=", ClTypeName(tensors[0]->dtype));
  if (tensors.size() > 2) {
    absl::StrAppend(&options, " -DYT=", ClTypeName(tensors[2]->dtype));
  }
  AddKeep(plan.keep, plan.by_vectors, &options);
  KernelCall call(context, kSoftmaxCl, plan.keep > 0 ? kernel : long_kernel,
                  options);
  for (const ResolvedOperand* tensor : tensors) call.Operand(*tensor);
  call.Struct(plan.set.rows).Long(plan.set.num_rows).Long(plan.set.n);
  for (size_t k = 0; k < tensors.size(); ++k) call.Long(plan.set.steps[k]);
  const bool wide = tensors[0]->dtype == DType::kFloat64;
  return call.Int(plan.lines.height)
      .Int(plan.set.by_columns ? 1 : 0)
      .Int(log ? 1 : 0)
      .Local(plan.lines.group * (wide ? 8 : 4))
      .RunGroups(plan.lines.num_groups, plan.lines.group);
}

}  // namespace

absl::Status RunSoftmax(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand* const tensors[] = {&launch.dst[0], &launch.src[0]};
  return Run(context, launch, tensors, "softmax_rows", "softmax_long",
             launch.kernel == Kernel::kLogSoftmax);
}

absl::Status RunSoftmaxBackward(KernelContext& context,
                                const ResolvedLaunch& launch) {
  const ResolvedOperand* const tensors[] = {&launch.dst[0], &launch.src[0],
                                            &launch.src[1]};
  return Run(context, launch, tensors, "softmax_backward_rows",
             "softmax_backward_long",
             launch.kernel == Kernel::kLogSoftmaxBackward);
}

}  // namespace tvarant::opencl

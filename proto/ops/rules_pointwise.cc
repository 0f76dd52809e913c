// Rules of pointwise, pointwise_foreach, copy, fill, arange, triangle.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {
namespace {

// What a launch of a program must bring.
struct ProgramNeeds {
  int inputs = 0;
  int float_scalars = 0;
  int int_scalars = 0;
};

ProgramNeeds NeedsOf(const Program& program) {
  ProgramNeeds needs;
  for (const ProgramNode& node : program.nodes) {
    if (node.op == PointwiseOp::kLoad) {
      needs.inputs = std::max(needs.inputs, node.index + 1);
    } else if (node.op == PointwiseOp::kScalar) {
      int& count =
          IsFloating(node.dtype) ? needs.float_scalars : needs.int_scalars;
      count = std::max(count, node.index + 1);
    }
  }
  return needs;
}

// All operands of one group: computable, of the sizes of the first output.
absl::Status CheckGroup(const LaunchParams& params, const Operand* dst,
                        int num_dst, const Operand* src, int num_src) {
  const Operand& first = dst[0];
  for (int i = 0; i < num_dst; ++i) {
    RETURN_IF_ERROR(WantComputable(params, dst[i]));
    RETURN_IF_ERROR(WantSizesOf(params, dst[i], first));
  }
  for (int i = 0; i < num_src; ++i) {
    RETURN_IF_ERROR(WantComputable(params, src[i]));
    RETURN_IF_ERROR(WantSizesOf(params, src[i], first));
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const LaunchParams& params, const Program* program,
                         int64_t groups, int64_t scalar_sets) {
  if (program == nullptr) return LaunchError(params, "program is not defined");
  const ProgramNeeds needs = NeedsOf(*program);
  const int num_dst = static_cast<int>(program->stores.size());
  if (num_dst == 0) return LaunchError(params, "program stores nothing");
  // groups <= 4096 and the limits of programs keep these products small.
  if (params.num_dst != groups * num_dst) {
    return CountError(params, "dst operands", params.num_dst, groups * num_dst);
  }
  if (params.num_src != groups * needs.inputs) {
    return CountError(params, "src operands", params.num_src,
                      groups * needs.inputs);
  }
  RETURN_IF_ERROR(
      WantParameters(params, static_cast<int>(scalar_sets * needs.int_scalars),
                     static_cast<int>(scalar_sets * needs.float_scalars)));
  for (int64_t i = 0; i < groups; ++i) {
    RETURN_IF_ERROR(CheckGroup(params, params.dst + i * num_dst, num_dst,
                               params.src + i * needs.inputs, needs.inputs));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPointwise(const LaunchParams& params,
                            const Program* program) {
  return CheckGroups(params, program, 1, 1);
}

absl::Status CheckPointwiseForeach(const LaunchParams& params,
                                   const Program* program) {
  if (params.batch < 1 || params.batch > params.num_dst) {
    return ParameterError(params, "batch", params.batch,
                          "the number of groups");
  }
  const bool per_group = (params.flags & kPerGroupScalars) != 0;
  return CheckGroups(params, program, params.batch,
                     per_group ? params.batch : 1);
}

absl::Status CheckCopy(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 0, 0));
  RETURN_IF_ERROR(WantSizesOf(params, x, y));
  const auto converts = [](DType dtype) {
    return IsComputable(dtype) || IsComplex(dtype);
  };
  // The other types only move bit by bit.
  if (x.dtype != y.dtype && !(converts(x.dtype) && converts(y.dtype))) {
    return OperandError(
        params, x,
        absl::StrCat("has dtype ", NameOf(x.dtype),
                     ", which can't be converted to ", NameOf(y.dtype)));
  }
  if (params.flags != 0 && !converts(x.dtype)) {
    return DTypeError(params, x, "a dtype that can be negated");
  }
  return absl::OkStatus();
}

absl::Status CheckFill(const LaunchParams& params, const Program*) {
  return WantParameters(params, 2, 0);
}

absl::Status CheckArange(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  RETURN_IF_ERROR(WantRank(params, y, 1));
  RETURN_IF_ERROR(WantComputable(params, y));
  return IsFloating(y.dtype) ? WantParameters(params, 0, 2)
                             : WantParameters(params, 2, 0);
}

absl::Status CheckTriangle(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 2, 0));
  RETURN_IF_ERROR(WantRankAtLeast(params, y, 2));
  RETURN_IF_ERROR(WantSizesOf(params, x, y));
  RETURN_IF_ERROR(WantDType(params, x, y.dtype));
  if (params.ints[1] != 0 && params.ints[1] != 1) {
    return ParameterError(params, "part", params.ints[1],
                          "0 (lower) or 1 (upper)");
  }
  return absl::OkStatus();
}

}  // namespace tvarant::rules

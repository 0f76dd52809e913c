#include "daemon/server/launch_resolver.h"

#include <algorithm>
#include <string>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "proto/base/checked_math.h"
#include "proto/base/status_macros.h"
#include "proto/base/strided.h"
#include "proto/ops/shape_rules.h"

namespace tvarant {
namespace {

ABSL_ATTRIBUTE_COLD absl::Status OperandError(const LaunchParams& params,
                                              const Operand& operand,
                                              const std::string& text) {
  const bool is_dst =
      &operand >= params.dst && &operand < params.dst + params.num_dst;
  return absl::InvalidArgumentError(
      absl::StrCat(NameOf(params.kernel), ": ", is_dst ? "dst " : "src ",
                   &operand - (is_dst ? params.dst : params.src), " ", text));
}

bool IsEmpty(const Operand& operand) {
  for (int i = 0; i < operand.rank; ++i) {
    if (operand.sizes[i] == 0) return true;
  }
  return false;
}

// CheckLaunch has shown before that the extent doesn't overflow.
absl::Status Bind(const LaunchParams& params, const Operand& operand,
                  LaunchResolver::FindSegment find_segment,
                  ResolvedOperand* out) {
  *out = ResolvedOperand{};
  if (operand.dtype == DType::kInvalid) return absl::OkStatus();
  out->dtype = operand.dtype;
  out->rank = operand.rank;
  out->sizes = operand.sizes;
  out->strides = operand.strides;
  const bool empty = IsEmpty(operand);
  if (operand.segment == 0 && empty) return absl::OkStatus();
  out->buffer = find_segment(operand.segment);
  if (ABSL_PREDICT_FALSE(out->buffer == nullptr)) {
    return OperandError(
        params, operand,
        absl::StrCat("names the unknown segment ", operand.segment));
  }
  // Where an empty tensor stands means nothing.
  if (empty) return absl::OkStatus();
  const size_t element_bytes = SizeOf(operand.dtype);
  // Complex numbers are pairs, aligned as their halves.
  const size_t alignment =
      IsComplex(operand.dtype) ? element_bytes / 2 : element_bytes;
  if (ABSL_PREDICT_FALSE(operand.offset_bytes % alignment != 0)) {
    return OperandError(params, operand,
                        absl::StrCat("has byte offset ", operand.offset_bytes,
                                     ", want a multiple of ", alignment));
  }
  uint64_t extent = 0;
  if (ABSL_PREDICT_FALSE(
          !base::CheckedExtentBytes(operand.sizes, operand.strides,
                                    operand.rank, element_bytes, &extent) ||
          !base::InRange(operand.offset_bytes, extent,
                         out->buffer->size_bytes()))) {
    return OperandError(params, operand,
                        absl::StrCat("passes the end of its segment: offset ",
                                     operand.offset_bytes, " + ", extent,
                                     " bytes of ", out->buffer->size_bytes()));
  }
  out->offset_bytes = operand.offset_bytes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ResolvedLaunch> LaunchResolver::Resolve(
    const LaunchRecord& record, FindSegment find_segment,
    FindProgram find_program) {
  const LaunchHead& head = record.head;
  // Bounded by kMaxOperands: ParseRecord has seen every one of them.
  const size_t count = size_t{head.num_dst} + head.num_src;
  if (operands_.size() < count) {
    operands_.resize(count);
    resolved_.resize(count);
  }
  const char* cursor = record.operands;
  for (size_t i = 0; i < count; ++i) operands_[i] = NextOperand(&cursor);

  const LaunchParams params{
      .kernel = static_cast<Kernel>(head.kernel),
      .act = static_cast<Act>(head.act),
      .flags = head.flags,
      .program = head.program,
      .m = head.m,
      .n = head.n,
      .k = head.k,
      .batch = head.batch,
      .alpha = head.alpha,
      .beta = head.beta,
      .scalar = head.scalar,
      .ints = record.ints,
      .num_ints = head.num_ints,
      .floats = record.floats,
      .num_floats = head.num_floats,
      .dst = operands_.data(),
      .num_dst = head.num_dst,
      .src = operands_.data() + head.num_dst,
      .num_src = head.num_src,
  };
  ProgramRef program;
  if (head.program != 0) program = find_program(head.program);
  RETURN_IF_ERROR(CheckLaunch(params, program.program));
  for (size_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(Bind(params, operands_[i], find_segment, &resolved_[i]));
  }
  return ResolvedLaunch{
      .kernel = params.kernel,
      .act = params.act,
      .flags = params.flags,
      .program = program.program,
      .program_key = program.key,
      .m = params.m,
      .n = params.n,
      .k = params.k,
      .batch = params.batch,
      .alpha = params.alpha,
      .beta = params.beta,
      .scalar = params.scalar,
      .ints = absl::MakeConstSpan(record.ints, head.num_ints),
      .floats = absl::MakeConstSpan(record.floats, head.num_floats),
      .dst = absl::MakeConstSpan(resolved_.data(), head.num_dst),
      .src = absl::MakeConstSpan(resolved_.data() + head.num_dst, head.num_src),
  };
}

}  // namespace tvarant

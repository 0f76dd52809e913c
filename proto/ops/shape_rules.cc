#include "proto/ops/shape_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/checked_math.h"
#include "proto/base/strided.h"
#include "proto/ops/rule_checks.h"

namespace tvarant {
namespace rules {
namespace {

static_assert(kMaxRank <= base::kMaxDims);

struct KernelRow {
  int min_dst, max_dst, min_src, max_src;
  absl::Status (*check)(const LaunchParams&, const Program*);
};

const KernelRow* FindKernel(Kernel kernel) {
  switch (kernel) {
#define TVARANT_KERNEL(id, Name, name, min_dst, max_dst, min_src, max_src, \
                       doc)                                                \
  case Kernel::k##Name: {                                                  \
    static constexpr KernelRow kRow = {min_dst, max_dst, min_src, max_src, \
                                       &Check##Name};                      \
    return &kRow;                                                          \
  }
#include "proto/ops/kernels.inc"
    default:
      return nullptr;
  }
}

// Bit i: operand i may be absent.
struct OptionalOperands {
  unsigned dst = 0;
  unsigned src = 0;
};

constexpr OptionalOperands OptionalOf(Kernel kernel) {
  switch (kernel) {
    case Kernel::kGemm:
      return {.dst = 0, .src = 0b100};
    case Kernel::kLayerNorm:
      return {.dst = 0, .src = 0b110};
    case Kernel::kLayerNormBackward:
      return {.dst = 0b111, .src = 0b10000};
    case Kernel::kPairDistance:
      return {.dst = 0, .src = 0b10};
    case Kernel::kConvolution:
    case Kernel::kConvolutionTranspose:
      return {.dst = 0, .src = 0b100};
    case Kernel::kChannelNorm:
      return {.dst = 0b11110, .src = 0b11110};
    case Kernel::kChannelNormBackward:
      return {.dst = 0b111, .src = 0b10000};
    case Kernel::kNllLoss:
    case Kernel::kNllLossBackward:
    case Kernel::kPairDistanceBackward:
      return {.dst = 0, .src = 0b100};
    case Kernel::kSearchSorted:
      return {.dst = 0, .src = 0b100};
    case Kernel::kHistogram:
      return {.dst = 0, .src = 0b10};
    case Kernel::kGridSampleBackward:
      return {.dst = 0b11, .src = 0};
    case Kernel::kAttention:
      return {.dst = 0b10, .src = 0b1000};
    case Kernel::kEmbeddingBag:
      return {.dst = 0b100, .src = 0b1000};
    default:
      return {};
  }
}

constexpr bool HasBit(unsigned bits, int index) {
  return index >= 0 && index < 32 && (bits >> index & 1) != 0;
}

std::string SizesText(const int64_t* sizes, int rank) {
  std::string text = "[";
  for (int i = 0; i < rank; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", sizes[i]);
  }
  return text + "]";
}

std::string OperandName(const LaunchParams& params, const Operand& operand) {
  const Operand* at = &operand;
  if (at >= params.dst && at < params.dst + params.num_dst) {
    return absl::StrCat("dst ", at - params.dst);
  }
  return absl::StrCat("src ", at - params.src);
}

// One pass over the dimensions: signs, the product of sizes, the extent.
bool ExtentsAreSane(const Operand& operand, size_t element_bytes) {
  int64_t elements = 1;  // zeros counted as ones
  uint64_t last = element_bytes;
  bool fits = true;
  for (int i = 0; i < operand.rank; ++i) {
    const int64_t size = operand.sizes[i];
    const int64_t stride = operand.strides[i];
    if ((size | stride) < 0) return false;
    const int64_t steps = std::max<int64_t>(size, 1);
    uint64_t span;
    // Not short-circuited: branches cost more than the sums.
    fits &= base::CheckedMul(elements, steps, &elements);
    fits &= base::CheckedMul(static_cast<uint64_t>(steps - 1) * element_bytes,
                             static_cast<uint64_t>(stride), &span);
    fits &= base::CheckedAdd(last, span, &last);
    // Also keeps the product above from overflowing.
    if (elements > kMaxElements) return false;
  }
  return fits && last <= uint64_t{INT64_MAX};
}

absl::Status CheckOperand(const LaunchParams& params, const Operand& operand,
                          bool optional) {
  if (!IsPresent(operand)) {
    if (optional) return absl::OkStatus();
    return OperandError(params, operand, "is absent");
  }
  const size_t element_bytes = SizeOf(operand.dtype);
  if (ABSL_PREDICT_FALSE(element_bytes == 0)) {
    return OperandError(params, operand,
                        absl::StrCat("has the unknown dtype ",
                                     static_cast<int>(operand.dtype)));
  }
  if (ABSL_PREDICT_FALSE(operand.rank > kMaxRank)) {
    return RankError(params, operand, "at most ", kMaxRank);
  }
  if (ABSL_PREDICT_FALSE(!ExtentsAreSane(operand, element_bytes))) {
    return OperandError(
        params, operand,
        absl::StrCat("has sizes or strides that are negative or too large: "
                     "sizes ",
                     SizesText(operand.sizes, operand.rank), ", strides ",
                     SizesText(operand.strides, operand.rank)));
  }
  return absl::OkStatus();
}

absl::Status CheckOperands(const LaunchParams& params) {
  const OptionalOperands optional = OptionalOf(params.kernel);
  for (int i = 0; i < params.num_dst; ++i) {
    const Operand& dst = params.dst[i];
    RETURN_IF_ERROR(CheckOperand(params, dst, HasBit(optional.dst, i)));
    if (IsPresent(dst) && ABSL_PREDICT_FALSE(base::MayOverlapItself(
                              dst.sizes, dst.strides, dst.rank))) {
      return OperandError(
          params, dst,
          absl::StrCat("overlaps itself and can't be written: sizes ",
                       SizesText(dst.sizes, dst.rank), ", strides ",
                       SizesText(dst.strides, dst.rank)));
    }
  }
  for (int i = 0; i < params.num_src; ++i) {
    RETURN_IF_ERROR(
        CheckOperand(params, params.src[i], HasBit(optional.src, i)));
  }
  return absl::OkStatus();
}

absl::Status CheckCounts(const LaunchParams& params, const KernelRow& row) {
  if (ABSL_PREDICT_FALSE(params.num_dst < row.min_dst ||
                         params.num_dst > row.max_dst)) {
    return CountError(params, "dst operands", params.num_dst,
                      params.num_dst < row.min_dst ? row.min_dst : row.max_dst);
  }
  if (ABSL_PREDICT_FALSE(params.num_src < row.min_src ||
                         params.num_src > row.max_src)) {
    return CountError(params, "src operands", params.num_src,
                      params.num_src < row.min_src ? row.min_src : row.max_src);
  }
  if (ABSL_PREDICT_FALSE(params.num_ints < 0 || params.num_floats < 0 ||
                         params.num_ints > kMaxInts ||
                         params.num_floats > kMaxFloats)) {
    return LaunchError(params, "too many ints or floats");
  }
  return absl::OkStatus();
}

constexpr uint32_t AllowedFlags(Kernel kernel) {
  switch (kernel) {
    case Kernel::kCopy:
      return kConjugate | kNegate;
    case Kernel::kPointwiseForeach:
      return kPerGroupScalars;
    case Kernel::kIndexSelect:
    case Kernel::kIndexPick:
    case Kernel::kIndexPut:
      return kWrapNegative;
    default:
      return 0;
  }
}

}  // namespace

absl::Status LaunchError(const LaunchParams& params, const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat(NameOf(params.kernel), ": ", text));
}

absl::Status OperandError(const LaunchParams& params, const Operand& operand,
                          const std::string& text) {
  return LaunchError(params,
                     absl::StrCat(OperandName(params, operand), " ", text));
}

absl::Status DTypeError(const LaunchParams& params, const Operand& operand,
                        const char* want) {
  return OperandError(
      params, operand,
      absl::StrCat("has dtype ", NameOf(operand.dtype), ", want ", want));
}

absl::Status RankError(const LaunchParams& params, const Operand& operand,
                       const char* comparison, int want) {
  return OperandError(params, operand,
                      absl::StrCat("has rank ", int{operand.rank}, ", want ",
                                   comparison, want));
}

absl::Status SizesError(const LaunchParams& params, const Operand& operand,
                        const int64_t* want, int rank) {
  return OperandError(
      params, operand,
      absl::StrCat("has sizes ", SizesText(operand.sizes, operand.rank),
                   ", want ", SizesText(want, rank)));
}

absl::Status CountError(const LaunchParams& params, const char* what,
                        int64_t got, int64_t want) {
  return LaunchError(params,
                     absl::StrCat("has ", got, " ", what, ", want ", want));
}

absl::Status ParameterError(const LaunchParams& params, const char* name,
                            double got, const char* want) {
  return LaunchError(params,
                     absl::StrFormat("%s is %g, want %s", name, got, want));
}

absl::Status ParameterError(const LaunchParams& params, const char* name,
                            int64_t got, const char* want) {
  return LaunchError(params, absl::StrCat(name, " is ", got, ", want ", want));
}

absl::Status WantSizesOfExcept(const LaunchParams& params,
                               const Operand& operand, const Operand& other,
                               int64_t dim) {
  RETURN_IF_ERROR(WantRank(params, operand, other.rank));
  for (int i = 0; i < other.rank; ++i) {
    if (i != dim && ABSL_PREDICT_FALSE(operand.sizes[i] != other.sizes[i])) {
      return OperandError(
          params, operand,
          absl::StrCat("has sizes ", SizesText(operand.sizes, operand.rank),
                       ", want ", SizesText(other.sizes, other.rank),
                       " except in dimension ", dim));
    }
  }
  return absl::OkStatus();
}

absl::Status WantSizesWithin(const LaunchParams& params, const Operand& operand,
                             const Operand& other, int64_t dim) {
  RETURN_IF_ERROR(WantRank(params, operand, other.rank));
  for (int i = 0; i < other.rank; ++i) {
    if (i != dim && ABSL_PREDICT_FALSE(operand.sizes[i] > other.sizes[i])) {
      return OperandError(
          params, operand,
          absl::StrCat("has sizes ", SizesText(operand.sizes, operand.rank),
                       ", want at most ", SizesText(other.sizes, other.rank),
                       " except in dimension ", dim));
    }
  }
  return absl::OkStatus();
}

}  // namespace rules

absl::Status CheckLaunch(const LaunchParams& params, const Program* program) {
  const rules::KernelRow* row = rules::FindKernel(params.kernel);
  if (ABSL_PREDICT_FALSE(row == nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown kernel ", static_cast<int>(params.kernel)));
  }
  RETURN_IF_ERROR(rules::CheckCounts(params, *row));
  if (ABSL_PREDICT_FALSE((params.flags & ~rules::AllowedFlags(params.kernel)) !=
                         0)) {
    return rules::ParameterError(params, "flags", int64_t{params.flags},
                                 "only flags of the kernel");
  }
  if (ABSL_PREDICT_FALSE(params.act != Act::kNone &&
                         params.kernel != Kernel::kGemm)) {
    return rules::LaunchError(params, "takes no activation");
  }
  RETURN_IF_ERROR(rules::CheckOperands(params));
  return row->check(params, program);
}

bool IsOptionalDst(Kernel kernel, int index) {
  return rules::HasBit(rules::OptionalOf(kernel).dst, index);
}

bool IsOptionalSrc(Kernel kernel, int index) {
  return rules::HasBit(rules::OptionalOf(kernel).src, index);
}

}  // namespace tvarant

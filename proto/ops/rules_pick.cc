// Rules of index, index_put, scatter, nonzero, masked_select, masked_scatter,
// embedding_bag, embedding_renorm.

#include "absl/strings/str_cat.h"
#include "proto/ops/op_ids.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {
namespace {

// Index operands from `first_index` on index `whole` from dimension ints[0];
// `picked` has the sizes that this gives.
absl::Status CheckPicked(const LaunchParams& params, const Operand& picked,
                         const Operand& whole, int first_index) {
  const int count = params.num_src - first_index;
  const int64_t first = params.ints[0];
  if (first < 0 || first > whole.rank - count) {
    return ParameterError(params, "first dimension", first,
                          "one that leaves a dimension for each index");
  }
  const Operand& index = params.src[first_index];
  for (int i = first_index; i < params.num_src; ++i) {
    RETURN_IF_ERROR(WantIndex(params, params.src[i]));
    RETURN_IF_ERROR(WantSizesOf(params, params.src[i], index));
  }
  RETURN_IF_ERROR(WantRank(params, picked, whole.rank - count + index.rank));
  int64_t want[kMaxRank];
  int rank = 0;
  for (int d = 0; d < first; ++d) want[rank++] = whole.sizes[d];
  for (int d = 0; d < index.rank; ++d) want[rank++] = index.sizes[d];
  for (int d = static_cast<int>(first) + count; d < whole.rank; ++d) {
    want[rank++] = whole.sizes[d];
  }
  return WantSizes(params, picked, want, rank);
}

absl::Status WantPutMode(const LaunchParams& params, const Operand& target,
                         int64_t mode) {
  if (mode < static_cast<int64_t>(PutMode::kSet) ||
      mode > static_cast<int64_t>(PutMode::kMin)) {
    return ParameterError(params, "mode", mode, "a PutMode");
  }
  if (static_cast<PutMode>(mode) == PutMode::kSet) return absl::OkStatus();
  return WantComputable(params, target);
}

}  // namespace

absl::Status CheckIndexPick(const LaunchParams& params, const Program*) {
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, params.num_src, 0));
  RETURN_IF_ERROR(WantDType(params, params.dst[0], x.dtype));
  return CheckPicked(params, params.dst[0], x, 1);
}

absl::Status CheckIndexPut(const LaunchParams& params, const Program*) {
  const Operand& x = params.dst[0];
  RETURN_IF_ERROR(WantParameters(params, 1 + params.num_src, 0));
  RETURN_IF_ERROR(WantDType(params, params.src[0], x.dtype));
  RETURN_IF_ERROR(WantPutMode(params, x, params.ints[1]));
  return CheckPicked(params, params.src[0], x, 1);
}

absl::Status CheckScatter(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& index = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 2, 0));
  RETURN_IF_ERROR(WantDim(params, y, params.ints[0]));
  RETURN_IF_ERROR(WantPutMode(params, y, params.ints[1]));
  RETURN_IF_ERROR(WantIndex(params, index));
  RETURN_IF_ERROR(WantDType(params, params.src[1], y.dtype));
  RETURN_IF_ERROR(WantSizesOf(params, params.src[1], index));
  return WantSizesWithin(params, index, y, params.ints[0]);
}

absl::Status CheckNonzero(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  RETURN_IF_ERROR(WantParameters(params, 1, 0));
  RETURN_IF_ERROR(WantComputable(params, params.src[0]));
  RETURN_IF_ERROR(WantDType(params, y, DType::kInt64));
  RETURN_IF_ERROR(WantRank(params, y, 2));
  return WantSizes(params, y, {y.sizes[0], int64_t{params.src[0].rank}});
}

absl::Status CheckMaskedSelect(const LaunchParams& params, const Program*) {
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 0, 0));
  RETURN_IF_ERROR(WantDType(params, params.dst[0], x.dtype));
  RETURN_IF_ERROR(WantRank(params, params.dst[0], 1));
  RETURN_IF_ERROR(WantDType(params, params.src[1], DType::kBool));
  return WantSizesOf(params, params.src[1], x);
}

absl::Status CheckMaskedScatter(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  RETURN_IF_ERROR(WantParameters(params, 0, 0));
  RETURN_IF_ERROR(WantDType(params, params.src[0], DType::kBool));
  RETURN_IF_ERROR(WantSizesOf(params, params.src[0], y));
  RETURN_IF_ERROR(WantDType(params, params.src[1], y.dtype));
  return WantRank(params, params.src[1], 1);
}

absl::Status CheckEmbeddingBag(const LaunchParams& params, const Program*) {
  const Operand& y = params.dst[0];
  const Operand& weight = params.src[0];
  const Operand& index = params.src[1];
  const Operand& offsets = params.src[2];
  RETURN_IF_ERROR(WantParameters(params, 2, 0));
  if (params.ints[0] < 0 || params.ints[0] > 2) {
    return ParameterError(params, "mode", params.ints[0], "0, 1 or 2");
  }
  RETURN_IF_ERROR(WantFloating(params, weight));
  RETURN_IF_ERROR(WantRank(params, weight, 2));
  RETURN_IF_ERROR(WantRank(params, y, 2));
  RETURN_IF_ERROR(WantDType(params, y, weight.dtype));
  RETURN_IF_ERROR(WantSizes(params, y, {y.sizes[0], weight.sizes[1]}));
  RETURN_IF_ERROR(WantDType(params, params.dst[1], DType::kInt64));
  RETURN_IF_ERROR(WantSizes(params, params.dst[1], {y.sizes[0]}));
  if (IsPresent(params.dst[2])) {
    RETURN_IF_ERROR(WantDType(params, params.dst[2], DType::kInt64));
    RETURN_IF_ERROR(WantSizesOf(params, params.dst[2], y));
  }
  RETURN_IF_ERROR(WantIndex(params, index));
  RETURN_IF_ERROR(WantRank(params, index, 1));
  RETURN_IF_ERROR(WantIndex(params, offsets));
  RETURN_IF_ERROR(WantRank(params, offsets, 1));
  if (offsets.sizes[0] != y.sizes[0] && offsets.sizes[0] - 1 != y.sizes[0]) {
    return OperandError(
        params, offsets,
        absl::StrCat("has ", offsets.sizes[0],
                     " elements, want as many as bags or one more, ",
                     y.sizes[0]));
  }
  if (IsPresent(params.src[3])) {
    RETURN_IF_ERROR(WantDType(params, params.src[3], weight.dtype));
    RETURN_IF_ERROR(WantSizesOf(params, params.src[3], index));
  }
  return absl::OkStatus();
}

absl::Status CheckEmbeddingRenorm(const LaunchParams& params, const Program*) {
  RETURN_IF_ERROR(WantParameters(params, 0, 2));
  RETURN_IF_ERROR(WantFloating(params, params.dst[0]));
  RETURN_IF_ERROR(WantRank(params, params.dst[0], 2));
  RETURN_IF_ERROR(WantIndex(params, params.src[0]));
  return WantRank(params, params.src[0], 1);
}

}  // namespace tvarant::rules

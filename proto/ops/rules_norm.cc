// Rules of softmax, layer_norm, nll_loss and their gradients.

#include "proto/ops/rule_checks.h"

namespace tvarant::rules {
namespace {

absl::Status CheckAnySoftmax(const LaunchParams& params) {
  const Operand& y = params.dst[0];
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 1, 0));
  RETURN_IF_ERROR(WantFloating(params, x));
  RETURN_IF_ERROR(WantSameOrWider(params, y, x.dtype));
  RETURN_IF_ERROR(WantSizesOf(params, y, x));
  return WantDim(params, x, params.ints[0]);
}

absl::Status CheckAnySoftmaxBackward(const LaunchParams& params) {
  const Operand& dx = params.dst[0];
  const Operand& dy = params.src[0];
  const Operand& y = params.src[1];
  RETURN_IF_ERROR(WantParameters(params, 1, 0));
  RETURN_IF_ERROR(WantFloating(params, dx));
  RETURN_IF_ERROR(WantSameOrWider(params, dy, dx.dtype));
  RETURN_IF_ERROR(WantDType(params, y, dy.dtype));
  RETURN_IF_ERROR(WantSizesOf(params, dy, dx));
  RETURN_IF_ERROR(WantSizesOf(params, y, dx));
  return WantDim(params, dx, params.ints[0]);
}

absl::Status WantVector(const LaunchParams& params, const Operand& operand,
                        DType dtype, int64_t size) {
  RETURN_IF_ERROR(WantSameOrWider(params, operand, dtype));
  return WantSizes(params, operand, {size});
}

absl::Status WantVectorOrAbsent(const LaunchParams& params,
                                const Operand& operand, DType dtype,
                                int64_t size) {
  if (!IsPresent(operand)) return absl::OkStatus();
  return WantVector(params, operand, dtype, size);
}

// {reduction, ignore_index} and what they ask of the loss; `places` are the
// sizes of what has one target each.
absl::Status CheckReduction(const LaunchParams& params, const Operand& loss,
                            const int64_t* places, int rank) {
  RETURN_IF_ERROR(WantParameters(params, 2, 0));
  if (params.ints[0] < 0 || params.ints[0] > 2) {
    return ParameterError(params, "reduction", params.ints[0],
                          "0 (none), 1 (mean) or 2 (sum)");
  }
  return params.ints[0] == 0 ? WantSizes(params, loss, places, rank)
                             : WantSizes(params, loss, {});
}

// logp [N, C] or [N, C, L], loss and target [N] or [N, L], weight [C].
absl::Status CheckAnyNllLoss(const LaunchParams& params, const Operand& logp,
                             const Operand& loss, const Operand& total_weight) {
  const Operand& target = params.src[1];
  const Operand& weight = params.src[2];
  RETURN_IF_ERROR(WantFloating(params, logp));
  if (logp.rank != 3) RETURN_IF_ERROR(WantRank(params, logp, 2));
  const int64_t places[] = {logp.sizes[0], logp.rank == 3 ? logp.sizes[2] : 1};
  RETURN_IF_ERROR(CheckReduction(params, loss, places, logp.rank - 1));
  RETURN_IF_ERROR(WantDType(params, loss, logp.dtype));
  RETURN_IF_ERROR(WantDType(params, target, DType::kInt64));
  RETURN_IF_ERROR(WantSizes(params, target, places, logp.rank - 1));
  if (IsPresent(weight)) {
    RETURN_IF_ERROR(WantDType(params, weight, logp.dtype));
    RETURN_IF_ERROR(WantSizes(params, weight, {logp.sizes[1]}));
  }
  RETURN_IF_ERROR(WantDType(params, total_weight, logp.dtype));
  return WantSizes(params, total_weight, {});
}

}  // namespace

absl::Status CheckSoftmax(const LaunchParams& params, const Program*) {
  return CheckAnySoftmax(params);
}

absl::Status CheckLogSoftmax(const LaunchParams& params, const Program*) {
  return CheckAnySoftmax(params);
}

absl::Status CheckSoftmaxBackward(const LaunchParams& params, const Program*) {
  return CheckAnySoftmaxBackward(params);
}

absl::Status CheckLogSoftmaxBackward(const LaunchParams& params,
                                     const Program*) {
  return CheckAnySoftmaxBackward(params);
}

absl::Status CheckLayerNorm(const LaunchParams& params, const Program*) {
  const Operand& x = params.src[0];
  RETURN_IF_ERROR(WantParameters(params, 0, 0));
  RETURN_IF_ERROR(WantFloating(params, x));
  RETURN_IF_ERROR(WantRank(params, x, 2));
  const int64_t rows = x.sizes[0], columns = x.sizes[1];
  RETURN_IF_ERROR(WantDType(params, params.dst[0], x.dtype));
  RETURN_IF_ERROR(WantSizesOf(params, params.dst[0], x));
  RETURN_IF_ERROR(WantVector(params, params.dst[1], x.dtype, rows));
  RETURN_IF_ERROR(WantDType(params, params.dst[2], params.dst[1].dtype));
  RETURN_IF_ERROR(WantVector(params, params.dst[2], x.dtype, rows));
  RETURN_IF_ERROR(WantVectorOrAbsent(params, params.src[1], x.dtype, columns));
  return WantVectorOrAbsent(params, params.src[2], x.dtype, columns);
}

absl::Status CheckLayerNormBackward(const LaunchParams& params,
                                    const Program*) {
  const Operand& x = params.src[1];
  RETURN_IF_ERROR(WantParameters(params, 0, 0));
  RETURN_IF_ERROR(WantFloating(params, x));
  RETURN_IF_ERROR(WantRank(params, x, 2));
  const int64_t rows = x.sizes[0], columns = x.sizes[1];
  RETURN_IF_ERROR(WantDType(params, params.src[0], x.dtype));
  RETURN_IF_ERROR(WantSizesOf(params, params.src[0], x));
  RETURN_IF_ERROR(WantVector(params, params.src[2], x.dtype, rows));
  RETURN_IF_ERROR(WantDType(params, params.src[3], params.src[2].dtype));
  RETURN_IF_ERROR(WantVector(params, params.src[3], x.dtype, rows));
  RETURN_IF_ERROR(WantVectorOrAbsent(params, params.src[4], x.dtype, columns));
  if (IsPresent(params.dst[0])) {
    RETURN_IF_ERROR(WantDType(params, params.dst[0], x.dtype));
    RETURN_IF_ERROR(WantSizesOf(params, params.dst[0], x));
  }
  RETURN_IF_ERROR(WantVectorOrAbsent(params, params.dst[1], x.dtype, columns));
  return WantVectorOrAbsent(params, params.dst[2], x.dtype, columns);
}

absl::Status CheckNllLoss(const LaunchParams& params, const Program*) {
  return CheckAnyNllLoss(params, params.src[0], params.dst[0], params.dst[1]);
}

absl::Status CheckNllLossBackward(const LaunchParams& params, const Program*) {
  return CheckAnyNllLoss(params, params.dst[0], params.src[0], params.src[3]);
}

}  // namespace tvarant::rules

// Rules of ctc_loss and its gradient.

#include "absl/strings/str_cat.h"
#include "proto/ops/rule_checks.h"

namespace tvarant::rules {
namespace {

// Operands that both kernels have.
struct Ctc {
  const Operand& logp;     // [T, B, C]
  const Operand& targets;  // [S]
  const Operand& nll;      // [B]
  const Operand& alpha;    // [B, T, states]
};

absl::Status CheckLengths(const LaunchParams& params, const Ctc& ctc) {
  const int64_t batch = ctc.logp.sizes[1];
  if (params.num_floats != 0 || batch > kMaxInts ||
      params.num_ints != 2 + 3 * batch) {
    return CountError(params, "ints", params.num_ints, 2 + 3 * batch);
  }
  if (params.ints[0] < 0 || params.ints[0] >= ctc.logp.sizes[2]) {
    return ParameterError(params, "blank", params.ints[0], "a class");
  }
  const int64_t letters = ctc.targets.sizes[0];
  for (int64_t n = 0; n < batch; ++n) {
    const int64_t* sample = params.ints + 2 + 3 * n;
    if (sample[0] < 0 || sample[0] > ctc.logp.sizes[0]) {
      return ParameterError(params, "input length", sample[0],
                            "0 to the number of steps");
    }
    if (sample[1] < 0 || sample[1] > letters ||
        ctc.alpha.sizes[2] < 2 * sample[1] + 1) {
      return ParameterError(params, "target length", sample[1],
                            "one that src and alpha have room for");
    }
    if (sample[2] < 0 || sample[2] > letters - sample[1]) {
      return ParameterError(params, "target begin", sample[2],
                            "a place in the targets");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAnyCtc(const LaunchParams& params, const Ctc& ctc) {
  const DType dtype = ctc.logp.dtype;
  if (dtype != DType::kFloat64) {
    RETURN_IF_ERROR(WantDType(params, ctc.logp, DType::kFloat32));
  }
  RETURN_IF_ERROR(WantRank(params, ctc.logp, 3));
  RETURN_IF_ERROR(WantIndex(params, ctc.targets));
  RETURN_IF_ERROR(WantRank(params, ctc.targets, 1));
  RETURN_IF_ERROR(WantDType(params, ctc.nll, dtype));
  RETURN_IF_ERROR(WantSizes(params, ctc.nll, {ctc.logp.sizes[1]}));
  RETURN_IF_ERROR(WantDType(params, ctc.alpha, dtype));
  RETURN_IF_ERROR(WantRank(params, ctc.alpha, 3));
  RETURN_IF_ERROR(
      WantSizes(params, ctc.alpha,
                {ctc.logp.sizes[1], ctc.logp.sizes[0], ctc.alpha.sizes[2]}));
  return CheckLengths(params, ctc);
}

}  // namespace

absl::Status CheckCtcLoss(const LaunchParams& params, const Program*) {
  return CheckAnyCtc(params, {.logp = params.src[0],
                              .targets = params.src[1],
                              .nll = params.dst[0],
                              .alpha = params.dst[1]});
}

absl::Status CheckCtcLossBackward(const LaunchParams& params, const Program*) {
  const Operand& logp = params.src[1];
  RETURN_IF_ERROR(CheckAnyCtc(params, {.logp = logp,
                                       .targets = params.src[2],
                                       .nll = params.src[3],
                                       .alpha = params.src[4]}));
  RETURN_IF_ERROR(WantDType(params, params.src[0], logp.dtype));
  RETURN_IF_ERROR(WantSizes(params, params.src[0], {logp.sizes[1]}));
  RETURN_IF_ERROR(WantDType(params, params.dst[0], logp.dtype));
  return WantSizesOf(params, params.dst[0], logp);
}

}  // namespace tvarant::rules

// Connectionist temporal classification.

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {
namespace {

// A batch as the kernel takes it: all targets in one vector, and for each
// sample its steps, its letters and where its target begins.
struct Batch {
  Tensor logp;     // [T, B, C]
  Tensor targets;  // [S]
  std::vector<int64_t> samples;
  int64_t longest = 0;  // letters
};

// Lengths travel as launch integers.
bool HasRoom(const Tensor& logp) {
  return 3 * logp.size(logp.dim() == 3 ? 1 : 0) + 2 <= kMaxInts;
}

Batch BatchOf(const Tensor& log_probs, const Tensor& targets,
              IntArrayRef input_lengths, IntArrayRef target_lengths,
              int64_t blank) {
  TORCH_CHECK(log_probs.numel() > 0, "log_probs tensor must not be empty");
  TORCH_CHECK(log_probs.dim() == 3,
              "log_probs must be of shape (T, N, C), got ", log_probs.sizes());
  TORCH_CHECK(
      targets.scalar_type() == at::kLong || targets.scalar_type() == at::kInt,
      "ctc_loss: targets must be int64 or int32, got ", targets.scalar_type());
  TORCH_CHECK(targets.dim() == 1 || targets.dim() == 2,
              "ctc_loss: targets must have 1 or 2 dimensions, got ",
              targets.dim());
  DeviceCheck("ctc_loss").Add(log_probs, "log_probs").Add(targets, "targets");
  const int64_t batch = log_probs.size(1), classes = log_probs.size(2);
  TORCH_CHECK(0 <= blank && blank < classes, "blank must be in label range");
  TORCH_CHECK(static_cast<int64_t>(input_lengths.size()) == batch,
              "input_lengths must be of size batch_size");
  TORCH_CHECK(static_cast<int64_t>(target_lengths.size()) == batch,
              "target_lengths must be of size batch_size");
  const bool is_joined = targets.dim() == 1;
  Batch result;
  result.logp = log_probs;
  result.targets = targets.contiguous().view({-1});
  int64_t begin = 0;
  for (size_t n = 0; n < static_cast<size_t>(batch); ++n) {
    const int64_t steps = input_lengths[n], letters = target_lengths[n];
    TORCH_CHECK(steps >= 0,
                "Expected input_lengths to have value at least 0, "
                "but got value ",
                steps);
    TORCH_CHECK(letters >= 0,
                "Expected target_lengths to have value at least 0, but got "
                "value ",
                letters);
    TORCH_CHECK(steps <= log_probs.size(0),
                "Expected input_lengths to have value at most ",
                log_probs.size(0), ", but got value ", steps,
                " (while checking arguments for ctc_loss)");
    result.samples.insert(
        result.samples.end(),
        {steps, letters,
         is_joined ? begin : static_cast<int64_t>(n) * targets.size(1)});
    begin += letters;
    result.longest = std::max(result.longest, letters);
  }
  if (is_joined) {
    TORCH_CHECK(targets.size(0) == begin, "Expected tensor to have size ",
                begin, " at dimension 0, but got size ", targets.size(0),
                " for targets (while checking arguments for ctc_loss)");
  } else {
    TORCH_CHECK(targets.size(0) == batch && targets.size(1) >= result.longest,
                "Expected tensor to have size at least ", result.longest,
                " at dimension 1, but got size ", targets.size(1),
                " for targets (while checking arguments for ctc_loss)");
  }
  return result;
}

void AddParameters(LaunchBuilder& launch, const Batch& batch, int64_t blank,
                   bool zero_infinity) {
  launch.Int(blank).Int(zero_infinity ? 1 : 0);
  for (const int64_t value : batch.samples) launch.Int(value);
}

bool IsForKernel(const Tensor& log_probs) {
  return (log_probs.scalar_type() == at::kFloat ||
          log_probs.scalar_type() == at::kDouble) &&
         HasRoom(log_probs);
}

std::tuple<Tensor, Tensor> CtcLoss(const Tensor& log_probs,
                                   const Tensor& targets,
                                   IntArrayRef input_lengths,
                                   IntArrayRef target_lengths, int64_t blank,
                                   bool zero_infinity) {
  if (!IsForKernel(log_probs)) {
    const auto results =
        Fallback("_ctc_loss", "", log_probs, targets, input_lengths,
                 target_lengths, blank, zero_infinity);
    return {results[0].toTensor(), results[1].toTensor()};
  }
  const Batch batch =
      BatchOf(log_probs, targets, input_lengths, target_lengths, blank);
  Tensor nll = EmptyLikeOf(log_probs, {log_probs.size(1)});
  Tensor alpha = EmptyLikeOf(
      log_probs, {log_probs.size(1), log_probs.size(0), 2 * batch.longest + 1});
  LaunchBuilder launch(Kernel::kCtcLoss, log_probs.device());
  launch.Dst(nll).Dst(alpha).Src(batch.logp).Src(batch.targets);
  AddParameters(launch, batch, blank, zero_infinity);
  launch.Run();
  return {nll, alpha};
}

Tensor CtcLossBackward(const Tensor& grad, const Tensor& log_probs,
                       const Tensor& targets, IntArrayRef input_lengths,
                       IntArrayRef target_lengths,
                       const Tensor& neg_log_likelihood,
                       const Tensor& log_alpha, int64_t blank,
                       bool zero_infinity) {
  if (!IsForKernel(log_probs)) {
    return FallbackTensor("_ctc_loss_backward", "", grad, log_probs, targets,
                          input_lengths, target_lengths, neg_log_likelihood,
                          log_alpha, blank, zero_infinity);
  }
  const Batch batch =
      BatchOf(log_probs, targets, input_lengths, target_lengths, blank);
  Tensor result = EmptyLikeOf(log_probs, log_probs.sizes());
  LaunchBuilder launch(Kernel::kCtcLossBackward, log_probs.device());
  launch.Dst(result).Src(grad).Src(batch.logp).Src(batch.targets);
  launch.Src(neg_log_likelihood).Src(log_alpha);
  AddParameters(launch, batch, blank, zero_infinity);
  launch.Run();
  return result;
}

// Lengths as tensors: read on the host.
std::vector<int64_t> Lengths(const Tensor& lengths) {
  TORCH_CHECK(c10::isIntegralType(lengths.scalar_type(), false),
              "input_lengths must be integral");
  const Tensor host = lengths.to(at::kCPU, at::kLong).contiguous();
  const auto* data = host.const_data_ptr<int64_t>();
  return {data, data + host.numel()};
}

std::tuple<Tensor, Tensor> CtcLossTensor(const Tensor& log_probs,
                                         const Tensor& targets,
                                         const Tensor& input_lengths,
                                         const Tensor& target_lengths,
                                         int64_t blank, bool zero_infinity) {
  return CtcLoss(log_probs, targets, Lengths(input_lengths),
                 Lengths(target_lengths), blank, zero_infinity);
}

Tensor CtcLossBackwardTensor(const Tensor& grad, const Tensor& log_probs,
                             const Tensor& targets, const Tensor& input_lengths,
                             const Tensor& target_lengths, const Tensor& nll,
                             const Tensor& alpha, int64_t blank,
                             bool zero_infinity) {
  return CtcLossBackward(grad, log_probs, targets, Lengths(input_lengths),
                         Lengths(target_lengths), nll, alpha, blank,
                         zero_infinity);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_ctc_loss", &CtcLoss);
  m.impl("_ctc_loss.Tensor", &CtcLossTensor);
  m.impl("_ctc_loss_backward", &CtcLossBackward);
  m.impl("_ctc_loss_backward.Tensor", &CtcLossBackwardTensor);
}

}  // namespace tvarant::torch_plugin

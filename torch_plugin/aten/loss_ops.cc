// Losses: of images, binary, Huber's.

#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

#include <limits>
#include <tuple>

#include "torch_plugin/aten/data_check.h"
#include "torch_plugin/aten/loss_support.h"
#include "torch_plugin/aten/optional_tensor.h"
#include "torch_plugin/aten/structured_op.h"

namespace tvarant::torch_plugin {
namespace {

// --- nll_loss2d ---------------------------------------------------------

void CheckImages(const char* op, const Tensor& self, const Tensor& target,
                 const OptionalTensor& weight) {
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got "
              "targets of dimension: ",
              target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got "
              "input of dimension: ",
              self.dim());
  TORCH_CHECK(!Has(weight) || weight->numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(self.size(0) == target.size(0) &&
                  self.size(2) == target.size(1) &&
                  self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(),
              " , target: ", target.sizes());
  TORCH_CHECK(
      target.scalar_type() == at::kLong || target.scalar_type() == at::kByte,
      "expected scalar type Long but found ", target.scalar_type());
  DeviceCheck(op).Add(self, "self").Add(target, "target").Add(weight, "weight");
  if (!self.is_floating_point()) ThrowNotImplementedFor(op, self.scalar_type());
}

// [N, C, H, W] as [N, C, H W].
Tensor Flat(const Tensor& images) { return images.flatten(2); }
Tensor FlatTarget(const Tensor& target) {
  return target.flatten(1).to(ScalarType::Long);
}
Tensor WeightOf(const OptionalTensor& weight) {
  return Has(weight) ? weight->contiguous() : Tensor();
}

std::tuple<Tensor&, Tensor&> NllLoss2dOut(const Tensor& self,
                                          const Tensor& target,
                                          const OptionalTensor& weight,
                                          int64_t reduction,
                                          int64_t ignore_index, Tensor& output,
                                          Tensor& total_weight) {
  if (NeedsFallback(self, output)) {
    Fallback("nll_loss2d_forward", "output", self, target, weight, reduction,
             ignore_index, output, total_weight);
    return {output, total_weight};
  }
  CheckImages("nll_loss2d_forward_out_frame", self, target, weight);
  const bool is_none = reduction == at::Reduction::None;
  ResizeOut(output, is_none ? target.sizes() : IntArrayRef{}, {},
            self.options());
  ResizeOut(total_weight, {}, {}, self.options());
  if (target.numel() == 0) {
    total_weight.zero_();
    if (!is_none) {
      output.fill_(reduction == at::Reduction::Mean
                       ? std::numeric_limits<double>::quiet_NaN()
                       : 0.0);
    }
    return {output, total_weight};
  }
  const Tensor logp = Flat(self), classes = FlatTarget(target);
  const Tensor weights = WeightOf(weight);
  const Tensor loss = is_none ? EmptyLikeOf(output, classes.sizes()) : output;
  LaunchBuilder launch(Kernel::kNllLoss, self.device());
  launch.Dst(loss).Dst(total_weight).Src(logp).Src(classes);
  launch.SrcOrAbsent(weights).Int(reduction).Int(ignore_index).Run();
  if (is_none) output.copy_(loss.view(target.sizes()));
  return {output, total_weight};
}

std::tuple<Tensor, Tensor> NllLoss2d(const Tensor& self, const Tensor& target,
                                     const OptionalTensor& weight,
                                     int64_t reduction, int64_t ignore_index) {
  Tensor output = EmptyLikeOf(self, {0}), total_weight = EmptyLikeOf(self, {});
  NllLoss2dOut(self, target, weight, reduction, ignore_index, output,
               total_weight);
  return {output, total_weight};
}

Tensor& NllLoss2dBackwardOut(const Tensor& grad_output, const Tensor& self,
                             const Tensor& target, const OptionalTensor& weight,
                             int64_t reduction, int64_t ignore_index,
                             const Tensor& total_weight, Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, grad_input)) {
    return FallbackInto(grad_input, "nll_loss2d_backward", "grad_input",
                        grad_output, self, target, weight, reduction,
                        ignore_index, total_weight, grad_input);
  }
  CheckImages("nll_loss2d_backward_out_frame", self, target, weight);
  TORCH_CHECK(total_weight.numel() == 1,
              "expected total_weight to be a single element tensor, got: ",
              total_weight.sizes(), " (", total_weight.numel(), " elements)");
  const bool is_none = reduction == at::Reduction::None;
  if (is_none) {
    TORCH_CHECK(grad_output.sizes() == target.sizes(),
                "size mismatch (got grad_output: ", grad_output.sizes(),
                " target: ", target.sizes(), ")");
  } else {
    TORCH_CHECK(grad_output.dim() <= 1 && grad_output.numel() == 1,
                "Expected a single element grad_output tensor, but got: ",
                grad_output.sizes());
  }
  ResizeOut(grad_input, self.sizes(), {}, self.options());
  if (grad_input.numel() == 0) return grad_input;
  const Tensor result = grad_input.is_contiguous()
                            ? grad_input
                            : EmptyLikeOf(grad_input, grad_input.sizes());
  const Tensor dlogp = Flat(result), classes = FlatTarget(target);
  const Tensor weights = WeightOf(weight);
  const Tensor dloss =
      is_none ? grad_output.flatten(1) : grad_output.reshape({});
  LaunchBuilder launch(Kernel::kNllLossBackward, self.device());
  launch.Dst(dlogp).Src(dloss).Src(classes).SrcOrAbsent(weights);
  launch.SrcAs(total_weight, {}, {}).Int(reduction).Int(ignore_index).Run();
  if (!result.is_same(grad_input)) grad_input.copy_(result);
  return grad_input;
}

Tensor NllLoss2dBackward(const Tensor& grad_output, const Tensor& self,
                         const Tensor& target, const OptionalTensor& weight,
                         int64_t reduction, int64_t ignore_index,
                         const Tensor& total_weight) {
  Tensor grad_input = EmptyLikeOf(self, self.sizes());
  return NllLoss2dBackwardOut(grad_output, self, target, weight, reduction,
                              ignore_index, total_weight, grad_input);
}

// --- Binary cross entropy -----------------------------------------------

// -(y max(log x, -100) + (1 - y) max(log(1 - x), -100))
int EmitCrossEntropy(Emitter& e) {
  const int x = e.In(0), y = e.In(1), one = e.Const(1), floor = e.Const(-100);
  const auto log = [&](int value) {
    return e.Op(PointwiseOp::kMaximum, e.Op(PointwiseOp::kLog, value), floor);
  };
  // log1p keeps digits that 1 - x has lost.
  const int log_other =
      e.Op(PointwiseOp::kMaximum,
           e.Op(PointwiseOp::kLog1p, e.Op(PointwiseOp::kNeg, x)), floor);
  return e.Sub(e.Mul(e.Sub(y, one), log_other), e.Mul(y, log(x)));
}
// gradient (x - y) / max((1 - x) x, 1e-12)
int EmitCrossEntropyBackward(Emitter& e) {
  const int gradient = e.In(0), x = e.In(1), y = e.In(2);
  const int spread = e.Op(PointwiseOp::kMaximum, e.Mul(e.Sub(e.Const(1), x), x),
                          e.Const(1e-12));
  return e.Div(e.Mul(e.Mul(gradient, e.Scalar(0)), e.Sub(x, y)), spread);
}

Tensor& CrossEntropyOut(const Tensor& self, const Tensor& target,
                        const OptionalTensor& weight, int64_t reduction,
                        Tensor& loss) {
  if (NeedsFallback(self, target, weight, loss)) {
    return FallbackInto(loss, "binary_cross_entropy", "out", self, target,
                        weight, reduction, loss);
  }
  if (!self.is_floating_point()) {
    ThrowNotImplementedFor("binary_cross_entropy", self.scalar_type());
  }
  Tensor each =
      reduction == at::Reduction::None ? loss : EmptyLikeOf(self, {0});
  auto iter = at::TensorIterator::borrowing_binary_op(each, self, target);
  CheckData(DataCheck::kCrossEntropyInput, self, 0, 1);
  CheckData(DataCheck::kCrossEntropyTarget, target, 0, 1);
  RunPointwise(iter, EmitCrossEntropy);
  if (Has(weight)) each.mul_(*weight);
  if (reduction == at::Reduction::None) return loss;
  return Reduced(each, reduction, loss);
}

Tensor CrossEntropy(const Tensor& self, const Tensor& target,
                    const OptionalTensor& weight, int64_t reduction) {
  Tensor loss = EmptyLikeOf(self, {0});
  return CrossEntropyOut(self, target, weight, reduction, loss);
}

Tensor& CrossEntropyBackwardOut(const Tensor& grad_output, const Tensor& self,
                                const Tensor& target,
                                const OptionalTensor& weight, int64_t reduction,
                                Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, target, weight, grad_input)) {
    return FallbackInto(grad_input, "binary_cross_entropy_backward",
                        "grad_input", grad_output, self, target, weight,
                        reduction, grad_input);
  }
  auto iter = at::TensorIteratorConfig()
                  .add_output(grad_input)
                  .add_const_input(grad_output)
                  .add_const_input(self)
                  .add_const_input(target)
                  .build();
  RunPointwise(iter, EmitCrossEntropyBackward,
               Scalar(MeanFactor(self.numel(), reduction)));
  if (Has(weight)) grad_input.mul_(*weight);
  return grad_input;
}

Tensor CrossEntropyBackward(const Tensor& grad_output, const Tensor& self,
                            const Tensor& target, const OptionalTensor& weight,
                            int64_t reduction) {
  Tensor grad_input = EmptyLikeOf(self, self.sizes());
  return CrossEntropyBackwardOut(grad_output, self, target, weight, reduction,
                                 grad_input);
}

// --- Huber --------------------------------------------------------------

// |z| < delta ? z^2 / 2 : delta (|z| - delta / 2)
int EmitHuber(Emitter& e) {
  const int z = e.Op(PointwiseOp::kAbs, e.Sub(e.In(0), e.In(1)));
  const int delta = e.Scalar(0), half = e.Const(0.5);
  return e.Select(e.Test(PointwiseOp::kLt, z, delta),
                  e.Mul(half, e.Op(PointwiseOp::kSquare, z)),
                  e.Mul(delta, e.Sub(z, e.Mul(half, delta))));
}
// input, target, gradient; factor, delta.
int EmitHuberBackward(Emitter& e) {
  const int x = e.Sub(e.In(0), e.In(1)), delta = e.Scalar(1);
  const int step = e.Mul(e.Scalar(0), e.In(2));
  const int limit = e.Mul(step, delta);
  return e.Select(
      e.Test(PointwiseOp::kLe, x, e.Op(PointwiseOp::kNeg, delta)),
      e.Op(PointwiseOp::kNeg, limit),
      e.Select(e.Test(PointwiseOp::kGe, x, delta), limit, e.Mul(step, x)));
}

Tensor& HuberLossOut(const Tensor& self, const Tensor& target,
                     int64_t reduction, double delta, Tensor& out) {
  if (NeedsFallback(self, target, out)) {
    return FallbackInto(out, "huber_loss", "out", self, target, reduction,
                        delta, out);
  }
  TORCH_CHECK(delta > 0,
              "huber_loss does not support non-positive values for delta.");
  Tensor each = reduction == at::Reduction::None ? out : Tensor();
  auto iter = at::TensorIterator::borrowing_binary_op(each, self, target);
  RunPointwise(iter, EmitHuber, Scalar(delta));
  if (reduction == at::Reduction::None) return out;
  return Reduced(iter.output(), reduction, out);
}

Tensor HuberLoss(const Tensor& self, const Tensor& target, int64_t reduction,
                 double delta) {
  if (NeedsFallback(self, target)) {
    return FallbackTensor("huber_loss", "", self, target, reduction, delta);
  }
  TORCH_CHECK(delta > 0,
              "huber_loss does not support non-positive values for delta.");
  Tensor each;
  auto iter = at::TensorIterator::borrowing_binary_op(each, self, target);
  RunPointwise(iter, EmitHuber, Scalar(delta));
  if (reduction == at::Reduction::None) return iter.output();
  const Tensor losses = iter.output();
  return reduction == at::Reduction::Mean ? losses.mean() : losses.sum();
}

Tensor& HuberLossBackwardOut(const Tensor& grad_output, const Tensor& self,
                             const Tensor& target, int64_t reduction,
                             double delta, Tensor& grad_input) {
  if (NeedsFallback(grad_output, self, target, grad_input)) {
    return FallbackInto(grad_input, "huber_loss_backward", "out", grad_output,
                        self, target, reduction, delta, grad_input);
  }
  auto iter = at::TensorIteratorConfig()
                  .add_output(grad_input)
                  .add_const_input(self)
                  .add_const_input(target)
                  .add_const_input(grad_output)
                  .build();
  RunPointwise(iter, EmitHuberBackward,
               {{Scalar(MeanFactor(self.numel(), reduction)), Scalar(delta)}});
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nll_loss2d_forward", &NllLoss2d);
  m.impl("nll_loss2d_forward.output", &NllLoss2dOut);
  m.impl("nll_loss2d_backward", &NllLoss2dBackward);
  m.impl("nll_loss2d_backward.grad_input", &NllLoss2dBackwardOut);
  m.impl("binary_cross_entropy", &CrossEntropy);
  m.impl("binary_cross_entropy.out", &CrossEntropyOut);
  m.impl("binary_cross_entropy_backward", &CrossEntropyBackward);
  m.impl("binary_cross_entropy_backward.grad_input", &CrossEntropyBackwardOut);
  m.impl("huber_loss", &HuberLoss);
  m.impl("huber_loss.out", &HuberLossOut);
  m.impl("huber_loss_backward.out", &HuberLossBackwardOut);
}

}  // namespace tvarant::torch_plugin

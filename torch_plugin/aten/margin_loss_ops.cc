// Losses with margins: one or several labels a row.

#include <ATen/core/Reduction.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <tuple>

#include "torch_plugin/aten/data_check.h"
#include "torch_plugin/aten/loss_support.h"
#include "torch_plugin/aten/optional_tensor.h"
#include "torch_plugin/aten/structured_op.h"

namespace tvarant::torch_plugin {
namespace {

// --- One label ----------------------------------------------------------

// A vector counts as a batch of one.
struct MarginShape {
  Tensor input;   // [N, C]
  Tensor target;  // [N] or [N, C]
};

MarginShape MultiMarginShape(const Tensor& self, const Tensor& target,
                             const Scalar& p, const OptionalTensor& weight) {
  TORCH_CHECK(p.toDouble() == 1 || p.toDouble() == 2,
              "only p == 1 and p == 2 "
              "supported");
  const bool is_batch = self.dim() == 2 && self.size(1) != 0;
  TORCH_CHECK(
      is_batch || (self.dim() == 1 && self.size(0) != 0) || self.dim() == 0,
      "Expected non-empty vector or matrix with optional 0-dim batch "
      "size, but got: ",
      self.sizes());
  const int64_t rows = self.dim() == 2 ? self.size(0) : 1;
  TORCH_CHECK(target.dim() <= 1 && target.numel() == rows,
              "inconsistent target size, expected ", rows, " but got ",
              target.sizes());
  const Tensor input = self.reshape({rows, -1});
  TORCH_CHECK(
      !Has(weight) || (weight->dim() <= 1 && weight->numel() == input.size(1)),
      "inconsistent weight size, expected ", input.size(1), " but got ",
      weight.value_or(Tensor()).sizes());
  TORCH_CHECK(target.scalar_type() == at::kLong,
              "expected scalar type Long but found ", target.scalar_type());
  DeviceCheck("multi_margin_loss")
      .Add(self, "self")
      .Add(target, "target")
      .Add(weight, "weight");
  return {input, target.reshape({rows})};
}

// x, x of the target, class, target, weight of the target: the terms of
// max(0, margin - x_target + x)^p, 0 for the target itself.
int MarginTerm(Emitter& e) {
  return e.Add(e.Sub(e.Scalar(0), e.In(1)), e.In(0));
}
int EmitMultiMargin(Emitter& e) {
  const int z = e.Op(PointwiseOp::kMaximum, MarginTerm(e), e.Const(0));
  const int loss = e.Mul(e.In(4), e.Op(PointwiseOp::kPow, z, e.Scalar(1)));
  return e.Select(e.Test(PointwiseOp::kEq, e.InRaw(2), e.InRaw(3)), e.Const(0),
                  loss);
}
int EmitMultiMarginSlope(Emitter& e) {
  const int z = MarginTerm(e);
  const int power =
      e.Op(PointwiseOp::kPow, e.Op(PointwiseOp::kMaximum, z, e.Const(0)),
           e.Sub(e.Scalar(1), e.Const(1)));
  const int slope = e.Mul(e.Mul(e.In(4), e.Scalar(1)), power);
  const int is_used =
      e.Test(PointwiseOp::kLogicalAnd, e.Test(PointwiseOp::kGt, z, e.Const(0)),
             e.Test(PointwiseOp::kNe, e.InRaw(2), e.InRaw(3)));
  return e.Select(is_used, slope, e.Const(0));
}

// [N, C]
Tensor MultiMarginEach(const MarginShape& shape, const Scalar& p,
                       const Scalar& margin, const OptionalTensor& weight,
                       EmitFn emit) {
  const Tensor& x = shape.input;
  const Tensor target = shape.target.unsqueeze(1);
  const Tensor own = at::gather(x, 1, target);
  const Tensor classes = at::arange(x.size(1), target.options()).unsqueeze(0);
  const Tensor weights =
      Has(weight)
          ? at::gather(weight->reshape({-1}), 0, shape.target).unsqueeze(1)
          : EmptyLikeOf(x, {1, 1}).fill_(1);
  Tensor out = EmptyLikeOf(x, {0});
  auto iter = at::TensorIteratorConfig()
                  .check_all_same_dtype(false)
                  .add_output(out)
                  .add_const_input(x)
                  .add_const_input(own)
                  .add_const_input(classes)
                  .add_const_input(target)
                  .add_const_input(weights)
                  .build();
  RunPointwise(iter, emit, {{margin, p}}, x.scalar_type());
  return out;
}

Tensor& MultiMarginOut(const Tensor& self, const Tensor& target,
                       const Scalar& p, const Scalar& margin,
                       const OptionalTensor& weight, int64_t reduction,
                       Tensor& out) {
  if (NeedsFallback(self, out)) {
    return FallbackInto(out, "multi_margin_loss", "out", self, target, p,
                        margin, weight, reduction, out);
  }
  const MarginShape shape = MultiMarginShape(self, target, p, weight);
  const bool keeps_rows = reduction == at::Reduction::None && target.dim() > 0;
  ResizeOut(out, keeps_rows ? target.sizes() : IntArrayRef{}, {},
            self.options());
  if (self.numel() == 0) return out;
  const Tensor rows = MultiMarginEach(shape, p, margin, weight, EmitMultiMargin)
                          .sum(1, /*keepdim=*/false)
                          .div_(shape.input.size(1));
  if (reduction == at::Reduction::None) {
    out.copy_(rows.view(out.sizes()));
    return out;
  }
  return Reduced(rows, reduction, out);
}

Tensor MultiMargin(const Tensor& self, const Tensor& target, const Scalar& p,
                   const Scalar& margin, const OptionalTensor& weight,
                   int64_t reduction) {
  Tensor out = EmptyLikeOf(self, {0});
  return MultiMarginOut(self, target, p, margin, weight, reduction, out);
}

Tensor MultiMarginBackward(const Tensor& grad_output, const Tensor& self,
                           const Tensor& target, const Scalar& p,
                           const Scalar& margin, const OptionalTensor& weight,
                           int64_t reduction) {
  if (NeedsFallback(grad_output, self)) {
    return FallbackTensor("multi_margin_loss_backward", "", grad_output, self,
                          target, p, margin, weight, reduction);
  }
  const MarginShape shape = MultiMarginShape(self, target, p, weight);
  if (self.numel() == 0) return EmptyLikeOf(self, self.sizes());
  Tensor slopes =
      MultiMarginEach(shape, p, margin, weight, EmitMultiMarginSlope);
  // The target's slope takes back what the others have.
  const Tensor own = slopes.sum(1, /*keepdim=*/true).neg_();
  const Tensor classes =
      at::arange(shape.input.size(1), target.options()).unsqueeze(0);
  slopes = at::where(classes.eq(shape.target.unsqueeze(1)), own, slopes);
  const double factor = MeanFactor(shape.input.size(0), reduction) /
                        static_cast<double>(shape.input.size(1));
  const Tensor gradient = reduction == at::Reduction::None
                              ? grad_output.reshape({-1, 1})
                              : grad_output.reshape({1, 1});
  return slopes.mul_(factor).mul_(gradient).view(self.sizes());
}

// --- Several labels -----------------------------------------------------

MarginShape MultilabelShape(const Tensor& self, const Tensor& target) {
  TORCH_CHECK((self.dim() == 2 && self.size(1) != 0) ||
                  (self.dim() == 1 && self.size(0) != 0) || self.dim() == 0,
              "Expected non-empty vector or matrix with optional 0-dim batch "
              "size, but got: ",
              self.sizes());
  TORCH_CHECK(
      target.sizes() == self.sizes() || (self.dim() <= 1 && target.dim() <= 1 &&
                                         target.numel() == self.numel()),
      "inconsistent target size: ", target.sizes(),
      " for input of size: ", self.sizes());
  TORCH_CHECK(target.scalar_type() == at::kLong,
              "expected scalar type Long but found ", target.scalar_type());
  DeviceCheck("multilabel_margin_loss").Add(self, "self").Add(target, "target");
  const int64_t rows = self.dim() == 2 ? self.size(0) : 1;
  return {self.reshape({rows, -1}), target.reshape({rows, -1})};
}

// What counts of a row of labels: those before the first negative one.
struct Labels {
  Tensor is_used;    // [N, T] bool
  Tensor classes;    // [N, T], 0 where not used
  Tensor is_target;  // [N, C] bool
};

Labels LabelsOf(const MarginShape& shape) {
  const Tensor is_used = at::cumprod(shape.target.ge(0), 1).ne(0);
  const Tensor classes =
      at::where(is_used, shape.target, EmptyLikeOf(shape.target, {}).fill_(0));
  const Tensor marks = at::zeros(shape.input.sizes(), shape.target.options());
  const Tensor is_target =
      marks.scatter_add_(1, classes, is_used.to(at::kLong)).ne(0);
  return {is_used, classes, is_target};
}

// x, x of a label, whether it is used, whether x is of a label: max(0, 1 -
// x_label + x).
int EmitLabelTerm(Emitter& e) {
  const int z = e.Add(e.Sub(e.Const(1), e.In(1)), e.In(0));
  const int is_used =
      e.Test(PointwiseOp::kLogicalAnd, e.InRaw(2), e.Not(e.InRaw(3)));
  return e.Select(is_used, e.Op(PointwiseOp::kMaximum, z, e.Const(0)),
                  e.Const(0));
}
int EmitLabelSlope(Emitter& e) {
  const int z = e.Add(e.Sub(e.Const(1), e.In(1)), e.In(0));
  const int is_used =
      e.Test(PointwiseOp::kLogicalAnd, e.Test(PointwiseOp::kGt, z, e.Const(0)),
             e.Test(PointwiseOp::kLogicalAnd, e.InRaw(2), e.Not(e.InRaw(3))));
  return e.Select(is_used, e.Const(1), e.Const(0));
}

// [N, T, C]
Tensor LabelTerms(const MarginShape& shape, const Labels& labels, EmitFn emit) {
  const Tensor own = at::gather(shape.input, 1, labels.classes);
  const Tensor x = shape.input.unsqueeze(1), y = own.unsqueeze(2);
  const Tensor used = labels.is_used.unsqueeze(2);
  const Tensor is_target = labels.is_target.unsqueeze(1);
  Tensor out = EmptyLikeOf(x, {0});
  auto iter = at::TensorIteratorConfig()
                  .check_all_same_dtype(false)
                  .add_output(out)
                  .add_const_input(x)
                  .add_const_input(y)
                  .add_const_input(used)
                  .add_const_input(is_target)
                  .build();
  RunPointwise(iter, emit, {}, x.scalar_type());
  return out;
}

std::tuple<Tensor&, Tensor&> MultilabelOut(const Tensor& self,
                                           const Tensor& target,
                                           int64_t reduction, Tensor& output,
                                           Tensor& is_target) {
  if (NeedsFallback(self, output)) {
    Fallback("multilabel_margin_loss_forward", "output", self, target,
             reduction, output, is_target);
    return {output, is_target};
  }
  const MarginShape shape = MultilabelShape(self, target);
  const bool keeps_rows = reduction == at::Reduction::None && target.dim() > 1;
  const std::array<int64_t, 1> row_sizes{shape.input.size(0)};
  ResizeOut(output, keeps_rows ? IntArrayRef(row_sizes) : IntArrayRef{}, {},
            self.options());
  ResizeOut(is_target, target.sizes(), {}, self.options());
  if (self.numel() == 0) return {output, is_target};
  CheckData(DataCheck::kMarginTargets, target, -1,
            static_cast<double>(shape.input.size(1) - 1));
  const Labels labels = LabelsOf(shape);
  is_target.copy_(labels.is_target.view(target.sizes()));
  const Tensor rows = LabelTerms(shape, labels, EmitLabelTerm)
                          .sum({1, 2}, /*keepdim=*/false)
                          .div_(shape.input.size(1));
  if (reduction == at::Reduction::None) {
    output.copy_(rows.view(output.sizes()));
  } else {
    Reduced(rows, reduction, output);
  }
  return {output, is_target};
}

std::tuple<Tensor, Tensor> Multilabel(const Tensor& self, const Tensor& target,
                                      int64_t reduction) {
  Tensor output = EmptyLikeOf(self, {0}), is_target = EmptyLikeOf(self, {0});
  MultilabelOut(self, target, reduction, output, is_target);
  return {output, is_target};
}

Tensor MultilabelBackward(const Tensor& grad_output, const Tensor& self,
                          const Tensor& target, int64_t reduction,
                          const Tensor& is_target) {
  if (NeedsFallback(grad_output, self)) {
    return FallbackTensor("multilabel_margin_loss_backward", "", grad_output,
                          self, target, reduction, is_target);
  }
  const MarginShape shape = MultilabelShape(self, target);
  TORCH_CHECK(is_target.sizes() == target.sizes(),
              "inconsistent is_target size: ", is_target.sizes(),
              " for target of size: ", target.sizes());
  if (self.numel() == 0) return EmptyLikeOf(self, self.sizes());
  const Labels labels = LabelsOf(shape);
  const Tensor slopes = LabelTerms(shape, labels, EmitLabelSlope);
  Tensor result = slopes.sum(1, /*keepdim=*/false);
  result.scatter_add_(1, labels.classes,
                      slopes.sum(2, /*keepdim=*/false).neg_());
  const double factor = MeanFactor(shape.input.size(0), reduction) /
                        static_cast<double>(shape.input.size(1));
  const Tensor gradient = reduction == at::Reduction::None
                              ? grad_output.reshape({-1, 1})
                              : grad_output.reshape({1, 1});
  return result.mul_(factor).mul_(gradient).view(self.sizes());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("multi_margin_loss", &MultiMargin);
  m.impl("multi_margin_loss.out", &MultiMarginOut);
  m.impl("multi_margin_loss_backward", &MultiMarginBackward);
  m.impl("multilabel_margin_loss_forward", &Multilabel);
  m.impl("multilabel_margin_loss_forward.output", &MultilabelOut);
  m.impl("multilabel_margin_loss_backward", &MultilabelBackward);
}

}  // namespace tvarant::torch_plugin

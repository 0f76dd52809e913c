// Optimiser steps as one program over all parameters.
//
// Each parameter is a group of a pointwise_foreach launch whose outputs are
// written onto its inputs. Numbers that differ between steps travel as launch
// scalars; a parameter's step count and the loss scaler's tensors are read by
// the program, so that nothing waits for the device.

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <vector>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/optional_tensor.h"
#include "torch_plugin/aten/program_cache.h"

namespace tvarant::torch_plugin {
namespace {

using at::TensorList;
constexpr size_t kMaxGroups = 256;

// Which form of a step a program is.
struct Form {
  enum Kind : uint32_t { kSgd, kAdam, kAdamW, kAdagrad };
  Kind kind = kSgd;
  DType type = DType::kFloat32;  // of the parameters
  bool flags[8] = {};            // of the kind, then the scaler's

  uint32_t Key() const {
    uint32_t key = kind | static_cast<uint32_t>(type) << 8;
    for (size_t i = 0; i < 8; ++i)
      key |= static_cast<uint32_t>(flags[i]) << (16 + i);
    return key;
  }
};
constexpr size_t kScales = 6, kChecks = 7;  // the last flags

// Writes a step's program.
class StepBuilder {
 public:
  explicit StepBuilder(const Form& form)
      : form_(form),
        math_(form.type == DType::kFloat64 ? DType::kFloat64
                                           : DType::kFloat32) {}

  int Load() { return builder_.Load(inputs_++, math_); }
  int Number() { return builder_.Scalar(numbers_++, math_); }
  int Const(double value) { return builder_.Const(value, math_); }
  int Op(PointwiseOp op, int a, int b = -1, int c = -1) {
    return builder_.Op(op, math_, a, b, c);
  }
  int Add(int a, int b) { return Op(PointwiseOp::kAdd, a, b); }
  int Sub(int a, int b) { return Op(PointwiseOp::kSub, a, b); }
  int Mul(int a, int b) { return Op(PointwiseOp::kMul, a, b); }
  int Div(int a, int b) { return Op(PointwiseOp::kDiv, a, b); }
  int Sqrt(int a) { return Op(PointwiseOp::kSqrt, a); }
  bool flag(size_t index) const { return form_.flags[index]; }

  // The gradient, the scaler's part undone.
  int Gradient(int gradient, bool maximize) {
    if (flag(kScales)) {
      scale_ = Load();
      gradient = Div(gradient, scale_);
    }
    unscaled_ = gradient;
    return maximize ? Op(PointwiseOp::kNeg, gradient) : gradient;
  }
  int unscaled() const { return unscaled_; }

  // The result, or the old value where an overflow was found.
  void Store(int value, int old) {
    if (flag(kChecks)) {
      if (found_ < 0) {
        found_ = builder_.Op(PointwiseOp::kNe, DType::kBool, Load(), Const(0));
      }
      value = Op(PointwiseOp::kWhere, found_, old, value);
    }
    builder_.Store(value);
  }
  Program Build() && { return std::move(builder_).Build(); }

 private:
  const Form& form_;
  const DType math_;
  ProgramBuilder builder_;
  int inputs_ = 0;
  int numbers_ = 0;
  int scale_ = -1;
  int unscaled_ = -1;
  int found_ = -1;
};

// flags: maximize, has momentum, nesterov, first step.
// numbers: lr, weight decay, momentum, 1 - dampening.
Program SgdProgram(const Form& form) {
  StepBuilder b(form);
  const int param = b.Load();
  const int raw = b.Load();
  const int buffer = b.flag(1) ? b.Load() : -1;
  const int lr = b.Number(), decay = b.Number(), momentum = b.Number(),
            undamped = b.Number();
  int gradient = b.Gradient(raw, b.flag(0));
  gradient = b.Add(gradient, b.Mul(decay, param));
  int next = -1;
  if (b.flag(1)) {
    next = b.flag(3)
               ? gradient
               : b.Add(b.Mul(momentum, buffer), b.Mul(undamped, gradient));
    gradient = b.flag(2) ? b.Add(gradient, b.Mul(momentum, next)) : next;
  }
  b.Store(b.Sub(param, b.Mul(lr, gradient)), param);
  if (b.flag(kScales)) b.Store(b.unscaled(), raw);
  if (b.flag(1)) b.Store(next, buffer);
  return std::move(b).Build();
}

// flags: maximize, amsgrad. numbers: lr, weight decay, beta1, 1 - beta1,
// beta2, 1 - beta2, eps.
Program AdamProgram(const Form& form) {
  StepBuilder b(form);
  const int old = b.Load();
  const int raw = b.Load();
  const int m0 = b.Load(), v0 = b.Load();
  const int max0 = b.flag(1) ? b.Load() : -1;
  const int step = b.Load();
  const int lr = b.Number(), decay = b.Number(), beta1 = b.Number(),
            rest1 = b.Number(), beta2 = b.Number(), rest2 = b.Number(),
            eps = b.Number();
  int gradient = b.Gradient(raw, b.flag(0));
  int param = old;
  if (form.kind == Form::kAdamW) {
    param = b.Sub(param, b.Mul(b.Mul(lr, decay), param));
  } else {
    gradient = b.Add(gradient, b.Mul(decay, param));
  }
  const int m = b.Add(m0, b.Mul(rest1, b.Sub(gradient, m0)));
  const int v =
      b.Add(b.Mul(beta2, v0), b.Mul(b.Mul(rest2, gradient), gradient));
  const int top = b.flag(1) ? b.Op(PointwiseOp::kMaximum, max0, v) : v;
  const auto correction = [&](int beta) {
    return b.Sub(b.Const(1), b.Op(PointwiseOp::kPow, beta, step));
  };
  const int step_size = b.Div(lr, correction(beta1));
  const int root = b.Sqrt(correction(beta2));
  const int spread = b.Add(b.Div(b.Sqrt(top), root), eps);
  b.Store(b.Sub(param, b.Div(b.Mul(step_size, m), spread)), old);
  if (b.flag(kScales)) b.Store(b.unscaled(), raw);
  b.Store(m, m0);
  b.Store(v, v0);
  if (b.flag(1)) b.Store(top, max0);
  return std::move(b).Build();
}

// flags: maximize. numbers: lr, lr decay, weight decay, eps.
Program AdagradProgram(const Form& form) {
  StepBuilder b(form);
  const int param = b.Load();
  const int raw = b.Load();
  const int sum0 = b.Load();
  const int step = b.Load();
  const int lr = b.Number(), lr_decay = b.Number(), decay = b.Number(),
            eps = b.Number();
  int gradient = b.Gradient(raw, b.flag(0));
  gradient = b.Add(gradient, b.Mul(decay, param));
  const int rate =
      b.Div(lr, b.Add(b.Const(1), b.Mul(b.Sub(step, b.Const(1)), lr_decay)));
  const int sum = b.Add(sum0, b.Mul(gradient, gradient));
  b.Store(b.Sub(param, b.Div(b.Mul(rate, gradient), b.Add(b.Sqrt(sum), eps))),
          param);
  if (b.flag(kScales)) b.Store(b.unscaled(), raw);
  b.Store(sum, sum0);
  return std::move(b).Build();
}

Program ProgramOf(const Form& form) {
  switch (form.kind) {
    case Form::kSgd:
      return SgdProgram(form);
    case Form::kAdagrad:
      return AdagradProgram(form);
    default:
      return AdamProgram(form);
  }
}

uint64_t HandleOf(Device& device, const Form& form) {
  static auto* const cache = new ProgramCache;
  return cache->Find(device, form.Key(), [&] { return ProgramOf(form); });
}

// The lists of one step, in the order of the program's inputs. What is written
// comes first: parameters, gradients (if scaled), the rest.
struct Step {
  TensorList params, grads;
  std::vector<TensorList> states;  // written; empty lists are left away
  TensorList steps;                // one number for each parameter
  OptionalTensor scale, found;
  std::vector<double> numbers;
};

void CheckStep(const char* op, const Step& step) {
  const size_t count = step.params.size();
  const auto check = [&](TensorList list) {
    TORCH_CHECK(list.size() == count, op,
                ": lists must have the same length, got ", count, " and ",
                list.size());
  };
  check(step.grads);
  for (const TensorList state : step.states) check(state);
  if (!step.steps.empty()) check(step.steps);
  const Tensor& first = step.params[0];
  for (size_t i = 0; i < count; ++i) {
    const Tensor& param = step.params[i];
    TORCH_CHECK(OnDevice(param) && param.device() == first.device() &&
                    c10::isFloatingType(param.scalar_type()) &&
                    HasKernels(param.scalar_type()) &&
                    param.layout() == c10::kStrided,
                op,
                ": params must be dense floating-point tensors of one "
                "tvarant device");
    const auto fits = [&](const Tensor& tensor) {
      TORCH_CHECK(tensor.device() == param.device() &&
                      tensor.scalar_type() == param.scalar_type() &&
                      tensor.sizes() == param.sizes(),
                  op,
                  ": params, grads and states must have the same dtype, "
                  "device and size");
    };
    fits(step.grads[i]);
    for (const TensorList state : step.states) fits(state[i]);
  }
}

// Parameters of one type, groups [begin, end).
class StepLaunch {
 public:
  StepLaunch(const Step& step, const Form& form)
      : step_(step),
        form_(form),
        device_(step.params[0].device()),
        wide_(form.type == DType::kFloat64 ? at::kDouble : at::kFloat) {
    if (form.flags[kScales]) scale_ = Shared(*step.scale);
    if (form.flags[kChecks]) found_ = Shared(*step.found);
  }

  void Run(const std::vector<size_t>& groups) {
    for (size_t begin = 0; begin < groups.size(); begin += kMaxGroups) {
      const size_t end = std::min(groups.size(), begin + kMaxGroups);
      LaunchBuilder launch(Kernel::kPointwiseForeach, device_);
      launch.params().program = HandleOf(Device::Get(device_.index()), form_);
      launch.params().batch = static_cast<int64_t>(end - begin);
      counts_.clear();
      for (size_t i = begin; i < end; ++i) Add(launch, groups[i]);
      for (const double number : step_.numbers) launch.Float(number);
      launch.Run();
    }
  }

 private:
  Tensor Shared(const Tensor& tensor) const {
    return tensor.to(device_, wide_).reshape({});
  }

  void Add(LaunchBuilder& launch, size_t i) {
    const Tensor& param = step_.params[i];
    bool is_flat = param.is_non_overlapping_and_dense() &&
                   step_.grads[i].strides() == param.strides();
    for (const TensorList state : step_.states) {
      is_flat &= state[i].strides() == param.strides();
    }
    const std::array<int64_t, 1> count{param.numel()};
    static constexpr std::array<int64_t, 1> kUnit{1};
    static constexpr std::array<int64_t, kMaxRank> kZeros{};
    const auto dst = [&](const Tensor& tensor) {
      is_flat ? launch.DstAs(tensor, count, kUnit) : launch.Dst(tensor);
    };
    const auto src = [&](const Tensor& tensor) {
      is_flat ? launch.SrcAs(tensor, count, kUnit) : launch.Src(tensor);
    };
    const IntArrayRef sizes = is_flat ? IntArrayRef(count) : param.sizes();
    const auto shared = [&](const Tensor& tensor) {
      launch.SrcAs(tensor, sizes, IntArrayRef(kZeros).slice(0, sizes.size()));
    };
    dst(param);
    if (scale_.defined()) dst(step_.grads[i]);
    for (const TensorList state : step_.states) dst(state[i]);
    src(param);
    src(step_.grads[i]);
    for (const TensorList state : step_.states) src(state[i]);
    if (!step_.steps.empty()) {
      counts_.push_back(Shared(step_.steps[i]));
      shared(counts_.back());
    }
    if (scale_.defined()) shared(scale_);
    if (found_.defined()) shared(found_);
  }

  const Step& step_;
  const Form& form_;
  const c10::Device device_;
  const ScalarType wide_;
  Tensor scale_, found_;
  std::vector<Tensor> counts_;  // alive until the launch
};

void RunStep(const char* op, const Step& step, Form form) {
  if (step.params.empty()) return;
  CheckStep(op, step);
  form.flags[kScales] = Has(step.scale);
  form.flags[kChecks] = Has(step.found);
  std::vector<bool> done(step.params.size());
  for (size_t i = 0; i < done.size(); ++i) {
    if (done[i]) continue;
    std::vector<size_t> groups;
    for (size_t k = i; k < done.size(); ++k) {
      if (step.params[k].scalar_type() != step.params[i].scalar_type())
        continue;
      done[k] = true;
      if (step.params[k].numel() > 0) groups.push_back(k);
    }
    if (groups.empty()) continue;
    form.type = ToDType(step.params[i].scalar_type());
    StepLaunch(step, form).Run(groups);
  }
}

double RateOf(const Tensor& lr) { return lr.item().toDouble(); }

// --- SGD ----------------------------------------------------------------

void Sgd(TensorList self, TensorList grads, TensorList momentum_buffer_list,
         double weight_decay, double momentum, double lr, double dampening,
         bool nesterov, bool maximize, bool is_first_step,
         const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  const bool has_momentum = !momentum_buffer_list.empty();
  Step step{.params = self,
            .grads = grads,
            .states = {},
            .steps = {},
            .scale = grad_scale,
            .found = found_inf,
            .numbers = {lr, weight_decay, momentum, 1 - dampening}};
  if (has_momentum) step.states.push_back(momentum_buffer_list);
  RunStep("_fused_sgd_", step,
          {.kind = Form::kSgd,
           .flags = {maximize, has_momentum, nesterov, is_first_step}});
}

void SgdTensorRate(TensorList self, TensorList grads,
                   TensorList momentum_buffer_list, double weight_decay,
                   double momentum, const Tensor& lr, double dampening,
                   bool nesterov, bool maximize, bool is_first_step,
                   const OptionalTensor& grad_scale,
                   const OptionalTensor& found_inf) {
  Sgd(self, grads, momentum_buffer_list, weight_decay, momentum, RateOf(lr),
      dampening, nesterov, maximize, is_first_step, grad_scale, found_inf);
}

// --- Adam, AdamW --------------------------------------------------------

template <Form::Kind kind>
void Adam(TensorList self, TensorList grads, TensorList exp_avgs,
          TensorList exp_avg_sqs, TensorList max_exp_avg_sqs,
          TensorList state_steps, double lr, double beta1, double beta2,
          double weight_decay, double eps, bool amsgrad, bool maximize,
          const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  Step step{
      .params = self,
      .grads = grads,
      .states = {exp_avgs, exp_avg_sqs},
      .steps = state_steps,
      .scale = grad_scale,
      .found = found_inf,
      .numbers = {lr, weight_decay, beta1, 1 - beta1, beta2, 1 - beta2, eps}};
  if (amsgrad) step.states.push_back(max_exp_avg_sqs);
  RunStep(kind == Form::kAdam ? "_fused_adam_" : "_fused_adamw_", step,
          {.kind = kind, .flags = {maximize, amsgrad}});
}

template <Form::Kind kind>
void AdamTensorRate(TensorList self, TensorList grads, TensorList exp_avgs,
                    TensorList exp_avg_sqs, TensorList max_exp_avg_sqs,
                    TensorList state_steps, const Tensor& lr, double beta1,
                    double beta2, double weight_decay, double eps, bool amsgrad,
                    bool maximize, const OptionalTensor& grad_scale,
                    const OptionalTensor& found_inf) {
  Adam<kind>(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps,
             RateOf(lr), beta1, beta2, weight_decay, eps, amsgrad, maximize,
             grad_scale, found_inf);
}

// --- Adagrad ------------------------------------------------------------

void Adagrad(TensorList self, TensorList grads, TensorList state_sums,
             TensorList state_steps, double lr, double lr_decay,
             double weight_decay, double eps, bool maximize,
             const OptionalTensor& grad_scale,
             const OptionalTensor& found_inf) {
  RunStep("_fused_adagrad_",
          {.params = self,
           .grads = grads,
           .states = {state_sums},
           .steps = state_steps,
           .scale = grad_scale,
           .found = found_inf,
           .numbers = {lr, lr_decay, weight_decay, eps}},
          {.kind = Form::kAdagrad, .flags = {maximize}});
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sgd_", &Sgd);
  m.impl("_fused_sgd_.tensor_lr", &SgdTensorRate);
  m.impl("_fused_adam_", &Adam<Form::kAdam>);
  m.impl("_fused_adam_.tensor_lr", &AdamTensorRate<Form::kAdam>);
  m.impl("_fused_adamw_", &Adam<Form::kAdamW>);
  m.impl("_fused_adamw_.tensor_lr", &AdamTensorRate<Form::kAdamW>);
  m.impl("_fused_adagrad_", &Adagrad);
}

}  // namespace tvarant::torch_plugin

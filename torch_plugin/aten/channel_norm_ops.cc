// Batch norm and group norm; instance norm is made of the first.

#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <array>
#include <tuple>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/volume.h"

namespace tvarant::torch_plugin {
namespace {

using OptionalTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor Given(const OptionalTensor& tensor) { return tensor.value_or(Tensor()); }

bool IsHalf(ScalarType type) {
  return type == ScalarType::Half || type == ScalarType::BFloat16;
}

// A half input may have float parameters; statistics are then float too.
ScalarType ParameterType(const Tensor& input,
                         std::initializer_list<const OptionalTensor*> given) {
  for (const OptionalTensor* parameter : given) {
    if (parameter->has_value() && (*parameter)->defined() &&
        IsHalf(input.scalar_type()) &&
        (*parameter)->scalar_type() == ScalarType::Float) {
      return ScalarType::Float;
    }
  }
  return input.scalar_type();
}

// x as [N, C, L] in place, dense in its memory format.
struct Channels {
  explicit Channels(const Tensor& input)
      : format(input.suggest_memory_format()),
        tensor(input.contiguous(format)) {
    Set(tensor, format);
  }
  // A result of the same form.
  Channels(const Tensor& result, at::MemoryFormat format)
      : format(format), tensor(result) {
    Set(result, format);
  }
  void Set(const Tensor& t, at::MemoryFormat f) {
    int64_t length = 1;
    for (int64_t i = 2; i < t.dim(); ++i) length *= t.size(i);
    sizes = {t.size(0), t.size(1), length};
    if (f == at::MemoryFormat::Contiguous) {
      strides = {sizes[1] * length, length, 1};
    } else {
      strides = {sizes[1] * length, 1, sizes[1]};
    }
  }
  at::MemoryFormat format;
  Tensor tensor;
  std::array<int64_t, 3> sizes, strides;
};

void AddSrc(LaunchBuilder& launch, const Channels& x) {
  launch.SrcAs(x.tensor, x.sizes, x.strides);
}
void AddDst(LaunchBuilder& launch, const Channels& x) {
  launch.DstAs(x.tensor, x.sizes, x.strides);
}

// Vectors of the type that the kernel takes beside x.
Tensor Parameter(const Tensor& parameter, const Tensor& x) {
  if (!parameter.defined()) return parameter;
  const ScalarType type = parameter.scalar_type();
  const bool fits = type == x.scalar_type() ||
                    (type == ScalarType::Float && IsHalf(x.scalar_type()));
  const Tensor given = fits ? parameter : parameter.to(x.scalar_type());
  return given.dim() == 1 ? given : given.reshape({-1});
}

Tensor EmptyAs(const Tensor& input, const Channels& x) {
  return CreateOut(input.sizes(), {}, input.options().memory_format(x.format));
}

void CheckInput(const char* op, const Tensor& input) {
  if (!input.is_floating_point()) {
    ThrowNotImplementedFor(op, input.scalar_type());
  }
}

void CheckFeatures(const char* name, const Tensor& tensor, int64_t features) {
  TORCH_CHECK(!tensor.defined() || tensor.numel() == features, name,
              " should contain ", features, " elements not ", tensor.numel());
}

struct BatchNorm {
  Tensor weight, bias, running_mean, running_var;
  bool training;
  double momentum, eps;
};

// Statistics into mean and rstd (undefined: nobody wants them), y into result.
void RunBatchNorm(const Tensor& input, const BatchNorm& norm,
                  const Tensor& result, const Tensor& mean,
                  const Tensor& rstd) {
  const int64_t features = input.size(1);
  CheckFeatures("weight", norm.weight, features);
  CheckFeatures("bias", norm.bias, features);
  CheckFeatures("running_mean", norm.running_mean, features);
  CheckFeatures("running_var", norm.running_var, features);
  if (input.numel() == 0) {
    if (mean.defined()) mean.fill_(NAN);
    if (rstd.defined()) rstd.fill_(NAN);
    return;
  }
  const Channels x(input);
  const Tensor w = Parameter(norm.weight, input),
               b = Parameter(norm.bias, input);
  Tensor running_mean = Parameter(norm.running_mean, input),
         running_var = Parameter(norm.running_var, input);
  const bool constant = !norm.training;
  LaunchBuilder launch(Kernel::kChannelNorm, input.device());
  AddDst(launch, Channels(result, x.format));
  launch.DstOrAbsent(mean).DstOrAbsent(rstd);
  const Tensor absent;
  launch.DstOrAbsent(constant ? absent : running_mean);
  launch.DstOrAbsent(constant ? absent : running_var);
  AddSrc(launch, x);
  launch.SrcOrAbsent(w).SrcOrAbsent(b);
  launch.SrcOrAbsent(constant ? running_mean : absent);
  launch.SrcOrAbsent(constant ? running_var : absent);
  launch.Int(0).Int(constant ? 1 : 0);
  launch.Float(norm.eps).Float(norm.momentum);
  launch.Run();
  if (constant) return;
  const auto keep = [](const Tensor& given, const Tensor& used) {
    if (given.defined() && !used.is_same(given)) given.copy_(used);
  };
  keep(norm.running_mean, running_mean);
  keep(norm.running_var, running_var);
}

Three NativeBatchNorm(const Tensor& input, const OptionalTensor& weight,
                      const OptionalTensor& bias,
                      const OptionalTensor& running_mean,
                      const OptionalTensor& running_var, bool training,
                      double momentum, double eps) {
  DeviceCheck("wrapper_PrivateUse1__native_batch_norm")
      .Add(input, "input")
      .Add(weight, "weight")
      .Add(bias, "bias")
      .Add(running_mean, "running_mean")
      .Add(running_var, "running_var");
  if (NeedsFallback(input)) {
    const auto results =
        Fallback("native_batch_norm", "", input, weight, bias, running_mean,
                 running_var, training, momentum, eps);
    return {results[0].toTensor(), results[1].toTensor(),
            results[2].toTensor()};
  }
  CheckInput("batch_norm", input);
  const BatchNorm norm{Given(weight),
                       Given(bias),
                       Given(running_mean),
                       Given(running_var),
                       training,
                       momentum,
                       eps};
  const Tensor result =
      CreateOut(input.sizes(), {},
                input.options().memory_format(input.suggest_memory_format()));
  const ScalarType type =
      ParameterType(input, {&weight, &bias, &running_mean, &running_var});
  Tensor mean = EmptyLikeOf(input, {training ? input.size(1) : 0}, type);
  Tensor rstd = EmptyLikeOf(input, {training ? input.size(1) : 0}, type);
  RunBatchNorm(input, norm, result, training ? mean : Tensor(),
               training ? rstd : Tensor());
  return {result, mean, rstd};
}

void Store(const Tensor& from, Tensor& out) {
  at::native::resize_output(out, from.sizes());
  out.copy_(from);
}

std::tuple<Tensor&, Tensor&, Tensor&> NativeBatchNormOut(
    const Tensor& input, const OptionalTensor& weight,
    const OptionalTensor& bias, const OptionalTensor& running_mean,
    const OptionalTensor& running_var, bool training, double momentum,
    double eps, Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  const auto [y, mean, rstd] = NativeBatchNorm(
      input, weight, bias, running_mean, running_var, training, momentum, eps);
  Store(y, out);
  Store(mean, save_mean);
  Store(rstd, save_invstd);
  return {out, save_mean, save_invstd};
}

Three Legit(const Tensor& input, const OptionalTensor& weight,
            const OptionalTensor& bias, Tensor& running_mean,
            Tensor& running_var, bool training, double momentum, double eps) {
  return NativeBatchNorm(input, weight, bias, running_mean, running_var,
                         training, momentum, eps);
}

std::tuple<Tensor&, Tensor&, Tensor&> LegitOut(
    const Tensor& input, const OptionalTensor& weight,
    const OptionalTensor& bias, Tensor& running_mean, Tensor& running_var,
    bool training, double momentum, double eps, Tensor& out, Tensor& save_mean,
    Tensor& save_invstd) {
  return NativeBatchNormOut(input, weight, bias, running_mean, running_var,
                            training, momentum, eps, out, save_mean,
                            save_invstd);
}

Three LegitNoStats(const Tensor& input, const OptionalTensor& weight,
                   const OptionalTensor& bias, bool training, double momentum,
                   double eps) {
  return NativeBatchNorm(input, weight, bias, {}, {}, training, momentum, eps);
}

std::tuple<Tensor&, Tensor&, Tensor&> LegitNoStatsOut(
    const Tensor& input, const OptionalTensor& weight,
    const OptionalTensor& bias, bool training, double momentum, double eps,
    Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  return NativeBatchNormOut(input, weight, bias, {}, {}, training, momentum,
                            eps, out, save_mean, save_invstd);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> WithUpdate(
    const Tensor& input, const OptionalTensor& weight,
    const OptionalTensor& bias, Tensor& running_mean, Tensor& running_var,
    double momentum, double eps) {
  auto [y, mean, rstd] = NativeBatchNorm(input, weight, bias, running_mean,
                                         running_var, true, momentum, eps);
  return {y, mean, rstd, EmptyLikeOf(input, {0}, ScalarType::Byte)};
}

std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> WithUpdateOut(
    const Tensor& input, const OptionalTensor& weight,
    const OptionalTensor& bias, Tensor& running_mean, Tensor& running_var,
    double momentum, double eps, Tensor& out, Tensor& save_mean,
    Tensor& save_invstd, Tensor& reserve) {
  NativeBatchNormOut(input, weight, bias, running_mean, running_var, true,
                     momentum, eps, out, save_mean, save_invstd);
  return {out, save_mean, save_invstd, reserve};
}

// Gradients of channel_norm with these statistics.
Three RunBackward(const Tensor& grad_out, const Tensor& input,
                  const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                  int64_t groups, bool constant,
                  const std::array<bool, 3>& output_mask) {
  const Channels x(input);
  const Tensor grad = grad_out.scalar_type() == input.scalar_type()
                          ? grad_out
                          : grad_out.to(input.scalar_type());
  const Channels dy(grad.contiguous(x.format), x.format);
  const Tensor w = Parameter(weight, input);
  const int64_t features = x.sizes[1];
  // Without a weight its gradient is in the input's type.
  const ScalarType type = w.defined() ? w.scalar_type() : input.scalar_type();
  Tensor dx, dweight, dbias;
  if (output_mask[0]) dx = EmptyAs(input, x);
  if (output_mask[1]) dweight = EmptyLikeOf(input, {features}, type);
  if (output_mask[2]) dbias = EmptyLikeOf(input, {features}, type);
  if (!dx.defined() && !dweight.defined() && !dbias.defined()) return {};
  if (input.numel() == 0) {
    if (dweight.defined()) dweight.zero_();
    if (dbias.defined()) dbias.zero_();
    return {dx, dweight, dbias};
  }
  const Tensor m = Parameter(mean, input), r = Parameter(rstd, input);
  LaunchBuilder launch(Kernel::kChannelNormBackward, input.device());
  if (dx.defined()) {
    AddDst(launch, Channels(dx, x.format));
  } else {
    launch.DstOrAbsent(dx);
  }
  launch.DstOrAbsent(dweight).DstOrAbsent(dbias);
  AddSrc(launch, dy);
  AddSrc(launch, x);
  launch.Src(m).Src(r).SrcOrAbsent(w);
  launch.Int(groups).Int(constant ? 1 : 0);
  launch.Run();
  return {dx, dweight, dbias};
}

Three NativeBatchNormBackward(const Tensor& grad_out, const Tensor& input,
                              const OptionalTensor& weight,
                              const OptionalTensor& running_mean,
                              const OptionalTensor& running_var,
                              const OptionalTensor& save_mean,
                              const OptionalTensor& save_invstd, bool train,
                              double eps, std::array<bool, 3> output_mask) {
  DeviceCheck("wrapper_PrivateUse1__native_batch_norm_backward")
      .Add(grad_out, "grad_out")
      .Add(input, "input")
      .Add(weight, "weight")
      .Add(save_mean, "save_mean")
      .Add(save_invstd, "save_invstd");
  if (NeedsFallback(grad_out, input)) {
    const auto results = Fallback(
        "native_batch_norm_backward", "", grad_out, input, weight, running_mean,
        running_var, save_mean, save_invstd, train, eps, output_mask);
    return {results[0].toTensor(), results[1].toTensor(),
            results[2].toTensor()};
  }
  CheckInput("batch_norm_backward", input);
  if (train) {
    return RunBackward(grad_out, input, Given(save_mean), Given(save_invstd),
                       Given(weight), 0, false, output_mask);
  }
  const Tensor rstd = Given(running_var).add(eps).rsqrt();
  return RunBackward(grad_out, input, Given(running_mean), rstd, Given(weight),
                     0, true, output_mask);
}

Three NewBatchNormBackward(
    const Tensor& grad_out, const Tensor& input, const Tensor& weight,
    const OptionalTensor& running_mean, const OptionalTensor& running_var,
    const OptionalTensor& save_mean, const OptionalTensor& save_var,
    bool update, double eps, std::array<bool, 3> output_mask, const Tensor&) {
  return NativeBatchNormBackward(grad_out, input, weight, running_mean,
                                 running_var, save_mean, save_var, update, eps,
                                 output_mask);
}

// --- Group norm ------------------------------------------------------------

Three NativeGroupNorm(const Tensor& input, const OptionalTensor& weight,
                      const OptionalTensor& bias, int64_t n, int64_t c,
                      int64_t hxw, int64_t group, double eps) {
  DeviceCheck("wrapper_PrivateUse1__native_group_norm")
      .Add(input, "input")
      .Add(weight, "weight")
      .Add(bias, "bias");
  if (NeedsFallback(input)) {
    const auto results = Fallback("native_group_norm", "", input, weight, bias,
                                  n, c, hxw, group, eps);
    return {results[0].toTensor(), results[1].toTensor(),
            results[2].toTensor()};
  }
  CheckInput("GroupNormKernelImpl", input);
  const Channels x(input);
  const Tensor result = EmptyAs(input, x);
  const ScalarType type = ParameterType(input, {&weight, &bias});
  Tensor mean = EmptyLikeOf(input, {n, group}, type);
  Tensor rstd = EmptyLikeOf(input, {n, group}, type);
  if (input.numel() == 0) return {result, mean, rstd};
  const Tensor w = Parameter(Given(weight), input),
               b = Parameter(Given(bias), input);
  const std::array<int64_t, 1> count{n * group}, one{1};
  LaunchBuilder launch(Kernel::kChannelNorm, input.device());
  AddDst(launch, Channels(result, x.format));
  launch.DstAs(mean, count, one).DstAs(rstd, count, one);
  const Tensor absent;
  launch.DstOrAbsent(absent).DstOrAbsent(absent);
  AddSrc(launch, x);
  launch.SrcOrAbsent(w).SrcOrAbsent(b);
  launch.SrcOrAbsent(absent).SrcOrAbsent(absent);
  launch.Int(group).Int(0).Float(eps).Float(0);
  launch.Run();
  return {result, mean, rstd};
}

Three NativeGroupNormBackward(const Tensor& grad_out, const Tensor& input,
                              const Tensor& mean, const Tensor& rstd,
                              const OptionalTensor& weight, int64_t n,
                              int64_t c, int64_t hxw, int64_t group,
                              std::array<bool, 3> output_mask) {
  DeviceCheck("wrapper_PrivateUse1__native_group_norm_backward")
      .Add(grad_out, "grad_out")
      .Add(input, "input")
      .Add(mean, "mean")
      .Add(rstd, "rstd")
      .Add(weight, "weight");
  if (NeedsFallback(grad_out, input)) {
    const auto results =
        Fallback("native_group_norm_backward", "", grad_out, input, mean, rstd,
                 weight, n, c, hxw, group, output_mask);
    return {results[0].toTensor(), results[1].toTensor(),
            results[2].toTensor()};
  }
  CheckInput("GroupNormBackwardKernelImpl", input);
  return RunBackward(grad_out, input, mean, rstd, Given(weight), group, false,
                     output_mask);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_batch_norm", TORCH_FN(NativeBatchNorm));
  m.impl("native_batch_norm.out", TORCH_FN(NativeBatchNormOut));
  m.impl("_native_batch_norm_legit", TORCH_FN(Legit));
  m.impl("_native_batch_norm_legit.out", TORCH_FN(LegitOut));
  m.impl("_native_batch_norm_legit.no_stats", TORCH_FN(LegitNoStats));
  m.impl("_native_batch_norm_legit.no_stats_out", TORCH_FN(LegitNoStatsOut));
  m.impl("_batch_norm_with_update", TORCH_FN(WithUpdate));
  m.impl("_batch_norm_with_update.out", TORCH_FN(WithUpdateOut));
  m.impl("native_batch_norm_backward", TORCH_FN(NativeBatchNormBackward));
  m.impl("batch_norm_backward", TORCH_FN(NewBatchNormBackward));
  m.impl("native_group_norm", TORCH_FN(NativeGroupNorm));
  m.impl("native_group_norm_backward", TORCH_FN(NativeGroupNormBackward));
}

}  // namespace tvarant::torch_plugin

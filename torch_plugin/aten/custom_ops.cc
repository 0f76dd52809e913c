// torch.ops.tvarant: linear_act and pointwise.
//
// Each has a kernel for the device, an eager form for every other device
// (Meta included, which torch.export and AOTAutograd ask), and a gradient.

#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/threshold_backward.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/program_op.h"

namespace tvarant::torch_plugin {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<Tensor>;

// --- linear_act ------------------------------------------------------------

Act ParseAct(c10::string_view act) {
  if (act.empty() || act == "none" || act == "identity") return Act::kNone;
  if (act == "relu") return Act::kRelu;
  if (act == "silu" || act == "swish") return Act::kSilu;
  if (act == "gelu") return Act::kGelu;
  if (act == "gelu_tanh") return Act::kGeluTanh;
  TORCH_CHECK(false, "unknown activation '", act,
              "' (expected none, relu, silu, gelu, gelu_tanh)");
}

// Checks shapes and types; what is left is right for every form.
void CheckLinearAct(const Tensor& x, const Tensor& weight,
                    const OptionalTensor& bias, bool trans_b) {
  TORCH_CHECK(x.dim() >= 1, "linear_act: expected at least 1D input");
  TORCH_CHECK(weight.dim() == 2, "linear_act: weight must be 2D, got ",
              weight.dim(), "D");
  TORCH_CHECK(at::isFloatingType(x.scalar_type()),
              "linear_act: x must have a float type, got ", x.scalar_type());
  TORCH_CHECK(weight.scalar_type() == x.scalar_type(),
              "linear_act: weight has dtype ", weight.scalar_type(), ", want ",
              x.scalar_type());
  const c10::SymInt k = weight.sym_size(trans_b ? 1 : 0);
  const c10::SymInt n = weight.sym_size(trans_b ? 0 : 1);
  TORCH_CHECK(x.sym_size(-1) == k, "linear_act: K mismatch: x has ",
              x.sym_size(-1), ", weight has ", k);
  if (!bias.has_value() || !bias->defined()) return;
  TORCH_CHECK(bias->sym_numel() == n, "linear_act: bias must have ", n,
              " elements, got ", bias->sym_numel());
  TORCH_CHECK(bias->scalar_type() == x.scalar_type(),
              "linear_act: bias has dtype ", bias->scalar_type(), ", want ",
              x.scalar_type());
}

Tensor Activate(const Tensor& z, Act act) {
  switch (act) {
    case Act::kRelu:
      return at::relu(z);
    case Act::kSilu:
      return at::silu(z);
    case Act::kGelu:
      return at::gelu(z);
    case Act::kGeluTanh:
      return at::gelu(z, "tanh");
    case Act::kNone:
      break;
  }
  return z;
}

Tensor LinearActEagerly(const Tensor& x, const Tensor& weight,
                        const OptionalTensor& bias, c10::string_view act,
                        bool trans_b) {
  const Act kind = ParseAct(act);
  CheckLinearAct(x, weight, bias, trans_b);
  const Tensor w = trans_b ? weight : weight.t();
  const bool has_bias = bias.has_value() && bias->defined();
  const Tensor flat = has_bias ? bias->reshape({-1}) : Tensor();
  return Activate(
      at::linear(x, w, has_bias ? OptionalTensor(flat) : std::nullopt), kind);
}

Tensor LinearActOnDevice(const Tensor& x, const Tensor& weight,
                         const OptionalTensor& bias, c10::string_view act,
                         bool trans_b) {
  const Act kind = ParseAct(act);
  CheckLinearAct(x, weight, bias, trans_b);
  const bool has_bias = bias.has_value() && bias->defined();
  DeviceCheck("linear_act").Add(x, "x").Add(weight, "weight").Add(bias, "bias");
  const int64_t k = x.size(-1);
  const int64_t n = weight.size(trans_b ? 0 : 1);
  int64_t m = 1;
  for (int64_t d = 0; d + 1 < x.dim(); ++d) m *= x.size(d);
  c10::DimVector sizes(x.sizes().begin(), x.sizes().end());
  sizes.back() = n;
  Tensor out = EmptyLikeOf(x, sizes);
  if (out.numel() == 0) return out;

  const Tensor rows = x.reshape({m, k});
  const int64_t k_dim = trans_b ? 1 : 0;
  LaunchBuilder launch(Kernel::kGemm, x.device());
  launch.DstAs(out, {1, m, n}, {m * n, n, 1})
      .SrcAs(rows, {1, m, k}, {0, rows.stride(0), rows.stride(1)})
      .SrcAs(weight, {1, k, n},
             {0, weight.stride(k_dim), weight.stride(1 - k_dim)});
  Tensor row;
  if (has_bias) {
    row = bias->reshape({n});
    launch.SrcAs(row, {1, m, n}, {0, 0, row.stride(0)});
  }
  LaunchParams& params = launch.params();
  params.batch = 1;
  params.m = m;
  params.n = n;
  params.k = k;
  params.beta = has_bias ? 1 : 0;
  params.act = kind;
  launch.Run();
  return out;
}

Tensor CallLinearAct(const Tensor& x, const Tensor& weight,
                     const OptionalTensor& bias, c10::string_view act,
                     bool trans_b) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("tvarant::linear_act", "")
          .typed<Tensor(const Tensor&, const Tensor&, const OptionalTensor&,
                        c10::string_view, bool)>();
  return op.call(x, weight, bias, act, trans_b);
}

// Gradient of the activation. relu has it in its result; the others need the
// value before, which is computed again rather than kept.
Tensor ActGradient(const Tensor& grad, const Tensor& x, const Tensor& weight,
                   const OptionalTensor& bias, const Tensor& out, Act act,
                   bool trans_b) {
  if (act == Act::kNone) return grad;
  if (act == Act::kRelu) return at::threshold_backward(grad, out, 0);
  const Tensor z = CallLinearAct(x, weight, bias, "none", trans_b);
  if (act == Act::kSilu) return at::silu_backward(grad, z);
  return at::gelu_backward(grad, z, act == Act::kGelu ? "none" : "tanh");
}

class LinearActFunction : public torch::autograd::Function<LinearActFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x,
                        const Tensor& weight, const OptionalTensor& bias,
                        const std::string& act, bool trans_b) {
    Tensor out;
    {
      at::AutoDispatchBelowADInplaceOrView below;
      out = CallLinearAct(x, weight, bias, act, trans_b);
    }
    const Act kind = ParseAct(act);
    const Tensor row = bias.has_value() ? *bias : Tensor();
    context->save_for_backward(
        {x, weight, row, kind == Act::kRelu ? out : Tensor()});
    context->saved_data["act"] = static_cast<int64_t>(kind);
    context->saved_data["trans_b"] = trans_b;
    return out;
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& weight = saved[1];
    const bool has_bias = saved[2].defined();
    const auto act = static_cast<Act>(context->saved_data["act"].toInt());
    const bool trans_b = context->saved_data["trans_b"].toBool();
    const Tensor grad = ActGradient(
        grads[0], x, weight, has_bias ? OptionalTensor(saved[2]) : std::nullopt,
        saved[3], act, trans_b);
    variable_list result(5);
    const int64_t n = weight.size(trans_b ? 0 : 1);
    const int64_t k = weight.size(trans_b ? 1 : 0);
    const Tensor rows = grad.reshape({-1, n});
    if (context->needs_input_grad(0)) {
      result[0] = at::matmul(grad, trans_b ? weight : weight.t());
    }
    if (context->needs_input_grad(1)) {
      const Tensor inputs = x.reshape({-1, k});
      result[1] =
          trans_b ? at::matmul(rows.t(), inputs) : at::matmul(inputs.t(), rows);
    }
    if (has_bias && context->needs_input_grad(2)) {
      result[2] = rows.sum(0).reshape_as(saved[2]);
    }
    return result;
  }
};

Tensor LinearActAutograd(const Tensor& x, const Tensor& weight,
                         const OptionalTensor& bias, c10::string_view act,
                         bool trans_b) {
  const bool needs_grad =
      at::GradMode::is_enabled() &&
      (x.requires_grad() || weight.requires_grad() ||
       (bias.has_value() && bias->defined() && bias->requires_grad()));
  if (needs_grad) {
    return LinearActFunction::apply(x, weight, bias, std::string(act), trans_b);
  }
  at::AutoDispatchBelowADInplaceOrView below;
  return CallLinearAct(x, weight, bias, act, trans_b);
}

// --- pointwise ---------------------------------------------------------------

Tensor PointwiseEagerly(at::TensorList inputs, IntArrayRef ops, IntArrayRef a,
                        IntArrayRef b, IntArrayRef input_ids,
                        at::ArrayRef<double> alphas,
                        at::ArrayRef<double> consts) {
  const ProgramArrays program{inputs, ops, a, b, input_ids, alphas, consts};
  CheckProgram(program);
  return RunEagerly(program);
}

// The result that PyTorch would give for an element-wise op of the inputs:
// broadcast shape, strides after the inputs'.
Tensor AllocateResult(at::TensorList inputs) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false);
  Tensor undefined;
  config.add_output(undefined);
  for (const Tensor& input : inputs) config.add_const_input(input);
  at::TensorIterator iter = config.build();
  return iter.output();
}

Tensor PointwiseOnDevice(at::TensorList inputs, IntArrayRef ops, IntArrayRef a,
                         IntArrayRef b, IntArrayRef input_ids,
                         at::ArrayRef<double> alphas,
                         at::ArrayRef<double> consts) {
  const ProgramArrays arrays{inputs, ops, a, b, input_ids, alphas, consts};
  CheckProgram(arrays);
  std::vector<double> floats;
  const Program program = BuildProgram(arrays, &floats);
  Tensor out = AllocateResult(inputs);
  if (out.numel() == 0) return out;
  const bool flatten = out.dim() > kMaxRank;
  if (flatten) out = out.contiguous();
  Device& device = Device::Get(out.device().index());
  LaunchBuilder launch(Kernel::kPointwise, out.device());
  launch.params().program = device.DefineProgram(program);
  for (const double value : floats) launch.Float(value);
  // Keeps what the launch points to until it is queued.
  std::vector<Tensor> sources;
  const auto num_inputs = static_cast<size_t>(program.num_inputs());
  for (size_t i = 0; i < num_inputs; ++i) {
    Tensor source = inputs[i].expand(out.sizes());
    if (flatten) source = source.contiguous().view({-1});
    sources.push_back(std::move(source));
  }
  launch.Dst(flatten ? out.view({-1}) : out);
  for (const Tensor& source : sources) launch.Src(source);
  launch.Run();
  return out;
}

Tensor CallPointwise(at::TensorList inputs, IntArrayRef ops, IntArrayRef a,
                     IntArrayRef b, IntArrayRef input_ids,
                     at::ArrayRef<double> alphas, at::ArrayRef<double> consts) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("tvarant::pointwise", "")
          .typed<Tensor(at::TensorList, IntArrayRef, IntArrayRef, IntArrayRef,
                        IntArrayRef, at::ArrayRef<double>,
                        at::ArrayRef<double>)>();
  return op.call(inputs, ops, a, b, input_ids, alphas, consts);
}

// Keeps the program and the inputs; the backward pass runs the program again,
// op by op, and asks PyTorch for the gradient of that.
class PointwiseFunction : public torch::autograd::Function<PointwiseFunction> {
 public:
  static Tensor forward(AutogradContext* context, at::TensorList inputs,
                        std::vector<int64_t> ops, std::vector<int64_t> a,
                        std::vector<int64_t> b, std::vector<int64_t> input_ids,
                        std::vector<double> alphas,
                        std::vector<double> consts) {
    Tensor out;
    {
      at::AutoDispatchBelowADInplaceOrView below;
      out = CallPointwise(inputs, ops, a, b, input_ids, alphas, consts);
    }
    context->save_for_backward(inputs.vec());
    context->saved_data["ops"] = std::move(ops);
    context->saved_data["a"] = std::move(a);
    context->saved_data["b"] = std::move(b);
    context->saved_data["input_ids"] = std::move(input_ids);
    context->saved_data["alphas"] = std::move(alphas);
    context->saved_data["consts"] = std::move(consts);
    return out;
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& grads) {
    variable_list inputs = context->get_saved_variables();
    const bool create_graph = at::GradMode::is_enabled();
    const auto ints = [&](const char* name) {
      return context->saved_data[name].toIntVector();
    };
    const std::vector<int64_t> ops = ints("ops"), a = ints("a"), b = ints("b"),
                               input_ids = ints("input_ids");
    const std::vector<double>
        alphas = context->saved_data["alphas"].toDoubleVector(),
        consts = context->saved_data["consts"].toDoubleVector();
    at::AutoGradMode with_grad(true);
    variable_list wanted;
    for (Tensor& input : inputs) {
      const bool needs = input.requires_grad();
      if (!create_graph) input = input.detach().requires_grad_(needs);
      if (needs) wanted.push_back(input);
    }
    const Tensor out =
        RunEagerly({inputs, ops, a, b, input_ids, alphas, consts});
    variable_list found;
    if (out.requires_grad()) {
      found = torch::autograd::grad({out}, wanted, {grads[0]},
                                    /*retain_graph=*/create_graph, create_graph,
                                    /*allow_unused=*/true);
    } else {
      found.resize(wanted.size());
    }
    variable_list result;
    size_t next = 0;
    for (const Tensor& input : inputs) {
      result.push_back(input.requires_grad() ? found[next++] : Tensor());
    }
    result.resize(inputs.size() + 6);
    return result;
  }
};

Tensor PointwiseAutograd(at::TensorList inputs, IntArrayRef ops, IntArrayRef a,
                         IntArrayRef b, IntArrayRef input_ids,
                         at::ArrayRef<double> alphas,
                         at::ArrayRef<double> consts) {
  bool needs_grad = false;
  for (const Tensor& input : inputs) needs_grad |= input.requires_grad();
  if (needs_grad && at::GradMode::is_enabled()) {
    return PointwiseFunction::apply(inputs, ops.vec(), a.vec(), b.vec(),
                                    input_ids.vec(), alphas.vec(),
                                    consts.vec());
  }
  at::AutoDispatchBelowADInplaceOrView below;
  return CallPointwise(inputs, ops, a, b, input_ids, alphas, consts);
}

}  // namespace

TORCH_LIBRARY(tvarant, m) {
  m.def(
      "linear_act(Tensor x, Tensor weight, Tensor? bias, str act, "
      "bool trans_b=False) -> Tensor");
  m.def(
      "pointwise(Tensor[] inputs, int[] ops, int[] a, int[] b, "
      "int[] input_ids, float[] alphas, float[] consts) -> Tensor");
}

TORCH_LIBRARY_IMPL(tvarant, CompositeExplicitAutograd, m) {
  m.impl("linear_act", &LinearActEagerly);
  m.impl("pointwise", &PointwiseEagerly);
}

TORCH_LIBRARY_IMPL(tvarant, PrivateUse1, m) {
  m.impl("linear_act", &LinearActOnDevice);
  m.impl("pointwise", &PointwiseOnDevice);
}

TORCH_LIBRARY_IMPL(tvarant, Autograd, m) {
  m.impl("linear_act", &LinearActAutograd);
  m.impl("pointwise", &PointwiseAutograd);
}

}  // namespace tvarant::torch_plugin

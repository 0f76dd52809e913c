// Ops that PyTorch sends to a device in a form that the CPU has no kernel for,
// or that would reach a composite where the CPU has a kernel of its own.

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <vector>

#include "torch_plugin/aten/fallback.h"

namespace tvarant::torch_plugin {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// --- RNN cells ---------------------------------------------------------------
// Devices are expected to have these cells; the CPU has not. They are made of
// the device's own element-wise ops.

Tensor WithBias(const Tensor& gates, const OptionalTensor& bias) {
  return bias.has_value() && bias->defined() ? gates.add(*bias) : gates;
}

// Gates: input, forget, cell, output. The workspace keeps them activated.
std::tuple<Tensor, Tensor, Tensor> LstmCell(const Tensor& input_gates,
                                            const Tensor& hidden_gates,
                                            const Tensor& cx,
                                            const OptionalTensor& input_bias,
                                            const OptionalTensor& hidden_bias) {
  const Tensor gates = WithBias(WithBias(input_gates, input_bias), hidden_bias)
                           .add(hidden_gates);
  const std::vector<Tensor> chunks = gates.chunk(4, 1);
  const Tensor i = chunks[0].sigmoid();
  const Tensor f = chunks[1].sigmoid();
  const Tensor g = chunks[2].tanh();
  const Tensor o = chunks[3].sigmoid();
  const Tensor cy = f.mul(cx).add_(i.mul(g));
  const Tensor hy = o.mul(cy.tanh());
  return {hy, cy, at::cat({i, f, g, o}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> LstmCellBackward(
    const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
    const Tensor& cx, const Tensor& cy, const Tensor& workspace,
    bool has_bias) {
  const bool has_hy = grad_hy.has_value() && grad_hy->defined();
  const bool has_cy = grad_cy.has_value() && grad_cy->defined();
  if (!has_hy && !has_cy) return {Tensor(), Tensor(), Tensor()};
  const std::vector<Tensor> chunks = workspace.chunk(4, 1);
  const Tensor &i = chunks[0], &f = chunks[1], &g = chunks[2], &o = chunks[3];
  const Tensor tanh_cy = cy.tanh();
  Tensor grad_o, grad_c;
  if (has_hy) {
    // dL/dc through hy = o * tanh(c).
    grad_o = grad_hy->mul(tanh_cy).mul_(o).mul_(o.neg().add_(1));
    grad_c = grad_hy->mul(o).mul_(tanh_cy.mul(tanh_cy).neg_().add_(1));
    if (has_cy) grad_c.add_(*grad_cy);
  } else {
    grad_o = at::zeros_like(o);
    grad_c = *grad_cy;
  }
  const Tensor grad_i = grad_c.mul(g).mul_(i).mul_(i.neg().add_(1));
  const Tensor grad_f = grad_c.mul(cx).mul_(f).mul_(f.neg().add_(1));
  const Tensor grad_g = grad_c.mul(i).mul_(g.mul(g).neg_().add_(1));
  const Tensor grad_gates = at::cat({grad_i, grad_f, grad_g, grad_o}, 1);
  return {grad_gates, grad_c.mul(f),
          has_bias ? grad_gates.sum(0, /*keepdim=*/false) : Tensor()};
}

// Gates: reset, update, new. The workspace keeps these activated, then hx and
// the hidden part of the new gate.
std::tuple<Tensor, Tensor> GruCell(const Tensor& input_gates,
                                   const Tensor& hidden_gates, const Tensor& hx,
                                   const OptionalTensor& input_bias,
                                   const OptionalTensor& hidden_bias) {
  const std::vector<Tensor> x = WithBias(input_gates, input_bias).chunk(3, 1);
  const std::vector<Tensor> h = WithBias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor r = x[0].add(h[0]).sigmoid();
  const Tensor z = x[1].add(h[1]).sigmoid();
  const Tensor n = r.mul(h[2]).add_(x[2]).tanh();
  const Tensor hy = hx.sub(n).mul_(z).add_(n);
  return {hy, at::cat({r, z, n, hx, h[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> GruCellBackward(
    const Tensor& grad_hy, const Tensor& workspace, bool has_bias) {
  const std::vector<Tensor> saved = workspace.chunk(5, 1);
  const Tensor &r = saved[0], &z = saved[1], &n = saved[2], &hx = saved[3],
               &hn = saved[4];
  const Tensor one_minus_z = z.neg().add_(1);
  const Tensor grad_z = grad_hy.mul(hx.sub(n)).mul_(z).mul_(one_minus_z);
  const Tensor grad_n = grad_hy.mul(one_minus_z).mul_(n.mul(n).neg_().add_(1));
  const Tensor grad_hn = grad_n.mul(r);
  const Tensor grad_r = grad_n.mul(hn).mul_(r).mul_(r.neg().add_(1));
  const Tensor grad_input = at::cat({grad_r, grad_z, grad_n}, 1);
  const Tensor grad_hidden = at::cat({grad_r, grad_z, grad_hn}, 1);
  return {grad_input, grad_hidden, grad_hy.mul(z),
          has_bias ? grad_input.sum(0, /*keepdim=*/false) : Tensor(),
          has_bias ? grad_hidden.sum(0, /*keepdim=*/false) : Tensor()};
}

// --- Ops with a CPU kernel and a composite -----------------------------------
// Without these the composite would win over the fallback, and is wrong or
// breaks for a device.

void RunOnCpu(const c10::OperatorHandle& op, c10::DispatchKeySet,
              torch::jit::Stack* stack) {
  CpuFallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(LstmCell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(LstmCellBackward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(GruCell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(GruCellBackward));
  for (const char* op :
       {"_stack", "_stack.out", "addr", "addr.out", "linalg__powsum"}) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&RunOnCpu>());
  }
}

}  // namespace
}  // namespace tvarant::torch_plugin

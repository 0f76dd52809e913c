// Cells of LSTM and GRU: all that follows the two matrix products is one
// launch, forward and backward.
//
// PyTorch expects these cells of a device; the CPU has no kernels for them.

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <array>
#include <tuple>
#include <vector>

#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"
#include "torch_plugin/aten/optional_tensor.h"
#include "torch_plugin/aten/program_cache.h"

namespace tvarant::torch_plugin {
namespace {

enum class Cell : uint32_t { kLstm, kLstmBackward, kGru, kGruBackward };

// Writes a cell's program: values of [batch, hidden].
class CellBuilder {
 public:
  explicit CellBuilder(DType type)
      : math_(type == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32) {}

  int Load() { return builder_.Load(inputs_++, math_); }
  int Op(PointwiseOp op, int a, int b = -1) {
    return builder_.Op(op, math_, a, b);
  }
  int Add(int a, int b) { return Op(PointwiseOp::kAdd, a, b); }
  int Sub(int a, int b) { return Op(PointwiseOp::kSub, a, b); }
  int Mul(int a, int b) { return Op(PointwiseOp::kMul, a, b); }
  int Sigmoid(int a) { return Op(PointwiseOp::kSigmoid, a); }
  int Tanh(int a) { return Op(PointwiseOp::kTanh, a); }
  // Derivatives of sigmoid and tanh by their results.
  int SigmoidSlope(int y) { return Mul(y, Sub(one(), y)); }
  int TanhSlope(int y) { return Sub(one(), Mul(y, y)); }
  int one() { return builder_.Const(1, math_); }
  void Store(int value) { builder_.Store(value); }
  Program Build() && { return std::move(builder_).Build(); }

 private:
  const DType math_;
  ProgramBuilder builder_;
  int inputs_ = 0;
};

// input gates, hidden gates, their biases, cx -> hy, cy, workspace.
Program LstmProgram(CellBuilder b, bool has_bias) {
  std::array<int, 4> gates{};
  for (int& gate : gates) gate = b.Load();
  for (int& gate : gates) gate = b.Add(gate, b.Load());
  for (int i = 0; has_bias && i < 2; ++i) {
    for (int& gate : gates) gate = b.Add(gate, b.Load());
  }
  const int cx = b.Load();
  const int i = b.Sigmoid(gates[0]), f = b.Sigmoid(gates[1]);
  const int g = b.Tanh(gates[2]), o = b.Sigmoid(gates[3]);
  const int cy = b.Add(b.Mul(f, cx), b.Mul(i, g));
  b.Store(b.Mul(o, b.Tanh(cy)));
  for (const int value : {cy, i, f, g, o}) b.Store(value);
  return std::move(b).Build();
}

// gradients of hy and cy, cx, cy, workspace -> gradients of the gates, of cx.
Program LstmBackwardProgram(CellBuilder b) {
  const int grad_hy = b.Load(), grad_cy = b.Load();
  const int cx = b.Load(), cy = b.Load();
  const int i = b.Load(), f = b.Load(), g = b.Load(), o = b.Load();
  const int t = b.Tanh(cy);
  // dL/dc through hy = o * tanh(c).
  const int grad_c = b.Add(b.Mul(b.Mul(grad_hy, o), b.TanhSlope(t)), grad_cy);
  b.Store(b.Mul(b.Mul(grad_c, g), b.SigmoidSlope(i)));
  b.Store(b.Mul(b.Mul(grad_c, cx), b.SigmoidSlope(f)));
  b.Store(b.Mul(b.Mul(grad_c, i), b.TanhSlope(g)));
  b.Store(b.Mul(b.Mul(grad_hy, t), b.SigmoidSlope(o)));
  b.Store(b.Mul(grad_c, f));
  return std::move(b).Build();
}

// input and hidden gates, their biases, hx -> hy, workspace.
Program GruProgram(CellBuilder b, bool has_bias) {
  std::array<int, 3> x{}, h{};
  for (int& gate : x) gate = b.Load();
  for (int& gate : h) gate = b.Load();
  if (has_bias) {
    for (int& gate : x) gate = b.Add(gate, b.Load());
    for (int& gate : h) gate = b.Add(gate, b.Load());
  }
  const int hx = b.Load();
  const int r = b.Sigmoid(b.Add(x[0], h[0]));
  const int z = b.Sigmoid(b.Add(x[1], h[1]));
  const int n = b.Tanh(b.Add(x[2], b.Mul(r, h[2])));
  b.Store(b.Add(b.Mul(b.Sub(hx, n), z), n));
  for (const int value : {r, z, n, hx, h[2]}) b.Store(value);
  return std::move(b).Build();
}

// gradient of hy, workspace -> gradients of both sets of gates, of hx.
Program GruBackwardProgram(CellBuilder b) {
  const int grad = b.Load();
  const int r = b.Load(), z = b.Load(), n = b.Load(), hx = b.Load(),
            hn = b.Load();
  const int grad_z = b.Mul(b.Mul(grad, b.Sub(hx, n)), b.SigmoidSlope(z));
  const int grad_n = b.Mul(b.Mul(grad, b.Sub(b.one(), z)), b.TanhSlope(n));
  const int grad_r = b.Mul(b.Mul(grad_n, hn), b.SigmoidSlope(r));
  for (const int value : {grad_r, grad_z, grad_n}) b.Store(value);
  for (const int value : {grad_r, grad_z, b.Mul(grad_n, r)}) b.Store(value);
  b.Store(b.Mul(grad, z));
  return std::move(b).Build();
}

Program ProgramOf(Cell cell, DType type, bool has_bias) {
  const CellBuilder builder(type);
  switch (cell) {
    case Cell::kLstm:
      return LstmProgram(builder, has_bias);
    case Cell::kLstmBackward:
      return LstmBackwardProgram(builder);
    case Cell::kGru:
      return GruProgram(builder, has_bias);
    default:
      return GruBackwardProgram(builder);
  }
}

// One launch over [batch, hidden].
class CellLaunch {
 public:
  CellLaunch(Cell cell, const Tensor& like, bool has_bias)
      : launch_(Kernel::kPointwise, like.device()), sizes_(like.sizes()) {
    static auto* const cache = new ProgramCache;
    const DType type = ToDType(like.scalar_type());
    const uint32_t key = static_cast<uint32_t>(cell) |
                         static_cast<uint32_t>(type) << 8 |
                         static_cast<uint32_t>(has_bias) << 16;
    launch_.params().program =
        cache->Find(Device::Get(like.device().index()), key,
                    [&] { return ProgramOf(cell, type, has_bias); });
  }
  void Dst(const Tensor& tensor) { launch_.Dst(tensor); }
  void Src(const Tensor& tensor) { launch_.Src(tensor); }
  // The `count` parts of a [batch, count * hidden] tensor, or of a bias.
  void DstParts(const Tensor& tensor, int64_t count) {
    for (const Tensor& part : tensor.chunk(count, 1)) Dst(part);
  }
  void SrcParts(const Tensor& tensor, int64_t count) {
    for (const Tensor& part : tensor.chunk(count, -1)) {
      Src(part.expand(sizes_));
    }
  }
  void Run() { launch_.Run(); }

 private:
  LaunchBuilder launch_;
  const IntArrayRef sizes_;
};

void CheckCell(const char* op, const Tensor& state, int64_t parts,
               std::initializer_list<const Tensor*> gates,
               std::initializer_list<const OptionalTensor*> biases) {
  TORCH_CHECK(state.dim() == 2, op, ": expected a state of 2 dimensions, got ",
              state.dim());
  TORCH_CHECK(c10::isFloatingType(state.scalar_type()) &&
                  HasKernels(state.scalar_type()),
              op, ": expected a floating-point state, got ",
              state.scalar_type());
  DeviceCheck devices(op);
  devices.Add(state, "state");
  for (const Tensor* tensor : gates) {
    devices.Add(*tensor, "gates");
    TORCH_CHECK(tensor->dim() == 2 && tensor->size(0) == state.size(0) &&
                    tensor->size(1) == parts * state.size(1) &&
                    tensor->scalar_type() == state.scalar_type(),
                op, ": gates of size ", tensor->sizes(),
                " don't fit a state "
                "of size ",
                state.sizes());
  }
  for (const OptionalTensor* bias : biases) {
    if (!Has(*bias)) continue;
    devices.Add(**bias, "bias");
    TORCH_CHECK((*bias)->dim() == 1 &&
                    (*bias)->size(0) == parts * state.size(1) &&
                    (*bias)->scalar_type() == state.scalar_type(),
                op, ": a bias of size ", (*bias)->sizes(),
                " doesn't fit a "
                "state of size ",
                state.sizes());
  }
}

Tensor Wide(const Tensor& state, int64_t parts) {
  return EmptyLikeOf(state, {state.size(0), parts * state.size(1)});
}

// --- LSTM ------------------------------------------------------------------
// Gates: input, forget, cell, output. The workspace keeps them activated.

std::tuple<Tensor, Tensor, Tensor> LstmCell(const Tensor& input_gates,
                                            const Tensor& hidden_gates,
                                            const Tensor& cx,
                                            const OptionalTensor& input_bias,
                                            const OptionalTensor& hidden_bias) {
  CheckCell("_thnn_fused_lstm_cell", cx, 4, {&input_gates, &hidden_gates},
            {&input_bias, &hidden_bias});
  Tensor hy = EmptyLikeOf(cx, cx.sizes()), cy = EmptyLikeOf(cx, cx.sizes());
  Tensor workspace = Wide(cx, 4);
  if (cx.numel() == 0) return {hy, cy, workspace};
  const bool has_bias = Has(input_bias) && Has(hidden_bias);
  CellLaunch launch(Cell::kLstm, cx, has_bias);
  launch.Dst(hy);
  launch.Dst(cy);
  launch.DstParts(workspace, 4);
  launch.SrcParts(input_gates, 4);
  launch.SrcParts(hidden_gates, 4);
  if (has_bias) {
    launch.SrcParts(*input_bias, 4);
    launch.SrcParts(*hidden_bias, 4);
  }
  launch.Src(cx);
  launch.Run();
  return {hy, cy, workspace};
}

std::tuple<Tensor, Tensor, Tensor> LstmCellBackward(
    const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
    const Tensor& cx, const Tensor& cy, const Tensor& workspace,
    bool has_bias) {
  if (!Has(grad_hy) && !Has(grad_cy)) return {Tensor(), Tensor(), Tensor()};
  CheckCell("_thnn_fused_lstm_cell_backward", cx, 4, {&workspace}, {});
  Tensor grad_gates = Wide(cx, 4), grad_cx = EmptyLikeOf(cx, cx.sizes());
  if (cx.numel() > 0) {
    const Tensor nothing = EmptyLikeOf(cx, {1, 1}).zero_();
    const auto gradient = [&](const OptionalTensor& given) {
      return (Has(given) ? *given : nothing).expand(cx.sizes());
    };
    CellLaunch launch(Cell::kLstmBackward, cx, false);
    launch.DstParts(grad_gates, 4);
    launch.Dst(grad_cx);
    launch.Src(gradient(grad_hy));
    launch.Src(gradient(grad_cy));
    launch.Src(cx);
    launch.Src(cy);
    launch.SrcParts(workspace, 4);
    launch.Run();
  }
  return {grad_gates, grad_cx,
          has_bias ? grad_gates.sum(0, /*keepdim=*/false) : Tensor()};
}

// --- GRU -------------------------------------------------------------------
// Gates: reset, update, new. The workspace keeps these activated, then hx and
// the hidden part of the new gate.

std::tuple<Tensor, Tensor> GruCell(const Tensor& input_gates,
                                   const Tensor& hidden_gates, const Tensor& hx,
                                   const OptionalTensor& input_bias,
                                   const OptionalTensor& hidden_bias) {
  CheckCell("_thnn_fused_gru_cell", hx, 3, {&input_gates, &hidden_gates},
            {&input_bias, &hidden_bias});
  Tensor hy = EmptyLikeOf(hx, hx.sizes()), workspace = Wide(hx, 5);
  if (hx.numel() == 0) return {hy, workspace};
  const bool has_bias = Has(input_bias) && Has(hidden_bias);
  CellLaunch launch(Cell::kGru, hx, has_bias);
  launch.Dst(hy);
  launch.DstParts(workspace, 5);
  launch.SrcParts(input_gates, 3);
  launch.SrcParts(hidden_gates, 3);
  if (has_bias) {
    launch.SrcParts(*input_bias, 3);
    launch.SrcParts(*hidden_bias, 3);
  }
  launch.Src(hx);
  launch.Run();
  return {hy, workspace};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> GruCellBackward(
    const Tensor& grad_hy, const Tensor& workspace, bool has_bias) {
  CheckCell("_thnn_fused_gru_cell_backward", grad_hy, 5, {&workspace}, {});
  Tensor grad_input = Wide(grad_hy, 3), grad_hidden = Wide(grad_hy, 3);
  Tensor grad_hx = EmptyLikeOf(grad_hy, grad_hy.sizes());
  if (grad_hy.numel() > 0) {
    CellLaunch launch(Cell::kGruBackward, grad_hy, false);
    launch.DstParts(grad_input, 3);
    launch.DstParts(grad_hidden, 3);
    launch.Dst(grad_hx);
    launch.Src(grad_hy);
    launch.SrcParts(workspace, 5);
    launch.Run();
  }
  return {grad_input, grad_hidden, grad_hx,
          has_bias ? grad_input.sum(0, /*keepdim=*/false) : Tensor(),
          has_bias ? grad_hidden.sum(0, /*keepdim=*/false) : Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", &LstmCell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", &LstmCellBackward);
  m.impl("_thnn_fused_gru_cell", &GruCell);
  m.impl("_thnn_fused_gru_cell_backward", &GruCellBackward);
}

}  // namespace tvarant::torch_plugin

// The programs of torch.ops.tvarant.pointwise: six parallel arrays.
//
// Node i defines value i; the last node is the result. ops[i] is a number of
// proto/ops/pointwise_ops.inc, a[i] and b[i] are earlier values (-1 unused),
// input_ids[i] is the input that a LOAD reads, alphas[i] belongs to ADD and
// SCALE, consts[i] to CONST. All inputs have one float type; they broadcast.

#ifndef TVARANT_TORCH_PLUGIN_ATEN_PROGRAM_OP_H_
#define TVARANT_TORCH_PLUGIN_ATEN_PROGRAM_OP_H_

#include <ATen/core/Tensor.h>

#include "proto/ops/program.h"

namespace tvarant::torch_plugin {

struct ProgramArrays {
  at::TensorList inputs;
  at::IntArrayRef ops;
  at::IntArrayRef a;
  at::IntArrayRef b;
  at::IntArrayRef input_ids;
  at::ArrayRef<double> alphas;
  at::ArrayRef<double> consts;

  size_t size() const { return ops.size(); }
  PointwiseOp op(size_t i) const { return static_cast<PointwiseOp>(ops[i]); }
};

// Raises RuntimeError with one sentence unless the program may be run.
void CheckProgram(const ProgramArrays& program);

// The program for the device, with numbers as launch scalars (`floats`), so
// that a new number defines no new program. The program must be checked.
Program BuildProgram(const ProgramArrays& program, std::vector<double>* floats);

// The same op by op: on any device, differentiable. Must be checked.
at::Tensor RunEagerly(const ProgramArrays& program);

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_PROGRAM_OP_H_

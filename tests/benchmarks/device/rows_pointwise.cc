// Element-wise work, bound by memory: one, two and three streams, broadcasting,
// and a chain as the compiler makes it.

#include <memory>
#include <string>
#include <utility>

#include "tests/benchmarks/device/suite.h"

namespace tvarant::benchmarks {
namespace {

constexpr int64_t kColumns = 4096;

// Builds the program from its loaded inputs.
using Body = int (*)(ProgramBuilder& builder, DType dtype, const int* inputs);

struct Work {
  const char* name;
  const char* peer;
  int inputs;
  // Inputs from this one on are rows of kColumns, repeated.
  int first_row;
  Body body;
};

int Add(ProgramBuilder& builder, DType dtype, const int* in) {
  return builder.Op(PointwiseOp::kAdd, dtype, in[0], in[1]);
}
int Scale2(ProgramBuilder& builder, DType dtype, const int* in) {
  return builder.Op(PointwiseOp::kScale, dtype, in[0], -1, -1, 2.5);
}
int Exp(ProgramBuilder& builder, DType dtype, const int* in) {
  return builder.Op(PointwiseOp::kExp, dtype, in[0]);
}
int Gelu(ProgramBuilder& builder, DType dtype, const int* in) {
  return builder.Op(PointwiseOp::kGelu, dtype, in[0]);
}
// gelu(x * weight + bias) + residual
int Chain(ProgramBuilder& builder, DType dtype, const int* in) {
  const int scaled = builder.Op(PointwiseOp::kMul, dtype, in[0], in[2]);
  const int shifted = builder.Op(PointwiseOp::kAdd, dtype, scaled, in[3]);
  const int gelu = builder.Op(PointwiseOp::kGelu, dtype, shifted);
  return builder.Op(PointwiseOp::kAdd, dtype, gelu, in[1]);
}

constexpr Work kWorks[] = {
    {"add", "add", 2, 2, Add},
    {"mul by scalar", "mul_scalar", 1, 1, Scale2},
    {"exp", "exp", 1, 1, Exp},
    {"gelu", "gelu", 1, 1, Gelu},
    {"add a row", "add", 2, 1, Add},
    {"gelu(x * w + b) + y", "chain", 4, 2, Chain},
};

Row PointwiseRow(const Work& work, DType dtype, uint64_t array_bytes) {
  const int64_t element = static_cast<int64_t>(SizeOf(dtype));
  const int64_t n = static_cast<int64_t>(array_bytes) / element / kColumns;
  const int streams = work.first_row + 1;
  Row row{.family = "pointwise",
          .name = work.name,
          .dtype = dtype,
          .sizes = {n, kColumns},
          .peer = work.peer,
          .bytes = static_cast<double>(streams * n * kColumns * element),
          .memory_bytes = streams * array_bytes};
  // The peer has a name of its own where an input is a row.
  if (work.first_row < work.inputs && work.inputs == 2) row.peer = "add_row";
  row.prepare = [=](Device& device, Scope& scope, Turn* turn) {
    Tensor y;
    std::vector<Tensor> inputs(work.inputs);
    Status status = scope.Make(dtype, {n, kColumns}, &y, false);
    ProgramBuilder builder;
    std::vector<int> loads;
    for (int i = 0; i < work.inputs && status.ok(); ++i) {
      loads.push_back(builder.Load(i, dtype));
      const bool is_row = i >= work.first_row;
      status = scope.Make(dtype, {is_row ? 1 : n, kColumns}, &inputs[i]);
      if (is_row) inputs[i] = inputs[i].Broadcast(0, n);
    }
    if (!status.ok()) return status;
    builder.Store(work.body(builder, dtype, loads.data()));
    auto program = device.session().DefineProgram(builder.program());
    if (!program.ok()) return program.status();
    auto launch = std::make_shared<LaunchOf>(
        Kernel::kPointwise, std::vector<Tensor>{y}, std::move(inputs));
    launch->params().program = program.value();
    *turn = [&device, launch] { return device.Launch(*launch); };
    return Status();
  };
  return row;
}

}  // namespace

void AddPointwiseRows(const Scale& scale, std::vector<Row>* rows) {
  for (const Work& work : kWorks) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      rows->push_back(PointwiseRow(work, dtype, scale.array_bytes));
    }
  }
  rows->push_back(PointwiseRow(kWorks[0], DType::kFloat16, scale.array_bytes));
}

}  // namespace tvarant::benchmarks

// Reductions, softmax and norms of rows of 4096.

#include <memory>
#include <string>
#include <utility>

#include "tests/benchmarks/device/suite.h"

namespace tvarant::benchmarks {
namespace {

constexpr int64_t kColumns = 4096;

struct Shape {
  DType dtype;
  int64_t n;  // rows

  uint64_t bytes() const {
    return static_cast<uint64_t>(n * kColumns) * SizeOf(dtype);
  }
};

Row RowOf(const char* family, const char* name, const char* peer,
          const Shape& shape, double passes) {
  return Row{.family = family,
             .name = name,
             .dtype = shape.dtype,
             .sizes = {shape.n, kColumns},
             .peer = peer,
             .bytes = passes * static_cast<double>(shape.bytes()),
             .memory_bytes = 2 * shape.bytes()};
}

struct Reduction {
  const char* name;
  const char* peer;
  ReduceOp op;
  Dims result;  // of rows; 0 stands for the number of rows
};

Row ReduceRow(const Reduction& work, const Shape& shape) {
  Row row = RowOf("reduction", work.name, work.peer, shape, 1);
  row.prepare = [=](Device& device, Scope& scope, Turn* turn) {
    Dims result = work.result;
    if (result[0] == 0) result[0] = shape.n;
    const bool is_index = work.op == ReduceOp::kArgMax;
    Tensor x, y;
    Status status = scope.Make(shape.dtype, {shape.n, kColumns}, &x);
    if (status.ok()) {
      status =
          scope.Make(is_index ? DType::kInt64 : shape.dtype, result, &y, false);
    }
    if (!status.ok()) return status;
    auto launch = std::make_shared<LaunchOf>(
        Kernel::kReduce, std::vector<Tensor>{y}, std::vector<Tensor>{x});
    launch->Ints({static_cast<int64_t>(work.op)});
    *turn = [&device, launch] { return device.Launch(*launch); };
    return Status();
  };
  return row;
}

Row SoftmaxRow(Kernel kernel, const Shape& shape) {
  const bool log = kernel == Kernel::kLogSoftmax;
  Row row = RowOf("softmax", log ? "log_softmax" : "softmax",
                  log ? "log_softmax" : "softmax", shape, 2);
  row.prepare = [=](Device& device, Scope& scope, Turn* turn) {
    Tensor x, y;
    Status status = scope.Make(shape.dtype, {shape.n, kColumns}, &x);
    if (status.ok()) {
      status = scope.Make(shape.dtype, {shape.n, kColumns}, &y, false);
    }
    if (!status.ok()) return status;
    auto launch = std::make_shared<LaunchOf>(kernel, std::vector<Tensor>{y},
                                             std::vector<Tensor>{x});
    launch->Ints({1});
    *turn = [&device, launch] { return device.Launch(*launch); };
    return Status();
  };
  return row;
}

Row LayerNormRow(const Shape& shape) {
  Row row = RowOf("norm", "layer_norm", "layer_norm", shape, 2);
  row.prepare = [=](Device& device, Scope& scope, Turn* turn) {
    Tensor x, y, weight, bias, mean, rstd;
    Status status = scope.Make(shape.dtype, {shape.n, kColumns}, &x);
    for (Tensor* row_tensor : {&weight, &bias}) {
      if (status.ok()) {
        status = scope.Make(shape.dtype, {kColumns}, row_tensor);
      }
    }
    for (Tensor* statistic : {&mean, &rstd}) {
      if (status.ok()) {
        status = scope.Make(DType::kFloat32, {shape.n}, statistic, false);
      }
    }
    if (status.ok()) {
      status = scope.Make(shape.dtype, {shape.n, kColumns}, &y, false);
    }
    if (!status.ok()) return status;
    auto launch = std::make_shared<LaunchOf>(
        Kernel::kLayerNorm, std::vector<Tensor>{y, mean, rstd},
        std::vector<Tensor>{x, weight, bias});
    launch->params().scalar = 1e-5;
    *turn = [&device, launch] { return device.Launch(*launch); };
    return Status();
  };
  return row;
}

// x * rsqrt(mean(x²) + eps) * weight, as the compiler makes it: a reduction,
// then one program.
Row RmsNormRow(const Shape& shape) {
  Row row = RowOf("norm", "rms_norm, 2 launches", "rms_norm", shape, 2);
  row.prepare = [=](Device& device, Scope& scope, Turn* turn) {
    Tensor x, y, weight, squares;
    Status status = scope.Make(shape.dtype, {shape.n, kColumns}, &x);
    if (status.ok()) status = scope.Make(shape.dtype, {1, kColumns}, &weight);
    if (status.ok()) {
      status = scope.Make(DType::kFloat32, {shape.n, 1}, &squares, false);
    }
    if (status.ok()) {
      status = scope.Make(shape.dtype, {shape.n, kColumns}, &y, false);
    }
    if (!status.ok()) return status;
    auto reduce = std::make_shared<LaunchOf>(
        Kernel::kReduce, std::vector<Tensor>{squares}, std::vector<Tensor>{x});
    reduce->Ints({static_cast<int64_t>(ReduceOp::kSumSquares)});

    constexpr DType kFloat = DType::kFloat32;
    ProgramBuilder builder;
    const int value = builder.Load(0, kFloat);
    const int sum = builder.Load(1, kFloat);
    const int scale = builder.Load(2, kFloat);
    const int mean =
        builder.Op(PointwiseOp::kScale, kFloat, sum, -1, -1, 1.0 / kColumns);
    const int shifted = builder.Op(PointwiseOp::kAdd, kFloat, mean,
                                   builder.Const(1e-5, kFloat));
    const int rsqrt = builder.Op(PointwiseOp::kRsqrt, kFloat, shifted);
    const int normal = builder.Op(PointwiseOp::kMul, kFloat, value, rsqrt);
    builder.Store(builder.Op(PointwiseOp::kMul, kFloat, normal, scale));
    auto program = device.session().DefineProgram(builder.program());
    if (!program.ok()) return program.status();
    auto apply = std::make_shared<LaunchOf>(
        Kernel::kPointwise, std::vector<Tensor>{y},
        std::vector<Tensor>{x, squares.Broadcast(1, kColumns),
                            weight.Broadcast(0, shape.n)});
    apply->params().program = program.value();
    *turn = [&device, reduce, apply] {
      const Status status = device.Launch(*reduce);
      return status.ok() ? device.Launch(*apply) : status;
    };
    return Status();
  };
  return row;
}

}  // namespace

void AddRowwiseRows(const Scale& scale, std::vector<Row>* rows) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Shape shape{dtype, static_cast<int64_t>(scale.array_bytes /
                                                  SizeOf(dtype) / kColumns)};
    const Reduction reductions[] = {
        {"sum of rows", "sum_rows", ReduceOp::kSum, {0, 1}},
        {"sum of columns", "sum_columns", ReduceOp::kSum, {1, kColumns}},
        {"sum of all", "sum_all", ReduceOp::kSum, {1, 1}},
        {"argmax of rows", "argmax_rows", ReduceOp::kArgMax, {0, 1}},
    };
    for (const Reduction& work : reductions) {
      rows->push_back(ReduceRow(work, shape));
    }
    rows->push_back(SoftmaxRow(Kernel::kSoftmax, shape));
    rows->push_back(SoftmaxRow(Kernel::kLogSoftmax, shape));
    rows->push_back(LayerNormRow(shape));
    rows->push_back(RmsNormRow(shape));
  }
}

}  // namespace tvarant::benchmarks

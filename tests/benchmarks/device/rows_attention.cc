// Attention: PyTorch's composite as launches of the device, the three that are
// left once the scale is a factor of the product, and the one kernel.

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "tests/benchmarks/device/suite.h"

namespace tvarant::benchmarks {
namespace {

struct Shape {
  int64_t batch, heads, queries, keys, width;

  int64_t matrices() const { return batch * heads; }
};

using Launches = std::vector<std::shared_ptr<LaunchOf>>;

// Launches of one attention, as they are made.
class Plan {
 public:
  Plan(Device& device, Scope& scope) : device_(device), scope_(scope) {}

  Status Make(DType dtype, Dims sizes, Tensor* tensor) {
    return scope_.Make(dtype, std::move(sizes), tensor);
  }
  // *y = x in another dtype.
  Status Convert(const Tensor& x, DType dtype, Tensor* y) {
    if (Status status = Make(dtype, x.sizes, y); !status.ok()) return status;
    Add(Kernel::kCopy, *y, {x});
    return Status();
  }
  Status Multiply(const Tensor& x, double factor, Tensor* y) {
    if (Status status = Make(x.dtype, x.sizes, y); !status.ok()) return status;
    ProgramBuilder builder;
    const int value = builder.Load(0, x.dtype);
    builder.Store(
        builder.Op(PointwiseOp::kScale, x.dtype, value, -1, -1, factor));
    auto program = device_.session().DefineProgram(builder.program());
    if (!program.ok()) return program.status();
    Add(Kernel::kPointwise, *y, {x}).params().program = program.value();
    return Status();
  }
  Status Product(const Tensor& a, const Tensor& b, double alpha, Tensor* c) {
    const Dims sizes{a.sizes[0], a.sizes[1], b.sizes[2]};
    if (Status status = Make(a.dtype, sizes, c); !status.ok()) return status;
    LaunchParams& params = Add(Kernel::kGemm, *c, {a, b}).params();
    params.batch = sizes[0];
    params.m = sizes[1];
    params.n = sizes[2];
    params.k = a.sizes[2];
    params.alpha = alpha;
    return Status();
  }
  Status Softmax(const Tensor& x, Tensor* y) {
    if (Status status = Make(x.dtype, x.sizes, y); !status.ok()) return status;
    Add(Kernel::kSoftmax, *y, {x}).Ints({2});
    return Status();
  }
  Status Attention(const Tensor& q, const Tensor& k, const Tensor& v,
                   double scale) {
    Tensor y;
    const Dims sizes{q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]};
    if (Status status = Make(q.dtype, sizes, &y); !status.ok()) return status;
    launches_.push_back(std::make_shared<LaunchOf>(
        Kernel::kAttention, std::vector<Tensor>{y, Tensor()},
        std::vector<Tensor>{q, k, v, Tensor()}));
    launches_.back()->Ints({0}).params().scalar = scale;
    return Status();
  }
  Launches Take() { return std::move(launches_); }

 private:
  LaunchOf& Add(Kernel kernel, const Tensor& y, std::vector<Tensor> src) {
    launches_.push_back(std::make_shared<LaunchOf>(
        kernel, std::vector<Tensor>{y}, std::move(src)));
    return *launches_.back();
  }

  Device& device_;
  Scope& scope_;
  Launches launches_;
};

struct Inputs {
  Tensor q, k, v;
};

// PyTorch's composite: half types in float32, the scale's root on q and on k.
Status PlanComposite(Plan& plan, Inputs in, double scale) {
  const DType dtype = in.q.dtype;
  const bool widen = SizeOf(dtype) < 4;
  for (Tensor* input : {&in.q, &in.k, &in.v}) {
    if (!widen) continue;
    const Tensor narrow = *input;
    if (Status status = plan.Convert(narrow, DType::kFloat32, input);
        !status.ok()) {
      return status;
    }
  }
  Tensor q, k, scores, weights, out, narrow;
  Status status = plan.Multiply(in.q, std::sqrt(scale), &q);
  if (status.ok()) status = plan.Multiply(in.k, std::sqrt(scale), &k);
  if (status.ok()) {
    status = plan.Product(q, k.Transposed(1, 2), 1, &scores);
  }
  if (status.ok()) status = plan.Softmax(scores, &weights);
  if (status.ok()) status = plan.Product(weights, in.v, 1, &out);
  if (status.ok() && widen) status = plan.Convert(out, dtype, &narrow);
  return status;
}

Status PlanThree(Plan& plan, const Inputs& in, double scale) {
  Tensor scores, weights, out;
  Status status = plan.Product(in.q, in.k.Transposed(1, 2), scale, &scores);
  if (status.ok()) status = plan.Softmax(scores, &weights);
  if (status.ok()) status = plan.Product(weights, in.v, 1, &out);
  return status;
}

Status PlanOne(Plan& plan, const Inputs& in, double scale) {
  const auto head = [](const Tensor& x) {
    return x.Reshaped({1, x.sizes[0], x.sizes[1], x.sizes[2]});
  };
  return plan.Attention(head(in.q), head(in.k), head(in.v), scale);
}

struct Way {
  const char* name;
  Status (*plan)(Plan& plan, const Inputs& in, double scale);
};
constexpr Way kWays[] = {
    {"composite", [](Plan& plan, const Inputs& in,
                     double scale) { return PlanComposite(plan, in, scale); }},
    {"3 launches", PlanThree},
    {"1 launch", PlanOne},
};

Row AttentionRow(const char* name, DType dtype, const Shape& shape,
                 const Way& way) {
  const double element = static_cast<double>(SizeOf(dtype));
  const int64_t scores = shape.matrices() * shape.queries * shape.keys;
  const int64_t cached = shape.matrices() * shape.keys * shape.width;
  Row row{.family = "attention",
          .name = std::string(name) + ", " + way.name,
          .dtype = dtype,
          .sizes = {shape.batch, shape.heads, shape.queries, shape.keys,
                    shape.width},
          .peer = "attention",
          .flops = 4.0 * static_cast<double>(scores * shape.width),
          .memory_bytes = static_cast<uint64_t>(
              static_cast<double>(2 * scores + 6 * cached) * 4)};
  // One query a head reads every key and value once.
  if (shape.queries == 1) {
    row.bytes = 2.0 * static_cast<double>(cached) * element;
  }
  row.prepare = [=](Device& device, Scope& scope, Turn* turn) {
    Plan plan(device, scope);
    Inputs in;
    const int64_t n = shape.matrices();
    Status status = plan.Make(dtype, {n, shape.queries, shape.width}, &in.q);
    for (Tensor* input : {&in.k, &in.v}) {
      if (status.ok()) {
        status = plan.Make(dtype, {n, shape.keys, shape.width}, input);
      }
    }
    const double scale = 1 / std::sqrt(static_cast<double>(shape.width));
    if (status.ok()) {
      status = way.plan(plan, in, scale);
    }
    if (!status.ok()) return status;
    *turn = [&device, launches = plan.Take()] {
      for (const auto& launch : launches) {
        if (Status queued = device.Launch(*launch); !queued.ok()) {
          return queued;
        }
      }
      return Status();
    };
    return Status();
  };
  return row;
}

}  // namespace

void AddAttentionRows(const Scale& scale, std::vector<Row>* rows) {
  const bool large = scale.array_bytes >= (128 << 20);
  const Shape prefill = scale.quick ? Shape{1, 2, 64, 64, 32}
                        : large     ? Shape{4, 16, 2048, 2048, 128}
                                    : Shape{1, 12, 512, 512, 64};
  const Shape decode = scale.quick ? Shape{1, 2, 1, 256, 32}
                       : large     ? Shape{8, 32, 1, 8192, 128}
                                   : Shape{1, 12, 1, 8192, 64};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Way& way : kWays) {
      rows->push_back(AttentionRow("prefill", dtype, prefill, way));
      rows->push_back(AttentionRow("decode", dtype, decode, way));
    }
  }
}

}  // namespace tvarant::benchmarks

// One case for each row of pointwise_ops.inc and dtype: a one-op program over
// every shape and layout.

#include <limits>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/pointwise_reference.h"

namespace tvarant::conformance {
namespace {

struct Row {
  PointwiseOp op;
  const char* name;
  int arity;
  char types;
  char result;
};

constexpr Row kRows[] = {
#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  {PointwiseOp::k##Name, #name, arity, #types[0], #result[0]},
#include "proto/ops/pointwise_ops.inc"
};

bool TakesAlpha(PointwiseOp op) {
  return op == PointwiseOp::kAdd || op == PointwiseOp::kScale ||
         op == PointwiseOp::kAddcmul || op == PointwiseOp::kAddcdiv;
}

Program OneOp(const Row& row, DType dtype, double alpha) {
  ProgramBuilder p;
  int values[3] = {-1, -1, -1};
  for (int i = 0; i < row.arity; ++i) values[i] = p.Load(i, dtype);
  const DType result = row.result == 'B' ? DType::kBool : dtype;
  p.Store(p.Op(row.op, result, values[0], values[1], values[2], alpha));
  return std::move(p).Build();
}

// How operands lie: which shapes meet which layouts changes with `turn`, so
// that over all shapes every pair of layouts is met.
Layout DstLayout(size_t turn) { return kDstLayouts[turn % 4]; }
Layout SrcLayout(size_t turn, int operand) {
  return kSrcLayouts[(turn / 2 + operand * 5 + turn % 2) % 6];
}

using Fill = std::function<void(Tensor&, int operand, std::mt19937_64&)>;
using Value =
    std::function<Real(const std::vector<Tensor>& src, int64_t index)>;

absl::Status RunShapes(Backend& backend, const std::string& name,
                       const Row& row, DType dtype, double alpha,
                       const Fill& fill, const Value& value,
                       Tolerance tolerance) {
  std::mt19937_64 random = SeedOf(name);
  const Program program = OneOp(row, dtype, alpha);
  const DType result = row.result == 'B' ? DType::kBool : dtype;
  size_t turn = 0;
  for (const Dims& shape : Shapes()) {
    ++turn;
    std::vector<Tensor> src;
    for (int i = 0; i < row.arity; ++i) {
      src.emplace_back(dtype, shape, SrcLayout(turn, i));
      fill(src.back(), i, random);
    }
    Tensor dst(result, shape, DstLayout(turn));
    Launch launch(Kernel::kPointwise);
    launch.program = &program;
    launch.dst = {&dst};
    for (const Tensor& tensor : src) launch.src.push_back(&tensor);
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(
        name, dst, [&](int64_t i) { return value(src, i); }, tolerance));
  }
  return absl::OkStatus();
}

void AddFloatCases(const Row& row, CaseList& cases) {
  const FloatReference reference = FloatReferenceOf(row.op);
  if (!reference.value) return;
  for (const DType dtype : kFloatDTypes) {
    for (const double alpha : {1.0, -2.5}) {
      if (alpha != 1.0 && !TakesAlpha(row.op)) continue;
      const std::string name =
          absl::StrCat("pointwise/", row.name, "/", NameOf(dtype),
                       alpha == 1.0 ? "" : "/alpha");
      cases.push_back(
          {name, Kernel::kPointwise, {row.op}, [=](Backend& backend) {
             const DType computing =
                 dtype == DType::kFloat64 ? dtype : DType::kFloat32;
             const auto round = [&](Real x) { return RoundTo(computing, x); };
             return RunShapes(
                 backend, name, row, dtype, alpha,
                 [&](Tensor& tensor, int operand, std::mt19937_64& random) {
                   tensor.FillFrom(random, reference.inputs[operand]);
                 },
                 [&](const std::vector<Tensor>& src, int64_t i) {
                   Real x[3] = {};
                   for (size_t k = 0; k < src.size(); ++k) x[k] = src[k].Get(i);
                   return reference.value(x[0], x[1], x[2], alpha, round);
                 },
                 reference.tolerance);
           }});
    }
  }
}

// Values of an integer dtype: small ones, the ends, and any.
Real RandomInt(DType dtype, std::mt19937_64& random) {
  switch (random() % 4) {
    case 0:
      return static_cast<int64_t>(random() % 7) - 3;
    case 1:
      return std::vector<Real>{
          std::numeric_limits<int8_t>::min(),
          std::numeric_limits<int16_t>::min(),
          std::numeric_limits<int32_t>::min(),
          static_cast<Real>(std::numeric_limits<int64_t>::min()),
          std::numeric_limits<int8_t>::max(),
          std::numeric_limits<int32_t>::max(),
          static_cast<Real>(std::numeric_limits<int64_t>::max()),
          0}[random() % 8];
    default:
      return RoundTo(dtype, static_cast<int64_t>(random()));
  }
}

bool IsForBool(PointwiseOp op) {
  switch (op) {
    case PointwiseOp::kAdd:
    case PointwiseOp::kMul:
    case PointwiseOp::kIdentity:
    case PointwiseOp::kMaximum:
    case PointwiseOp::kMinimum:
    case PointwiseOp::kEq:
    case PointwiseOp::kNe:
    case PointwiseOp::kLt:
    case PointwiseOp::kLe:
    case PointwiseOp::kGt:
    case PointwiseOp::kGe:
    case PointwiseOp::kLogicalAnd:
    case PointwiseOp::kLogicalOr:
    case PointwiseOp::kLogicalXor:
    case PointwiseOp::kLogicalNot:
    case PointwiseOp::kBitAnd:
    case PointwiseOp::kBitOr:
    case PointwiseOp::kBitXor:
      return true;
    default:
      return false;
  }
}

void AddIntCase(const Row& row, DType dtype, int64_t alpha, CaseList& cases) {
  const IntReference reference = IntReferenceOf(row.op);
  const std::string name = absl::StrCat(
      "pointwise/", row.name, "/", NameOf(dtype), alpha == 1 ? "" : "/alpha");
  cases.push_back(
      {name, Kernel::kPointwise, {row.op}, [=](Backend& backend) {
         const int bits = dtype == DType::kInt64 ? 64 : 32;
         return RunShapes(
             backend, name, row, dtype, static_cast<double>(alpha),
             [&](Tensor& tensor, int operand, std::mt19937_64& random) {
               const std::vector<int64_t>& pool = reference.inputs[operand];
               tensor.Fill([&](int64_t) -> Real {
                 if (!pool.empty()) return pool[random() % pool.size()];
                 const Real value = RandomInt(dtype, random);
                 const bool zero = RoundTo(dtype, value) == 0;
                 return reference.divides && operand == 1 && zero ? 3 : value;
               });
             },
             [&](const std::vector<Tensor>& src, int64_t i) -> Real {
               int64_t x[3] = {};
               for (size_t k = 0; k < src.size(); ++k) {
                 x[k] = static_cast<int64_t>(src[k].Get(i));
               }
               return reference.value(x[0], x[1], x[2], alpha, bits);
             },
             Tolerance{});
       }});
}

// The launch fails, and the device goes on.
absl::Status RunDivisionByZero(Backend& backend, const Row& row, DType dtype) {
  const Program program = OneOp(row, dtype, 1);
  for (const int64_t n : {1, 70, 40000}) {
    Tensor a(dtype, {n}), b(dtype, {n}), y(dtype, {n});
    a.Fill([](int64_t i) { return i % 100; });
    b.Fill([](int64_t) { return 3; });
    b.Set(n / 2, 0);
    Launch launch(Kernel::kPointwise);
    launch.program = &program;
    launch.dst = {&y};
    launch.src = {&a, &b};
    const absl::Status status = backend.Run(launch);
    if (status.code() != absl::StatusCode::kInvalidArgument ||
        !absl::StrContains(status.message(), "ZeroDivisionError")) {
      return absl::InternalError(
          absl::StrCat("division by zero gives ", status.ToString(),
                       ", want INVALID_ARGUMENT ZeroDivisionError"));
    }
    b.Set(n / 2, 3);
    RETURN_IF_ERROR(backend.Run(launch));
  }
  return absl::OkStatus();
}

void AddIntCases(const Row& row, CaseList& cases) {
  if (!IntReferenceOf(row.op).value) return;
  for (const DType dtype : kIntDTypes) {
    AddIntCase(row, dtype, 1, cases);
    if (TakesAlpha(row.op)) AddIntCase(row, dtype, -3, cases);
    if (!IntReferenceOf(row.op).divides) continue;
    cases.push_back(
        {absl::StrCat("pointwise/", row.name, "/", NameOf(dtype), "/by_zero"),
         Kernel::kPointwise,
         {row.op},
         [=](Backend& backend) {
           return RunDivisionByZero(backend, row, dtype);
         }});
  }
  if (IsForBool(row.op)) AddIntCase(row, DType::kBool, 1, cases);
}

}  // namespace

void AddPointwiseCases(CaseList& cases) {
  for (const Row& row : kRows) {
    if (row.types != 'I') AddFloatCases(row, cases);
    if (row.types != 'F') AddIntCases(row, cases);
  }
}

}  // namespace tvarant::conformance

#include "torch_plugin/aten/program_op.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/acosh.h>
#include <ATen/ops/add.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/asinh.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/atanh.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/copysign.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/div.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/fmax.h>
#include <ATen/ops/fmin.h>
#include <ATen/ops/fmod.h>
#include <ATen/ops/frac.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/hypot.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/isneginf.h>
#include <ATen/ops/isposinf.h>
#include <ATen/ops/le.h>
#include <ATen/ops/lgamma.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log10.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/logical_xor.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/round.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/signbit.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinh.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/trunc.h>
#include <ATen/ops/xlogy.h>

#include <algorithm>
#include <array>

#include "torch_plugin/aten/launch.h"

namespace tvarant::torch_plugin {
namespace {

// What a program of this form can do with each op code.
enum class Use : uint8_t { kNone, kSource, kValue, kTest };

bool Validates(PointwiseOp op, int arity, DType result) {
  ProgramBuilder builder;
  const int x = builder.Load(0, DType::kFloat32);
  builder.Op(op, result, x, arity == 2 ? x : -1);
  builder.Store(x);
  return ValidateProgram(builder.program()).empty();
}

Use FindUse(PointwiseOp op) {
  if (op == PointwiseOp::kScalar || op == PointwiseOp::kCast) return Use::kNone;
  const int arity = ArityOf(op);
  if (arity < 0 || arity > 2) return Use::kNone;
  if (arity == 0) return Use::kSource;
  if (Validates(op, arity, DType::kFloat32)) return Use::kValue;
  return Validates(op, arity, DType::kBool) ? Use::kTest : Use::kNone;
}

Use UseOf(int64_t code) {
  static constexpr int64_t kCodes = 256;
  static const std::array<Use, kCodes> uses = [] {
    std::array<Use, kCodes> table{};
    for (size_t i = 0; i < kCodes; ++i) {
      table[i] = FindUse(static_cast<PointwiseOp>(i));
    }
    return table;
  }();
  return code < 0 || code >= kCodes ? Use::kNone
                                    : uses[static_cast<size_t>(code)];
}

bool IsOperand(int64_t value, size_t node) {
  return value >= 0 && static_cast<uint64_t>(value) < node;
}

DType MathType(at::ScalarType type) {
  return type == at::kDouble ? DType::kFloat64 : DType::kFloat32;
}

at::Tensor RunUnary(PointwiseOp op, const at::Tensor& x) {
  switch (op) {
    case PointwiseOp::kIdentity:
      return x;
    case PointwiseOp::kGelu:
      return at::gelu(x);
    case PointwiseOp::kGeluTanh:
      return at::gelu(x, "tanh");
    case PointwiseOp::kRelu:
      return at::relu(x);
    case PointwiseOp::kSilu:
      return at::silu(x);
    case PointwiseOp::kNeg:
      return at::neg(x);
    case PointwiseOp::kSigmoid:
      return at::sigmoid(x);
    case PointwiseOp::kAbs:
      return at::abs(x);
    case PointwiseOp::kSign:
      return at::sign(x);
    case PointwiseOp::kExp:
      return at::exp(x);
    case PointwiseOp::kExp2:
      return at::exp2(x);
    case PointwiseOp::kExpm1:
      return at::expm1(x);
    case PointwiseOp::kLog:
      return at::log(x);
    case PointwiseOp::kLog2:
      return at::log2(x);
    case PointwiseOp::kLog10:
      return at::log10(x);
    case PointwiseOp::kLog1p:
      return at::log1p(x);
    case PointwiseOp::kSqrt:
      return at::sqrt(x);
    case PointwiseOp::kRsqrt:
      return at::rsqrt(x);
    case PointwiseOp::kReciprocal:
      return at::reciprocal(x);
    case PointwiseOp::kSquare:
      return at::square(x);
    case PointwiseOp::kSin:
      return at::sin(x);
    case PointwiseOp::kCos:
      return at::cos(x);
    case PointwiseOp::kTan:
      return at::tan(x);
    case PointwiseOp::kAsin:
      return at::asin(x);
    case PointwiseOp::kAcos:
      return at::acos(x);
    case PointwiseOp::kAtan:
      return at::atan(x);
    case PointwiseOp::kSinh:
      return at::sinh(x);
    case PointwiseOp::kCosh:
      return at::cosh(x);
    case PointwiseOp::kTanh:
      return at::tanh(x);
    case PointwiseOp::kAsinh:
      return at::asinh(x);
    case PointwiseOp::kAcosh:
      return at::acosh(x);
    case PointwiseOp::kAtanh:
      return at::atanh(x);
    case PointwiseOp::kErf:
      return at::erf(x);
    case PointwiseOp::kErfc:
      return at::erfc(x);
    case PointwiseOp::kFloor:
      return at::floor(x);
    case PointwiseOp::kCeil:
      return at::ceil(x);
    case PointwiseOp::kRound:
      return at::round(x);
    case PointwiseOp::kTrunc:
      return at::trunc(x);
    case PointwiseOp::kFrac:
      return at::frac(x);
    case PointwiseOp::kLgamma:
      return at::lgamma(x);
    case PointwiseOp::kLogSigmoid:
      return at::log_sigmoid(x);
    case PointwiseOp::kMish:
      return at::mish(x);
    case PointwiseOp::kHardswish:
      return at::hardswish(x);
    case PointwiseOp::kHardsigmoid:
      return at::hardsigmoid(x);
    case PointwiseOp::kElu:
      return at::elu(x);
    case PointwiseOp::kIsNan:
      return at::isnan(x);
    case PointwiseOp::kIsInf:
      return at::isinf(x);
    case PointwiseOp::kIsFinite:
      return at::isfinite(x);
    case PointwiseOp::kIsPosInf:
      return at::isposinf(x);
    case PointwiseOp::kIsNegInf:
      return at::isneginf(x);
    case PointwiseOp::kSignbit:
      return at::signbit(x);
    case PointwiseOp::kLogicalNot:
      return at::logical_not(x);
    default:
      TORCH_CHECK(false, "tvarant::pointwise: op ", NameOf(op),
                  " has no eager form");
  }
}

at::Tensor RunBinary(PointwiseOp op, const at::Tensor& x, const at::Tensor& y) {
  switch (op) {
    case PointwiseOp::kDivTrunc:
      return at::div(x, y, "trunc");
    case PointwiseOp::kDivFloor:
      return at::div(x, y, "floor");
    case PointwiseOp::kGeluGrad:
      return at::gelu_backward(x, y);
    case PointwiseOp::kGeluTanhGrad:
      return at::gelu_backward(x, y, "tanh");
    case PointwiseOp::kMul:
      return at::mul(x, y);
    case PointwiseOp::kSub:
      return at::sub(x, y);
    case PointwiseOp::kDiv:
      return at::div(x, y);
    case PointwiseOp::kRemainder:
      return at::remainder(x, y);
    case PointwiseOp::kFmod:
      return at::fmod(x, y);
    case PointwiseOp::kPow:
      return at::pow(x, y);
    case PointwiseOp::kMaximum:
      return at::maximum(x, y);
    case PointwiseOp::kMinimum:
      return at::minimum(x, y);
    case PointwiseOp::kFmax:
      return at::fmax(x, y);
    case PointwiseOp::kFmin:
      return at::fmin(x, y);
    case PointwiseOp::kAtan2:
      return at::atan2(x, y);
    case PointwiseOp::kHypot:
      return at::hypot(x, y);
    case PointwiseOp::kCopysign:
      return at::copysign(x, y);
    case PointwiseOp::kXlogy:
      return at::xlogy(x, y);
    case PointwiseOp::kLogaddexp:
      return at::logaddexp(x, y);
    case PointwiseOp::kEq:
      return at::eq(x, y);
    case PointwiseOp::kNe:
      return at::ne(x, y);
    case PointwiseOp::kLt:
      return at::lt(x, y);
    case PointwiseOp::kLe:
      return at::le(x, y);
    case PointwiseOp::kGt:
      return at::gt(x, y);
    case PointwiseOp::kGe:
      return at::ge(x, y);
    case PointwiseOp::kLogicalAnd:
      return at::logical_and(x, y);
    case PointwiseOp::kLogicalOr:
      return at::logical_or(x, y);
    case PointwiseOp::kLogicalXor:
      return at::logical_xor(x, y);
    case PointwiseOp::kSigmoidGrad:
      return at::sigmoid_backward(x, y);
    case PointwiseOp::kTanhGrad:
      return at::tanh_backward(x, y);
    case PointwiseOp::kSiluGrad:
      return at::silu_backward(x, y);
    default:
      TORCH_CHECK(false, "tvarant::pointwise: op ", NameOf(op),
                  " has no eager form");
  }
}

}  // namespace

void CheckProgram(const ProgramArrays& program) {
  const size_t size = program.size();
  TORCH_CHECK(!program.inputs.empty(),
              "tvarant::pointwise: need at least one input");
  TORCH_CHECK(program.a.size() == size && program.b.size() == size &&
                  program.input_ids.size() == size &&
                  program.alphas.size() == size &&
                  program.consts.size() == size,
              "tvarant::pointwise: SSA arrays must all have the same length");
  TORCH_CHECK(size > 0, "tvarant::pointwise: empty program");
  TORCH_CHECK(size <= kMaxProgramNodes / 4, "tvarant::pointwise: ", size,
              " nodes, at most ", kMaxProgramNodes / 4);
  TORCH_CHECK(program.inputs.size() <= kMaxProgramInputs,
              "tvarant::pointwise: ", program.inputs.size(),
              " inputs, at most ", kMaxProgramInputs);
  const at::Tensor& first = program.inputs.front();
  TORCH_CHECK(at::isFloatingType(first.scalar_type()) &&
                  ToDType(first.scalar_type()) != DType::kInvalid,
              "tvarant::pointwise: inputs must have a float type, got ",
              first.scalar_type());
  for (const at::Tensor& input : program.inputs) {
    TORCH_CHECK(input.device() == first.device(),
                "tvarant::pointwise: expected all tensors to be on the same "
                "device, but found ",
                first.device(), " and ", input.device());
    TORCH_CHECK(input.scalar_type() == first.scalar_type(),
                "tvarant::pointwise: inputs must have the same dtype, got ",
                first.scalar_type(), " and ", input.scalar_type());
  }
  for (size_t i = 0; i < size; ++i) {
    TORCH_CHECK(UseOf(program.ops[i]) != Use::kNone,
                "tvarant::pointwise: unknown pointwise op ", program.ops[i],
                " in node ", i);
    const PointwiseOp op = program.op(i);
    if (op == PointwiseOp::kLoad) {
      TORCH_CHECK(program.input_ids[i] >= 0 &&
                      static_cast<uint64_t>(program.input_ids[i]) <
                          program.inputs.size(),
                  "tvarant::pointwise: Load input_id out of range: ",
                  program.input_ids[i], " in node ", i);
    }
    const int arity = ArityOf(op);
    TORCH_CHECK(arity < 1 || IsOperand(program.a[i], i),
                "tvarant::pointwise: a is no earlier value: ", program.a[i],
                " in node ", i);
    TORCH_CHECK(arity < 2 || IsOperand(program.b[i], i),
                "tvarant::pointwise: b is no earlier value: ", program.b[i],
                " in node ", i);
  }
}

Program BuildProgram(const ProgramArrays& program,
                     std::vector<double>* floats) {
  const DType type = MathType(program.inputs.front().scalar_type());
  ProgramBuilder builder;
  std::vector<int> values;
  values.reserve(program.size());
  const auto number = [&](double value) {
    if (floats->size() >= kMaxProgramScalars) return builder.Const(value, type);
    floats->push_back(value);
    return builder.Scalar(static_cast<int>(floats->size()) - 1, type);
  };
  const auto value_of = [&](int64_t index) {
    return index < 0 ? -1 : values[static_cast<size_t>(index)];
  };
  for (size_t i = 0; i < program.size(); ++i) {
    const PointwiseOp op = program.op(i);
    const int arity = ArityOf(op);
    const int x = arity > 0 ? value_of(program.a[i]) : -1;
    const int y = arity > 1 ? value_of(program.b[i]) : -1;
    const double alpha = program.alphas[i];
    switch (op) {
      case PointwiseOp::kLoad:
        values.push_back(
            builder.Load(static_cast<int>(program.input_ids[i]), type));
        break;
      case PointwiseOp::kConst:
        values.push_back(number(program.consts[i]));
        break;
      case PointwiseOp::kScale:
        values.push_back(builder.Op(PointwiseOp::kMul, type, x, number(alpha)));
        break;
      case PointwiseOp::kAdd: {
        const int scaled = alpha == 1.0 ? y
                                        : builder.Op(PointwiseOp::kMul, type, y,
                                                     number(alpha));
        values.push_back(builder.Op(op, type, x, scaled));
        break;
      }
      default:
        if (UseOf(program.ops[i]) == Use::kTest) {
          const int test = builder.Op(op, DType::kBool, x, y);
          values.push_back(builder.Op(PointwiseOp::kCast, type, test));
        } else {
          values.push_back(builder.Op(op, type, x, y));
        }
    }
  }
  builder.Store(values.back());
  return std::move(builder).Build();
}

at::Tensor RunEagerly(const ProgramArrays& program) {
  const at::Tensor& first = program.inputs.front();
  std::vector<at::Tensor> values;
  values.reserve(program.size());
  for (size_t i = 0; i < program.size(); ++i) {
    const PointwiseOp op = program.op(i);
    const int arity = ArityOf(op);
    const auto operand = [&](int64_t index) -> const at::Tensor& {
      return values[static_cast<size_t>(index)];
    };
    at::Tensor value;
    switch (op) {
      case PointwiseOp::kLoad:
        value = program.inputs[static_cast<size_t>(program.input_ids[i])];
        break;
      case PointwiseOp::kConst:
        value = at::full({}, program.consts[i], first.options());
        break;
      case PointwiseOp::kScale:
        value = at::mul(operand(program.a[i]), program.alphas[i]);
        break;
      case PointwiseOp::kAdd:
        value = at::add(operand(program.a[i]), operand(program.b[i]),
                        program.alphas[i]);
        break;
      default:
        value = arity == 1 ? RunUnary(op, operand(program.a[i]))
                           : RunBinary(op, operand(program.a[i]),
                                       operand(program.b[i]));
    }
    if (value.scalar_type() != first.scalar_type()) {
      value = value.to(first.scalar_type());
    }
    values.push_back(std::move(value));
  }
  at::Tensor result = values.back();
  // The result has the shape of all inputs broadcast, and is new memory.
  c10::SymDimVector sizes(first.sym_sizes().begin(), first.sym_sizes().end());
  for (const at::Tensor& input : program.inputs.slice(1)) {
    sizes = at::infer_size_symdimvector(sizes, input.sym_sizes());
  }
  if (result.sym_sizes() != c10::SymIntArrayRef(sizes)) {
    result = result.expand_symint(sizes);
  }
  for (const at::Tensor& input : program.inputs) {
    if (result.is_alias_of(input)) return result.clone();
  }
  return result.is_non_overlapping_and_dense() ? result : result.clone();
}

}  // namespace tvarant::torch_plugin

#include "proto/ops/program.h"

#include <algorithm>
#include <cstdio>

namespace tvarant {
namespace {

// What the columns of pointwise_ops.inc allow.
constexpr unsigned kTypesF = 1, kTypesI = 2, kTypesN = 3;
constexpr bool kResultIsBoolS = false, kResultIsBoolB = true;

struct OpInfo {
  int arity = -1;
  unsigned types = 0;
  bool result_is_bool = false;
};

OpInfo InfoOf(PointwiseOp op) {
  switch (op) {
#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  case PointwiseOp::k##Name:                                               \
    return {arity, kTypes##types, kResultIsBool##result};
#include "proto/ops/pointwise_ops.inc"
    default:
      return {};
  }
}

unsigned TypeBit(DType dtype) { return IsFloating(dtype) ? kTypesF : kTypesI; }

std::string NodeError(size_t index, PointwiseOp op, const char* what) {
  char text[160];
  std::snprintf(text, sizeof(text), "pointwise program: node %zu (%s): %s",
                index, NameOf(op), what);
  return text;
}

std::string ValidateNode(const Program& program, size_t i) {
  const ProgramNode& node = program.nodes[i];
  const OpInfo info = InfoOf(node.op);
  if (info.arity < 0) return NodeError(i, node.op, "op is not known");
  if (ComputeClassOf(node.dtype) == ComputeClass::kNone) {
    return NodeError(i, node.op, "dtype can't be computed with");
  }
  if (node.reserved != 0 || node.reserved2 != 0) {
    return NodeError(i, node.op, "reserved fields are not 0");
  }
  const int16_t operands[3] = {node.a, node.b, node.c};
  for (int k = 0; k < 3; ++k) {
    if (k >= info.arity) {
      if (operands[k] != -1) return NodeError(i, node.op, "unused operand set");
    } else if (operands[k] < 0 || static_cast<size_t>(operands[k]) >= i) {
      return NodeError(i, node.op, "operand is not an earlier value");
    }
  }
  auto type_of = [&](int value) { return program.nodes[value].dtype; };
  auto same_class = [&](DType x, DType y) {
    return ComputeClassOf(x) == ComputeClassOf(y);
  };
  switch (node.op) {
    case PointwiseOp::kLoad:
      if (node.index >= kMaxProgramInputs) {
        return NodeError(i, node.op, "input index is too large");
      }
      return "";
    case PointwiseOp::kScalar:
      if (node.index >= kMaxProgramScalars) {
        return NodeError(i, node.op, "scalar index is too large");
      }
      return "";
    case PointwiseOp::kConst:
    case PointwiseOp::kCast:
      return "";
    case PointwiseOp::kWhere:
      if (ComputeClassOf(type_of(node.a)) != ComputeClass::kI32) {
        return NodeError(i, node.op, "condition is not bool");
      }
      if (!same_class(type_of(node.b), node.dtype) ||
          !same_class(type_of(node.c), node.dtype)) {
        return NodeError(i, node.op, "operands have another dtype");
      }
      return "";
    default:
      break;
  }
  const DType operand_type = type_of(node.a);
  if ((info.types & TypeBit(operand_type)) == 0) {
    return NodeError(i, node.op, "dtype is not supported by the op");
  }
  for (int k = 1; k < info.arity; ++k) {
    if (!same_class(type_of(operands[k]), operand_type)) {
      return NodeError(i, node.op, "operands differ in dtype");
    }
  }
  if (info.result_is_bool ? node.dtype != DType::kBool
                          : !same_class(node.dtype, operand_type)) {
    return NodeError(i, node.op, "result has the wrong dtype");
  }
  return "";
}

}  // namespace

int ArityOf(PointwiseOp op) { return InfoOf(op).arity; }

int Program::num_inputs() const {
  int count = 0;
  for (const ProgramNode& node : nodes) {
    if (node.op == PointwiseOp::kLoad) count = std::max(count, node.index + 1);
  }
  return count;
}

int Program::num_float_scalars() const {
  int count = 0;
  for (const ProgramNode& node : nodes) {
    if (node.op == PointwiseOp::kScalar && IsFloating(node.dtype)) {
      count = std::max(count, node.index + 1);
    }
  }
  return count;
}

int Program::num_int_scalars() const {
  int count = 0;
  for (const ProgramNode& node : nodes) {
    if (node.op == PointwiseOp::kScalar && !IsFloating(node.dtype)) {
      count = std::max(count, node.index + 1);
    }
  }
  return count;
}

std::string Program::Serialize() const {
  const uint32_t counts[2] = {static_cast<uint32_t>(nodes.size()),
                              static_cast<uint32_t>(stores.size())};
  std::string bytes(reinterpret_cast<const char*>(counts), sizeof(counts));
  bytes.append(reinterpret_cast<const char*>(nodes.data()),
               nodes.size() * sizeof(ProgramNode));
  bytes.append(reinterpret_cast<const char*>(stores.data()),
               stores.size() * sizeof(uint16_t));
  return bytes;
}

bool Program::Parse(const char* data, size_t size, Program* out) {
  uint32_t counts[2];
  if (size < sizeof(counts)) return false;
  std::memcpy(counts, data, sizeof(counts));
  if (counts[0] > kMaxProgramNodes || counts[1] > kMaxProgramOutputs) {
    return false;
  }
  const size_t node_bytes = counts[0] * sizeof(ProgramNode);
  if (size != sizeof(counts) + node_bytes + counts[1] * sizeof(uint16_t)) {
    return false;
  }
  out->nodes.resize(counts[0]);
  out->stores.resize(counts[1]);
  if (node_bytes > 0) {
    std::memcpy(static_cast<void*>(out->nodes.data()), data + sizeof(counts),
                node_bytes);
  }
  if (counts[1] > 0) {
    std::memcpy(out->stores.data(), data + sizeof(counts) + node_bytes,
                counts[1] * sizeof(uint16_t));
  }
  return true;
}

std::string ValidateProgram(const Program& program) {
  if (program.nodes.empty() || program.stores.empty()) {
    return "pointwise program: empty program";
  }
  if (program.nodes.size() > kMaxProgramNodes ||
      program.stores.size() > kMaxProgramOutputs) {
    return "pointwise program: too many nodes or outputs";
  }
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    std::string error = ValidateNode(program, i);
    if (!error.empty()) return error;
  }
  for (uint16_t value : program.stores) {
    if (value >= program.nodes.size()) {
      return "pointwise program: a stored value does not exist";
    }
  }
  return "";
}

}  // namespace tvarant

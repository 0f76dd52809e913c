// Pointwise programs: straight-line SSA code run over every element.
//
// A program is a list of nodes; node i defines value i from earlier values.
// Loads read the launch's inputs, stores write chosen values to its outputs.
// All pointwise work is such a program: an eager op has one arithmetic node,
// the compiler makes long ones.
//
// Example: y = relu(a) * b + 1
//   ProgramBuilder p;
//   int a = p.Load(0, DType::kFloat32), b = p.Load(1, DType::kFloat32);
//   int r = p.Op(PointwiseOp::kRelu, DType::kFloat32, a);
//   int m = p.Op(PointwiseOp::kMul, DType::kFloat32, r, b);
//   int y = p.Op(PointwiseOp::kAdd, DType::kFloat32, m,
//                p.Const(1.0, DType::kFloat32));
//   p.Store(y);
//
// Plain C++; shared by client, daemon and plugin. ValidateProgram (program.cc)
// is the one check; the daemon calls it on what a client sent.

#ifndef TVARANT_PROTO_OPS_PROGRAM_H_
#define TVARANT_PROTO_OPS_PROGRAM_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "proto/base/dtype.h"
#include "proto/ops/op_ids.h"

namespace tvarant {

inline constexpr int kMaxProgramNodes = 512;
inline constexpr int kMaxProgramInputs = 64;
inline constexpr int kMaxProgramOutputs = 16;
inline constexpr int kMaxProgramScalars = 64;

// One value. 24 bytes, little endian on the wire as it stands here.
struct ProgramNode {
  PointwiseOp op = PointwiseOp::kLoad;
  DType dtype = DType::kInvalid;  // type of the value
  uint8_t reserved = 0;           // 0
  int16_t a = -1;                 // operands: earlier values, -1 unused
  int16_t b = -1;
  int16_t c = -1;
  uint16_t index = 0;  // kLoad: input; kScalar: index in floats or ints
  uint32_t reserved2 = 0;
  // kConst: the constant. kAdd, kScale, kAddcmul, kAddcdiv: alpha. Bits of a
  // double for float dtypes, of an int64 else.
  uint64_t immediate = 0;

  double immediate_double() const {
    double value;
    std::memcpy(&value, &immediate, sizeof(value));
    return value;
  }
  int64_t immediate_int() const { return static_cast<int64_t>(immediate); }
};
static_assert(sizeof(ProgramNode) == 24);

struct Program {
  std::vector<ProgramNode> nodes;
  std::vector<uint16_t> stores;  // stores[i]: value written to output i

  // Inputs, float scalars and int scalars a launch must bring: one more than
  // the highest index used.
  int num_inputs() const;
  int num_float_scalars() const;
  int num_int_scalars() const;

  // The bytes that stand on the wire and identify the program.
  std::string Serialize() const;
  // False if the bytes are no program at all (sizes); call ValidateProgram
  // for the meaning.
  static bool Parse(const char* data, size_t size, Program* out);
};

// Empty if the program may be run; else one sentence naming node and fault:
// limits, order of values, dtypes each op allows, unknown ops.
std::string ValidateProgram(const Program& program);

// Number of value operands of an op; -1 for an unknown op.
int ArityOf(PointwiseOp op);

// Builds a program. Thread-compatible. Values are indices of nodes.
class ProgramBuilder {
 public:
  int Load(int input, DType dtype) {
    ProgramNode node{.op = PointwiseOp::kLoad, .dtype = dtype};
    node.index = static_cast<uint16_t>(input);
    return Append(node);
  }
  int Scalar(int index, DType dtype) {
    ProgramNode node{.op = PointwiseOp::kScalar, .dtype = dtype};
    node.index = static_cast<uint16_t>(index);
    return Append(node);
  }
  // A constant of a float dtype, or of an integral one.
  int Const(double value, DType dtype) {
    ProgramNode node{.op = PointwiseOp::kConst, .dtype = dtype};
    SetImmediate(&node, value, static_cast<int64_t>(value));
    return Append(node);
  }
  int ConstInt(int64_t value, DType dtype) {
    ProgramNode node{.op = PointwiseOp::kConst, .dtype = dtype};
    SetImmediate(&node, static_cast<double>(value), value);
    return Append(node);
  }
  // alpha is used by kAdd, kScale, kAddcmul and kAddcdiv.
  int Op(PointwiseOp op, DType dtype, int a, int b = -1, int c = -1,
         double alpha = 1.0) {
    ProgramNode node{.op = op, .dtype = dtype};
    node.a = static_cast<int16_t>(a);
    node.b = static_cast<int16_t>(b);
    node.c = static_cast<int16_t>(c);
    if (op == PointwiseOp::kAdd || op == PointwiseOp::kScale ||
        op == PointwiseOp::kAddcmul || op == PointwiseOp::kAddcdiv) {
      SetImmediate(&node, alpha, static_cast<int64_t>(alpha));
    }
    return Append(node);
  }
  // The next output is this value. Converted to the output's dtype on store.
  void Store(int value) {
    program_.stores.push_back(static_cast<uint16_t>(value));
  }
  const Program& program() const { return program_; }
  Program Build() && { return static_cast<Program&&>(program_); }

 private:
  static void SetImmediate(ProgramNode* node, double real, int64_t integer) {
    if (IsFloating(node->dtype)) {
      std::memcpy(&node->immediate, &real, sizeof(real));
    } else {
      node->immediate = static_cast<uint64_t>(integer);
    }
  }
  int Append(const ProgramNode& node) {
    program_.nodes.push_back(node);
    return static_cast<int>(program_.nodes.size()) - 1;
  }
  Program program_;
};

}  // namespace tvarant

#endif  // TVARANT_PROTO_OPS_PROGRAM_H_

// Element-wise ops: from a TensorIterator to a launched program.
//
// An op is an emitter: a function that writes its program for given types.
// RunPointwise takes shapes, strides and types from the iterator (whose loops
// never run), asks the emitter once for each combination of types and keeps
// the program's handle. Numbers (op parameters, 0-dim CPU operands) travel as
// launch scalars, so that a new number needs neither upload nor program.
//
// Example:
//   int EmitLeakyRelu(Emitter& e) {
//     const int x = e.In(0);
//     return e.Select(e.Test(PointwiseOp::kGt, x, e.Const(0)), x,
//                     e.Op(PointwiseOp::kMul, x, e.Scalar(0)));
//   }
//   RunPointwise(iter, EmitLeakyRelu, {negative_slope});

#ifndef TVARANT_TORCH_PLUGIN_ATEN_POINTWISE_H_
#define TVARANT_TORCH_PLUGIN_ATEN_POINTWISE_H_

#include <array>
#include <cstdint>
#include <optional>

#include "proto/ops/program.h"
#include "torch_plugin/aten/launch.h"
#include "torch_plugin/aten/op_support.h"

namespace tvarant::torch_plugin {

inline constexpr int kMaxPointwiseOperands = 7;  // the output and inputs
inline constexpr int kMaxPointwiseScalars = 8;   // op parameters

class Emitter;
using EmitFn = int (*)(Emitter& emitter);

// What a program depends on. Two equal keys have the same program.
struct PointwiseKey {
  EmitFn emit = nullptr;
  DType type = DType::kInvalid;  // the type that the op computes in
  uint8_t num_operands = 0;      // operand 0 is the output
  uint8_t num_parameters = 0;    // op parameters
  uint8_t host_mask = 0;         // bit i: operand i is a number from the host
  uint8_t unused = 0;
  std::array<DType, kMaxPointwiseOperands + 1> dtypes{};

  bool operator==(const PointwiseKey&) const = default;
};

// Writes the program of one key. Values are indices of nodes.
class Emitter {
 public:
  explicit Emitter(const PointwiseKey& key);

  // The type that the op computes in: PyTorch's common type.
  DType type() const { return key_.type; }
  bool is_bool() const { return key_.type == DType::kBool; }
  bool is_floating() const { return IsFloating(key_.type); }
  ScalarType scalar_type() const { return ToScalarType(key_.type); }
  DType input_type(int index) const {
    return key_.dtypes[static_cast<size_t>(1 + index)];
  }

  // Input `index` converted to type(); InRaw: in its own type.
  int In(int index);
  int InRaw(int index);
  // As In; a number from the host is rounded to type(), as comparisons want:
  // x == 0.1 asks for the half nearest to 0.1.
  int InRounded(int index);
  // The op's parameter `index`.
  int Scalar(int index);
  int Const(double value);

  // An op whose result has the computing type.
  int Op(PointwiseOp op, int a, int b = -1, int c = -1);
  // An op whose result is true or false.
  int Test(PointwiseOp op, int a, int b = -1);
  int Not(int condition) { return Test(PointwiseOp::kLogicalNot, condition); }
  int Select(int condition, int if_true, int if_false) {
    return Op(PointwiseOp::kWhere, condition, if_true, if_false);
  }
  int Cast(int value, DType type) {
    return builder_.Op(PointwiseOp::kCast, type, value);
  }

  // Shorthands of the most used.
  int Add(int a, int b) { return Op(PointwiseOp::kAdd, a, b); }
  int Sub(int a, int b) { return Op(PointwiseOp::kSub, a, b); }
  int Mul(int a, int b) { return Op(PointwiseOp::kMul, a, b); }
  int Div(int a, int b) { return Op(PointwiseOp::kDiv, a, b); }

  // Stores the result as PyTorch does: rounded to type() first where the
  // output is wider. Ends the program.
  Program Finish(int result) &&;

 private:
  PointwiseKey key_;
  DType math_;  // type(), float32 for the half types
  ProgramBuilder builder_;
  std::array<int, kMaxPointwiseOperands> loaded_;
};

// Parameters of an op; all real.
using Parameters = at::ArrayRef<at::Scalar>;

// Runs emit over the iterator's operands. The computing type is the
// iterator's common type unless given.
void RunPointwise(at::TensorIteratorBase& iter, EmitFn emit,
                  Parameters parameters = {},
                  std::optional<ScalarType> type = std::nullopt);

// A defined program, with the operands and scalars that a launch brings: an op
// may ignore its last inputs.
struct PointwiseProgram {
  uint64_t handle = 0;
  int num_inputs = 0;
  int num_floats = 0;
  int num_ints = 0;
};
PointwiseProgram FindProgram(Device& device, const PointwiseKey& key);

// --- Fast paths ----------------------------------------------------------
// For the hot ops: operands of one type and shape, all contiguous, or one a
// Python number. They skip the iterator; false or an undefined tensor means
// that the call needs it.

// out = emit(self)
Tensor FastUnary(EmitFn emit, const Tensor& self);
bool FastUnaryInto(EmitFn emit, const Tensor& self, const Tensor& out);
// out = emit(self, other), computed in self's type.
Tensor FastBinary(EmitFn emit, const Tensor& self, const Tensor& other);
bool FastBinaryInto(EmitFn emit, const Tensor& self, const Tensor& other,
                    const Tensor& out);

// Emitters of the ops that are one row of the table.
template <PointwiseOp op>
int EmitUnary(Emitter& e) {
  return e.Op(op, e.In(0));
}
template <PointwiseOp op>
int EmitBinary(Emitter& e) {
  return e.Op(op, e.In(0), e.In(1));
}
template <PointwiseOp op>
int EmitUnaryTest(Emitter& e) {
  return e.Test(op, e.In(0));
}
template <PointwiseOp op>
int EmitBinaryTest(Emitter& e) {
  return e.Test(op, e.InRounded(0), e.InRounded(1));
}

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_POINTWISE_H_

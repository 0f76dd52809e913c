#include "proto/ops/program.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace tvarant {
namespace {

Program ReluTimesBPlusOne() {
  ProgramBuilder p;
  const int a = p.Load(0, DType::kFloat32);
  const int b = p.Load(1, DType::kFloat32);
  const int relu = p.Op(PointwiseOp::kRelu, DType::kFloat32, a);
  const int product = p.Op(PointwiseOp::kMul, DType::kFloat32, relu, b);
  p.Store(p.Op(PointwiseOp::kAdd, DType::kFloat32, product,
               p.Const(1.0, DType::kFloat32)));
  return std::move(p).Build();
}

// One op on loads of one dtype.
Program OneOp(PointwiseOp op, DType dtype, DType result) {
  ProgramBuilder p;
  int values[3] = {-1, -1, -1};
  for (int i = 0; i < ArityOf(op); ++i) values[i] = p.Load(i, dtype);
  p.Store(p.Op(op, result, values[0], values[1], values[2]));
  return std::move(p).Build();
}

TEST(ProgramTest, AcceptsAGoodProgram) {
  const Program program = ReluTimesBPlusOne();
  EXPECT_EQ(ValidateProgram(program), "");
  EXPECT_EQ(program.num_inputs(), 2);
  EXPECT_EQ(program.num_float_scalars(), 0);
  EXPECT_EQ(program.num_int_scalars(), 0);
}

TEST(ProgramTest, CountsScalarsByKind) {
  ProgramBuilder p;
  p.Scalar(2, DType::kFloat64);
  p.Scalar(4, DType::kInt32);
  p.Store(p.Scalar(0, DType::kFloat32));
  EXPECT_EQ(ValidateProgram(p.program()), "");
  EXPECT_EQ(p.program().num_inputs(), 0);
  EXPECT_EQ(p.program().num_float_scalars(), 3);
  EXPECT_EQ(p.program().num_int_scalars(), 5);
}

TEST(ProgramTest, ComesBackFromItsBytes) {
  const Program program = ReluTimesBPlusOne();
  const std::string bytes = program.Serialize();
  Program read;
  ASSERT_TRUE(Program::Parse(bytes.data(), bytes.size(), &read));
  EXPECT_EQ(read.Serialize(), bytes);
  EXPECT_EQ(ValidateProgram(read), "");
  EXPECT_EQ(read.stores, program.stores);
  ASSERT_EQ(read.nodes.size(), program.nodes.size());
  EXPECT_EQ(read.nodes[4].immediate_double(), 1.0);
}

TEST(ProgramTest, KnowsEveryRowOfTheTable) {
#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  EXPECT_EQ(ArityOf(PointwiseOp::k##Name), arity) << #name;                \
  EXPECT_STREQ(NameOf(PointwiseOp::k##Name), #name);                       \
  EXPECT_EQ(static_cast<int>(PointwiseOp::k##Name), code);
#include "proto/ops/pointwise_ops.inc"
  EXPECT_EQ(ArityOf(static_cast<PointwiseOp>(9999)), -1);
}

TEST(ProgramTest, AllowsTheTypesOfTheTable) {
  // Class F refuses integers, I refuses floats, B gives bool.
  EXPECT_EQ(ValidateProgram(
                OneOp(PointwiseOp::kExp, DType::kFloat16, DType::kFloat16)),
            "");
  EXPECT_NE(
      ValidateProgram(OneOp(PointwiseOp::kExp, DType::kInt32, DType::kInt32)),
      "");
  EXPECT_EQ(ValidateProgram(
                OneOp(PointwiseOp::kBitAnd, DType::kInt64, DType::kInt64)),
            "");
  EXPECT_NE(ValidateProgram(
                OneOp(PointwiseOp::kBitAnd, DType::kFloat32, DType::kFloat32)),
            "");
  EXPECT_EQ(
      ValidateProgram(OneOp(PointwiseOp::kLt, DType::kFloat64, DType::kBool)),
      "");
  EXPECT_NE(ValidateProgram(
                OneOp(PointwiseOp::kLt, DType::kFloat64, DType::kFloat64)),
            "");
  EXPECT_NE(ValidateProgram(
                OneOp(PointwiseOp::kAdd, DType::kFloat32, DType::kFloat64)),
            "");
  EXPECT_NE(ValidateProgram(
                OneOp(PointwiseOp::kAdd, DType::kComplex64, DType::kComplex64)),
            "");
}

TEST(ProgramTest, WhereWantsABoolCondition) {
  ProgramBuilder good;
  const int condition = good.Load(0, DType::kBool);
  const int b = good.Load(1, DType::kFloat64);
  good.Store(good.Op(PointwiseOp::kWhere, DType::kFloat64, condition, b, b));
  EXPECT_EQ(ValidateProgram(good.program()), "");
  EXPECT_NE(ValidateProgram(
                OneOp(PointwiseOp::kWhere, DType::kFloat32, DType::kFloat32)),
            "");
}

TEST(ProgramTest, NamesNodeAndFault) {
  Program program = ReluTimesBPlusOne();
  program.nodes[2].a = 2;
  EXPECT_EQ(ValidateProgram(program),
            "pointwise program: node 2 (relu): operand is not an earlier "
            "value");
  program = ReluTimesBPlusOne();
  program.nodes[3].b = -1;
  EXPECT_EQ(ValidateProgram(program),
            "pointwise program: node 3 (mul): operand is not an earlier "
            "value");
  program = ReluTimesBPlusOne();
  program.nodes[2].b = 0;
  EXPECT_EQ(ValidateProgram(program),
            "pointwise program: node 2 (relu): unused operand set");
  program = ReluTimesBPlusOne();
  program.nodes[2].op = static_cast<PointwiseOp>(12345);
  EXPECT_EQ(ValidateProgram(program),
            "pointwise program: node 2 (unknown): op is not known");
  program = ReluTimesBPlusOne();
  program.nodes[0].index = kMaxProgramInputs;
  EXPECT_EQ(ValidateProgram(program),
            "pointwise program: node 0 (load): input index is too large");
  program = ReluTimesBPlusOne();
  program.nodes[1].reserved2 = 1;
  EXPECT_EQ(ValidateProgram(program),
            "pointwise program: node 1 (load): reserved fields are not 0");
  program = ReluTimesBPlusOne();
  program.stores[0] = 6;
  EXPECT_EQ(ValidateProgram(program),
            "pointwise program: a stored value does not exist");
}

TEST(ProgramTest, HasLimits) {
  Program program = ReluTimesBPlusOne();
  program.stores.assign(kMaxProgramOutputs, 0);
  EXPECT_EQ(ValidateProgram(program), "");
  program.stores.push_back(0);
  EXPECT_NE(ValidateProgram(program), "");
  program = ReluTimesBPlusOne();
  program.nodes.resize(kMaxProgramNodes + 1, program.nodes[0]);
  EXPECT_NE(ValidateProgram(program), "");
  EXPECT_NE(ValidateProgram(Program{}), "");
  program = ReluTimesBPlusOne();
  program.stores.clear();
  EXPECT_NE(ValidateProgram(program), "");
}

TEST(ProgramTest, RefusesBytesOfAnotherSize) {
  const std::string bytes = ReluTimesBPlusOne().Serialize();
  Program program;
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Program::Parse(bytes.data(), size, &program)) << size;
  }
  const std::string longer = bytes + std::string(2, '\0');
  EXPECT_FALSE(Program::Parse(longer.data(), longer.size(), &program));
  std::string counts = bytes;
  counts[3] = '\x7f';  // 2^30 nodes and more
  EXPECT_FALSE(Program::Parse(counts.data(), counts.size(), &program));
  counts = bytes;
  counts[7] = '\xff';
  EXPECT_FALSE(Program::Parse(counts.data(), counts.size(), &program));
}

TEST(ProgramTest, EveryChangedByteIsSafe) {
  const std::string bytes = ReluTimesBPlusOne().Serialize();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(value);
      Program program;
      if (!Program::Parse(changed.data(), changed.size(), &program)) continue;
      if (!ValidateProgram(program).empty()) continue;
      // What an evaluator relies on.
      for (size_t i = 0; i < program.nodes.size(); ++i) {
        const ProgramNode& node = program.nodes[i];
        const int arity = ArityOf(node.op);
        ASSERT_GE(arity, 0);
        const int operands[3] = {node.a, node.b, node.c};
        for (int k = 0; k < arity; ++k) {
          ASSERT_GE(operands[k], 0);
          ASSERT_LT(operands[k], static_cast<int>(i));
        }
      }
      for (const uint16_t value_index : program.stores) {
        ASSERT_LT(value_index, program.nodes.size());
      }
    }
  }
}

}  // namespace
}  // namespace tvarant

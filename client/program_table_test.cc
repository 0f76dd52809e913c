#include "client/program_table.h"

#include "gtest/gtest.h"
#include "proto/ops/program.h"

namespace tvarant::client {
namespace {

Program Scaled(double factor) {
  ProgramBuilder builder;
  const int x = builder.Load(0, DType::kFloat32);
  const int c = builder.Const(factor, DType::kFloat32);
  builder.Store(builder.Op(PointwiseOp::kMul, DType::kFloat32, x, c));
  return std::move(builder).Build();
}

TEST(ProgramTableTest, SameContentSameHandle) {
  ProgramTable table(0);
  const uint64_t two = table.Define(Scaled(2)).value();
  const uint64_t three = table.Define(Scaled(3)).value();
  EXPECT_NE(two, three);
  EXPECT_EQ(table.Define(Scaled(2)).value(), two);
  EXPECT_EQ(table.IndexOf(two), 0);
  EXPECT_EQ(table.IndexOf(three), 1);
  EXPECT_EQ(table.Serialized(1), Scaled(3).Serialize());
}

TEST(ProgramTableTest, ForeignHandles) {
  ProgramTable table(0);
  (void)table.Define(Scaled(2));
  for (const uint64_t handle : {uint64_t{0}, uint64_t{1}, kProgramHandleBit,
                                kProgramHandleBit | 2, ~uint64_t{0}}) {
    EXPECT_EQ(table.IndexOf(handle), -1) << handle;
  }
}

TEST(ProgramTableTest, LimitsAndFaults) {
  ProgramTable table(2);
  EXPECT_TRUE(table.Define(Scaled(1)).ok());
  EXPECT_TRUE(table.Define(Scaled(2)).ok());
  EXPECT_EQ(table.Define(Scaled(3)).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(table.Define(Scaled(1)).ok());
  Program bad = Scaled(4);
  bad.nodes[2].a = 2;  // itself
  EXPECT_EQ(table.Define(bad).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(table.Define(Program()).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tvarant::client

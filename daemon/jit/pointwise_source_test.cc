#include "daemon/jit/pointwise_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tvarant::opencl {
namespace {

using testing::HasSubstr;
using testing::Not;

// y = a + alpha * 3 in the given type.
Program Affine(DType dtype, double alpha, double constant) {
  ProgramBuilder builder;
  const int a = builder.Load(0, dtype);
  const int c = builder.Const(constant, dtype);
  builder.Store(builder.Op(PointwiseOp::kAdd, dtype, a, c, -1, alpha));
  return std::move(builder).Build();
}

PointwiseShape Dense(DType dtype) {
  PointwiseShape shape;
  shape.vector = 4;
  shape.dst = {{dtype, Walk::kDense}};
  shape.src = {{dtype, Walk::kDense}};
  return shape;
}

TEST(PointwiseSourceTest, ValuesAreArguments) {
  const Program one = Affine(DType::kFloat32, 2.5, 0.1);
  const Program two = Affine(DType::kFloat32, 7.25, 1e30);
  EXPECT_EQ(StructureOf(one), StructureOf(two));
  const auto shape = Dense(DType::kFloat32);
  const auto kernel = MakePointwise(one, shape, true);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->source, MakePointwise(two, shape, true)->source);
  ASSERT_EQ(kernel->constants.size(), 2u);
  EXPECT_EQ(kernel->constants[0].node, 1);
  EXPECT_EQ(kernel->constants[1].node, 2);
}

TEST(PointwiseSourceTest, AnAlphaOfOneCostsNothing) {
  const Program plain = Affine(DType::kFloat32, 1, 3);
  EXPECT_NE(StructureOf(plain), StructureOf(Affine(DType::kFloat32, 2, 3)));
  EXPECT_EQ(
      MakePointwise(plain, Dense(DType::kFloat32), true)->constants.size(), 1u);
}

TEST(PointwiseSourceTest, OnlyDivisionOfIntegersLooksForZeros) {
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kFloat32}) {
    ProgramBuilder builder;
    const int a = builder.Load(0, dtype), b = builder.Load(1, dtype);
    builder.Store(builder.Op(PointwiseOp::kDivFloor, dtype, a, b));
    PointwiseShape shape = Dense(dtype);
    shape.src.push_back({dtype, Walk::kUniform});
    const auto kernel = MakePointwise(builder.program(), shape, true);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_EQ(kernel->checks_zero, dtype != DType::kFloat32);
  }
}

TEST(PointwiseSourceTest, DoubleNeedsTheDevice) {
  const Program program = Affine(DType::kFloat64, 1, 3);
  EXPECT_TRUE(MakePointwise(program, Dense(DType::kFloat64), true).ok());
  EXPECT_EQ(
      MakePointwise(program, Dense(DType::kFloat64), false).status().code(),
      absl::StatusCode::kUnimplemented);
}

TEST(PointwiseSourceTest, IndexIsWideOnlyWhereNeeded) {
  const Program program = Affine(DType::kFloat32, 1, 3);
  PointwiseShape shape = Dense(DType::kFloat32);
  EXPECT_THAT(MakePointwise(program, shape, true)->source,
              HasSubstr("typedef int IDX"));
  shape.wide_index = true;
  EXPECT_THAT(MakePointwise(program, shape, true)->source,
              HasSubstr("typedef long IDX"));
}

// Each expression of the op table is used with the words of math.cl.
TEST(PointwiseSourceTest, ExpressionsAreSpecialised) {
  ProgramBuilder builder;
  const int a = builder.Load(0, DType::kFloat32);
  builder.Store(builder.Op(PointwiseOp::kGelu, DType::kFloat32, a));
  const auto kernel =
      MakePointwise(builder.program(), Dense(DType::kFloat32), true);
  ASSERT_TRUE(kernel.ok());
  EXPECT_THAT(kernel->source, HasSubstr("fn_erf_f(a * T_f(0.707"));
  EXPECT_THAT(kernel->source, Not(HasSubstr(" T(")));
}

absl::StatusOr<PointwiseKernel> OneOp(PointwiseOp op, bool has_double) {
  ProgramBuilder builder;
  builder.Store(
      builder.Op(op, DType::kFloat32, builder.Load(0, DType::kFloat32)));
  return MakePointwise(builder.program(), Dense(DType::kFloat32), has_double);
}

// Compilers are slow: a program has the special functions that it needs.
TEST(PointwiseSourceTest, SpecialFunctionsComeWhenNeeded) {
  const auto exp = OneOp(PointwiseOp::kExp, true);
  const auto erfinv = OneOp(PointwiseOp::kErfinv, true);
  const auto bessel = OneOp(PointwiseOp::kBesselK0, true);
  ASSERT_TRUE(exp.ok() && erfinv.ok() && bessel.ok());
  EXPECT_THAT(exp->source, Not(HasSubstr("fn_erfinv")));
  EXPECT_THAT(erfinv->source, HasSubstr("TV_SPECIAL_1(erfinv"));
  EXPECT_THAT(erfinv->source, Not(HasSubstr("kK0Small")));
  EXPECT_THAT(bessel->source, HasSubstr("__constant double kK0Small"));
}

TEST(PointwiseSourceTest, SpecialFunctionsNeedDouble) {
  for (const auto& kernel : {OneOp(PointwiseOp::kErfinv, false),
                             OneOp(PointwiseOp::kBesselJ0, true)}) {
    EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnimplemented);
  }
}

}  // namespace
}  // namespace tvarant::opencl

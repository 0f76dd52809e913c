// OpenCL C for a pointwise program.
//
// One kernel for each program and each class of operands that it meets: how
// they lie in memory and their types. Constants, alphas and scalars are
// arguments, so that a new value never builds a new kernel.
//
// Example:
//   PointwiseShape shape;
//   shape.dst = {{DType::kFloat32, Walk::kDense}};
//   shape.src = {{DType::kFloat32, Walk::kDense}};
//   ASSIGN_OR_RETURN(PointwiseKernel kernel, MakePointwise(program, shape));
//   Build(prelude + kernel.source);

#ifndef TVARANT_DAEMON_JIT_POINTWISE_SOURCE_H_
#define TVARANT_DAEMON_JIT_POINTWISE_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/dtype.h"
#include "proto/ops/program.h"

namespace tvarant::opencl {

// How an operand moves as the kernel walks over the elements.
enum class Walk : uint8_t {
  kDense,         // element i is at i
  kUniform,       // one element for all
  kStrided,       // by the dimensions
  kInner,         // by the dimensions, dense along the last
  kInnerUniform,  // by the dimensions, one element along the last
};

struct PointwiseOperand {
  DType dtype = DType::kInvalid;
  Walk walk = Walk::kDense;
};

// Either every operand is kDense or kUniform, or none is.
struct PointwiseShape {
  int rank = 1;             // dimensions of a walk by them
  bool wide_index = false;  // offsets need 64 bits
  // Elements that a work-item takes in one go: 1, 4 or 8. More than one needs
  // operands whose dense stretches are aligned to that many elements and, by
  // dimensions, kInner or kInnerUniform and a last size that is a multiple.
  int vector = 1;
  std::vector<PointwiseOperand> dst;
  std::vector<PointwiseOperand> src;
};

// A value that the kernel takes as an argument.
struct PointwiseConstant {
  ComputeClass type = ComputeClass::kNone;
  enum class From : uint8_t { kImmediate, kScalar } from = From::kImmediate;
  int node = 0;  // whose immediate or scalar it is
};

// Arguments in their order, IDX being int, or long with wide_index:
//   for each dst, then each src: __global char*, long byte offset
//   by dimensions: IDX size for each dimension but the first, the last one in
//     steps of `vector`; for each operand IDX stride for each dimension, in
//     elements (the last one's is that of a step)
//   each constant in its type (float, double, int, long)
//   long number of elements, int loops (steps that each group does)
//   with checks_zero: __global int* faults, int launch
struct PointwiseKernel {
  std::string source;
  std::vector<PointwiseConstant> constants;
  bool checks_zero = false;  // reports a fault where a divisor is 0
};
inline constexpr char kPointwiseKernelName[] = "pointwise";

// UNIMPLEMENTED for an op or dtype that has no OpenCL form; `has_double`: the
// device computes in double. `program` has passed ValidateProgram.
absl::StatusOr<PointwiseKernel> MakePointwise(const Program& program,
                                              const PointwiseShape& shape,
                                              bool has_double);

// What tells programs apart whose kernels are equal: nodes without constants.
std::string StructureOf(const Program& program);

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_JIT_POINTWISE_SOURCE_H_

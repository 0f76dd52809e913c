// What each pointwise op computes, written apart from the shared expressions
// of pointwise_ops.inc: plain formulas in long double or wrapping integers.

#ifndef TVARANT_TESTS_CONFORMANCE_POINTWISE_REFERENCE_H_
#define TVARANT_TESTS_CONFORMANCE_POINTWISE_REFERENCE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "proto/base/dtype.h"
#include "proto/ops/op_ids.h"
#include "tests/conformance/tensor.h"

namespace tvarant::conformance {

struct FloatReference {
  // Null: the op does not compute in floats. `round` rounds to the type that
  // the device computes in, for ops that jump (trunc of a quotient).
  std::function<Real(Real a, Real b, Real c, Real alpha,
                     const std::function<Real(Real)>& round)>
      value;
  // Inputs to draw from, for each operand.
  std::vector<Real> inputs[3];
  Tolerance tolerance;
};

struct IntReference {
  // Null: the op does not compute in integers. Operands and result are values
  // of the computing type, of `bits` bits.
  std::function<int64_t(int64_t a, int64_t b, int64_t c, int64_t alpha,
                        int bits)>
      value;
  std::vector<int64_t> inputs[3];  // empty: any
  bool divides = false;            // b = 0 is an error
};

FloatReference FloatReferenceOf(PointwiseOp op);
// The part of FloatReferenceOf for special functions.
FloatReference SpecialReferenceOf(PointwiseOp op);
IntReference IntReferenceOf(PointwiseOp op);

}  // namespace tvarant::conformance

#endif  // TVARANT_TESTS_CONFORMANCE_POINTWISE_REFERENCE_H_

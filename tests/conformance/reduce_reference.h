// What each reduction computes, as plain loops over the reduced elements.

#ifndef TVARANT_TESTS_CONFORMANCE_REDUCE_REFERENCE_H_
#define TVARANT_TESTS_CONFORMANCE_REDUCE_REFERENCE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "proto/base/dtype.h"
#include "proto/ops/op_ids.h"
#include "tests/conformance/tensor.h"

namespace tvarant::conformance {

// The elements that one result comes from, in row-major order.
using Values = std::vector<Real>;

struct ReduceReference {
  ReduceOp op;
  const char* name;
  std::function<Real(const Values& values, Real scalar)> value;
  std::function<DType(DType)> result;
  bool floats = true;
  bool integers = false;
  std::vector<double> scalars = {0};
  Tolerance tolerance = {};
  bool nan = true;  // also tried with NaN among the values
  Real low = -2, high = 2;
  bool empty = true;  // has a value over nothing
};

// One for each ReduceOp.
std::vector<ReduceReference> ReduceReferences();

// The dtype of a sum, as PyTorch gives it.
DType SumType(DType dtype);

Real Sum(const Values& values);

// Index of the largest of sign * value; the first NaN wins.
int64_t IndexOfLargest(const Values& values, Real sign);

}  // namespace tvarant::conformance

#endif  // TVARANT_TESTS_CONFORMANCE_REDUCE_REFERENCE_H_

#include "tests/conformance/reduce_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tvarant::conformance {
namespace {

constexpr Real kInf = std::numeric_limits<Real>::infinity();

DType Same(DType dtype) { return dtype; }
DType ToBool(DType dtype) {
  return dtype == DType::kUInt8 ? DType::kUInt8 : DType::kBool;
}
DType ToInt64(DType) { return DType::kInt64; }

Real Variance(const Values& values, Real correction) {
  const Real n = static_cast<Real>(values.size());
  const Real mean = Sum(values) / n;
  Real sum = 0;
  for (const Real v : values) sum += (v - mean) * (v - mean);
  const Real degrees = std::max<Real>(n - correction, 0);
  return sum / degrees;
}

Real Norm(const Values& values, Real p) {
  Real sum = 0, largest = 0, smallest = kInf;
  bool nan = false;
  for (const Real v : values) {
    nan |= std::isnan(v);
    largest = std::max(largest, std::fabs(v));
    smallest = std::min(smallest, std::fabs(v));
    sum += p == 0 ? Real(v != 0) : std::pow(std::fabs(v), p);
  }
  if (p == 0) return sum;
  if (nan) return std::numeric_limits<Real>::quiet_NaN();
  if (p == kInf) return largest;
  if (p == -kInf) return smallest;
  return std::pow(sum, 1 / p);
}

Real LogSumExp(const Values& values, Real) {
  Real largest = -kInf;
  for (const Real v : values) largest = std::max(largest, v);
  if (std::isinf(largest)) return largest;
  Real sum = 0;
  for (const Real v : values) sum += std::exp(v - largest);
  return largest + std::log(sum);
}

}  // namespace

DType SumType(DType dtype) { return IsFloating(dtype) ? dtype : DType::kInt64; }
Real Sum(const Values& values) {
  Real sum = 0;
  for (const Real v : values) sum += v;
  return sum;
}

int64_t IndexOfLargest(const Values& values, Real sign) {
  int64_t best = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) return static_cast<int64_t>(i);
    if (sign * values[i] > sign * values[best]) best = static_cast<int64_t>(i);
  }
  return best;
}

std::vector<ReduceReference> ReduceReferences() {
  const auto at_largest = [](const Values& v, Real) {
    return v[IndexOfLargest(v, 1)];
  };
  const auto at_smallest = [](const Values& v, Real) {
    return v[IndexOfLargest(v, -1)];
  };
  const auto product = [](const Values& v, Real) {
    Real result = 1;
    for (const Real x : v) result *= x;
    return result;
  };
  // Sums of n values of either sign: the error grows with what cancels.
  constexpr Tolerance kSum = {.ulps = 8, .absolute = 128};
  return {
      {.op = ReduceOp::kSum,
       .name = "sum",
       .value = [](const Values& v, Real) { return Sum(v); },
       .result = SumType,
       .integers = true,
       .tolerance = kSum},
      {.op = ReduceOp::kMean,
       .name = "mean",
       .value = [](const Values& v,
                   Real) { return Sum(v) / static_cast<Real>(v.size()); },
       .result = Same,
       .tolerance = {.ulps = 8, .absolute = 8}},
      {.op = ReduceOp::kProd,
       .name = "prod",
       .value = product,
       .result = SumType,
       .tolerance = {.ulps = 8},
       .low = 0.98L,
       .high = 1.02L},
      {.op = ReduceOp::kMax,
       .name = "max",
       .value = at_largest,
       .result = Same,
       .integers = true,
       .tolerance = {.ulps = 0},
       .empty = false},
      {.op = ReduceOp::kMin,
       .name = "min",
       .value = at_smallest,
       .result = Same,
       .integers = true,
       .tolerance = {.ulps = 0},
       .empty = false},
      {.op = ReduceOp::kArgMax,
       .name = "argmax",
       .value = [](const Values& v, Real) -> Real {
         return IndexOfLargest(v, 1);
       },
       .result = ToInt64,
       .integers = true,
       .empty = false},
      {.op = ReduceOp::kArgMin,
       .name = "argmin",
       .value = [](const Values& v, Real) -> Real {
         return IndexOfLargest(v, -1);
       },
       .result = ToInt64,
       .integers = true,
       .empty = false},
      {.op = ReduceOp::kMaxDim,
       .name = "max_dim",
       .value = at_largest,
       .result = Same,
       .integers = true,
       .tolerance = {.ulps = 0},
       .empty = false},
      {.op = ReduceOp::kMinDim,
       .name = "min_dim",
       .value = at_smallest,
       .result = Same,
       .integers = true,
       .tolerance = {.ulps = 0},
       .empty = false},
      {.op = ReduceOp::kAny,
       .name = "any",
       .value = [](const Values& v, Real) -> Real {
         for (const Real x : v) {
           if (x != 0) return 1;
         }
         return 0;
       },
       .result = ToBool,
       .integers = true},
      {.op = ReduceOp::kAll,
       .name = "all",
       .value = [](const Values& v, Real) -> Real {
         for (const Real x : v) {
           if (x == 0) return 0;
         }
         return 1;
       },
       .result = ToBool,
       .integers = true},
      {.op = ReduceOp::kNorm,
       .name = "norm",
       .value = Norm,
       .result = Same,
       .scalars = {2, 1, 0, 3, std::numeric_limits<double>::infinity(),
                   -std::numeric_limits<double>::infinity()},
       .tolerance = {.ulps = 16, .absolute = 2}},
      {.op = ReduceOp::kVar,
       .name = "var",
       .value = Variance,
       .result = Same,
       .scalars = {1, 0},
       .tolerance = {.ulps = 16, .absolute = 8}},
      {.op = ReduceOp::kStd,
       .name = "std",
       .value = [](const Values& v,
                   Real c) { return std::sqrt(Variance(v, c)); },
       .result = Same,
       .scalars = {1, 0},
       .tolerance = {.ulps = 16, .absolute = 8}},
      {.op = ReduceOp::kSumSquares,
       .name = "sum_squares",
       .value =
           [](const Values& v, Real) {
             Real sum = 0;
             for (const Real x : v) sum += x * x;
             return sum;
           },
       .result = Same,
       .tolerance = {.ulps = 16}},
      {.op = ReduceOp::kCountNonzero,
       .name = "count_nonzero",
       .value = [](const Values& v, Real) -> Real {
         int64_t count = 0;
         for (const Real x : v) count += x != 0;
         return count;
       },
       .result = ToInt64,
       .integers = true},
      {.op = ReduceOp::kLogSumExp,
       .name = "logsumexp",
       .value = LogSumExp,
       .result = Same,
       .tolerance = {.ulps = 8, .absolute = 8},
       .nan = false},
      {.op = ReduceOp::kNanSum,
       .name = "nansum",
       .value =
           [](const Values& v, Real) {
             Real sum = 0;
             for (const Real x : v) sum += std::isnan(x) ? 0 : x;
             return sum;
           },
       .result = SumType,
       .tolerance = kSum},
  };
}

}  // namespace tvarant::conformance

// The list of cases. Each cases_*.cc adds those of its kernels; a row of the
// op tables without a case fails the suite.

#ifndef TVARANT_TESTS_CONFORMANCE_CASES_H_
#define TVARANT_TESTS_CONFORMANCE_CASES_H_

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/conformance/backend.h"

namespace tvarant::conformance {

struct Case {
  std::string name;  // "kernel/what/dtype"
  Kernel kernel = Kernel::kInvalid;
  // Rows of pointwise_ops.inc that the case covers.
  std::vector<PointwiseOp> ops;
  std::function<absl::Status(Backend&)> run;
};

using CaseList = std::vector<Case>;

void AddPointwiseCases(CaseList& cases);
void AddProgramCases(CaseList& cases);
void AddCopyCases(CaseList& cases);
void AddReduceCases(CaseList& cases);
void AddGemmCases(CaseList& cases);
void AddNormCases(CaseList& cases);
void AddLossCases(CaseList& cases);
void AddConvCases(CaseList& cases);
void AddChannelNormCases(CaseList& cases);
void AddPoolCases(CaseList& cases);
void AddResampleCases(CaseList& cases);
void AddIndexCases(CaseList& cases);
void AddRandomCases(CaseList& cases);
void AddPickCases(CaseList& cases);
void AddBagCases(CaseList& cases);
void AddSortCases(CaseList& cases);
void AddDistanceCases(CaseList& cases);
void AddCtcCases(CaseList& cases);
void AddFftCases(CaseList& cases);
void AddGridCases(CaseList& cases);
void AddSegmentCases(CaseList& cases);
void AddAttentionCases(CaseList& cases);

CaseList AllCases();

// A generator for a case, the same in every run.
inline std::mt19937_64 SeedOf(const std::string& name) {
  std::seed_seq seed(name.begin(), name.end());
  return std::mt19937_64(seed);
}

inline constexpr DType kFloatDTypes[] = {DType::kFloat32, DType::kFloat64,
                                         DType::kFloat16, DType::kBFloat16};
inline constexpr DType kIntDTypes[] = {
    DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64};

// 0, 1, odd, around the width of vectors, several dimensions, and one that
// is worth several threads.
inline const std::vector<Dims>& Shapes() {
  static const std::vector<Dims>* const kShapes = new std::vector<Dims>{
      {},     {0},       {1},       {3},          {7},     {8},
      {15},   {16},      {17},      {31},         {33},    {64},
      {65},   {127},     {0, 3},    {3, 5},       {5, 16}, {16, 17},
      {1, 9}, {2, 3, 4}, {5, 1, 7}, {2, 3, 2, 5}, {40000}};
  return *kShapes;
}

}  // namespace tvarant::conformance

#endif  // TVARANT_TESTS_CONFORMANCE_CASES_H_

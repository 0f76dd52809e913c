#include "tests/conformance/cases.h"

namespace tvarant::conformance {

CaseList AllCases() {
  CaseList cases;
  AddPointwiseCases(cases);
  AddProgramCases(cases);
  AddCopyCases(cases);
  AddReduceCases(cases);
  AddGemmCases(cases);
  AddNormCases(cases);
  AddLossCases(cases);
  AddConvCases(cases);
  AddChannelNormCases(cases);
  AddPoolCases(cases);
  AddResampleCases(cases);
  AddIndexCases(cases);
  AddRandomCases(cases);
  AddPickCases(cases);
  AddBagCases(cases);
  AddSortCases(cases);
  AddDistanceCases(cases);
  AddCtcCases(cases);
  AddFftCases(cases);
  AddGridCases(cases);
  AddSegmentCases(cases);
  AddAttentionCases(cases);
  return cases;
}

}  // namespace tvarant::conformance

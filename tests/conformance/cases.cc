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
  AddVolumeCases(cases);
  AddIndexCases(cases);
  AddRandomCases(cases);
  AddDistanceCases(cases);
  AddCtcCases(cases);
  return cases;
}

}  // namespace tvarant::conformance

// Writes an example program as a seed for program_fuzz: program_corpus FILE.

#include <cstdio>
#include <fstream>

#include "proto/ops/program.h"

int main(int argc, char** argv) {
  using namespace tvarant;
  ProgramBuilder p;
  const int a = p.Load(0, DType::kFloat32);
  const int b = p.Load(1, DType::kFloat32);
  const int sum = p.Op(PointwiseOp::kAdd, DType::kFloat32, a, b, -1, 2.0);
  const int less = p.Op(PointwiseOp::kLt, DType::kBool, a, b);
  const int scalar = p.Scalar(0, DType::kFloat32);
  p.Store(p.Op(PointwiseOp::kWhere, DType::kFloat32, less, sum, scalar));
  p.Store(less);
  const std::string bytes = p.program().Serialize();
  for (int i = 1; i < argc; ++i) {
    std::ofstream file(argv[i], std::ios::binary);
    file << bytes;
    if (!file.flush()) {
      std::fprintf(stderr, "cannot write %s\n", argv[i]);
      return 1;
    }
  }
  return 0;
}

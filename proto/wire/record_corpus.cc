// Writes example batches as seeds for record_fuzz: record_corpus FILE...
// The i-th file gets the i-th example.

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "proto/wire/record.h"

namespace {

using namespace tvarant;

// Contiguous operand of rank 2.
struct Matrix {
  Matrix(uint64_t segment, DType dtype, int64_t rows, int64_t columns)
      : sizes{rows, columns}, strides{columns, 1} {
    operand.segment = segment;
    operand.dtype = dtype;
    operand.rank = 2;
    operand.sizes = sizes;
    operand.strides = strides;
  }
  int64_t sizes[2];
  int64_t strides[2];
  Operand operand;
};

std::string Encode(const LaunchParams& params) {
  std::string bytes;
  RecordWriter(&bytes).Launch(params);
  return bytes;
}

std::string Add() {
  const Matrix y(1, DType::kFloat32, 4, 5), a(2, DType::kFloat32, 4, 5),
      b(3, DType::kFloat32, 4, 5);
  const Operand src[2] = {a.operand, b.operand};
  LaunchParams params{.kernel = Kernel::kPointwise};
  params.program = 7;
  params.dst = &y.operand;
  params.num_dst = 1;
  params.src = src;
  params.num_src = 2;
  return Encode(params);
}

std::string Softmax() {
  const Matrix y(1, DType::kFloat32, 4, 5), x(2, DType::kFloat32, 4, 5);
  const int64_t dim = 1;
  LaunchParams params{.kernel = Kernel::kSoftmax};
  params.dst = &y.operand;
  params.num_dst = 1;
  params.src = &x.operand;
  params.num_src = 1;
  params.ints = &dim;
  params.num_ints = 1;
  return Encode(params);
}

std::string Random() {
  const Matrix y(1, DType::kFloat32, 4, 5);
  const int64_t ints[5] = {static_cast<int64_t>(Distribution::kUniform), 42, 0,
                           0, 0};
  const double floats[2] = {0, 1};
  LaunchParams params{.kernel = Kernel::kRandom};
  params.dst = &y.operand;
  params.num_dst = 1;
  params.ints = ints;
  params.num_ints = 5;
  params.floats = floats;
  params.num_floats = 2;
  return Encode(params);
}

std::string Transfers() {
  std::string bytes;
  RecordWriter writer(&bytes);
  writer.Upload(5, 24, "hello, world", 12);
  writer.DefineProgram(9, "0123456789");
  writer.Transfer(RecordKind::kRead, {.handle = 5,
                                      .offset_bytes = 24,
                                      .handle2 = 0,
                                      .offset2_bytes = 0,
                                      .bytes = 12});
  writer.Transfer(RecordKind::kRecordEvent, {.handle = 3,
                                             .offset_bytes = 0,
                                             .handle2 = 0,
                                             .offset2_bytes = 0,
                                             .bytes = 0});
  return bytes + Add();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> examples = {Add(), Softmax(), Random(),
                                             Transfers()};
  for (int i = 1; i < argc; ++i) {
    std::ofstream file(argv[i], std::ios::binary);
    file << examples[(i - 1) % examples.size()];
    if (!file.flush()) {
      std::fprintf(stderr, "cannot write %s\n", argv[i]);
      return 1;
    }
  }
  return 0;
}

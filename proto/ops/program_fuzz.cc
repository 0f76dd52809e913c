// Bytes of a client as a program: parsing and validating stay in bounds, and
// what passes has the form that evaluators rely on.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "proto/ops/program.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  using tvarant::Program;
  const char* bytes = reinterpret_cast<const char*>(data);
  Program program;
  if (!Program::Parse(bytes, size_bytes, &program)) return 0;
  Require(program.Serialize() == std::string(bytes, size_bytes));
  if (!tvarant::ValidateProgram(program).empty()) return 0;
  Require(program.num_inputs() <= tvarant::kMaxProgramInputs);
  Require(program.num_float_scalars() <= tvarant::kMaxProgramScalars);
  Require(program.num_int_scalars() <= tvarant::kMaxProgramScalars);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const tvarant::ProgramNode& node = program.nodes[i];
    const int arity = tvarant::ArityOf(node.op);
    const int operands[3] = {node.a, node.b, node.c};
    Require(arity >= 0 && arity <= 3);
    for (int k = 0; k < arity; ++k) {
      Require(operands[k] >= 0 && operands[k] < static_cast<int>(i));
    }
  }
  for (const uint16_t value : program.stores) {
    Require(value < program.nodes.size());
  }
  return 0;
}

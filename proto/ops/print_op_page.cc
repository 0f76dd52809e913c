// Prints the op page (docs/ops.md), made from the tables:
//   bazel run //proto/ops:print_op_page > docs/ops.md

#include <cstdio>
#include <string>
#include <string_view>

#include "proto/ops/op_ids.h"

namespace {

constexpr std::string_view kIntroduction =
    R"(<!-- Made by //proto/ops:print_op_page from proto/ops/*.inc; do not edit. -->
# Ops of the device

A launch names one kernel. All element-wise work is one kernel, `pointwise`,
that runs a program of pointwise ops. What operands and parameters a kernel
takes: [kernels.md](../proto/ops/kernels.md).

## Kernels

| number | name | dst | src | does |
|---:|---|---|---|---|
)";

constexpr std::string_view kPointwiseIntroduction = R"(
## Pointwise ops

`a`, `b`, `c` are earlier values of the program. float16 and bfloat16 compute
in float32, bool and the integers up to 32 bits in int32. Integer arithmetic
wraps; integer division by zero fails the launch. A float op on NaN gives NaN
unless its line says otherwise.

| number | name | operands | computes in | result | value |
|---:|---|---:|---|---|---|
)";

std::string Range(int low, int high) {
  return low == high ? std::to_string(low)
                     : std::to_string(low) + "–" + std::to_string(high);
}

// A cell may hold a bar only escaped.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string_view Types(char types) {
  switch (types) {
    case 'F':
      return "float";
    case 'I':
      return "integer";
    default:
      return "float, integer";
  }
}

void PrintKernel(int id, const char* name, int min_dst, int max_dst,
                 int min_src, int max_src, const char* doc) {
  std::printf("| %d | `%s` | %s | %s | %s |\n", id, name,
              Range(min_dst, max_dst).c_str(), Range(min_src, max_src).c_str(),
              Cell(doc).c_str());
}

void PrintPointwiseOp(int code, const char* name, int arity, char types,
                      char result, const char* doc) {
  std::printf("| %d | `%s` | %d | %s | %s | %s |\n", code, name, arity,
              std::string(Types(types)).c_str(),
              result == 'B' ? "bool" : "as the operands", Cell(doc).c_str());
}

}  // namespace

int main() {
  std::fputs(std::string(kIntroduction).c_str(), stdout);
#define TVARANT_KERNEL(id, Name, name, min_dst, max_dst, min_src, max_src, \
                       doc)                                                \
  PrintKernel(id, #name, min_dst, max_dst, min_src, max_src, doc);
#include "proto/ops/kernels.inc"
  std::fputs(std::string(kPointwiseIntroduction).c_str(), stdout);
#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  PrintPointwiseOp(code, #name, arity, #types[0], #result[0], doc);
#include "proto/ops/pointwise_ops.inc"
  return std::fflush(stdout) == 0 ? 0 : 1;
}

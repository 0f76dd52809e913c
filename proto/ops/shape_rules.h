// What a launch must satisfy: counts, dtypes, ranks, sizes, parameters.
//
// One set of rules for the client side, which raises at the call, and for the
// daemon, which trusts nobody. They are kernels.inc and kernels.md in code; a
// kernel's rule stands in the rules_*.cc of its family.
//
// Example:
//   absl::Status status = CheckLaunch(params, &program);
//   // "gemm_bias_act: src 1 has dtype float16, want float32"
//
// To add a kernel: a row in kernels.inc and a function CheckName in the file
// of its family; the build fails while it is missing.

#ifndef TVARANT_PROTO_OPS_SHAPE_RULES_H_
#define TVARANT_PROTO_OPS_SHAPE_RULES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/ops/program.h"
#include "proto/wire/launch_params.h"

namespace tvarant {

// The product of an operand's sizes, zeros counted as ones, stays at or below
// this, so that products of any of its sizes and bytes fit in 64 bits.
inline constexpr int64_t kMaxElements = int64_t{1} << 56;

// INVALID_ARGUMENT with one sentence that names kernel, operand, what it has
// and what is wanted. OK means: every rule of the kernel holds; sizes, strides
// and the extent in bytes of each operand are non-negative and don't overflow;
// no dst overlaps itself. Handles and bounds are the caller's part.
//
// `program` is what params.program stands for, validated with ValidateProgram;
// null for kernels that take none or when it is unknown. All pointers of
// params must be good for their counts. Thread-safe; no allocation on success.
absl::Status CheckLaunch(const LaunchParams& params, const Program* program);

// Whether CheckLaunch lets an operand of the kernel be absent.
bool IsOptionalDst(Kernel kernel, int index);
bool IsOptionalSrc(Kernel kernel, int index);

}  // namespace tvarant

#endif  // TVARANT_PROTO_OPS_SHAPE_RULES_H_

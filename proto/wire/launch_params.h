// LaunchParams: one kernel launch, as the client states it.
//
// Plain C++ without dependencies. All pointers are borrowed for the call that
// takes the struct. Extents are m, n, k; inputs src, outputs dst; strides in
// elements. What each kernel expects: proto/ops/kernels.md.

#ifndef TVARANT_PROTO_WIRE_LAUNCH_PARAMS_H_
#define TVARANT_PROTO_WIRE_LAUNCH_PARAMS_H_

#include <cstdint>

#include "proto/base/dtype.h"
#include "proto/ops/op_ids.h"

namespace tvarant {

inline constexpr int kMaxRank = 16;
inline constexpr int kMaxInts = 8192;      // per launch
inline constexpr int kMaxFloats = 8192;    // per launch
inline constexpr int kMaxOperands = 8192;  // per launch, dst and src together

// A strided tensor in device memory.
struct Operand {
  uint64_t segment = 0;              // handle, made by the client; never 0
  uint64_t offset_bytes = 0;         // of element [0, 0, ...] in the segment
  DType dtype = DType::kInvalid;     // kInvalid: absent optional operand
  uint8_t rank = 0;                  // <= kMaxRank
  const int64_t* sizes = nullptr;    // [rank], >= 0
  const int64_t* strides = nullptr;  // [rank], >= 0, in elements
};

struct LaunchParams {
  Kernel kernel = Kernel::kInvalid;
  Act act = Act::kNone;
  uint32_t flags = 0;    // LaunchFlags
  uint64_t program = 0;  // pointwise kernels: handle of a defined program
  int64_t m = 0, n = 0, k = 0, batch = 0;
  double alpha = 1, beta = 0, scalar = 0;
  const int64_t* ints = nullptr;
  int num_ints = 0;
  const double* floats = nullptr;
  int num_floats = 0;
  const Operand* dst = nullptr;
  int num_dst = 0;
  const Operand* src = nullptr;
  int num_src = 0;
};

}  // namespace tvarant

#endif  // TVARANT_PROTO_WIRE_LAUNCH_PARAMS_H_

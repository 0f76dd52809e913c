// A pointwise program made ready for one launch: loops to call, block by
// block, on registers and on tensors in place.
//
// Building it costs some tens of nanoseconds per node and allocates nothing;
// the same plan then runs on any part of the elements, on several threads.

#ifndef TVARANT_DAEMON_KERNELS_HOST_POINTWISE_PLAN_H_
#define TVARANT_DAEMON_KERNELS_HOST_POINTWISE_PLAN_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/pointwise/layout.h"
#include "daemon/kernels/host/pointwise/op_table.h"
#include "proto/ops/program.h"

namespace tvarant::host {

// Where a value stands: an operand of the layout, read or written in place,
// or a register.
using Place = int16_t;
inline constexpr Place kFirstRegister = kMaxProgramOperands;
// Every node has a register at most, and conversions need two more.
inline constexpr int kMaxRegisters = kMaxProgramNodes + 8;
inline constexpr int kMaxPlaces = kFirstRegister + kMaxRegisters;

struct Step {
  enum Kind : uint8_t { kOp, kLoad, kStore, kSplat4, kSplat8, kCheckZero };
  Kind kind = kOp;
  uint8_t register_bytes = 0;  // kLoad, kStore: of one element
  Place dst = 0;
  Place a = 0;
  Place b = 0;
  Place c = 0;
  union {
    OpLoop op;
    LoadLoop load;
    StoreLoop store;
    AnyZeroLoop any_zero;
  };
  uint64_t immediate = 0;  // kOp: alpha; kSplat: the bits

  Step() : op(nullptr) {}
};

struct Plan {
  // setup runs once per thread, on a whole block: constants and what does not
  // change from block to block. body runs on each block.
  int num_setup = 0;
  int num_body = 0;
  int num_registers = 0;
  // Operands whose place in memory body steps use directly.
  int num_in_place = 0;
  int64_t block = 0;  // elements
  int64_t grain = 0;  // elements worth a thread
  Place in_place[kMaxProgramOperands];
  // A node gives a load or an op, up to two conversions and a zero check.
  Step setup[kMaxProgramNodes * 3];
  Step body[kMaxProgramNodes * 4 + kMaxProgramOutputs * 3];
};

// Scalars of the launch that the program names by index.
struct Scalars {
  absl::Span<const double> floats;
  absl::Span<const int64_t> ints;
};

// UNIMPLEMENTED for a dtype without loads, INVALID_ARGUMENT for a program that
// does not fit the operands or scalars. `program` has passed ValidateProgram.
absl::Status BuildPlan(const Program& program, const Scalars& scalars,
                       absl::Span<const Tensor> dst,
                       absl::Span<const Tensor> src, const Layout& layout,
                       Plan* plan);

// Runs elements [begin, end) on this thread. False if there is no memory for
// the registers. Sets *zero_division where a checked divisor is 0.
bool RunPlan(const Plan& plan, const Layout& layout, int64_t begin, int64_t end,
             std::atomic<bool>* zero_division);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_POINTWISE_PLAN_H_

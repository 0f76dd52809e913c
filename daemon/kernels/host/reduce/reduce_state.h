// Starting, joining and finishing the states of a reduction.

#ifndef TVARANT_DAEMON_KERNELS_HOST_REDUCE_REDUCE_STATE_H_
#define TVARANT_DAEMON_KERNELS_HOST_REDUCE_REDUCE_STATE_H_

#include <cstdint>

#include "daemon/kernels/host/reduce/reduce_loops.h"
#include "proto/ops/op_ids.h"

namespace tvarant::host {

// One reduction: what to gather, and how to finish.
struct Reduction {
  ReduceOp op = ReduceOp::kSum;
  Gather gather = Gather::kSum;
  bool is_float = false;     // states hold double, else int64_t
  double scalar = 0;         // p of kNorm, correction of kVar and kStd
  int64_t num_elements = 0;  // per output
};

// False for an op that does not exist for the class.
bool MakeReduction(ReduceOp op, ComputeClass compute_class, double scalar,
                   int64_t num_elements, Reduction* reduction);

// The state before any element.
ReduceState StartState(const Reduction& reduction);

// Joins `next`, of elements that come after those of *state.
void JoinStates(const Reduction& reduction, const ReduceState& next,
                ReduceState* state);

// The first output: a double or an int64_t, as reduction.is_float says, but
// for results that are always integers (ResultIsInteger).
ReduceState FinishState(const Reduction& reduction, const ReduceState& state);
bool ResultIsInteger(const Reduction& reduction);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_REDUCE_REDUCE_STATE_H_

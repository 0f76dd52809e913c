// PairSort: puts keys in order, with the place that each one came from.
//
// Rows of n keys, unsigned numbers of 32 or 64 bits, are sorted each by itself
// and stably: tiles in local memory, then runs merged two by two. Keys and
// orders lie in the stream's scratch memory, slots 0 and 1.
//
// Example:
//   ASSIGN_OR_RETURN(PairSort sort, PairSort::Create(context, 1, n, wide));
//   call.Memory(sort.memory());   // writes total() keys at its start
//   RETURN_IF_ERROR(sort.Sort(context));
//   call2.Memory(sort.memory()).Long(sort.order_offset());
// Thread-compatible.

#ifndef TVARANT_DAEMON_KERNELS_OPENCL_SORT_PAIRS_H_
#define TVARANT_DAEMON_KERNELS_OPENCL_SORT_PAIRS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/runtime/opencl/kernel_context.h"

namespace tvarant::opencl {

class PairSort {
 public:
  // UNIMPLEMENTED for rows of 2^32 - 1 keys or more.
  static absl::StatusOr<PairSort> Create(KernelContext& context, int64_t rows,
                                         int64_t n, bool wide_keys);

  // The keys, row by row; after Sort the sorted ones.
  cl_mem memory() const { return from_; }
  // Where the order stands in memory(): for each key its place in its row
  // before, 32 bits.
  int64_t order_offset() const { return total_ * key_bytes(); }
  int64_t total() const { return total_; }
  bool wide_keys() const { return wide_keys_; }

  absl::Status Sort(KernelContext& context);

 private:
  PairSort(int64_t rows, int64_t n, bool wide_keys)
      : rows_(rows), n_(n), total_(rows * n), wide_keys_(wide_keys) {}
  int64_t key_bytes() const { return wide_keys_ ? 8 : 4; }

  int64_t rows_, n_, total_;
  bool wide_keys_;
  cl_mem from_ = nullptr, to_ = nullptr;
};

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_KERNELS_OPENCL_SORT_PAIRS_H_

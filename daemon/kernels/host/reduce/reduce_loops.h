// The inner loops of reductions, by instruction set.
//
// Inputs are registers (pointwise/op_table.h). A state gathers elements in
// double for float classes and in int64_t for integers, so that no order of
// summing loses what PyTorch's would keep. Loops go along a row of elements
// that share one state, or over columns of elements with a state each.

#ifndef TVARANT_DAEMON_KERNELS_HOST_REDUCE_REDUCE_LOOPS_H_
#define TVARANT_DAEMON_KERNELS_HOST_REDUCE_REDUCE_LOOPS_H_

#include <cstdint>

#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/pointwise/op_table.h"
#include "proto/base/dtype.h"

namespace tvarant::host {

// What the loops gather. ReduceOps that differ only in their last step share
// one, and kNorm is several.
enum class Gather : uint8_t {
  kSum,
  kNanSum,
  kProd,
  kMax,     // NaN wins
  kMin,     // NaN wins
  kArgMax,  // value and the first index of it
  kArgMin,
  kAny,
  kAll,
  kCountNonzero,
  kAbsSum,
  kSquares,
  kAbsMax,
  kAbsMin,
  kPowers,     // sum of |x|^p
  kMoments,    // mean, and sum of squared deviations
  kLogSumExp,  // largest element m, and sum of exp(x - m)
};
inline constexpr int kNumGathers = 17;

// One column. Unused parts stay 0.
struct ReduceState {
  union {
    double real;
    int64_t integer;
  };
  double second;  // kMoments: squared deviations; kLogSumExp: the sum
  int64_t count;  // kMoments: elements; kArgMax, kArgMin: the index

  ReduceState() : integer(0), second(0), count(0) {}
};

// Several columns, each part next to each other.
struct ReduceColumns {
  void* value;  // double or int64_t
  double* second;
  int64_t* count;
};

// Takes x[0..n) into a state; first_index: of x[0]. p: of kPowers.
using RowLoop = void (*)(ReduceState* state, const void* x, int64_t n,
                         int64_t first_index, double p);
// Takes x[i] into column i; index: of this row; rows: how many rows the
// columns hold with this one.
using ColumnLoop = void (*)(const ReduceColumns& columns, const void* x,
                            int64_t n, int64_t index, int64_t rows, double p);

// Takes kRowsAtOnce rows, row_stride bytes apart, into n columns.
inline constexpr int64_t kRowsAtOnce = 8;
using RowsLoop = void (*)(const ReduceColumns& columns, const char* x,
                          int64_t row_stride, int64_t n);

struct ReduceTable {
  // By class of the elements; null where a combination does not exist.
  RowLoop row[kNumGathers][kNumClasses] = {};
  ColumnLoop column[kNumGathers][kNumClasses] = {};
  // Null where rows are taken one by one.
  RowsLoop rows[kNumGathers][kNumClasses] = {};
};

TVARANT_DECLARE_FOR_ISAS(const ReduceTable& GetReduceTableOfIsa())

// The table of the instruction set in use. Thread-safe.
inline const ReduceTable& GetReduceTable() {
  return TVARANT_FOR_ISA(GetReduceTableOfIsa)();
}

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_REDUCE_REDUCE_LOOPS_H_

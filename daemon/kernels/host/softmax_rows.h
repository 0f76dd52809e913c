// Softmax of a block of rows on one thread; see softmax.cc.

#ifndef TVARANT_DAEMON_KERNELS_HOST_SOFTMAX_ROWS_H_
#define TVARANT_DAEMON_KERNELS_HOST_SOFTMAX_ROWS_H_

#include <cstdint>

#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/row_view.h"

namespace tvarant::host {

enum class SoftmaxKind { kSoftmax, kLogSoftmax };

// Scratch that the functions below want, in bytes.
constexpr int64_t SoftmaxScratchBytes(int64_t rows, int64_t n) {
  return 3 * rows * n * static_cast<int64_t>(sizeof(double));
}

// y = exp(x - max) / sum(exp(x - max)), or x - max - log(sum(exp(x - max))).
TVARANT_DECLARE_FOR_ISAS(void SoftmaxRows(SoftmaxKind kind, const RowView& x,
                                          const RowView& y, int64_t rows,
                                          int64_t n, char* scratch));

// dx = y * (dy - sum(dy * y)), or dy - exp(y) * sum(dy).
TVARANT_DECLARE_FOR_ISAS(void SoftmaxBackwardRows(
    SoftmaxKind kind, const RowView& dy, const RowView& y, const RowView& dx,
    int64_t rows, int64_t n, char* scratch));

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_SOFTMAX_ROWS_H_

// layer_norm of a block of rows on one thread; see layer_norm.cc.

#ifndef TVARANT_DAEMON_KERNELS_HOST_LAYER_NORM_ROWS_H_
#define TVARANT_DAEMON_KERNELS_HOST_LAYER_NORM_ROWS_H_

#include <cstdint>

#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/row_view.h"

namespace tvarant::host {

// weight, bias: one row of n, or absent. mean, rstd: one element a row, rows
// row_stride apart.
struct LayerNormRowsArgs {
  RowView x, weight, bias, y, mean, rstd;
  double eps = 0;
};

// Absent: dx. dweight and dbias, n values of the computing type each, gain the
// sums over the rows; null if not wanted.
struct LayerNormBackwardRowsArgs {
  RowView dy, x, mean, rstd, weight, dx;
  char* dweight = nullptr;
  char* dbias = nullptr;
};

constexpr int64_t LayerNormScratchBytes(int64_t rows, int64_t n) {
  return (3 * rows + 2) * n * static_cast<int64_t>(sizeof(double));
}

// y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(var + eps).
TVARANT_DECLARE_FOR_ISAS(void LayerNormRows(const LayerNormRowsArgs& args,
                                            int64_t rows, int64_t n,
                                            char* scratch));

// With g = dy * weight and h = (x - mean) * rstd:
//   dx = rstd * (g - sum(g) / n - h * sum(g * h) / n)
//   dweight += dy * h, dbias += dy
TVARANT_DECLARE_FOR_ISAS(
    void LayerNormBackwardRows(const LayerNormBackwardRowsArgs& args,
                               int64_t rows, int64_t n, char* scratch));

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_LAYER_NORM_ROWS_H_

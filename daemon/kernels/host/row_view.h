// Some rows of a strided tensor, all along the same dimension.

#ifndef TVARANT_DAEMON_KERNELS_HOST_ROW_VIEW_H_
#define TVARANT_DAEMON_KERNELS_HOST_ROW_VIEW_H_

#include <cstdint>

#include "proto/base/dtype.h"

namespace tvarant::host {

// Element i of row r is element r * row_stride + i * step after data.
struct RowView {
  char* data = nullptr;
  DType dtype = DType::kInvalid;  // kInvalid: absent
  int64_t row_stride = 0;
  int64_t step = 0;
};

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_ROW_VIEW_H_

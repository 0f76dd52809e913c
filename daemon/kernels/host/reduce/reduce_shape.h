// How a reduction walks its input: kept and reduced dimensions, ordered and
// joined once per launch.

#ifndef TVARANT_DAEMON_KERNELS_HOST_REDUCE_REDUCE_SHAPE_H_
#define TVARANT_DAEMON_KERNELS_HOST_REDUCE_REDUCE_SHAPE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "daemon/kernels/host/host_kernels.h"
#include "proto/wire/launch_params.h"

namespace tvarant::host {

// Up to two outputs and the input; strides in bytes.
struct ReduceDim {
  int64_t size = 1;
  int64_t src = 0;
  int64_t dst[2] = {0, 0};
};

struct ReduceShape {
  int num_kept = 0;
  int num_reduced = 0;
  // Outermost first. The last reduced dimension is a row, also when there is
  // none; so is the last kept one.
  ReduceDim kept[kMaxRank + 1];
  ReduceDim reduced[kMaxRank + 1];
  int64_t num_outputs = 1;
  int64_t num_reduced_elements = 1;
  // The input's nearest neighbours belong to different outputs.
  bool by_columns = false;

  const ReduceDim& row() const { return reduced[num_reduced - 1]; }
  const ReduceDim& columns() const { return kept[num_kept - 1]; }
};

// `in_order`: elements of an output are met in row-major order of the reduced
// dimensions. dst1 may be null. INVALID_ARGUMENT for sizes that don't belong
// together.
absl::Status BuildReduceShape(const Tensor& src, const Tensor& dst0,
                              const Tensor* dst1, bool in_order,
                              ReduceShape* shape);

// Byte offset in the input of element `index`, row-major over dims.
int64_t ReduceOffset(const ReduceDim* dims, int count, int64_t index);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_REDUCE_REDUCE_SHAPE_H_

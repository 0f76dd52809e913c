// How a pointwise kernel walks its operands: dimensions joined and ordered
// once per launch, then blocks of consecutive elements.
//
// Two ways. By rows: the innermost dimension is long, and a block lies within
// one row of it. By tiles: it is short, and a block runs on over rows; operands
// without gaps are still read in place, others are gathered row by row.

#ifndef TVARANT_DAEMON_KERNELS_HOST_POINTWISE_LAYOUT_H_
#define TVARANT_DAEMON_KERNELS_HOST_POINTWISE_LAYOUT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "daemon/kernels/host/host_kernels.h"
#include "proto/ops/program.h"
#include "proto/wire/launch_params.h"

namespace tvarant::host {

// Operands of one launch: outputs first, inputs from kFirstSrc on.
inline constexpr int kFirstSrc = kMaxProgramOutputs;
inline constexpr int kMaxProgramOperands =
    kMaxProgramOutputs + kMaxProgramInputs;

struct OperandLayout {
  char* data = nullptr;  // null: not used
  int64_t element_bytes = 0;
  int64_t inner_stride = 0;   // bytes
  bool uniform = false;       // one element for all
  bool dense = false;         // element i of the walk is at i * element_bytes
  bool dense_inner = false;   // so within a row
  int64_t strides[kMaxRank];  // bytes; of the walk's dimensions
};

struct Layout {
  int64_t num_elements = 0;
  int rank = 1;  // of the walk, >= 1
  bool by_rows = true;
  int64_t sizes[kMaxRank];
  int num_dst = 0;
  int num_src = 0;
  OperandLayout operands[kMaxProgramOperands];

  int64_t inner_size() const { return sizes[rank - 1]; }
};

// Sizes and number of operands must have been checked: all operands have the
// sizes of dst[0].
void BuildLayout(absl::Span<const Tensor> dst, absl::Span<const Tensor> src,
                 Layout* layout);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_POINTWISE_LAYOUT_H_

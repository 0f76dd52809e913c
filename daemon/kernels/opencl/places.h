// Where index tensors point in a tensor of which they index dimensions.

#ifndef TVARANT_DAEMON_KERNELS_OPENCL_PLACES_H_
#define TVARANT_DAEMON_KERNELS_OPENCL_PLACES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/runtime/opencl/kernel_context.h"
#include "daemon/runtime/runtime.h"

namespace tvarant::opencl {

// keys[i] = base + index[i] * stride for each position i; all ones where the
// index is `skip` or bad.
struct PlaceRule {
  ClView index_view, base_view;  // walked by i
  int64_t size = 0;              // of the indexed dimension
  int64_t stride = 0;
  bool wrap = false;
  int64_t skip = INT64_MIN;  // always a bad one
};
absl::Status ResolvePlace(KernelContext& context, const ResolvedOperand& index,
                          const PlaceRule& rule, int64_t count, cl_mem keys,
                          bool wide_keys, FaultText text);

// Offsets of what `indices` point at in x, whose dimensions [first, first +
// their number) they index. names: what errors call these dimensions.
absl::Status ResolvePlaces(KernelContext& context, const ResolvedOperand& x,
                           int first, absl::Span<const ResolvedOperand> indices,
                           absl::Span<const int64_t> names, bool wrap,
                           cl_mem keys, bool wide_keys);

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_KERNELS_OPENCL_PLACES_H_

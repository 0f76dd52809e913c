#include "daemon/kernels/host/reduce/reduce_shape.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tvarant::host {
namespace {

bool CanJoin(const ReduceDim& outer, const ReduceDim& inner) {
  return outer.src == inner.src * inner.size &&
         outer.dst[0] == inner.dst[0] * inner.size &&
         outer.dst[1] == inner.dst[1] * inner.size;
}

// Sorts by falling stride of the input, unless the order counts, joins
// neighbours, and leaves at least one dimension.
void Normalise(bool in_order, ReduceDim* dims, int* count) {
  if (!in_order) {
    for (int i = 1; i < *count; ++i) {
      for (int j = i; j > 0 && dims[j - 1].src < dims[j].src; --j) {
        std::swap(dims[j - 1], dims[j]);
      }
    }
  }
  int kept = 0;
  for (int i = 0; i < *count; ++i) {
    if (kept > 0 && CanJoin(dims[kept - 1], dims[i])) {
      const int64_t size = dims[kept - 1].size * dims[i].size;
      dims[kept - 1] = dims[i];
      dims[kept - 1].size = size;
    } else {
      dims[kept++] = dims[i];
    }
  }
  if (kept == 0) dims[kept++] = ReduceDim();
  *count = kept;
}

}  // namespace

absl::Status BuildReduceShape(const Tensor& src, const Tensor& dst0,
                              const Tensor* dst1, bool in_order,
                              ReduceShape* shape) {
  *shape = ReduceShape();
  if (dst0.rank != src.rank || (dst1 != nullptr && dst1->rank != src.rank)) {
    return absl::InvalidArgumentError("reduce: ranks differ");
  }
  const int64_t src_bytes = static_cast<int64_t>(SizeOf(src.dtype));
  for (int i = 0; i < src.rank; ++i) {
    ReduceDim dim;
    dim.size = src.sizes[i];
    dim.src = src.strides[i] * src_bytes;
    if (dst0.sizes[i] == src.sizes[i]) {
      if (dim.size == 1) continue;
      if (dst1 != nullptr && dst1->sizes[i] != dim.size) {
        return absl::InvalidArgumentError("reduce: outputs differ in size");
      }
      dim.dst[0] = dst0.strides[i] * static_cast<int64_t>(SizeOf(dst0.dtype));
      if (dst1 != nullptr) {
        dim.dst[1] =
            dst1->strides[i] * static_cast<int64_t>(SizeOf(dst1->dtype));
      }
      shape->num_outputs *= dim.size;
      shape->kept[shape->num_kept++] = dim;
    } else if (dst0.sizes[i] == 1) {
      if (dst1 != nullptr && dst1->sizes[i] != 1) {
        return absl::InvalidArgumentError("reduce: outputs differ in size");
      }
      shape->num_reduced_elements *= dim.size;
      shape->reduced[shape->num_reduced++] = dim;
    } else {
      return absl::InvalidArgumentError(
          "reduce: an output has neither size 1 nor the input's");
    }
  }
  const bool has_kept = shape->num_kept > 0;
  const bool has_reduced = shape->num_reduced > 0;
  Normalise(false, shape->kept, &shape->num_kept);
  Normalise(in_order, shape->reduced, &shape->num_reduced);
  if (has_kept && has_reduced) {
    int64_t smallest = INT64_MAX;
    for (int i = 0; i < shape->num_reduced; ++i) {
      smallest = std::min(smallest, shape->reduced[i].src);
    }
    shape->by_columns = shape->columns().src < smallest;
  }
  return absl::OkStatus();
}

int64_t ReduceOffset(const ReduceDim* dims, int count, int64_t index) {
  int64_t offset = 0;
  for (int i = count - 1; i >= 0; --i) {
    offset += index % dims[i].size * dims[i].src;
    index /= dims[i].size;
  }
  return offset;
}

}  // namespace tvarant::host

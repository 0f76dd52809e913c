// Strided tensors as sizes and strides: extents in checked arithmetic, order
// of memory, overlap, and loops over elements for kernels.
//
// Strides are in elements unless a name says bytes, and never negative. A
// stride of 0 repeats elements. Plain C++.
//
// Example: copy with strides, innermost dimension by a fast inner loop
//   base::StridedLoop<2> loop(sizes, rank, {y_strides, x_strides});
//   loop.Coalesce();
//   loop.ForEachRow(0, loop.num_rows(), [&](const int64_t (&at)[2]) {
//     CopyRow(y + at[0], loop.inner_stride(0), x + at[1],
//             loop.inner_stride(1), loop.inner_size());
//   });

#ifndef TVARANT_PROTO_BASE_STRIDED_H_
#define TVARANT_PROTO_BASE_STRIDED_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "proto/base/checked_math.h"

namespace tvarant::base {

inline constexpr int kMaxDims = 16;

// Elements of a tensor; false on overflow or a negative size. An extent of 0
// gives 0 whatever the others are.
[[nodiscard]] inline bool CheckedNumElements(const int64_t* sizes, int rank,
                                             int64_t* count) {
  *count = 1;
  bool empty = false, fits = true;
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] < 0) return false;
    empty |= sizes[i] == 0;
    fits = fits && CheckedMul(*count, sizes[i], count);
  }
  if (empty) *count = 0;
  return empty || fits;
}

// Bytes from the first element to the end of the last one: what must lie
// within a buffer. 0 for an empty tensor. False on overflow, or a negative
// size or stride.
[[nodiscard]] inline bool CheckedExtentBytes(const int64_t* sizes,
                                             const int64_t* strides, int rank,
                                             size_t element_bytes,
                                             uint64_t* bytes) {
  uint64_t last = 0;  // index of the last element
  bool empty = false, fits = true;
  for (int i = 0; i < rank; ++i) {
    if ((sizes[i] | strides[i]) < 0) return false;
    if (sizes[i] == 0) {
      empty = true;
      continue;
    }
    uint64_t step;
    fits = fits && CheckedMul(sizes[i] - 1, strides[i], &step) &&
           CheckedAdd(last, step, &last);
  }
  *bytes = 0;
  if (empty) return true;
  return fits && CheckedAdd(last, 1u, &last) &&
         CheckedMul(last, element_bytes, bytes);
}

// Whether the elements stand one after the other in row-major order. Strides
// of dimensions of size 1 don't matter; an empty tensor is contiguous. Sizes
// must have passed CheckedNumElements.
inline bool IsContiguous(const int64_t* sizes, const int64_t* strides,
                         int rank) {
  int64_t expected = 1;
  bool ordered = true;
  for (int i = rank - 1; i >= 0; --i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    ordered = ordered && strides[i] == expected;
    expected *= ordered ? sizes[i] : 1;
  }
  return ordered;
}

// Row-major strides of a contiguous tensor, as PyTorch gives them: a size of 0
// counts as 1. False on overflow.
[[nodiscard]] inline bool ContiguousStrides(const int64_t* sizes, int rank,
                                            int64_t* strides) {
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    strides[i] = stride;
    if (!CheckedMul(stride, std::max<int64_t>(sizes[i], 1), &stride)) {
      return false;
    }
  }
  return true;
}

// Whether two indices may name the same element, so that the tensor can't be
// written to in parallel. Exact for tensors whose dimensions nest (anything
// made by slicing, transposing and reshaping) and for two dimensions;
// otherwise it errs on the side of true. The extent must have passed
// CheckedExtentBytes.
inline bool MayOverlapItself(const int64_t* sizes, const int64_t* strides,
                             int rank) {
  // The usual case first, without a sort: row-major nesting.
  uint64_t extent = 1;
  int i = rank - 1;
  for (; i >= 0; --i) {
    if (sizes[i] == 0) return false;
    if (sizes[i] == 1) continue;
    if (static_cast<uint64_t>(strides[i]) < extent) break;
    extent += static_cast<uint64_t>(sizes[i] - 1) * strides[i];
  }
  if (i < 0) return false;

  int64_t dims[kMaxDims][2];  // stride, size; of size > 1
  int count = 0;
  for (i = 0; i < rank; ++i) {
    if (sizes[i] == 0) return false;
    if (sizes[i] == 1) continue;
    if (strides[i] == 0 || count == kMaxDims) return true;
    int at = count++;
    for (; at > 0 && dims[at - 1][0] > strides[i]; --at) {
      dims[at][0] = dims[at - 1][0];
      dims[at][1] = dims[at - 1][1];
    }
    dims[at][0] = strides[i];
    dims[at][1] = sizes[i];
  }
  extent = 1;
  bool nested = true;
  for (i = 0; i < count && nested; ++i) {
    nested = static_cast<uint64_t>(dims[i][0]) >= extent;
    extent += static_cast<uint64_t>(dims[i][1] - 1) * dims[i][0];
  }
  if (nested) return false;
  if (count != 2) return true;
  // d0 * stride0 = d1 * stride1 has its smallest solution at the strides
  // divided by their gcd; it is an overlap if both steps exist.
  const int64_t gcd = std::gcd(dims[0][0], dims[1][0]);
  return dims[1][0] / gcd < dims[0][1] && dims[0][0] / gcd < dims[1][1];
}

// A loop over the elements of kOperands tensors of equal sizes. Sizes and
// strides must have been checked. An empty tensor has no rows. Thread-safe
// when const.
template <int kOperands>
class StridedLoop {
 public:
  // strides[k]: strides of operand k, [rank]. rank <= kMaxDims.
  StridedLoop(const int64_t* sizes, int rank,
              const int64_t* const (&strides)[kOperands])
      : rank_(rank) {
    for (int i = 0; i < rank; ++i) {
      sizes_[i] = sizes[i];
      for (int k = 0; k < kOperands; ++k) strides_[k][i] = strides[k][i];
    }
    if (rank_ == 0) AppendUnit();
  }

  // Reorders dimensions so that operand 0's strides fall, as it is fastest to
  // write. Only where the order of elements does not matter.
  void SortByFirst() {
    for (int i = 1; i < rank_; ++i) {
      for (int j = i; j > 0 && strides_[0][j - 1] < strides_[0][j]; --j) {
        Swap(j - 1, j);
      }
    }
  }

  // Drops dimensions of size 1 and joins neighbours that every operand walks
  // as one. The row-major order of elements stays the same.
  void Coalesce() {
    int kept = 0;
    for (int i = 0; i < rank_; ++i) {
      if (sizes_[i] == 1) continue;
      if (kept > 0 && CanJoin(kept - 1, i)) {
        sizes_[kept - 1] *= sizes_[i];
        for (int k = 0; k < kOperands; ++k) {
          strides_[k][kept - 1] = strides_[k][i];
        }
      } else {
        sizes_[kept] = sizes_[i];
        for (int k = 0; k < kOperands; ++k) strides_[k][kept] = strides_[k][i];
        ++kept;
      }
    }
    rank_ = kept;
    if (rank_ == 0) AppendUnit();
  }

  int rank() const { return rank_; }  // >= 1
  int64_t size(int dim) const { return sizes_[dim]; }
  int64_t stride(int operand, int dim) const { return strides_[operand][dim]; }
  int64_t inner_size() const { return sizes_[rank_ - 1]; }
  int64_t inner_stride(int operand) const {
    return strides_[operand][rank_ - 1];
  }
  // Runs of the innermost dimension.
  int64_t num_rows() const {
    if (inner_size() == 0) return 0;
    int64_t rows = 1;
    for (int i = 0; i < rank_ - 1; ++i) rows *= sizes_[i];
    return rows;
  }

  // Calls body(offsets) for rows [begin, end); offsets[k] is where operand k's
  // row starts, in elements.
  template <typename Body>
  void ForEachRow(int64_t begin, int64_t end, Body&& body) const {
    if (begin >= end) return;
    int64_t index[kMaxDims];
    int64_t offsets[kOperands] = {};
    int64_t rest = begin;
    for (int i = rank_ - 2; i >= 0; --i) {
      index[i] = rest % sizes_[i];
      rest /= sizes_[i];
      for (int k = 0; k < kOperands; ++k) {
        offsets[k] += index[i] * strides_[k][i];
      }
    }
    for (int64_t row = begin;;) {
      body(static_cast<const int64_t(&)[kOperands]>(offsets));
      if (++row == end) return;
      int i = rank_ - 2;
      for (; i >= 0; --i) {
        for (int k = 0; k < kOperands; ++k) offsets[k] += strides_[k][i];
        if (++index[i] < sizes_[i]) break;
        index[i] = 0;
        for (int k = 0; k < kOperands; ++k) {
          offsets[k] -= sizes_[i] * strides_[k][i];
        }
      }
    }
  }

  // Where element `index` (row-major) of operand k stands, in elements.
  int64_t OffsetOf(int operand, int64_t index) const {
    int64_t offset = 0;
    for (int i = rank_ - 1; i >= 0; --i) {
      offset += index % sizes_[i] * strides_[operand][i];
      index /= sizes_[i];
    }
    return offset;
  }

 private:
  void AppendUnit() {
    rank_ = 1;
    sizes_[0] = 1;
    for (int k = 0; k < kOperands; ++k) strides_[k][0] = 1;
  }
  bool CanJoin(int outer, int inner) const {
    for (int k = 0; k < kOperands; ++k) {
      if (strides_[k][outer] != strides_[k][inner] * sizes_[inner]) {
        return false;
      }
    }
    return true;
  }
  void Swap(int a, int b) {
    std::swap(sizes_[a], sizes_[b]);
    for (int k = 0; k < kOperands; ++k) {
      std::swap(strides_[k][a], strides_[k][b]);
    }
  }

  int rank_;
  int64_t sizes_[kMaxDims] = {};
  int64_t strides_[kOperands][kMaxDims] = {};
};

}  // namespace tvarant::base

#endif  // TVARANT_PROTO_BASE_STRIDED_H_

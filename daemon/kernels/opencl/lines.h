// How the work-groups of row kernels lie over rows and their elements.
//
// A group of `group` items holds group / height lines of `height` items, a
// power of two; a line works on one row (or one output), or on one piece of it.
//
// Example:
//   const LineShape lines = LinesOf(context.traits(), rows, columns, false);
//   call.Int(lines.height).RunGroups(lines.num_groups, lines.group);

#ifndef TVARANT_DAEMON_KERNELS_OPENCL_LINES_H_
#define TVARANT_DAEMON_KERNELS_OPENCL_LINES_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "daemon/runtime/opencl/kernel_context.h"

namespace tvarant::opencl {

struct LineShape {
  uint32_t group = 1;
  int height = 1;
  int64_t piece = 0;   // elements of a piece, a multiple of 4
  int64_t pieces = 1;  // of each row
  int64_t num_groups = 0;
};

inline int64_t PowerOfTwoFrom(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

// Items of a group: the largest power of two up to the device's group size.
uint32_t PowerOfTwoGroup(const DeviceTraits& traits);

// For `rows` rows of `count` elements. by_columns: neighbouring items take
// neighbouring rows, else neighbouring elements. Rows are cut into pieces where
// too few groups would work otherwise.
LineShape LinesOf(const DeviceTraits& traits, int64_t rows, int64_t count,
                  bool by_columns);

// The same without pieces. An item gets at most `per_item` elements of a row
// unless rows are too long for that.
LineShape WholeLinesOf(const DeviceTraits& traits, int64_t rows, int64_t count,
                       bool by_columns, int per_item);

// How many elements of its row an item keeps, of the few numbers that kernels
// are compiled for; 0 where rows are too long.
inline constexpr int kMaxKeep = 32;
int KeepOf(const DeviceTraits& traits, int64_t rows, int64_t count,
           bool by_columns);

// -DKEEP and -DVEC, for `keep` other than 0.
void AddKeep(int keep, bool by_vectors, std::string* options);

// The first element stands where a vector of four may.
inline bool AlignedBy4(const ResolvedOperand& operand) {
  return operand.offset_bytes % (4 * SizeOf(operand.dtype)) == 0;
}

// The rows of up to three tensors of the same sizes along one dimension: `Rows`
// of prelude.cl and how long they are.
struct RowSet {
  static constexpr int kMaxTensors = 3;
  struct Rows {
    int64_t rank = 0;
    int64_t sizes[kMaxRank] = {};
    int64_t strides[kMaxTensors][kMaxRank] = {};
  };
  Rows rows;
  int64_t num_rows = 1;
  int64_t n = 1;                    // elements of a row
  int64_t steps[kMaxTensors] = {};  // between them
  bool by_columns = false;          // rows lie nearer than elements
};

// The last tensor decides on the order of rows. A tensor without dimensions is
// one row of one element.
RowSet SplitRows(absl::Span<const ResolvedOperand* const> tensors, int64_t dim);

// Groups that keep the device busy.
inline int64_t EnoughGroups(const DeviceTraits& traits) {
  return int64_t{traits.compute_units} * 8;
}

// An argument of type `wide`: double, or float where there is none.
inline void AddWide(const KernelContext& context, double value,
                    KernelCall* call) {
  if (context.traits().has_double) {
    call->Double(value);
  } else {
    call->Float(static_cast<float>(value));
  }
}

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_KERNELS_OPENCL_LINES_H_

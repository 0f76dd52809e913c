#include "daemon/kernels/opencl/lines.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace tvarant::opencl {
namespace {

// Elements that make an item worth having.
constexpr int64_t kPerItem = 4;
// Elements of each item where there are rows enough. On an H200, sums of rows
// of 4096 floats took 1.6 times as long with 16.
constexpr int64_t kPerItemOfRow = 64;
constexpr int64_t kMinHeight = 32;
// Elements of each item in a piece, at least.
constexpr int64_t kPerItemOfPiece = 16;
// Neighbouring rows that share cache lines.
constexpr int64_t kMinWidth = 32;

int64_t Groups(int64_t rows, int64_t width) {
  return (rows + width - 1) / width;
}

// Items for a row when each takes so many elements of it.
int64_t HeightFor(int64_t count, int64_t per_item, int64_t group) {
  return std::min(group, PowerOfTwoFrom((count + per_item - 1) / per_item));
}

}  // namespace

uint32_t PowerOfTwoGroup(const DeviceTraits& traits) {
  const int64_t power = PowerOfTwoFrom(traits.group_size);
  return static_cast<uint32_t>(power > traits.group_size ? power / 2 : power);
}

LineShape LinesOf(const DeviceTraits& traits, int64_t rows, int64_t count,
                  bool by_columns) {
  LineShape lines;
  const int64_t group = PowerOfTwoGroup(traits), enough = EnoughGroups(traits);
  lines.group = static_cast<uint32_t>(group);
  int64_t width;
  if (by_columns) {
    width = std::min(group, PowerOfTwoFrom(rows));
    while (width > kMinWidth && Groups(rows, width) < enough &&
           count >= 2 * (group / width) * kPerItem) {
      width /= 2;
    }
  } else {
    // Where there are rows enough, fewer items for each: to join what they
    // found takes longer than to find it.
    int64_t per_item = kPerItem;
    while (!traits.is_cpu && per_item < kPerItemOfRow) {
      const int64_t height = HeightFor(count, 2 * per_item, group);
      if (height < kMinHeight || Groups(rows, group / height) < enough) break;
      per_item *= 2;
    }
    width = group / HeightFor(count, per_item, group);
  }
  lines.height = static_cast<int>(group / width);
  const int64_t groups = Groups(rows, width);
  const int64_t smallest = lines.height * kPerItemOfPiece;
  lines.pieces = std::clamp<int64_t>(enough / groups, 1,
                                     std::max<int64_t>(count / smallest, 1));
  lines.piece = (count + lines.pieces - 1) / lines.pieces;
  lines.piece = (lines.piece + 3) / 4 * 4;
  if (lines.piece > 0) lines.pieces = (count + lines.piece - 1) / lines.piece;
  lines.pieces = std::max<int64_t>(lines.pieces, 1);
  lines.num_groups = groups * lines.pieces;
  return lines;
}

LineShape WholeLinesOf(const DeviceTraits& traits, int64_t rows, int64_t count,
                       bool by_columns, int per_item) {
  LineShape lines;
  const int64_t group = PowerOfTwoGroup(traits);
  lines.group = static_cast<uint32_t>(group);
  int64_t lowest = 1, highest = group;
  if (by_columns) {
    const int64_t side_by_side = std::min(group, PowerOfTwoFrom(rows));
    lowest = group / side_by_side;
    highest = group / std::min(side_by_side, kMinWidth);
  }
  const int64_t height = std::clamp(
      PowerOfTwoFrom((count + per_item - 1) / per_item), lowest, highest);
  lines.height = static_cast<int>(height);
  lines.piece = count;
  lines.num_groups = Groups(rows, group / height);
  return lines;
}

int KeepOf(const DeviceTraits& traits, int64_t rows, int64_t count,
           bool by_columns) {
  for (const int keep : {4, 16, kMaxKeep}) {
    // A CPU reads its caches again; what is unrolled takes minutes to
    // compile there.
    if (traits.is_cpu && keep > 4) return 0;
    const LineShape lines = WholeLinesOf(traits, rows, count, by_columns, keep);
    if (int64_t{lines.height} * keep >= count) return keep;
  }
  return 0;
}

RowSet SplitRows(absl::Span<const ResolvedOperand* const> tensors,
                 int64_t dim) {
  RowSet set;
  const int num_tensors = static_cast<int>(tensors.size());
  const ResolvedOperand& first = *tensors[0];
  int64_t sizes[kMaxRank], strides[RowSet::kMaxTensors][kMaxRank];
  int rank = 0;
  for (int d = 0; d < first.rank; ++d) {
    if (d == dim) continue;
    for (int k = 0; k < num_tensors; ++k) {
      strides[k][rank] = tensors[k]->strides[d];
    }
    set.num_rows *= first.sizes[d];
    sizes[rank++] = first.sizes[d];
  }
  if (first.rank > 0) set.n = first.sizes[dim];
  // Last tensor first.
  ResolvedOperand outer[RowSet::kMaxTensors];
  const ResolvedOperand* pointers[RowSet::kMaxTensors];
  for (int k = 0; k < num_tensors; ++k) {
    set.steps[k] = set.n == 1 ? 1 : tensors[k]->strides[dim];
    ResolvedOperand& rows = outer[num_tensors - 1 - k];
    rows = *tensors[k];
    rows.rank = rank;
    rows.sizes = sizes;
    rows.strides = strides[k];
    pointers[k] = &outer[k];
  }
  const std::vector<ClView> views = JoinedViews(
      absl::MakeConstSpan(pointers, num_tensors), ViewOrder::kMemory);
  set.rows.rank = views[0].rank;
  for (int d = 0; d < views[0].rank; ++d) {
    set.rows.sizes[d] = views[0].sizes[d];
    for (int k = 0; k < num_tensors; ++k) {
      set.rows.strides[k][d] = views[num_tensors - 1 - k].strides[d];
    }
  }
  set.by_columns =
      set.num_rows > 1 && set.n > 1 &&
      views[0].strides[views[0].rank - 1] < set.steps[num_tensors - 1];
  return set;
}

void AddKeep(int keep, bool by_vectors, std::string* options) {
  if (keep > 0) absl::StrAppend(options, " -DKEEP=", keep);
  if (keep > 0 && by_vectors) absl::StrAppend(options, " -DVEC");
}

}  // namespace tvarant::opencl

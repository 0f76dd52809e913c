// sort, order_statistic, sort_rows, search_sorted, histogram.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/part_of.h"
#include "daemon/kernels/opencl/sort_pairs.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

// One item looks for the mode of a row.
constexpr int64_t kMaxModeRow = 1 << 16;
// Bins that a group keeps in its local memory.
constexpr int64_t kMaxHeldBins = 2048;
constexpr int64_t kPerItem = 16;
// Columns that rows are sorted by, each by a sort of its own.
constexpr int64_t kMaxSortedColumns = 64;
constexpr int kOrderSlots[] = {2, 3};  // beside those of PairSort

bool IsWide(DType dtype) { return SizeOf(dtype) == 8; }

absl::Status CheckDType(const KernelContext& context,
                        const ResolvedLaunch& launch, DType dtype) {
  if (ComputeClassOf(dtype) != ComputeClass::kNone &&
      Computes(context, dtype)) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      NameOf(launch.kernel), ": no OpenCL kernel for ", NameOf(dtype)));
}

std::string OptionsOf(DType dtype) {
  return absl::StrCat("-DT=", ClTypeName(dtype),
                      " -DWIDE=", IsWide(dtype) ? 1 : 0,
                      " -DFLOATING=", IsFloating(dtype) ? 1 : 0);
}

// Sorted keys and orders of the rows of a launch's x; set: of its values,
// indices and x.
absl::StatusOr<PairSort> SortRowsOf(KernelContext& context,
                                    const ResolvedLaunch& launch,
                                    const RowSet& set, bool descending) {
  const ResolvedOperand& x = launch.src[0];
  const int64_t dim = launch.ints[0];
  ASSIGN_OR_RETURN(
      PairSort sort,
      PairSort::Create(context, set.num_rows, x.sizes[dim], IsWide(x.dtype)));
  RETURN_IF_ERROR(KernelCall(context, kSortCl, "sort_keys", OptionsOf(x.dtype))
                      .Memory(sort.memory())
                      .Operand(x)
                      .Struct(set.rows)
                      .Int(2)
                      .Long(x.sizes[dim])
                      .Long(x.strides[dim])
                      .Int(descending)
                      .Long(sort.total())
                      .Run(sort.total()));
  RETURN_IF_ERROR(sort.Sort(context));
  return sort;
}

ClView RowMajor(const ResolvedOperand& operand) {
  const ResolvedOperand* operands[] = {&operand};
  return JoinedViews(operands, ViewOrder::kRowMajor)[0];
}

}  // namespace

absl::Status RunSort(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& values = launch.dst[0];
  const ResolvedOperand& indices = launch.dst[1];
  const ResolvedOperand& x = launch.src[0];
  RETURN_IF_ERROR(CheckDType(context, launch, x.dtype));
  const int64_t count = NumElements(values);
  if (count == 0) return absl::OkStatus();
  const int64_t dim = launch.ints[0];
  const ResolvedOperand* tensors[] = {&values, &indices, &x};
  const RowSet set = SplitRows(tensors, dim);
  ASSIGN_OR_RETURN(const PairSort sort,
                   SortRowsOf(context, launch, set, launch.ints[1] != 0));
  return KernelCall(context, kSortCl, "sort_store", OptionsOf(x.dtype))
      .Operand(values)
      .Operand(indices)
      .Operand(x)
      .Memory(sort.memory())
      .Long(sort.order_offset())
      .Struct(set.rows)
      .Long(x.sizes[dim])
      .Long(values.sizes[dim])
      .Long(values.strides[dim])
      .Long(indices.strides[dim])
      .Long(x.strides[dim])
      .Long(count)
      .Run(count);
}

absl::Status RunOrderStatistic(KernelContext& context,
                               const ResolvedLaunch& launch) {
  const ResolvedOperand& x = launch.src[0];
  RETURN_IF_ERROR(CheckDType(context, launch, x.dtype));
  const int64_t dim = launch.ints[0];
  if (NumElements(launch.dst[0]) == 0) return absl::OkStatus();
  if (launch.ints[1] == static_cast<int64_t>(OrderStatistic::kMode) &&
      x.sizes[dim] > kMaxModeRow) {
    return absl::UnimplementedError(
        "order_statistic: the mode of a row that is too long for one item");
  }
  const ResolvedOperand* tensors[] = {&launch.dst[0], &launch.dst[1], &x};
  const RowSet set = SplitRows(tensors, dim);
  ASSIGN_OR_RETURN(const PairSort sort,
                   SortRowsOf(context, launch, set, /*descending=*/false));
  return KernelCall(context, kSortCl, "order_statistic", OptionsOf(x.dtype))
      .Operand(launch.dst[0])
      .Operand(launch.dst[1])
      .Operand(x)
      .Memory(sort.memory())
      .Long(sort.order_offset())
      .Struct(set.rows)
      .Long(x.sizes[dim])
      .Int(static_cast<int32_t>(launch.ints[1]))
      .Long(launch.ints[2])
      .Long(x.strides[dim])
      .Long(set.num_rows)
      .Run(set.num_rows);
}

absl::Status RunSortRows(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& order = launch.dst[0];
  const ResolvedOperand& x = launch.src[0];
  RETURN_IF_ERROR(CheckDType(context, launch, x.dtype));
  const int64_t count = x.sizes[0], columns = x.sizes[1];
  if (count == 0) return absl::OkStatus();
  if (columns > kMaxSortedColumns) {
    return absl::UnimplementedError("sort_rows: too many columns");
  }
  const std::string options = OptionsOf(x.dtype);
  cl_mem before = nullptr;
  for (int64_t column = columns - 1; column >= 0; --column) {
    ASSIGN_OR_RETURN(PairSort sort,
                     PairSort::Create(context, 1, count, IsWide(x.dtype)));
    RETURN_IF_ERROR(KernelCall(context, kSortCl, "sort_row_keys", options)
                        .Memory(sort.memory())
                        .Operand(x)
                        .Memory(before)
                        .Long(x.strides[0])
                        .Long(column * x.strides[1])
                        .Long(count)
                        .Run(count));
    RETURN_IF_ERROR(sort.Sort(context));
    ASSIGN_OR_RETURN(const cl_mem after,
                     context.Scratch(static_cast<uint64_t>(count) * 4,
                                     kOrderSlots[column % 2]));
    RETURN_IF_ERROR(KernelCall(context, kSortCl, "sort_row_order", options)
                        .Memory(after)
                        .Memory(before)
                        .Memory(sort.memory())
                        .Long(sort.order_offset())
                        .Long(count)
                        .Run(count));
    before = after;
  }
  return KernelCall(context, kSortCl, "sort_row_store", options)
      .Operand(order)
      .Long(order.strides[0])
      .Memory(before)
      .Long(count)
      .Run(count);
}

absl::Status RunSearchSorted(KernelContext& context,
                             const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& sequence = launch.src[0];
  const ResolvedOperand& values = launch.src[1];
  const ResolvedOperand& sorter = launch.src[2];
  RETURN_IF_ERROR(CheckDType(context, launch, sequence.dtype));
  const int64_t count = NumElements(y);
  if (count == 0) return absl::OkStatus();
  // Lines of values and of the sequence go together, if it has any.
  const int last = sequence.rank - 1;
  const bool has_sorter = sorter.dtype != DType::kInvalid;
  PartOf sequence_lines(sequence), sorter_lines(sorter);
  for (int d = 0; d < y.rank; ++d) {
    const bool lines = last > 0 && d < last;
    sequence_lines.Add(y.sizes[d], lines ? sequence.strides[d] : 0);
    sorter_lines.Add(y.sizes[d], lines && has_sorter ? sorter.strides[d] : 0);
  }
  const ResolvedOperand* walked[] = {&y, sequence_lines.get(), &values,
                                     sorter_lines.get()};
  const std::vector<ClView> views = JoinedViews(walked, ViewOrder::kRowMajor);
  return KernelCall(context, kSortCl, "search_sorted",
                    OptionsOf(sequence.dtype))
      .Operand(y)
      .Struct(views[0])
      .Int(y.dtype == DType::kInt64)
      .Operand(sequence)
      .Struct(views[1])
      .Long(sequence.strides[last])
      .Operand(values)
      .Struct(views[2])
      .Operand(sorter)
      .Struct(views[3])
      .Long(has_sorter ? sorter.strides[last] : 0)
      .Long(sequence.sizes[last])
      .Int(static_cast<int32_t>(launch.ints[0]))
      .Long(count)
      .Faults(BadIndex(last, sequence.sizes[last]))
      .Run(count);
}

absl::Status RunHistogram(KernelContext& context,
                          const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& x = launch.src[0];
  RETURN_IF_ERROR(CheckDType(context, launch, x.dtype));
  RETURN_IF_ERROR(CheckDType(context, launch, y.dtype));
  const int64_t bins = y.sizes[0], n = NumElements(x);
  if (launch.src[1].dtype != DType::kInvalid ||
      n >= std::numeric_limits<uint32_t>::max()) {
    return absl::UnimplementedError("histogram: weights, or too many elements");
  }
  if (bins == 0 && n == 0) return absl::OkStatus();
  const uint64_t bytes = static_cast<uint64_t>(std::max<int64_t>(bins, 1)) * 4;
  ASSIGN_OR_RETURN(const cl_mem counts, context.Scratch(bytes));
  RETURN_IF_ERROR(ZeroMemory(context, counts, bytes));
  const std::string options =
      absl::StrCat(OptionsOf(x.dtype), " -DOT=", ClTypeName(y.dtype));
  const DeviceTraits& traits = context.traits();
  const bool held = bins <= kMaxHeldBins;
  const int64_t part = traits.group_size * kPerItem;
  const int64_t groups = std::min((n + part - 1) / part, EnoughGroups(traits));
  KernelCall call(context, kSortCl, "histogram", options);
  call.Memory(counts)
      .Operand(x)
      .Struct(RowMajor(x))
      .Long(n)
      .Long(bins)
      .Int(launch.ints[0] != 0);
  for (const double bound : {launch.floats[0], launch.floats[1]}) {
    if (x.dtype == DType::kFloat64) {
      call.Double(bound);
    } else {
      call.Float(static_cast<float>(bound));
    }
  }
  RETURN_IF_ERROR(call.Int(held)
                      .Local(held ? bytes : 4)
                      .Faults(BadIndex(0, bins))
                      .RunGroups(groups, traits.group_size));
  return KernelCall(context, kSortCl, "histogram_store", options)
      .Operand(y)
      .Long(y.strides[0])
      .Memory(counts)
      .Long(bins)
      .Run(bins);
}

}  // namespace tvarant::opencl

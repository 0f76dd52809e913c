// index_put, scatter, scatter_add, embedding_backward.
//
// Values join in the order of their positions, so that results do not depend
// on how work-groups run: the places are sorted (stably) and each place's
// values belong to one item. Where there are many lines, or short ones, an
// item walks its whole line instead.

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/part_of.h"
#include "daemon/kernels/opencl/places.h"
#include "daemon/kernels/opencl/sort_pairs.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"
#include "proto/ops/op_ids.h"

namespace tvarant::opencl {
namespace {

constexpr int kSum = 5;  // of put.cl, behind PutMode
constexpr int kMean = 6;
constexpr int64_t kShortLine = 64;
constexpr int64_t kLinesPerUnit = 128;

std::string OptionsOf(DType dtype, int mode) {
  if (mode == static_cast<int>(PutMode::kSet)) {
    return absl::StrCat("-DBYTES=", SizeOf(dtype));
  }
  return absl::StrCat("-DT=", ClTypeName(dtype),
                      " -DFLOATING=", IsFloating(dtype) ? 1 : 0);
}

bool CanPut(const KernelContext& context, DType dtype, int mode) {
  return mode == static_cast<int>(PutMode::kSet) ||
         (dtype <= DType::kFloat64 && Computes(context, dtype));
}

absl::Status NoKernel(const ResolvedLaunch& launch) {
  return absl::UnimplementedError(absl::StrCat(NameOf(launch.kernel),
                                               ": no OpenCL kernel for ",
                                               NameOf(launch.dst[0].dtype)));
}

// Where the last element of x is.
bool NeedsWideKeys(const ResolvedOperand& x) {
  int64_t last = 0;
  for (int d = 0; d < x.rank; ++d) last += (x.sizes[d] - 1) * x.strides[d];
  return last >= std::numeric_limits<uint32_t>::max();
}

struct Slices {
  ClView x_kept, v_kept, v_positions;
  int64_t size = 1;
};

absl::Status PutRuns(KernelContext& context, const ResolvedOperand& x,
                     const ResolvedOperand& values, const Slices& slices,
                     const PairSort& sort, int mode) {
  const int64_t count = sort.total();
  return KernelCall(context, kPutCl, "put_runs", OptionsOf(x.dtype, mode))
      .Operand(x)
      .Struct(slices.x_kept)
      .Operand(values)
      .Struct(slices.v_kept)
      .Struct(slices.v_positions)
      .Memory(sort.memory())
      .Long(sort.order_offset())
      .Int(sort.wide_keys())
      .Long(count)
      .Long(slices.size)
      .Int(mode)
      .Run(count * slices.size);
}

ClView RowMajor(const ResolvedOperand& operand) {
  const ResolvedOperand* operands[] = {&operand};
  return JoinedViews(operands, ViewOrder::kRowMajor)[0];
}

absl::Status Scatter(KernelContext& context, const ResolvedLaunch& launch,
                     int mode) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& index = launch.src[0];
  const ResolvedOperand& values = launch.src[1];
  if (!CanPut(context, y.dtype, mode)) return NoKernel(launch);
  const int64_t total = NumElements(index);
  if (total == 0) return absl::OkStatus();
  const int dim = static_cast<int>(launch.ints[0]);
  const int64_t count = index.sizes[dim], lines = total / count;
  const FaultText text = BadIndex(dim, y.sizes[dim]);
  if (count <= kShortLine ||
      lines >= kLinesPerUnit * context.traits().compute_units) {
    PartOf y_lines(y), index_lines(index), v_lines(values);
    for (int d = 0; d < index.rank; ++d) {
      if (d == dim) continue;
      y_lines.Add(index.sizes[d], y.strides[d]);
      index_lines.Add(index, d, d + 1);
      v_lines.Add(values, d, d + 1);
    }
    const ResolvedOperand* parts[] = {y_lines.get(), index_lines.get(),
                                      v_lines.get()};
    const std::vector<ClView> views = JoinedViews(parts, ViewOrder::kMemory);
    return KernelCall(context, kPutCl, "put_lines", OptionsOf(y.dtype, mode))
        .Operand(y)
        .Struct(views[0])
        .Operand(index)
        .Struct(views[1])
        .Operand(values)
        .Struct(views[2])
        .Int(index.dtype == DType::kInt64)
        .Long(lines)
        .Long(count)
        .Long(y.sizes[dim])
        .Long(y.strides[dim])
        .Long(index.strides[dim])
        .Long(values.strides[dim])
        .Int(mode)
        .Faults(text)
        .Run(lines);
  }
  ASSIGN_OR_RETURN(PairSort sort,
                   PairSort::Create(context, 1, total, NeedsWideKeys(y)));
  PartOf base(y);
  for (int d = 0; d < index.rank; ++d) {
    base.Add(index.sizes[d], d == dim ? 0 : y.strides[d]);
  }
  const ResolvedOperand* walked[] = {&index, base.get(), &values};
  const std::vector<ClView> views = JoinedViews(walked, ViewOrder::kRowMajor);
  PlaceRule rule;
  rule.index_view = views[0];
  rule.base_view = views[1];
  rule.size = y.sizes[dim];
  rule.stride = y.strides[dim];
  RETURN_IF_ERROR(ResolvePlace(context, index, rule, total, sort.memory(),
                               sort.wide_keys(), text));
  RETURN_IF_ERROR(sort.Sort(context));
  Slices slices;
  slices.x_kept = slices.v_kept = PartOf(y).view();
  slices.v_positions = views[2];
  return PutRuns(context, y, values, slices, sort, mode);
}

}  // namespace

absl::Status RunScatter(KernelContext& context, const ResolvedLaunch& launch) {
  return Scatter(context, launch, static_cast<int>(launch.ints[1]));
}

absl::Status RunScatterAdd(KernelContext& context,
                           const ResolvedLaunch& launch) {
  return Scatter(context, launch, static_cast<int>(PutMode::kAdd));
}

absl::Status RunIndexPut(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& x = launch.dst[0];
  const ResolvedOperand& values = launch.src[0];
  const auto indices = launch.src.subspan(1);
  const int mode = static_cast<int>(launch.ints[1]);
  if (!CanPut(context, x.dtype, mode)) return NoKernel(launch);
  if (NumElements(values) == 0) return absl::OkStatus();
  const int first = static_cast<int>(launch.ints[0]);
  const int indexed = static_cast<int>(indices.size());
  const int index_rank = indices[0].rank;
  const int64_t count = NumElements(indices[0]);
  ASSIGN_OR_RETURN(PairSort sort,
                   PairSort::Create(context, 1, count, NeedsWideKeys(x)));
  RETURN_IF_ERROR(ResolvePlaces(
      context, x, first, indices, launch.ints.subspan(2),
      (launch.flags & kWrapNegative) != 0, sort.memory(), sort.wide_keys()));
  RETURN_IF_ERROR(sort.Sort(context));
  PartOf x_kept(x), v_kept(values), v_positions(values);
  x_kept.Add(x, 0, first).Add(x, first + indexed, x.rank);
  v_kept.Add(values, 0, first).Add(values, first + index_rank, values.rank);
  v_positions.Add(values, first, first + index_rank);
  const ResolvedOperand* kept[] = {x_kept.get(), v_kept.get()};
  const std::vector<ClView> views = JoinedViews(kept, ViewOrder::kMemory);
  Slices slices{.x_kept = views[0],
                .v_kept = views[1],
                .v_positions = RowMajor(*v_positions.get()),
                .size = NumElements(*x_kept.get())};
  return PutRuns(context, x, values, slices, sort, mode);
}

absl::Status RunEmbeddingBackward(KernelContext& context,
                                  const ResolvedLaunch& launch) {
  const ResolvedOperand& dweight = launch.dst[0];
  const ResolvedOperand& dy = launch.src[0];
  const ResolvedOperand& index = launch.src[1];
  if (!CanPut(context, dweight.dtype, kSum)) return NoKernel(launch);
  if (NumElements(dweight) == 0) return absl::OkStatus();
  const int64_t tokens = index.sizes[0];
  ASSIGN_OR_RETURN(PairSort sort, PairSort::Create(context, 1, tokens,
                                                   NeedsWideKeys(dweight)));
  const int64_t zero[] = {0, 0};
  ResolvedLaunch fill;
  fill.kernel = Kernel::kFill;
  fill.ints = zero;
  fill.dst = launch.dst;
  RETURN_IF_ERROR(RunFill(context, fill));
  if (tokens == 0) return absl::OkStatus();
  PlaceRule rule;
  rule.index_view = RowMajor(index);
  rule.base_view = rule.index_view;
  for (int64_t& stride : rule.base_view.strides) stride = 0;
  rule.size = dweight.sizes[0];
  rule.stride = dweight.strides[0];
  rule.skip = launch.ints[0];
  RETURN_IF_ERROR(ResolvePlace(context, index, rule, tokens, sort.memory(),
                               sort.wide_keys(),
                               BadIndex(0, dweight.sizes[0])));
  RETURN_IF_ERROR(sort.Sort(context));
  PartOf row(dweight), dy_row(dy), dy_tokens(dy);
  row.Add(dweight, 1, 2);
  dy_row.Add(dy, 1, 2);
  dy_tokens.Add(dy, 0, 1);
  const Slices slices{.x_kept = row.view(),
                      .v_kept = dy_row.view(),
                      .v_positions = dy_tokens.view(),
                      .size = dweight.sizes[1]};
  return PutRuns(context, dweight, dy, slices, sort,
                 launch.ints[1] != 0 ? kMean : kSum);
}

}  // namespace tvarant::opencl

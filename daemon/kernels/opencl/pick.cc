// index_select, index, gather, cat.

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/part_of.h"
#include "daemon/kernels/opencl/places.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

constexpr int kPerItem = 4;  // of pick.cl

int64_t GroupsOf(const KernelContext& context, int64_t count) {
  const int64_t group = int64_t{context.traits().group_size} * kPerItem;
  return (count + group - 1) / group;
}

// How `pick` walks y and x.
struct PickWalk {
  ClView y_kept, y_positions, x_kept;
  int64_t bytes;  // of an element
  uint64_t y_offset, x_offset;
  int64_t slice, x_stride;
  bool positions_inner;
};

bool AllDivide(const ClView& view, int64_t by) {
  for (int d = 0; d < view.rank - 1; ++d) {
    if (view.strides[d] % by != 0) return false;
  }
  return view.strides[view.rank - 1] == 1 &&
         view.sizes[view.rank - 1] % by == 0;
}

// Elements are taken together to up to 16 bytes where slices allow.
void Widen(const ClView& positions, PickWalk* walk) {
  for (int64_t by = 16 / walk->bytes; by > 1; by /= 2) {
    bool fits = AllDivide(walk->y_kept, by) && AllDivide(walk->x_kept, by) &&
                walk->x_stride % by == 0 &&
                walk->y_offset % (by * walk->bytes) == 0 &&
                walk->x_offset % (by * walk->bytes) == 0;
    for (int d = 0; d < positions.rank; ++d) {
      fits &= positions.strides[d] % by == 0;
    }
    if (!fits) continue;
    for (ClView* view : {&walk->y_kept, &walk->x_kept}) {
      view->sizes[view->rank - 1] /= by;
      for (int d = 0; d < view->rank - 1; ++d) view->strides[d] /= by;
    }
    for (int d = 0; d < positions.rank; ++d) {
      walk->y_positions.strides[d] /= by;
    }
    walk->x_stride /= by;
    walk->slice /= by;
    walk->bytes *= by;
    return;
  }
}

// y and x without the indexed dimensions: x's [first, first + indexed), in
// whose place y has the positions'.
PickWalk WalkOf(const ResolvedOperand& y, const ResolvedOperand& x, int first,
                int indexed, int index_rank, int64_t x_stride, bool widen) {
  PartOf y_kept(y), x_kept(x), y_positions(y);
  y_kept.Add(y, 0, first).Add(y, first + index_rank, y.rank);
  x_kept.Add(x, 0, first).Add(x, first + indexed, x.rank);
  y_positions.Add(y, first, first + index_rank);
  const ResolvedOperand* kept[] = {y_kept.get(), x_kept.get()};
  const std::vector<ClView> views = JoinedViews(kept, ViewOrder::kMemory);
  PickWalk walk{.y_kept = views[0],
                .y_positions = y_positions.view(),
                .x_kept = views[1],
                .bytes = static_cast<int64_t>(SizeOf(y.dtype)),
                .y_offset = y.offset_bytes,
                .x_offset = x.offset_bytes,
                .slice = NumElements(*y_kept.get()),
                .x_stride = x_stride,
                .positions_inner = false};
  const ResolvedOperand* positions[] = {y_positions.get()};
  walk.y_positions = JoinedViews(positions, ViewOrder::kRowMajor)[0];
  const int64_t step = walk.y_positions.strides[walk.y_positions.rank - 1];
  walk.positions_inner =
      walk.slice == 1 || (step < walk.y_kept.strides[walk.y_kept.rank - 1] &&
                          NumElements(*y_positions.get()) > 1);
  if (widen && !walk.positions_inner) Widen(walk.y_positions, &walk);
  return walk;
}

absl::Status RunPick(KernelContext& context, const PickWalk& walk,
                     const ResolvedOperand& y, const ResolvedOperand& x,
                     const ResolvedOperand* index, cl_mem places, int64_t count,
                     int64_t size, bool wrap, FaultText text) {
  KernelCall call(context, kPickCl, "pick",
                  absl::StrCat("-DBYTES=", walk.bytes));
  call.Operand(y).Struct(walk.y_kept).Struct(walk.y_positions);
  call.Operand(x).Struct(walk.x_kept);
  if (index != nullptr) {
    call.Operand(*index)
        .Int(index->dtype == DType::kInt64)
        .Long(index->strides[0]);
  } else {
    call.Memory(places).Long(0).Int(1).Long(1);
  }
  return call.Long(walk.slice)
      .Long(count)
      .Long(size)
      .Long(walk.x_stride)
      .Int(wrap)
      .Int(walk.positions_inner)
      .Faults(std::move(text))
      .RunGroups(GroupsOf(context, walk.slice * count),
                 context.traits().group_size);
}

}  // namespace

absl::Status RunIndexSelect(KernelContext& context,
                            const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& x = launch.src[0];
  const ResolvedOperand& index = launch.src[1];
  const int dim = static_cast<int>(launch.ints[0]);
  if (NumElements(y) == 0) return absl::OkStatus();
  const PickWalk walk = WalkOf(y, x, dim, 1, 1, x.strides[dim], true);
  return RunPick(context, walk, y, x, &index, nullptr, index.sizes[0],
                 x.sizes[dim], (launch.flags & kWrapNegative) != 0,
                 BadIndex(dim, x.sizes[dim]));
}

absl::Status RunIndexPick(KernelContext& context,
                          const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& x = launch.src[0];
  const auto indices = launch.src.subspan(1);
  const int first = static_cast<int>(launch.ints[0]);
  const int indexed = static_cast<int>(indices.size());
  if (NumElements(y) == 0) return absl::OkStatus();
  const int64_t count = NumElements(indices[0]);
  const bool wrap = (launch.flags & kWrapNegative) != 0;
  const ResolvedOperand& index = indices[0];
  if (indexed == 1 && index.rank == 1) {
    const PickWalk walk = WalkOf(y, x, first, 1, 1, x.strides[first], true);
    return RunPick(context, walk, y, x, &index, nullptr, count, x.sizes[first],
                   wrap, BadIndex(launch.ints[1], x.sizes[first]));
  }
  ASSIGN_OR_RETURN(cl_mem places,
                   context.Scratch(static_cast<uint64_t>(count) * 8, 2));
  RETURN_IF_ERROR(ResolvePlaces(context, x, first, indices,
                                launch.ints.subspan(1), wrap, places, true));
  // Offsets are in elements: these stay as they are.
  const PickWalk walk =
      WalkOf(y, x, first, indexed, index.rank, 1, /*widen=*/false);
  return RunPick(context, walk, y, x, nullptr, places, count, -1, false,
                 BadIndex(first, 0));
}

absl::Status RunGather(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& x = launch.src[0];
  const ResolvedOperand& index = launch.src[1];
  const int dim = static_cast<int>(launch.ints[0]);
  const int64_t count = NumElements(y);
  if (count == 0) return absl::OkStatus();
  PartOf line(x);
  for (int d = 0; d < y.rank; ++d) {
    line.Add(y.sizes[d], d == dim ? 0 : x.strides[d]);
  }
  const ResolvedOperand* operands[] = {&y, line.get(), &index};
  const std::vector<ClView> views = JoinedViews(operands, ViewOrder::kMemory);
  return KernelCall(context, kPickCl, "gather",
                    absl::StrCat("-DBYTES=", SizeOf(y.dtype)))
      .Operand(y)
      .Struct(views[0])
      .Operand(x)
      .Struct(views[1])
      .Operand(index)
      .Struct(views[2])
      .Int(index.dtype == DType::kInt64)
      .Long(count)
      .Long(x.sizes[dim])
      .Long(x.strides[dim])
      .Faults(BadIndex(dim, x.sizes[dim]))
      .RunGroups(GroupsOf(context, count), context.traits().group_size);
}

absl::Status RunCat(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const int dim = static_cast<int>(launch.ints[0]);
  for (const ResolvedOperand& x : launch.src) {
    if (x.dtype != y.dtype &&
        (!Computes(context, x.dtype) || !Computes(context, y.dtype))) {
      return absl::UnimplementedError("cat: conversions need cl_khr_fp64");
    }
  }
  uint64_t offset = y.offset_bytes;
  for (const ResolvedOperand& x : launch.src) {
    ResolvedOperand place = y;
    place.offset_bytes = offset;
    place.sizes = x.sizes;
    ResolvedLaunch copy;
    copy.kernel = Kernel::kCopy;
    copy.dst = absl::MakeConstSpan(&place, 1);
    copy.src = absl::MakeConstSpan(&x, 1);
    RETURN_IF_ERROR(RunCopy(context, copy));
    offset +=
        static_cast<uint64_t>(x.sizes[dim] * y.strides[dim]) * SizeOf(y.dtype);
  }
  return absl::OkStatus();
}

}  // namespace tvarant::opencl

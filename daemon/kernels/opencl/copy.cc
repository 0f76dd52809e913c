// copy, fill, arange, zeroing.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/jit/cl_status.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

constexpr int kPerItem = 4;    // of copy.cl
constexpr int64_t kTile = 32;  // of copy.cl

std::string BytesOption(DType dtype) {
  return absl::StrCat("-DBYTES=", SizeOf(dtype));
}

// A walk of at most three dimensions whose fastest one in the output is not
// the fastest in the input: rows and columns of a transposition.
struct Transposition {
  int64_t rows, columns, batches;
  int64_t y_row, x_column, y_batch, x_batch;
};

bool FindTransposition(const ClView& y, const ClView& x, Transposition* found) {
  if (y.rank < 2 || y.rank > 3) return false;
  const int column = static_cast<int>(y.rank) - 1;
  if (y.strides[column] != 1 || x.strides[column] <= 1) return false;
  // The dimension that is dense in x.
  for (int row = column - 1; row >= 0; --row) {
    if (x.strides[row] != 1) continue;
    if (y.sizes[row] < kTile / 2 || y.sizes[column] < kTile / 2) return false;
    const int batch = y.rank == 3 ? 1 - row : -1;
    *found = {.rows = y.sizes[row],
              .columns = y.sizes[column],
              .batches = batch < 0 ? 1 : y.sizes[batch],
              .y_row = y.strides[row],
              .x_column = x.strides[column],
              .y_batch = batch < 0 ? 0 : y.strides[batch],
              .x_batch = batch < 0 ? 0 : x.strides[batch]};
    // Grids are narrow in the other dimensions.
    return found->batches < 65536 && found->rows < 65535 * kTile;
  }
  return false;
}

absl::Status CopyDense(KernelContext& context, const ResolvedOperand& y,
                       const ResolvedOperand& x) {
  int64_t size = static_cast<int64_t>(SizeOf(y.dtype));
  int64_t count = NumElements(y);
  // By the widest element that divides it all.
  if ((count * size) % 16 == 0 && y.offset_bytes % 16 == 0 &&
      x.offset_bytes % 16 == 0) {
    count = count * size / 16;
    size = 16;
  }
  const uint32_t group = context.traits().group_size;
  return KernelCall(context, kCopyCl, "copy_dense",
                    absl::StrCat("-DBYTES=", size))
      .Operand(y)
      .Operand(x)
      .Long(count)
      .RunGroups((count + group * kPerItem - 1) / (group * kPerItem), group);
}

absl::Status CopyBits(KernelContext& context, const ResolvedOperand& y,
                      const ResolvedOperand& x) {
  const int64_t count = NumElements(y);
  const ResolvedOperand* operands[] = {&y, &x};
  const std::vector<ClView> views = JoinedViews(operands, ViewOrder::kMemory);
  const ClView &yv = views[0], &xv = views[1];
  if (yv.rank == 1 && yv.strides[0] == 1 && xv.strides[0] == 1) {
    return CopyDense(context, y, x);
  }
  const uint32_t group = context.traits().group_size;
  Transposition t;
  if (FindTransposition(yv, xv, &t) &&
      context.traits().max_group_size >= kTile) {
    const size_t rows_at_once = std::clamp<size_t>(group / kTile, 1, 8);
    const size_t grid[] = {static_cast<size_t>((t.columns + kTile - 1) / kTile),
                           static_cast<size_t>((t.rows + kTile - 1) / kTile),
                           static_cast<size_t>(t.batches)};
    const size_t local[] = {kTile, rows_at_once, 1};
    return KernelCall(context, kCopyCl, "copy_transposed", BytesOption(y.dtype))
        .Operand(y)
        .Operand(x)
        .Long(t.rows)
        .Long(t.columns)
        .Long(t.y_row)
        .Long(t.x_column)
        .Long(t.y_batch)
        .Long(t.x_batch)
        .RunGrid(3, grid, local);
  }
  return KernelCall(context, kCopyCl, "copy_strided", BytesOption(y.dtype))
      .Operand(y)
      .Struct(yv)
      .Operand(x)
      .Struct(xv)
      .Long(count)
      .RunGroups((count + group * kPerItem - 1) / (group * kPerItem), group);
}

// y = x, or y = -x, by a program of its own: the store converts.
absl::Status ConvertReal(KernelContext& context, const ResolvedOperand& y,
                         const ResolvedOperand& x, bool negate) {
  ProgramBuilder builder;
  const int value = builder.Load(0, x.dtype);
  builder.Store(negate ? builder.Op(PointwiseOp::kNeg, x.dtype, value) : value);
  ResolvedLaunch launch;
  launch.kernel = Kernel::kPointwise;
  launch.program = &builder.program();
  launch.dst = absl::MakeConstSpan(&y, 1);
  launch.src = absl::MakeConstSpan(&x, 1);
  return RunPointwise(context, launch);
}

absl::Status ConvertComplex(KernelContext& context, const ResolvedOperand& y,
                            const ResolvedOperand& x, bool negate,
                            bool conjugate) {
  const ResolvedOperand* operands[] = {&y, &x};
  const std::vector<ClView> views = JoinedViews(operands, ViewOrder::kMemory);
  const std::string options = absl::StrCat(
      "-DFROM=", ClTypeName(x.dtype), " -DTO=", ClTypeName(y.dtype),
      " -DFROM_COMPLEX=", IsComplex(x.dtype) ? 1 : 0,
      " -DTO_COMPLEX=", IsComplex(y.dtype) ? 1 : 0,
      " -DTO_BOOL=", y.dtype == DType::kBool ? 1 : 0);
  const int64_t count = NumElements(y);
  return KernelCall(context, kCopyCl, "convert_complex", options)
      .Operand(y)
      .Struct(views[0])
      .Operand(x)
      .Struct(views[1])
      .Long(count)
      .Int(negate ? -1 : 1)
      .Int(negate != conjugate ? -1 : 1)
      .Run(count);
}

}  // namespace

absl::Status RunCopy(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& x = launch.src[0];
  if (NumElements(y) == 0) return absl::OkStatus();
  const bool conjugate = (launch.flags & kConjugate) != 0 && IsComplex(x.dtype);
  const bool negate = (launch.flags & kNegate) != 0;
  if (x.dtype == y.dtype && !conjugate && !negate) {
    return CopyBits(context, y, x);
  }
  if (IsComplex(x.dtype) || IsComplex(y.dtype)) {
    return ConvertComplex(context, y, x, negate, conjugate);
  }
  return ConvertReal(context, y, x, negate);
}

absl::Status RunFill(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const int64_t count = NumElements(y);
  if (count == 0) return absl::OkStatus();
  const ResolvedOperand* operands[] = {&y};
  const ClView view = JoinedViews(operands, ViewOrder::kMemory)[0];
  const uint32_t group = context.traits().group_size;
  if (view.rank == 1 && view.strides[0] == 1) {
    return KernelCall(context, kCopyCl, "fill_dense", BytesOption(y.dtype))
        .Operand(y)
        .Long(count)
        .Long(launch.ints[0])
        .Long(launch.ints[1])
        .RunGroups((count + group * kPerItem - 1) / (group * kPerItem), group);
  }
  return KernelCall(context, kCopyCl, "fill_strided", BytesOption(y.dtype))
      .Operand(y)
      .Struct(view)
      .Long(count)
      .Long(launch.ints[0])
      .Long(launch.ints[1])
      .Run(count);
}

absl::Status RunArange(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const int64_t count = NumElements(y);
  if (count == 0) return absl::OkStatus();
  const std::string options = absl::StrCat("-DARANGE=", ClTypeName(y.dtype));
  const bool floating = IsFloating(y.dtype);
  if (floating && !context.traits().has_double) {
    return absl::UnimplementedError("arange of floats needs cl_khr_fp64");
  }
  KernelCall call(context, kCopyCl, floating ? "arange_float" : "arange_int",
                  options);
  call.Operand(y).Long(y.strides[0]).Long(count);
  if (floating) {
    call.Double(launch.floats[0]).Double(launch.floats[1]);
  } else {
    call.Long(launch.ints[0]).Long(launch.ints[1]);
  }
  return call.Run(count);
}

absl::Status ZeroMemory(KernelContext& context, cl_mem memory, uint64_t bytes) {
  if (!context.traits().is_nvidia) {
    const cl_uint zero = 0;
    const uint64_t words = bytes / sizeof(zero) * sizeof(zero);
    if (words > 0) {
      RETURN_IF_CL_ERROR(clEnqueueFillBuffer(context.queue(), memory, &zero,
                                             sizeof(zero), 0, words, 0, nullptr,
                                             nullptr));
    }
    if (bytes == words) return absl::OkStatus();
    RETURN_IF_CL_ERROR(clEnqueueFillBuffer(context.queue(), memory, &zero, 1,
                                           words, bytes - words, 0, nullptr,
                                           nullptr));
    return absl::OkStatus();
  }
  // NVIDIA's fill writes to wrong places of large buffers, and is slow.
  const uint32_t group = context.traits().group_size;
  const int64_t wide = static_cast<int64_t>(bytes / 16);
  const int64_t rest = static_cast<int64_t>(bytes % 16);
  if (wide > 0) {
    RETURN_IF_ERROR(
        KernelCall(context, kCopyCl, "fill_dense", "-DBYTES=16")
            .Memory(memory)
            .Long(0)
            .Long(wide)
            .Long(0)
            .Long(0)
            .RunGroups((wide + group * kPerItem - 1) / (group * kPerItem),
                       group));
  }
  if (rest == 0) return absl::OkStatus();
  return KernelCall(context, kCopyCl, "fill_dense", "-DBYTES=1")
      .Memory(memory)
      .Long(wide * 16)
      .Long(rest)
      .Long(0)
      .Long(0)
      .Run(rest);
}

}  // namespace tvarant::opencl

// layer_norm over the rows of a matrix, and its gradients.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/half.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/layer_norm_rows.h"
#include "daemon/kernels/host/norm_checks.h"
#include "daemon/kernels/host/row_view.h"
#include "daemon/kernels/host/scratch.h"

namespace tvarant::host {
namespace {

constexpr int64_t kBlockElements = 1 << 13;
constexpr int64_t kMaxRows = 16;
constexpr int64_t kElementsPerTask = 1 << 14;

// The parts over which dweight and dbias are summed depend on the shape
// alone, so the result does not depend on the number of threads.
constexpr int64_t kMaxParts = 32;
constexpr int64_t kMinRowsPerPart = 32;

RowView RowsOf(const Tensor& t) {
  if (!t.present()) return {};
  return {t.data, t.dtype, t.strides[0], t.sizes[1] == 1 ? 1 : t.strides[1]};
}

// [N]: one row.
RowView LineOf(const Tensor& t) {
  if (!t.present()) return {};
  return {t.data, t.dtype, 0, t.sizes[0] == 1 ? 1 : t.strides[0]};
}

// [M]: one element a row.
RowView ColumnOf(const Tensor& t) { return {t.data, t.dtype, t.strides[0], 1}; }

RowView From(RowView view, int64_t row) {
  if (view.dtype == DType::kInvalid) return view;
  view.data += row * view.row_stride * static_cast<int64_t>(SizeOf(view.dtype));
  return view;
}

absl::Status NoMemory(const HostLaunch& launch) {
  return absl::ResourceExhaustedError(
      absl::StrCat(NameOf(launch.kernel), ": no host memory for a row"));
}

// dst[i] = sum over parts of sums[part * stride + i], in order.
template <typename T>
void StoreSums(const T* sums, int64_t parts, int64_t stride,
               const Tensor& dst) {
  const int64_t n = dst.sizes[0];
  for (int64_t i = 0; i < n; ++i) {
    T sum = T(0);
    for (int64_t part = 0; part < parts; ++part) sum += sums[part * stride + i];
    const int64_t at = i * dst.strides[0];
    switch (dst.dtype) {
      case DType::kFloat16:
        reinterpret_cast<Half*>(dst.data)[at] =
            FromFloat<Half>(static_cast<float>(sum));
        break;
      case DType::kBFloat16:
        reinterpret_cast<BFloat16*>(dst.data)[at] =
            FromFloat<BFloat16>(static_cast<float>(sum));
        break;
      case DType::kFloat32:
        reinterpret_cast<float*>(dst.data)[at] = static_cast<float>(sum);
        break;
      default:
        reinterpret_cast<double*>(dst.data)[at] = static_cast<double>(sum);
    }
  }
}

template <typename T>
absl::Status Backward(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.src[1];
  const Tensor& dweight = launch.dst[1];
  const Tensor& dbias = launch.dst[2];
  const int64_t m = x.sizes[0], n = x.sizes[1];
  if (!launch.dst[0].present() && !dweight.present() && !dbias.present()) {
    return absl::OkStatus();
  }
  LayerNormBackwardRowsArgs args{.dy = RowsOf(launch.src[0]),
                                 .x = RowsOf(x),
                                 .mean = ColumnOf(launch.src[2]),
                                 .rstd = ColumnOf(launch.src[3]),
                                 .weight = LineOf(launch.src[4]),
                                 .dx = RowsOf(launch.dst[0])};

  const int64_t parts = std::clamp<int64_t>(m / kMinRowsPerPart, 1, kMaxParts);
  const int64_t part_rows = (m + parts - 1) / parts;
  std::unique_ptr<T[]> sums;
  // A part's sums stand on cache lines of their own.
  const int64_t stride = (n + 15) / 16 * 16;
  if (dweight.present() || dbias.present()) {
    sums.reset(new (std::nothrow) T[2 * parts * stride]());
    if (sums == nullptr) return NoMemory(launch);
  }
  const int64_t block = std::clamp<int64_t>(
      kBlockElements / std::max<int64_t>(n, 1), 1, kMaxRows);
  const auto rows_kernel = TVARANT_FOR_ISA(LayerNormBackwardRows);
  std::atomic<bool> out_of_memory{false};
  const int64_t grain =
      std::max<int64_t>(1, kElementsPerTask / (part_rows * n + 1));
  pool.ParallelFor(parts, grain, [&](int64_t begin, int64_t end) {
    char* scratch = Scratch(LayerNormScratchBytes(block, n));
    if (scratch == nullptr) {
      out_of_memory = true;
      return;
    }
    for (int64_t part = begin; part < end; ++part) {
      const int64_t last = std::min(m, (part + 1) * part_rows);
      for (int64_t row = part * part_rows; row < last; row += block) {
        LayerNormBackwardRowsArgs some = args;
        some.dy = From(args.dy, row);
        some.x = From(args.x, row);
        some.mean = From(args.mean, row);
        some.rstd = From(args.rstd, row);
        some.dx = From(args.dx, row);
        T* part_sums = sums.get() + 2 * part * stride;
        if (dweight.present())
          some.dweight = reinterpret_cast<char*>(part_sums);
        if (dbias.present()) {
          some.dbias = reinterpret_cast<char*>(part_sums + stride);
        }
        rows_kernel(some, std::min(block, last - row), n, scratch);
      }
    }
  });
  if (out_of_memory) return NoMemory(launch);
  if (dweight.present()) StoreSums(sums.get(), parts, 2 * stride, dweight);
  if (dbias.present()) {
    StoreSums(sums.get() + stride, parts, 2 * stride, dbias);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunLayerNorm(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  if (absl::Status s = CheckNormDTypes(launch, x.dtype); !s.ok()) return s;
  const int64_t m = x.sizes[0], n = x.sizes[1];
  const LayerNormRowsArgs args{.x = RowsOf(x),
                               .weight = LineOf(launch.src[1]),
                               .bias = LineOf(launch.src[2]),
                               .y = RowsOf(launch.dst[0]),
                               .mean = ColumnOf(launch.dst[1]),
                               .rstd = ColumnOf(launch.dst[2]),
                               .eps = launch.scalar};
  const int64_t block = std::clamp<int64_t>(
      kBlockElements / std::max<int64_t>(n, 1), 1, kMaxRows);
  const int64_t grain = std::max<int64_t>(1, kElementsPerTask / (n + 1));
  const auto rows_kernel = TVARANT_FOR_ISA(LayerNormRows);
  std::atomic<bool> out_of_memory{false};
  pool.ParallelFor(m, grain, [&](int64_t begin, int64_t end) {
    char* scratch = Scratch(LayerNormScratchBytes(block, n));
    if (scratch == nullptr) {
      out_of_memory = true;
      return;
    }
    for (int64_t row = begin; row < end; row += block) {
      LayerNormRowsArgs some = args;
      some.x = From(args.x, row);
      some.y = From(args.y, row);
      some.mean = From(args.mean, row);
      some.rstd = From(args.rstd, row);
      rows_kernel(some, std::min(block, end - row), n, scratch);
    }
  });
  return out_of_memory ? NoMemory(launch) : absl::OkStatus();
}

absl::Status RunLayerNormBackward(const HostLaunch& launch, ThreadPool& pool) {
  const DType dtype = launch.src[1].dtype;
  if (absl::Status s = CheckNormDTypes(launch, dtype); !s.ok()) return s;
  return dtype == DType::kFloat64 ? Backward<double>(launch, pool)
                                  : Backward<float>(launch, pool);
}

}  // namespace tvarant::host

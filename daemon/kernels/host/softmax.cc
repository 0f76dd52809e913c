// softmax, log_softmax and their gradients along any dimension.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/row_view.h"
#include "daemon/kernels/host/scratch.h"
#include "daemon/kernels/host/softmax_rows.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

// Rows of one call: enough that neighbours share cache lines when the
// dimension is not the last one, few enough to stay in cache.
constexpr int64_t kMaxRows = 16;
constexpr int64_t kBlockElements = 1 << 14;
constexpr int64_t kElementsPerTask = 1 << 14;

SoftmaxKind KindOf(Kernel kernel) {
  return kernel == Kernel::kLogSoftmax || kernel == Kernel::kLogSoftmaxBackward
             ? SoftmaxKind::kLogSoftmax
             : SoftmaxKind::kSoftmax;
}

// Calls run(rows, views, scratch) for blocks of rows that cover the tensors,
// which have equal sizes. views[k]: the rows of tensors[k].
template <int kTensors, typename Run>
absl::Status ForRowBlocks(const HostLaunch& launch,
                          const Tensor* const (&tensors)[kTensors],
                          ThreadPool& pool, Run run) {
  const Tensor& first = *tensors[0];
  for (const Tensor* tensor : tensors) {
    if (!IsFloating(tensor->dtype) ||
        ComputeClassOf(tensor->dtype) != ComputeClassOf(first.dtype)) {
      return absl::UnimplementedError(
          absl::StrCat(NameOf(launch.kernel), ": no kernel for ",
                       NameOf(tensor->dtype), " with ", NameOf(first.dtype)));
    }
  }
  if (first.numel() == 0) return absl::OkStatus();
  // A tensor without dimensions is one row of one element.
  const int64_t dim = launch.ints[0];
  const int64_t n = first.rank == 0 ? 1 : first.sizes[dim];
  int64_t sizes[base::kMaxDims];
  int64_t strides[kTensors][base::kMaxDims];
  int64_t steps[kTensors];
  const int64_t* stride_list[kTensors];
  int rank = 0;
  for (int i = 0; i < first.rank; ++i) {
    if (i == dim) continue;
    for (int k = 0; k < kTensors; ++k) {
      strides[k][rank] = tensors[k]->strides[i];
    }
    sizes[rank++] = first.sizes[i];
  }
  for (int k = 0; k < kTensors; ++k) {
    steps[k] = first.rank == 0 ? 1 : tensors[k]->strides[dim];
    // One element: whatever its stride, it is contiguous.
    if (n == 1) steps[k] = 1;
    stride_list[k] = strides[k];
  }
  base::StridedLoop<kTensors> loop(sizes, rank, stride_list);
  loop.Coalesce();

  const int64_t block = std::clamp<int64_t>(kBlockElements / n, 1, kMaxRows);
  const int64_t inner = loop.inner_size();
  const int64_t blocks = (inner + block - 1) / block;
  const int64_t grain =
      std::max<int64_t>(1, kElementsPerTask / (n * std::min(block, inner)));
  std::atomic<bool> out_of_memory{false};
  pool.ParallelFor(
      loop.num_rows() * blocks, grain, [&](int64_t begin, int64_t end) {
        char* scratch = Scratch(SoftmaxScratchBytes(block, n));
        if (scratch == nullptr) {
          out_of_memory = true;
          return;
        }
        for (int64_t task = begin; task < end; ++task) {
          const int64_t outer = task / blocks;
          const int64_t start = task % blocks * block;
          RowView views[kTensors];
          for (int k = 0; k < kTensors; ++k) {
            const int64_t at = loop.OffsetOf(k, outer * inner + start);
            views[k] = {tensors[k]->data + at * static_cast<int64_t>(
                                                    SizeOf(tensors[k]->dtype)),
                        tensors[k]->dtype, loop.inner_stride(k), steps[k]};
          }
          run(std::min(block, inner - start), n, views, scratch);
        }
      });
  if (out_of_memory) {
    return absl::ResourceExhaustedError(
        absl::StrCat(NameOf(launch.kernel), ": no host memory for a row"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunSoftmax(const HostLaunch& launch, ThreadPool& pool) {
  const SoftmaxKind kind = KindOf(launch.kernel);
  const auto rows = TVARANT_FOR_ISA(SoftmaxRows);
  return ForRowBlocks<2>(
      launch, {&launch.src[0], &launch.dst[0]}, pool,
      [&](int64_t count, int64_t n, const RowView* v, char* scratch) {
        rows(kind, v[0], v[1], count, n, scratch);
      });
}

absl::Status RunSoftmaxBackward(const HostLaunch& launch, ThreadPool& pool) {
  const SoftmaxKind kind = KindOf(launch.kernel);
  const auto rows = TVARANT_FOR_ISA(SoftmaxBackwardRows);
  return ForRowBlocks<3>(
      launch, {&launch.src[0], &launch.src[1], &launch.dst[0]}, pool,
      [&](int64_t count, int64_t n, const RowView* v, char* scratch) {
        rows(kind, v[0], v[1], v[2], count, n, scratch);
      });
}

}  // namespace tvarant::host

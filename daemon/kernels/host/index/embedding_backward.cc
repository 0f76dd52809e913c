// embedding_backward: dweight[v] = sum over t with index[t] = v of dy[t],
// divided by the number of such t if asked; 0 for padding_idx.
//
// The positions of each v are put in order first (a stable counting sort), so
// every row of dweight is summed by one thread, in the order of t.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/half.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "daemon/kernels/host/scratch.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 14;
// A broadcast index takes no memory of its own, so its size bounds nothing.
constexpr int64_t kMaxBroadcastIndex = 1 << 24;

struct Positions {
  std::unique_ptr<int64_t[]> first;  // [V + 1]: where v's positions begin
  std::unique_ptr<int64_t[]> order;  // positions t, grouped by v
};

// False if there is no memory. Bad indices and the padding are left out.
bool SortPositions(const Tensor& index, int64_t vocabulary, int64_t padding,
                   Positions* p, BadIndex* bad) {
  const int64_t count = index.numel();
  p->first.reset(new (std::nothrow) int64_t[vocabulary + 1]());
  p->order.reset(new (std::nothrow) int64_t[2 * count + 1]);
  if (p->first == nullptr || p->order == nullptr) return false;
  // Kept, as the client might change the tensor between two readings.
  int64_t* values = p->order.get() + count;
  int64_t* first = p->first.get();
  const int64_t stride = index.rank == 0 ? 0 : index.strides[0];
  for (int64_t t = 0; t < count; ++t) {
    int64_t v = IndexAt(index, t * stride);
    if (v < 0 || v >= vocabulary) {
      bad->Report(t, v);
      v = -1;
    } else if (v == padding) {
      v = -1;
    }
    values[t] = v;
    if (v >= 0) ++first[v + 1];
  }
  for (int64_t v = 0; v < vocabulary; ++v) first[v + 1] += first[v];
  for (int64_t t = 0; t < count; ++t) {
    if (values[t] >= 0) p->order[first[values[t]]++] = t;
  }
  // Each entry has moved to the next one's place.
  for (int64_t v = vocabulary; v > 0; --v) first[v] = first[v - 1];
  first[0] = 0;
  return true;
}

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
void SumRow(const Tensor& dy, const int64_t* order, int64_t count, bool average,
            int64_t width, Wide<T>* sum, T* dst, int64_t dst_step) {
  std::fill(sum, sum + width, Wide<T>(0));
  for (int64_t i = 0; i < count; ++i) {
    const T* row =
        reinterpret_cast<const T*>(dy.data) + order[i] * dy.strides[0];
    if (dy.strides[1] == 1) {
      for (int64_t d = 0; d < width; ++d) sum[d] += ToFloat(row[d]);
    } else {
      for (int64_t d = 0; d < width; ++d) {
        sum[d] += ToFloat(row[d * dy.strides[1]]);
      }
    }
  }
  const Wide<T> divisor = average && count > 0 ? Wide<T>(count) : Wide<T>(1);
  for (int64_t d = 0; d < width; ++d) {
    dst[d * dst_step] = FromFloat<T>(sum[d] / divisor);
  }
}

template <typename T>
absl::Status Run(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& dy = launch.src[0];
  const Tensor& index = launch.src[1];
  const Tensor& dweight = launch.dst[0];
  const int64_t vocabulary = dweight.sizes[0], width = dweight.sizes[1];
  const bool average = launch.ints[1] != 0;
  if (vocabulary == 0 || width == 0) return absl::OkStatus();
  if (index.numel() > kMaxBroadcastIndex && index.strides[0] == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("embedding_backward: a broadcast index of ", index.numel(),
                     " elements is too large"));
  }
  BadIndex bad;
  Positions positions;
  bool have_memory =
      SortPositions(index, vocabulary, launch.ints[0], &positions, &bad);
  if (have_memory) {
    std::atomic<bool> out_of_memory{false};
    pool.ParallelFor(
        vocabulary, std::max<int64_t>(1, kElementsPerTask / width),
        [&](int64_t begin, int64_t end) {
          auto* sum = reinterpret_cast<Wide<T>*>(
              Scratch(static_cast<size_t>(width) * sizeof(Wide<T>)));
          if (sum == nullptr) {
            out_of_memory = true;
            return;
          }
          for (int64_t v = begin; v < end; ++v) {
            const int64_t first = positions.first[v];
            SumRow<T>(
                dy, positions.order.get() + first,
                positions.first[v + 1] - first, average, width, sum,
                reinterpret_cast<T*>(dweight.data) + v * dweight.strides[0],
                dweight.strides[1]);
          }
        });
    have_memory = !out_of_memory;
  }
  if (!have_memory) {
    return absl::ResourceExhaustedError(
        "embedding_backward: no host memory to sort the indices");
  }
  return bad.status(0, vocabulary);
}

}  // namespace

absl::Status RunEmbeddingBackward(const HostLaunch& launch, ThreadPool& pool) {
  const DType dtype = launch.dst[0].dtype;
  if (launch.src[0].dtype == dtype && IsIndexDType(launch.src[1].dtype)) {
    switch (dtype) {
      case DType::kFloat16:
        return Run<Half>(launch, pool);
      case DType::kBFloat16:
        return Run<BFloat16>(launch, pool);
      case DType::kFloat32:
        return Run<float>(launch, pool);
      case DType::kFloat64:
        return Run<double>(launch, pool);
      default:
        break;
    }
  }
  return absl::UnimplementedError(absl::StrCat(
      "embedding_backward: no kernel for ", NameOf(launch.src[0].dtype),
      " into ", NameOf(dtype), " by ", NameOf(launch.src[1].dtype)));
}

}  // namespace tvarant::host

// sort_rows: the order of x's rows, the first elements counting most. Equal
// rows keep their order.

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/scratch.h"
#include "daemon/kernels/host/sort/sort_key.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 14;

// Sorts copies of the keys: the memory may change meanwhile, and a sort must
// be able to trust its comparisons.
template <typename T>
bool Run(const Tensor& x, const Tensor& order, ThreadPool& pool) {
  using K = SortKey<T>;
  const int64_t rows = x.sizes[0], width = x.sizes[1];
  const size_t index_bytes = static_cast<size_t>(rows) * sizeof(int64_t);
  const size_t key_bytes =
      static_cast<size_t>(rows) * static_cast<size_t>(width) * sizeof(K);
  char* memory = Scratch(index_bytes + key_bytes);
  if (memory == nullptr) return false;
  auto* indices = reinterpret_cast<int64_t*>(memory);
  auto* keys = reinterpret_cast<K*>(memory + index_bytes);
  pool.ParallelFor(
      rows,
      std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, width)),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          indices[i] = i;
          const T* row = reinterpret_cast<const T*>(x.data) + i * x.strides[0];
          for (int64_t j = 0; j < width; ++j) {
            keys[i * width + j] = KeyOf(row[j * x.strides[1]]);
          }
        }
      });
  std::sort(indices, indices + rows, [&](int64_t a, int64_t b) {
    const K* left = keys + a * width;
    const K* right = keys + b * width;
    for (int64_t j = 0; j < width; ++j) {
      if (left[j] != right[j]) return left[j] < right[j];
    }
    return a < b;
  });
  auto* out = reinterpret_cast<int64_t*>(order.data);
  for (int64_t i = 0; i < rows; ++i) out[i * order.strides[0]] = indices[i];
  return true;
}

}  // namespace

absl::Status RunSortRows(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  const Tensor& order = launch.dst[0];
  if (order.numel() == 0) return absl::OkStatus();
  bool have_memory = true;
  ForElementType(x.dtype, [&](auto element) {
    have_memory = Run<decltype(element)>(x, order, pool);
  });
  if (have_memory) return absl::OkStatus();
  return absl::ResourceExhaustedError("sort_rows: no host memory");
}

}  // namespace tvarant::host

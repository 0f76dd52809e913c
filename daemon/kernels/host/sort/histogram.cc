// histogram: how many elements of x, or the sum of whose weights, fall into
// each bin: bin x of whole numbers, or one of equal bins over [low, high].

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "daemon/kernels/host/element_runs.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "daemon/kernels/host/scratch.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 15;
constexpr int64_t kMaxParts = 16;

// -1: none.
template <typename T>
struct Bins {
  int64_t count;
  bool equal_bins;
  ValueType<T> low, high;
  BadIndex* bad;

  int64_t Of(ValueType<T> x, int64_t position) const {
    if constexpr (!kIsFloat<T>) {
      const auto bin = static_cast<int64_t>(x);
      if (bin >= 0 && bin < count) return bin;
      bad->Report(position, bin);
      return -1;
    } else {
      if (!(x >= low && x <= high)) return -1;
      const auto bin = static_cast<int64_t>(
          (x - low) * static_cast<ValueType<T>>(count) / (high - low));
      return std::clamp<int64_t>(bin, 0, count - 1);
    }
  }
};

template <typename T>
void Count(const HostLaunch& launch, const Bins<T>& bins, int64_t* counts,
           int64_t parts, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  base::StridedLoop<1> loop(x.sizes, x.rank, {x.strides});
  loop.Coalesce();
  const int64_t n = x.numel(), part = (n + parts - 1) / parts;
  pool.ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      int64_t* own = counts + p * bins.count;
      ForEachRun(loop, p * part, std::min(n, (p + 1) * part),
                 [&](const auto& at, int64_t first, int64_t run) {
                   const T* from = reinterpret_cast<const T*>(x.data) + at[0];
                   for (int64_t i = 0; i < run; ++i) {
                     const int64_t bin = bins.Of(
                         ToValue(from[i * loop.inner_stride(0)]), first + i);
                     if (bin >= 0) ++own[bin];
                   }
                 });
    }
  });
}

// Sums of weights, one after the other.
template <typename T, typename W>
void Weigh(const HostLaunch& launch, const Bins<T>& bins) {
  const Tensor& y = launch.dst[0];
  const Tensor& x = launch.src[0];
  const Tensor& weights = launch.src[1];
  W* sums = reinterpret_cast<W*>(y.data);
  for (int64_t b = 0; b < bins.count; ++b) sums[b * y.strides[0]] = 0;
  for (int64_t i = 0; i < x.sizes[0]; ++i) {
    const int64_t bin = bins.Of(
        ToValue(reinterpret_cast<const T*>(x.data)[i * x.strides[0]]), i);
    if (bin < 0) continue;
    sums[bin * y.strides[0]] +=
        reinterpret_cast<const W*>(weights.data)[i * weights.strides[0]];
  }
}

template <typename T>
bool Run(const HostLaunch& launch, BadIndex* bad, ThreadPool& pool) {
  const Tensor& y = launch.dst[0];
  const Bins<T> bins{y.sizes[0], launch.ints[0] != 0,
                     static_cast<ValueType<T>>(launch.floats[0]),
                     static_cast<ValueType<T>>(launch.floats[1]), bad};
  if (launch.src[1].present()) {
    if (y.dtype == DType::kFloat32) {
      Weigh<T, float>(launch, bins);
    } else {
      Weigh<T, double>(launch, bins);
    }
    return true;
  }
  const int64_t parts = std::clamp<int64_t>(
      launch.src[0].numel() / std::max(kElementsPerTask, 4 * bins.count), 1,
      std::min<int64_t>(kMaxParts, pool.num_threads()));
  const int64_t cells = parts * bins.count;
  auto* counts = reinterpret_cast<int64_t*>(
      Scratch((static_cast<size_t>(cells) + 1) * sizeof(int64_t)));
  if (counts == nullptr) return false;
  std::fill(counts, counts + cells, 0);
  Count<T>(launch, bins, counts, parts, pool);
  ForElementType(y.dtype, [&](auto result) {
    using R = decltype(result);
    if constexpr (kIsFloat<R> || std::is_same_v<R, int64_t>) {
      for (int64_t b = 0; b < bins.count; ++b) {
        int64_t sum = 0;
        for (int64_t p = 0; p < parts; ++p) sum += counts[p * bins.count + b];
        reinterpret_cast<R*>(y.data)[b * y.strides[0]] =
            FromValue<R>(static_cast<ValueType<R>>(sum));
      }
    }
  });
  return true;
}

}  // namespace

absl::Status RunHistogram(const HostLaunch& launch, ThreadPool& pool) {
  BadIndex bad;
  bool have_memory = true;
  if (launch.dst[0].numel() == 0 && launch.src[0].numel() == 0) {
    return absl::OkStatus();
  }
  ForElementType(launch.src[0].dtype, [&](auto element) {
    have_memory = Run<decltype(element)>(launch, &bad, pool);
  });
  if (!have_memory) {
    return absl::ResourceExhaustedError("histogram: no host memory");
  }
  return bad.status(0, launch.dst[0].sizes[0]);
}

}  // namespace tvarant::host

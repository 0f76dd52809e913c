// embedding_bag: y[b] = sum, mean or maximum over the bag's t of
// scale[t] * weight[index[t]]; a bag is [offsets[b], offsets[b + 1]).
//
// Also the size of each bag, padding left out, and for the maximum which row
// gave it (-1: none).

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "daemon/kernels/host/scratch.h"

namespace tvarant::host {
namespace {

enum class BagMode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

constexpr int64_t kElementsPerTask = 1 << 14;
constexpr int64_t kAhead = 4;
constexpr int64_t kMaxPrefetch = 512;  // bytes

struct Bags {
  explicit Bags(const HostLaunch& launch)
      : y(launch.dst[0]),
        sizes(launch.dst[1]),
        rows(launch.dst[2]),
        weight(launch.src[0]),
        index(launch.src[1]),
        offsets(launch.src[2]),
        scales(launch.src[3]),
        mode(static_cast<BagMode>(launch.ints[0])),
        padding(launch.ints[1]) {}

  // Where bag b begins; that of the last one ends with the indices.
  int64_t Begin(int64_t b) const {
    return b < offsets.sizes[0] ? IndexAt(offsets, b * offsets.strides[0])
                                : index.sizes[0];
  }

  const Tensor &y, &sizes, &rows, &weight, &index, &offsets, &scales;
  BagMode mode;
  int64_t padding;
  BadIndex bad_index, bad_offset;
  std::atomic<bool> out_of_memory{false};
};

// Rows are far apart: the next ones are fetched meanwhile.
template <typename T>
void Prefetch(const Bags& bags, int64_t t) {
  const int64_t v = IndexAt(bags.index, t * bags.index.strides[0]);
  if (v < 0 || v >= bags.weight.sizes[0]) return;
  const char* row = bags.weight.data + v * bags.weight.strides[0] *
                                           static_cast<int64_t>(sizeof(T));
  const int64_t bytes = bags.weight.sizes[1] * static_cast<int64_t>(sizeof(T));
  for (int64_t at = 0; at < std::min<int64_t>(bytes, kMaxPrefetch); at += 64) {
    __builtin_prefetch(row + at);
  }
}

template <typename T>
void RunBag(Bags& bags, int64_t b, ValueType<T>* sum) {
  const int64_t width = bags.y.sizes[1], vocabulary = bags.weight.sizes[0];
  const int64_t total = bags.index.sizes[0];
  const int64_t begin = bags.Begin(b), end = bags.Begin(b + 1);
  int64_t* rows = reinterpret_cast<int64_t*>(bags.rows.data);
  if (rows != nullptr) rows += b * bags.rows.strides[0];
  const int64_t row_step = rows == nullptr ? 0 : bags.rows.strides[1];
  std::fill(sum, sum + width, ValueType<T>(0));
  for (int64_t d = 0; rows != nullptr && d < width; ++d) {
    rows[d * row_step] = -1;
  }
  int64_t members = 0;
  if (begin < 0 || begin > end || end > total || (b == 0 && begin != 0)) {
    bags.bad_offset.Report(b, end > total ? end : begin);
  } else {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t v = IndexAt(bags.index, t * bags.index.strides[0]);
      if (v < 0 || v >= vocabulary) {
        bags.bad_index.Report(t, v);
        continue;
      }
      if (v == bags.padding) continue;
      if (t + kAhead < end) Prefetch<T>(bags, t + kAhead);
      const T* row = reinterpret_cast<const T*>(bags.weight.data) +
                     v * bags.weight.strides[0];
      const int64_t step = bags.weight.strides[1];
      if (bags.mode == BagMode::kMax) {
        for (int64_t d = 0; d < width; ++d) {
          const ValueType<T> value = ToValue(row[d * step]);
          if (members == 0 || value > sum[d] || IsNan(value)) {
            sum[d] = value;
            if (rows != nullptr) rows[d * row_step] = v;
          }
        }
      } else if (bags.scales.present()) {
        const ValueType<T> scale = ToValue(reinterpret_cast<const T*>(
            bags.scales.data)[t * bags.scales.strides[0]]);
        for (int64_t d = 0; d < width; ++d) {
          sum[d] += scale * ToValue(row[d * step]);
        }
      } else if (step == 1) {
        for (int64_t d = 0; d < width; ++d) sum[d] += ToValue(row[d]);
      } else {
        for (int64_t d = 0; d < width; ++d) sum[d] += ToValue(row[d * step]);
      }
      ++members;
    }
  }
  T* y = reinterpret_cast<T*>(bags.y.data) + b * bags.y.strides[0];
  const bool mean = bags.mode == BagMode::kMean && members > 0;
  for (int64_t d = 0; d < width; ++d) {
    y[d * bags.y.strides[1]] =
        FromValue<T>(mean ? sum[d] / ValueType<T>(members) : sum[d]);
  }
  reinterpret_cast<int64_t*>(bags.sizes.data)[b * bags.sizes.strides[0]] =
      members;
}

template <typename T>
void RunBags(Bags& bags, ThreadPool& pool) {
  const int64_t count = bags.y.sizes[0], width = bags.y.sizes[1];
  const int64_t elements =
      std::max<int64_t>(1, width) *
      std::max<int64_t>(1, bags.index.sizes[0] / std::max<int64_t>(1, count));
  pool.ParallelForOrCancel(
      count, std::max<int64_t>(1, kElementsPerTask / elements),
      [&](int64_t begin, int64_t end) {
        auto* sum = reinterpret_cast<ValueType<T>*>(
            Scratch((static_cast<size_t>(width) + 1) * sizeof(ValueType<T>)));
        if (sum == nullptr) {
          bags.out_of_memory = true;
          return;
        }
        for (int64_t b = begin; b < end; ++b) RunBag<T>(bags, b, sum);
      });
}

}  // namespace

absl::Status RunEmbeddingBag(const HostLaunch& launch, ThreadPool& pool) {
  Bags bags(launch);
  ForElementType(bags.y.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (kIsFloat<T>) RunBags<T>(bags, pool);
  });
  if (bags.out_of_memory) {
    return absl::ResourceExhaustedError("embedding_bag: no host memory");
  }
  const absl::Status bad = bags.bad_offset.status(0, bags.index.sizes[0] + 1);
  return bad.ok() ? bags.bad_index.status(0, bags.weight.sizes[0]) : bad;
}

}  // namespace tvarant::host

// segment_reduce and its gradient: rows of O, cut at offsets, reduced.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "proto/ops/op_ids.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 13;

struct Segments {
  Segments(const HostLaunch& launch, const Tensor& data, const Tensor& offsets)
      : op(static_cast<ReduceOp>(launch.ints[0])),
        has_initial(launch.ints[1] != 0),
        initial(launch.floats[0]),
        length(data.sizes[1]),
        inner(data.sizes[2]),
        count(offsets.sizes[1] - 1),
        offsets(offsets) {}

  // False where the offsets are no segment of the row; reported.
  bool Get(int64_t row, int64_t segment, int64_t* begin, int64_t* end) {
    const int64_t at = row * offsets.strides[0] + segment * offsets.strides[1];
    *begin = IndexAt(offsets, at);
    *end = IndexAt(offsets, at + offsets.strides[1]);
    if (*begin >= 0 && *begin <= *end && *end <= length) return true;
    const bool first = *begin < 0 || *begin > length;
    bad.Report(row * (count + 1) + segment, first ? *begin : *end);
    return false;
  }

  // PyTorch raises no IndexError for these.
  absl::Status Status() const {
    const absl::Status status = bad.status(1, length + 1);
    if (status.ok()) return status;
    return absl::InvalidArgumentError(status.message());
  }

  double Start() const {
    if (has_initial) return initial;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    switch (op) {
      case ReduceOp::kMax:
        return -kInfinity;
      case ReduceOp::kMin:
        return kInfinity;
      case ReduceOp::kProd:
        return 1;
      default:
        return 0;
    }
  }

  ReduceOp op;
  bool has_initial;
  double initial;
  int64_t length, inner, count;
  const Tensor& offsets;
  BadIndex bad;
};

template <typename T>
T* Row(const Tensor& t, int64_t row, int64_t i) {
  return reinterpret_cast<T*>(t.data) + row * t.strides[0] + i * t.strides[2];
}

template <typename V>
V Join(ReduceOp op, V sum, V value) {
  switch (op) {
    case ReduceOp::kMax:
      return IsNan(value) || value > sum ? value : sum;
    case ReduceOp::kMin:
      return IsNan(value) || value < sum ? value : sum;
    case ReduceOp::kProd:
      return sum * value;
    default:
      return sum + value;
  }
}

template <typename T>
void Reduce(const Tensor& y, const Tensor& x, Segments& segments, int64_t row,
            int64_t s) {
  using V = ValueType<T>;
  int64_t begin, end;
  if (!segments.Get(row, s, &begin, &end)) return;
  const bool mean = segments.op == ReduceOp::kMean;
  for (int64_t i = 0; i < segments.inner; ++i) {
    const T* from = Row<const T>(x, row, i);
    V sum = static_cast<V>(segments.Start());
    for (int64_t j = begin; j < end; ++j) {
      sum = Join(segments.op, sum, ToValue(from[j * x.strides[1]]));
    }
    if (mean && begin == end && !segments.has_initial) {
      sum = std::numeric_limits<V>::quiet_NaN();
    } else if (mean && end > begin) {
      sum /= static_cast<V>(end - begin);
    }
    Row<T>(y, row, i)[s * y.strides[1]] = FromValue<T>(sum);
  }
}

// The gradient of one segment's elements.
template <typename T>
void Spread(const HostLaunch& launch, const Segments& segments, int64_t row,
            int64_t i, int64_t s, int64_t begin, int64_t end) {
  using V = ValueType<T>;
  const Tensor& dx = launch.dst[0];
  const Tensor& x = launch.src[2];
  const auto at = [&](const Tensor& t, int64_t k) {
    return ToValue(Row<const T>(t, row, i)[k * t.strides[1]]);
  };
  const V gradient = at(launch.src[0], s), result = at(launch.src[1], s);
  const auto put = [&](int64_t j, V value) {
    Row<T>(dx, row, i)[j * dx.strides[1]] = FromValue<T>(value);
  };
  switch (segments.op) {
    case ReduceOp::kMax:
    case ReduceOp::kMin: {
      int64_t equal = 0;
      const auto is_extreme = [&](V value) {
        return IsNan(value) || value == result;
      };
      for (int64_t j = begin; j < end; ++j) equal += is_extreme(at(x, j));
      for (int64_t j = begin; j < end; ++j) {
        put(j, is_extreme(at(x, j)) ? gradient / static_cast<V>(equal) : V(0));
      }
      return;
    }
    case ReduceOp::kProd:
      for (int64_t j = begin; j < end; ++j) {
        const V value = at(x, j);
        if (value != 0 && !IsNan(value)) {
          put(j, gradient * result / value);
          continue;
        }
        V others = static_cast<V>(segments.Start());
        for (int64_t k = begin; k < end; ++k) {
          if (k != j) others *= at(x, k);
        }
        put(j, gradient * others);
      }
      return;
    default: {
      const bool mean = segments.op == ReduceOp::kMean;
      const V each = mean ? gradient / static_cast<V>(end - begin) : gradient;
      for (int64_t j = begin; j < end; ++j) put(j, each);
    }
  }
}

template <typename T>
void SpreadRow(const HostLaunch& launch, Segments& segments, int64_t row) {
  const Tensor& dx = launch.dst[0];
  for (int64_t i = 0; i < segments.inner; ++i) {
    T* to = Row<T>(dx, row, i);
    for (int64_t j = 0; j < segments.length; ++j) {
      to[j * dx.strides[1]] = FromValue<T>(0);
    }
  }
  for (int64_t s = 0; s < segments.count; ++s) {
    int64_t begin, end;
    if (!segments.Get(row, s, &begin, &end)) continue;
    for (int64_t i = 0; i < segments.inner; ++i) {
      Spread<T>(launch, segments, row, i, s, begin, end);
    }
  }
}

}  // namespace

absl::Status RunSegmentReduce(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& y = launch.dst[0];
  const Tensor& x = launch.src[0];
  Segments segments(launch, x, launch.src[1]);
  const int64_t items = y.sizes[0] * segments.count;
  const int64_t cost =
      std::max<int64_t>(1, segments.inner) *
      (1 + segments.length / std::max<int64_t>(1, segments.count));
  ForElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (kIsFloat<T>) {
      pool.ParallelFor(items, std::max<int64_t>(1, kElementsPerTask / cost),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t item = begin; item < end; ++item) {
                           Reduce<T>(y, x, segments, item / segments.count,
                                     item % segments.count);
                         }
                       });
    }
  });
  return segments.Status();
}

absl::Status RunSegmentReduceBackward(const HostLaunch& launch,
                                      ThreadPool& pool) {
  const Tensor& dx = launch.dst[0];
  Segments segments(launch, dx, launch.src[3]);
  const int64_t cost = std::max<int64_t>(1, segments.inner * segments.length);
  ForElementType(dx.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (kIsFloat<T>) {
      pool.ParallelFor(dx.sizes[0],
                       std::max<int64_t>(1, kElementsPerTask / cost),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t row = begin; row < end; ++row) {
                           SpreadRow<T>(launch, segments, row);
                         }
                       });
    }
  });
  return segments.Status();
}

}  // namespace tvarant::host

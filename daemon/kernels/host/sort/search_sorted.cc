// search_sorted: where each value would go in a sorted sequence: before the
// equal ones, or behind them. The sequence may be one for all values, or one
// for each line; a sorter gives the order of its elements.

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "daemon/kernels/host/element_runs.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 11;
constexpr int64_t kNear = 8;

// Before equal elements, or behind them, as PyTorch searches; or before equal
// ones where NaNs are at the end.
enum class Side : int64_t { kLeft = 0, kRight = 1, kNanLast = 2 };

template <typename T>
struct Sequence {
  const T* elements;
  int64_t step;
  const int64_t* sorter;  // may be null
  int64_t sorter_step;
  int64_t size;
  Side side;
  BadIndex* bad;

  ValueType<T> At(int64_t i) const {
    if (sorter != nullptr) {
      const int64_t at =
          *const_cast<const volatile int64_t*>(sorter + i * sorter_step);
      if (at < 0 || at >= size) {
        bad->Report(i, at);
        return ValueType<T>(0);
      }
      i = at;
    }
    return ToValue(elements[i * step]);
  }
  // Whether the place is behind element i. The first two comparisons are
  // PyTorch's, which decide where NaN goes.
  bool IsBehind(int64_t i, ValueType<T> value) const {
    const ValueType<T> element = At(i);
    switch (side) {
      case Side::kLeft:
        return !(element >= value);
      case Side::kRight:
        return !(element > value);
      default:
        return element < value;
    }
  }
  // Selects without branches, which would be guessed wrong half of the time.
  // With NaNs in the sequence what is found depends on the elements looked at:
  // they are PyTorch's.
  int64_t Find(ValueType<T> value, int64_t begin, int64_t end) const {
    while (begin < end) {
      const int64_t middle = begin + (end - begin) / 2;
      const bool behind = IsBehind(middle, value);
      begin = behind ? middle + 1 : begin;
      end = behind ? end : middle;
    }
    return begin;
  }
  // The same from a place nearby.
  int64_t FindFrom(int64_t hint, ValueType<T> value) const {
    if (hint > 0 && !IsBehind(hint - 1, value)) return Find(value, 0, hint - 1);
    int64_t begin = hint;
    for (int64_t step = 1; begin < size; step *= 2) {
      const int64_t probe = std::min(begin + step, size) - 1;
      if (!IsBehind(probe, value)) return Find(value, begin, probe);
      begin = probe + 1;
    }
    return size;
  }
};

template <typename T, typename I>
void Run(const HostLaunch& launch, BadIndex* bad, ThreadPool& pool) {
  const Tensor& y = launch.dst[0];
  const Tensor& sequence = launch.src[0];
  const Tensor& values = launch.src[1];
  const Tensor& sorter = launch.src[2];
  const auto side = static_cast<Side>(launch.ints[0]);
  const int last = sequence.rank - 1;
  // Lines of values and of the sequence go together, if it has any.
  const bool shared = sequence.rank == 1;
  static constexpr int64_t kNone[base::kMaxDims] = {};
  int64_t sequence_strides[base::kMaxDims] = {};
  int64_t sorter_strides[base::kMaxDims] = {};
  for (int d = 0; !shared && d < last; ++d) {
    sequence_strides[d] = sequence.strides[d];
    if (sorter.present()) sorter_strides[d] = sorter.strides[d];
  }
  base::StridedLoop<4> loop(
      y.sizes, y.rank,
      {y.strides, values.strides, shared ? kNone : sequence_strides,
       shared ? kNone : sorter_strides});
  loop.Coalesce();
  pool.ParallelForOrCancel(
      y.numel(), kElementsPerTask, [&](int64_t begin, int64_t end) {
        int64_t hint = -1, last_place = -kNear;
        ForEachRun(loop, begin, end, [&](const auto& at, int64_t, int64_t n) {
          for (int64_t i = 0; i < n; ++i) {
            const Sequence<T> line{
                reinterpret_cast<const T*>(sequence.data) + at[2] +
                    i * loop.inner_stride(2),
                sequence.strides[last],
                sorter.present()
                    ? reinterpret_cast<const int64_t*>(sorter.data) + at[3] +
                          i * loop.inner_stride(3)
                    : nullptr,
                sorter.present() ? sorter.strides[last] : 0,
                sequence.sizes[last],
                side,
                bad};
            const T value = reinterpret_cast<const T*>(
                values.data)[at[1] + i * loop.inner_stride(1)];
            // Of rising values each is near the one before.
            const int64_t place = hint >= 0
                                      ? line.FindFrom(hint, ToValue(value))
                                      : line.Find(ToValue(value), 0, line.size);
            const int64_t moved = place - last_place;
            hint = !kIsFloat<T> && shared && moved >= 0 && moved < kNear ? place
                                                                         : -1;
            last_place = place;
            reinterpret_cast<I*>(y.data)[at[0] + i * loop.inner_stride(0)] =
                static_cast<I>(place);
          }
        });
      });
}

}  // namespace

absl::Status RunSearchSorted(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& sequence = launch.src[0];
  if (launch.dst[0].numel() == 0) return absl::OkStatus();
  BadIndex bad;
  ForElementType(sequence.dtype, [&](auto element) {
    using T = decltype(element);
    if (launch.dst[0].dtype == DType::kInt32) {
      Run<T, int32_t>(launch, &bad, pool);
    } else {
      Run<T, int64_t>(launch, &bad, pool);
    }
  });
  const int last = sequence.rank - 1;
  return bad.status(last, sequence.sizes[last]);
}

}  // namespace tvarant::host

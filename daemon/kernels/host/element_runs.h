// Elements [begin, end) of strided tensors in row-major order, as runs of the
// innermost dimension.
//
// Example:
//   ForEachRun(loop, begin, end, [&](const auto& at, int64_t i, int64_t n) {
//     // elements i .. i + n stand at at[k] + j * loop.inner_stride(k)
//   });

#ifndef TVARANT_DAEMON_KERNELS_HOST_ELEMENT_RUNS_H_
#define TVARANT_DAEMON_KERNELS_HOST_ELEMENT_RUNS_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "proto/base/strided.h"

namespace tvarant::host {

template <int kOperands, typename Body>
void ForEachRun(const base::StridedLoop<kOperands>& loop, int64_t begin,
                int64_t end, Body body) {
  const int64_t inner = loop.inner_size();
  std::array<int64_t, kOperands> at{};
  // A part of the first row, whole rows, and what is left of the last one.
  const auto partial = [&](int64_t first, int64_t count) {
    for (int k = 0; k < kOperands; ++k) at[k] = loop.OffsetOf(k, first);
    body(at, first, count);
  };
  if (begin >= end) return;
  if (begin % inner != 0) {
    const int64_t count = std::min(end - begin, inner - begin % inner);
    partial(begin, count);
    begin += count;
  }
  const int64_t last = end / inner;
  int64_t row = begin / inner;
  loop.ForEachRow(row, last, [&](const int64_t(&offsets)[kOperands]) {
    std::copy_n(offsets, kOperands, at.begin());
    body(at, row * inner, inner);
    ++row;
  });
  begin = std::max(begin, last * inner);
  if (begin < end) partial(begin, end - begin);
}

// Elements cut into a bounded number of chunks, so that what is found out about
// each (a count) fits on the stack.
struct Chunks {
  static constexpr int64_t kMost = 512;
  static constexpr int64_t kElements = 1 << 14;

  explicit Chunks(int64_t num_elements)
      : total(num_elements),
        size(std::max(kElements, (num_elements + kMost - 1) / kMost)),
        count((num_elements + size - 1) / size) {}
  int64_t begin(int64_t chunk) const { return chunk * size; }
  int64_t end(int64_t chunk) const {
    return std::min(total, (chunk + 1) * size);
  }

  int64_t total;
  int64_t size;
  int64_t count;
};

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_ELEMENT_RUNS_H_

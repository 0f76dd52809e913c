// Sorting entries: by digits where there are many, by comparison else; a long
// row in parts that are merged.

#ifndef TVARANT_DAEMON_KERNELS_HOST_SORT_SORT_ENTRIES_H_
#define TVARANT_DAEMON_KERNELS_HOST_SORT_SORT_ENTRIES_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "daemon/kernels/host/sort/sort_key.h"
#include "daemon/kernels/host/thread_pool.h"

namespace tvarant::host {

// Sorts by digits of kBits, the lowest first; `a` must be in the order of
// indices. The result is in the buffer that is returned.
template <int kBits, typename E>
E* SortByDigits(E* a, E* b, int64_t n) {
  constexpr int kPasses = (E::kKeyBits + kBits - 1) / kBits;
  constexpr int kDigits = 1 << kBits;
  int64_t places[kPasses][kDigits];
  std::memset(places, 0, sizeof(places));
  for (int64_t i = 0; i < n; ++i) {
    const auto key = a[i].key();
    for (int pass = 0; pass < kPasses; ++pass) {
      ++places[pass][key >> (pass * kBits) & (kDigits - 1)];
    }
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    const int shift = pass * kBits;
    int64_t* place = places[pass];
    // All have the same digit.
    if (place[a[0].key() >> shift & (kDigits - 1)] == n) continue;
    int64_t before = 0;
    for (int digit = 0; digit < kDigits; ++digit) {
      before += std::exchange(place[digit], before);
    }
    for (int64_t i = 0; i < n; ++i) {
      b[place[a[i].key() >> shift & (kDigits - 1)]++] = a[i];
    }
    std::swap(a, b);
  }
  return a;
}

// Sorts a[0, n), which is in the order of indices; b is as long. Returns the
// buffer that has the result.
template <typename E>
E* SortEntries(E* a, E* b, int64_t n) {
  if (n < 200) {
    std::sort(a, a + n);
    return a;
  }
  return n < (1 << 16) ? SortByDigits<8>(a, b, n) : SortByDigits<11>(a, b, n);
}

// How many of the first `count` entries of a and b merged are a's.
template <typename E>
int64_t MergeSplit(const E* a, int64_t a_size, const E* b, int64_t b_size,
                   int64_t count) {
  int64_t low = std::max<int64_t>(0, count - b_size);
  int64_t high = std::min(count, a_size);
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (a[middle] < b[count - middle - 1]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// As SortEntries, on all threads.
template <typename E>
E* SortEntriesInParallel(E* a, E* b, int64_t n, ThreadPool& pool) {
  constexpr int64_t kMinPart = 1 << 15;
  int64_t parts = 1;
  while (2 * parts <= pool.num_threads() && n / (2 * parts) >= kMinPart) {
    parts *= 2;
  }
  if (parts == 1) return SortEntries(a, b, n);
  const auto begin_of = [&](int64_t part) { return n * part / parts; };
  pool.ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = begin_of(part);
      const int64_t size = begin_of(part + 1) - first;
      const E* sorted = SortEntries(a + first, b + first, size);
      if (sorted != a + first) std::copy_n(sorted, size, a + first);
    }
  });
  for (int64_t width = 1; width < parts; width *= 2) {
    // Each pair of runs is merged in as many cuts as it has parts.
    const int64_t cuts = 2 * width;
    pool.ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t pair = task / cuts * cuts, cut = task % cuts;
        const int64_t first = begin_of(pair);
        const int64_t middle = begin_of(pair + width);
        const int64_t last = begin_of(pair + cuts);
        const int64_t from = (last - first) * cut / cuts;
        const int64_t to = (last - first) * (cut + 1) / cuts;
        const E *left = a + first, *right = a + middle;
        const int64_t left_size = middle - first, right_size = last - middle;
        const int64_t i = MergeSplit(left, left_size, right, right_size, from);
        const int64_t j = MergeSplit(left, left_size, right, right_size, to);
        std::merge(left + i, left + j, right + (from - i), right + (to - j),
                   b + first + from);
      }
    });
    std::swap(a, b);
  }
  return a;
}

// Reads a row's keys, turned around for a descending order.
template <typename T, typename E>
void LoadEntries(const T* row, int64_t step, int64_t begin, int64_t end,
                 bool descending, E* entries) {
  using K = typename E::Key;
  const K turn = descending ? static_cast<K>(~K{0}) : K{0};
  if constexpr (sizeof(K) == sizeof(SortKey<T>)) {
    for (int64_t i = begin; i < end; ++i) {
      entries[i - begin] = E(KeyOf(row[i * step]) ^ turn, i);
    }
  } else {
    // A long row of short keys: widened.
    for (int64_t i = begin; i < end; ++i) {
      entries[i - begin] = E(K{KeyOf(row[i * step])} ^ turn, i);
    }
  }
}

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_SORT_SORT_ENTRIES_H_

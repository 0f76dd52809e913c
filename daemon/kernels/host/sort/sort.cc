// sort: the elements of each line along dim in order, and where they stood;
// the first k of them if y is shorter than x. Equal ones keep their order.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/scratch.h"
#include "daemon/kernels/host/sort/sort_entries.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 13;
constexpr int64_t kLongLine = 1 << 16;

struct Lines {
  const Tensor& values;
  const Tensor& indices;
  const Tensor& x;
  int dim;
  bool descending;
  const base::StridedLoop<3>& loop;  // operands values, indices, x

  int64_t count() const { return loop.num_rows() * loop.inner_size(); }
  int64_t length() const { return x.sizes[dim]; }
  int64_t kept() const { return values.sizes[dim]; }
  template <typename T>
  const T* Row(int64_t line) const {
    return reinterpret_cast<const T*>(x.data) + loop.OffsetOf(2, line);
  }
};

template <typename T, typename E>
void Store(const Lines& lines, int64_t line, const E* sorted, int64_t begin,
           int64_t end) {
  const T* row = lines.Row<T>(line);
  T* values =
      reinterpret_cast<T*>(lines.values.data) + lines.loop.OffsetOf(0, line);
  int64_t* indices = reinterpret_cast<int64_t*>(lines.indices.data) +
                     lines.loop.OffsetOf(1, line);
  const int64_t step = lines.x.strides[lines.dim];
  const int64_t value_step = lines.values.strides[lines.dim];
  const int64_t index_step = lines.indices.strides[lines.dim];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t at = sorted[i].index();
    values[i * value_step] = row[at * step];
    indices[i * index_step] = at;
  }
}

// Puts an entry into sorted[0, size), where it is not the last.
template <typename E>
void Insert(E* sorted, int64_t size, const E& entry) {
  int64_t at = size - 1;
  for (; at > 0 && entry < sorted[at - 1]; --at) sorted[at] = sorted[at - 1];
  sorted[at] = entry;
}

constexpr int64_t kBlock = 64;
constexpr int64_t kMaxInserted = 64;

// What Smallest needs: k entries, as many again, and blocks.
int64_t RoomFor(int64_t k) { return 2 * k + 4 * kBlock; }

// The k smallest of a line, in order, in entries[0, k). A block is skipped if
// none of its keys is below the k-th.
template <typename T, typename E>
void Smallest(const Lines& lines, int64_t line, int64_t k, E* entries) {
  using K = typename E::Key;
  const T* row = lines.Row<T>(line);
  const int64_t step = lines.x.strides[lines.dim], n = lines.length();
  const int64_t room = RoomFor(k);
  const K turn = lines.descending ? static_cast<K>(~K{0}) : K{0};
  const bool inserts = k <= kMaxInserted;
  int64_t held = std::min(n, inserts ? k : room - kBlock);
  LoadEntries(row, step, 0, held, lines.descending, entries);
  int64_t begin = held;
  if (inserts) {
    std::sort(entries, entries + k);
  } else {
    std::nth_element(entries, entries + k - 1, entries + held);
    held = k;
  }
  K keys[kBlock];
  for (; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    K least = static_cast<K>(~K{0});
    for (int64_t i = 0; i < count; ++i) {
      keys[i] = K{KeyOf(row[(begin + i) * step])} ^ turn;
      least = std::min(least, keys[i]);
    }
    // Of equal keys the earlier one is the smaller entry.
    const K bound = entries[k - 1].key();
    if (least >= bound) continue;
    if (inserts) {
      for (int64_t i = 0; i < count; ++i) {
        if (keys[i] < entries[k - 1].key()) {
          Insert(entries, k, E(keys[i], begin + i));
        }
      }
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      entries[held] = E(keys[i], begin + i);
      held += keys[i] < bound;
    }
    if (held + kBlock > room) {
      std::nth_element(entries, entries + k - 1, entries + held);
      held = k;
    }
  }
  if (inserts) return;
  if (held > k) std::nth_element(entries, entries + k - 1, entries + held);
  std::sort(entries, entries + k);
}

template <typename T, typename E>
bool Run(const Lines& lines, ThreadPool& pool) {
  const int64_t n = lines.length(), k = lines.kept();
  const bool select = k <= n / 4;
  const int64_t room = select ? RoomFor(k) : n;
  const size_t bytes = static_cast<size_t>(room) * sizeof(E);
  if (!select && n >= kLongLine && lines.count() < pool.num_threads()) {
    E* a = reinterpret_cast<E*>(Scratch(2 * bytes));
    if (a == nullptr) return false;
    for (int64_t line = 0; line < lines.count(); ++line) {
      pool.ParallelFor(n, kElementsPerTask, [&](int64_t begin, int64_t end) {
        LoadEntries(lines.Row<T>(line), lines.x.strides[lines.dim], begin, end,
                    lines.descending, a + begin);
      });
      const E* sorted = SortEntriesInParallel(a, a + n, n, pool);
      pool.ParallelFor(k, kElementsPerTask, [&](int64_t begin, int64_t end) {
        Store<T>(lines, line, sorted, begin, end);
      });
    }
    return true;
  }
  std::atomic<bool> have_memory{true};
  pool.ParallelForOrCancel(
      lines.count(), std::max<int64_t>(1, kElementsPerTask / n),
      [&](int64_t begin, int64_t end) {
        E* a = reinterpret_cast<E*>(Scratch(select ? bytes : 2 * bytes));
        if (a == nullptr) {
          have_memory = false;
          return;
        }
        for (int64_t line = begin; line < end; ++line) {
          const E* sorted = a;
          if (select) {
            Smallest<T>(lines, line, k, a);
          } else {
            LoadEntries(lines.Row<T>(line), lines.x.strides[lines.dim], 0, n,
                        lines.descending, a);
            sorted = SortEntries(a, a + n, n);
          }
          Store<T>(lines, line, sorted, 0, k);
        }
      });
  return have_memory;
}

}  // namespace

absl::Status RunSort(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& values = launch.dst[0];
  const Tensor& indices = launch.dst[1];
  const Tensor& x = launch.src[0];
  if (values.numel() == 0) return absl::OkStatus();
  const int dim = static_cast<int>(launch.ints[0]);
  int64_t sizes[base::kMaxDims];
  std::copy_n(values.sizes, values.rank, sizes);
  sizes[dim] = 1;
  base::StridedLoop<3> loop(sizes, values.rank,
                            {values.strides, indices.strides, x.strides});
  loop.Coalesce();
  const Lines lines{values, indices, x, dim, launch.ints[1] != 0, loop};
  bool have_memory = true;
  ForElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    have_memory = WithEntry<T>(lines.length(), [&](auto entry) {
      return Run<T, decltype(entry)>(lines, pool);
    });
  });
  if (have_memory) return absl::OkStatus();
  return absl::ResourceExhaustedError("sort: no host memory");
}

}  // namespace tvarant::host

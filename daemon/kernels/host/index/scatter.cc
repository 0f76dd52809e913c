// scatter: y[i][index[i][j][k]][k] joined with values[i][j][k] for dim 1, and
// alike, in the order of j.
//
// Every line along dim belongs to one thread; of few long lines each thread
// takes the elements of its own part of dim. So the result does not depend on
// the number of threads.

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "daemon/kernels/host/index/combine.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 13;
constexpr int64_t kBlock = 128;
constexpr int64_t kCached = 1 << 20;  // bytes

struct Lines {
  const Tensor& y;
  const Tensor& index;
  const Tensor& values;
  int dim;
  const base::StridedLoop<3>& loop;  // operands y, index, values
  int64_t count;                     // elements of a line of index
  BadIndex* bad;
};

// A run of elements: along one line, or at the same place of several.
template <PutMode mode, typename T>
void PutRun(const Lines& lines, int64_t index_at, int64_t index_step,
            const T* from, int64_t from_step, T* to, int64_t to_step,
            int64_t count, int64_t position, int64_t position_step, int64_t low,
            int64_t high) {
  const int64_t size = lines.y.sizes[lines.dim];
  const int64_t y_dim = lines.y.strides[lines.dim];
  const bool all = low == 0 && high == size;
  const auto range = static_cast<uint64_t>(high - low);
  int64_t at[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const bool good = LoadIndices(lines.index, index_at + begin * index_step,
                                  index_step, n, size, at);
    const T* source = from + begin * from_step;
    T* target = to + begin * to_step;
    if (good && all) {
      for (int64_t i = 0; i < n; ++i) {
        Combine<mode>(target + i * to_step + at[i] * y_dim,
                      source[i * from_step]);
      }
      continue;
    }
    if (!good) {
      for (int64_t i = 0; i < n; ++i) {
        if (at[i] < 0 || at[i] >= size) {
          lines.bad->Report(position + (begin + i) * position_step, at[i]);
        }
      }
    }
    // First which of them, then what: no guess of a branch.
    int64_t own[kBlock];
    int64_t num_own = 0;
    for (int64_t i = 0; i < n; ++i) {
      own[num_own] = i;
      num_own += static_cast<uint64_t>(at[i]) - low < range;
    }
    for (int64_t j = 0; j < num_own; ++j) {
      const int64_t i = own[j];
      Combine<mode>(target + i * to_step + at[i] * y_dim,
                    source[i * from_step]);
    }
  }
}

// Lines [begin, end), elements whose index is in [low, high).
template <PutMode mode, typename T>
void PutLines(const Lines& lines, int64_t begin, int64_t end, int64_t low,
              int64_t high) {
  const auto& loop = lines.loop;
  const int64_t index_dim = lines.index.strides[lines.dim];
  const int64_t value_dim = lines.values.strides[lines.dim];
  const int64_t inner = loop.inner_size();
  // Neighbouring lines share cache lines: they are walked side by side.
  const bool along =
      lines.y.strides[lines.dim] <= loop.inner_stride(0) || inner == 1;
  for (int64_t line = begin; line < end;) {
    const int64_t abreast =
        along ? 1 : std::min({kBlock, end - line, inner - line % inner});
    T* to = reinterpret_cast<T*>(lines.y.data) + loop.OffsetOf(0, line);
    const int64_t index_at = loop.OffsetOf(1, line);
    const T* from =
        reinterpret_cast<const T*>(lines.values.data) + loop.OffsetOf(2, line);
    if (along) {
      PutRun<mode>(lines, index_at, index_dim, from, value_dim, to, 0,
                   lines.count, line * lines.count, 1, low, high);
    } else {
      for (int64_t j = 0; j < lines.count; ++j) {
        PutRun<mode>(lines, index_at + j * index_dim, loop.inner_stride(1),
                     from + j * value_dim, loop.inner_stride(2), to,
                     loop.inner_stride(0), abreast, line * lines.count + j,
                     lines.count, low, high);
      }
    }
    line += abreast;
  }
}

template <PutMode mode, typename T>
void PutAll(const Lines& lines, ThreadPool& pool) {
  const int64_t num_lines = lines.loop.num_rows() * lines.loop.inner_size();
  const int64_t size = lines.y.sizes[lines.dim];
  const int64_t threads = pool.num_threads();
  // Of a result in the cache, looking at all indices in each thread costs more
  // than it saves.
  const bool is_large =
      threads >= 4 ||
      size * lines.y.strides[lines.dim] * static_cast<int64_t>(sizeof(T)) >
          kCached;
  if (is_large && num_lines < threads &&
      num_lines * lines.count > 2 * kElementsPerTask) {
    const int64_t part = (size + threads - 1) / threads;
    pool.ParallelForOrCancel(threads, 1, [&](int64_t begin, int64_t end) {
      PutLines<mode, T>(lines, 0, num_lines, begin * part,
                        std::min(size, end * part));
    });
    return;
  }
  // Neighbouring lines share cache lines, which threads should not.
  const int64_t share =
      std::clamp<int64_t>((num_lines + threads - 1) / threads, 1, kBlock);
  pool.ParallelForOrCancel(num_lines,
                           std::max(share, kElementsPerTask / lines.count),
                           [&](int64_t begin, int64_t end) {
                             PutLines<mode, T>(lines, begin, end, 0, size);
                           });
}

}  // namespace

absl::Status RunScatter(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& y = launch.dst[0];
  const Tensor& index = launch.src[0];
  const Tensor& values = launch.src[1];
  if (index.numel() == 0) return absl::OkStatus();
  const int dim = static_cast<int>(launch.ints[0]);
  const auto mode = static_cast<PutMode>(launch.ints[1]);
  int64_t sizes[base::kMaxDims], strides[3][base::kMaxDims];
  int rank = 0;
  for (int i = 0; i < index.rank; ++i) {
    if (i == dim) continue;
    strides[0][rank] = y.strides[i];
    strides[1][rank] = index.strides[i];
    strides[2][rank] = values.strides[i];
    sizes[rank++] = index.sizes[i];
  }
  base::StridedLoop<3> loop(sizes, rank, {strides[0], strides[1], strides[2]});
  loop.Coalesce();
  BadIndex bad;
  const Lines lines{y, index, values, dim, loop, index.sizes[dim], &bad};
  if (mode == PutMode::kSet) {
    ForElementSize(SizeOf(y.dtype), [&](auto element) {
      PutAll<PutMode::kSet, decltype(element)>(lines, pool);
    });
    return bad.status(dim, y.sizes[dim]);
  }
  const bool known = ForElementType(y.dtype, [&](auto element) {
    ForPutMode(mode, [&](auto put_mode) {
      if constexpr (put_mode() != PutMode::kSet) {
        PutAll<put_mode(), decltype(element)>(lines, pool);
      }
    });
  });
  if (!known) {
    return absl::UnimplementedError(
        absl::StrCat("scatter: no kernel for ", NameOf(y.dtype)));
  }
  return bad.status(dim, y.sizes[dim]);
}

}  // namespace tvarant::host

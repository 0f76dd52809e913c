// index_put: x[p.., index0[i..], index1[i..], .., q..] joined with
// values[p.., i.., q..], in the order of i.
//
// An element of x belongs to one thread, so that the result does not depend on
// their number: slices are cut where they are long, else each thread looks at
// all positions and takes those of its own part of x.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "daemon/kernels/host/index/combine.h"
#include "daemon/kernels/host/index/index_places.h"
#include "daemon/kernels/host/scratch.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 13;
constexpr int64_t kMinSlicePart = 64;
constexpr int64_t kCached = 1 << 20;  // bytes
constexpr int64_t kAhead = 4;
constexpr int64_t kMaxPrefetch = 512;  // bytes
// Also of indices that are broadcast, with no memory behind their sizes.
constexpr int64_t kMaxResolved = 1 << 23;

struct Put {
  const Tensor& x;
  const Tensor& values;
  const base::StridedLoop<2>& kept;       // operands values, x
  const base::StridedLoop<1>& positions;  // of values
  IndexPlaces& places;
  const int64_t* resolved;  // all places, or null: found as they are needed

  int64_t slice() const { return kept.num_rows() * kept.inner_size(); }
};

// Elements [begin, end) of one slice.
template <PutMode mode, typename T>
void PutSlice(const Put& put, int64_t begin, int64_t end, const T* values,
              T* x) {
  if (end == 1) {
    Combine<mode>(x, *values);
    return;
  }
  const int64_t value_step = put.kept.inner_stride(0);
  const int64_t x_step = put.kept.inner_stride(1);
  const auto put_run = [&](const T* from, T* to, int64_t n) {
    if (x_step == 1 && value_step == 1) {
      if constexpr (mode == PutMode::kSet) {
        std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
      } else {
        for (int64_t i = 0; i < n; ++i) Combine<mode>(to + i, from[i]);
      }
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      Combine<mode>(to + i * x_step, from[i * value_step]);
    }
  };
  if (put.kept.num_rows() == 1) {
    put_run(values + begin * value_step, x + begin * x_step, end - begin);
    return;
  }
  ForEachRun(put.kept, begin, end, [&](const auto& at, int64_t, int64_t n) {
    put_run(values + at[0], x + at[1], n);
  });
}

template <typename T>
void Prefetch(const T* elements, int64_t count) {
  const auto* bytes = reinterpret_cast<const char*>(elements);
  const int64_t size =
      std::min(count * static_cast<int64_t>(sizeof(T)), kMaxPrefetch);
  for (int64_t at = 0; at < size; at += 64) __builtin_prefetch(bytes + at);
}

// Elements [begin, end) of the slices, for places in [low, high).
template <PutMode mode, typename T>
void PutPart(const Put& put, int64_t begin, int64_t end, int64_t low,
             int64_t high) {
  T* x = reinterpret_cast<T*>(put.x.data);
  const T* values = reinterpret_cast<const T*>(put.values.data);
  const auto range = static_cast<uint64_t>(high - low);
  const int64_t position_step = put.positions.inner_stride(0);
  const int64_t count = put.places.count();
  const bool far_apart = end > 8 && put.kept.num_rows() == 1;
  int64_t block[IndexPlaces::kBlock];
  for (int64_t first = 0; first < count; first += IndexPlaces::kBlock) {
    const int64_t last = std::min(count, first + IndexPlaces::kBlock);
    const int64_t* to = block;
    if (put.resolved != nullptr) {
      to = put.resolved + first;
    } else {
      put.places.Resolve(first, last, block);
    }
    ForEachRun(put.positions, first, last,
               [&](const auto& at, int64_t i, int64_t n) {
                 // First which of them, then what: no guess of a branch.
                 int64_t own[IndexPlaces::kBlock];
                 int64_t num_own = 0;
                 const int64_t* place = to + (i - first);
                 for (int64_t j = 0; j < n; ++j) {
                   own[num_own] = j;
                   num_own += static_cast<uint64_t>(place[j] - low) < range;
                 }
                 for (int64_t j = 0; j < num_own; ++j) {
                   if (far_apart && j + kAhead < num_own) {
                     // Slices are far apart: the next ones are fetched
                     // meanwhile.
                     const int64_t next = own[j + kAhead];
                     Prefetch(values + at[0] + next * position_step, end);
                     Prefetch(x + place[next], end);
                   }
                   PutSlice<mode>(put, begin, end,
                                  values + at[0] + own[j] * position_step,
                                  x + place[own[j]]);
                 }
               });
  }
}

// All places in scratch memory; null for very many.
const int64_t* ResolveAll(IndexPlaces& places, ThreadPool& pool) {
  const int64_t count = places.count();
  if (count > kMaxResolved) return nullptr;
  auto* all = reinterpret_cast<int64_t*>(
      Scratch(static_cast<size_t>(count) * sizeof(int64_t)));
  if (all == nullptr) return nullptr;
  const int64_t blocks =
      (count + IndexPlaces::kBlock - 1) / IndexPlaces::kBlock;
  pool.ParallelFor(blocks, 16, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * IndexPlaces::kBlock;
      places.Resolve(first, std::min(count, first + IndexPlaces::kBlock),
                     all + first);
    }
  });
  return all;
}

template <PutMode mode, typename T>
void PutAll(Put put, int64_t extent, ThreadPool& pool) {
  const int64_t slice = put.slice(), count = put.places.count();
  const int64_t threads = pool.num_threads();
  if (threads == 1 || slice * count < 2 * kElementsPerTask) {
    PutPart<mode, T>(put, 0, slice, 0, extent);
  } else if (slice == 1 && threads < 4 &&
             extent * static_cast<int64_t>(sizeof(T)) < kCached) {
    // Looking at all places in each thread costs more than it saves.
    PutPart<mode, T>(put, 0, slice, 0, extent);
  } else if (slice >= kMinSlicePart * threads) {
    pool.ParallelForOrCancel(slice, (slice + threads - 1) / threads,
                             [&](int64_t begin, int64_t end) {
                               PutPart<mode, T>(put, begin, end, 0, extent);
                             });
  } else {
    const int64_t part = (extent + threads - 1) / threads;
    put.resolved = ResolveAll(put.places, pool);
    pool.ParallelForOrCancel(threads, 1, [&](int64_t begin, int64_t end) {
      PutPart<mode, T>(put, 0, slice, begin * part,
                       std::min(extent, end * part));
    });
  }
}

}  // namespace

absl::Status RunIndexPut(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.dst[0];
  const Tensor& values = launch.src[0];
  const auto indices = launch.src.subspan(1);
  const int first = static_cast<int>(launch.ints[0]);
  const auto mode = static_cast<PutMode>(launch.ints[1]);
  const int num_indexed = static_cast<int>(indices.size());
  IndexPlaces places(x, first, indices, launch.ints.subspan(2),
                     (launch.flags & kWrapNegative) != 0);
  PickedLoops loops = LoopsOf(values, x, first, num_indexed, indices[0].rank);
  loops.kept.Coalesce();
  const Put put{x, values, loops.kept, loops.positions, places, nullptr};
  if (put.slice() == 0 || places.count() == 0) return absl::OkStatus();
  int64_t extent = 1;  // places are below it
  for (int d = first; d < first + num_indexed; ++d) {
    extent += std::max<int64_t>(x.sizes[d] - 1, 0) * x.strides[d];
  }
  if (mode == PutMode::kSet) {
    ForElementSize(SizeOf(x.dtype), [&](auto element) {
      PutAll<PutMode::kSet, decltype(element)>(put, extent, pool);
    });
    return places.status();
  }
  const bool known = ForElementType(x.dtype, [&](auto element) {
    ForPutMode(mode, [&](auto put_mode) {
      if constexpr (put_mode() != PutMode::kSet) {
        PutAll<put_mode(), decltype(element)>(put, extent, pool);
      }
    });
  });
  if (!known) {
    return absl::UnimplementedError(
        absl::StrCat("index_put: no kernel for ", NameOf(x.dtype)));
  }
  return places.status();
}

}  // namespace tvarant::host

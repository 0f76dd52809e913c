// index_put: x[p.., index0[i..], index1[i..], .., q..] joined with
// values[p.., i.., q..], in the order of i.
//
// An element of x belongs to one thread, so that the result does not depend on
// their number: slices are cut where they are long, else each thread looks at
// all positions and takes those of its own part of x.

#include <algorithm>
#include <cstdint>

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

// Elements [begin, end) of the slice, for places in [low, high).
template <PutMode mode, typename T>
void PutPart(const Put& put, int64_t begin, int64_t end, int64_t low,
             int64_t high) {
  T* x = reinterpret_cast<T*>(put.x.data);
  const T* values = reinterpret_cast<const T*>(put.values.data);
  const int64_t value_step = put.kept.inner_stride(0);
  const int64_t x_step = put.kept.inner_stride(1);
  const int64_t position_step = put.positions.inner_stride(0);
  const int64_t count = put.places.count();
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
                 for (int64_t j = 0; j < n; ++j) {
                   const int64_t place = to[i - first + j];
                   if (place < low || place >= high) continue;  // kBad is below
                   const T* from = values + at[0] + j * position_step;
                   if (end == 1) {
                     Combine<mode>(x + place, *from);
                     continue;
                   }
                   ForEachRun(put.kept, begin, end,
                              [&](const auto& offset, int64_t, int64_t run) {
                                T* target = x + place + offset[1];
                                const T* source = from + offset[0];
                                if (x_step == 1 && value_step == 1) {
                                  for (int64_t k = 0; k < run; ++k) {
                                    Combine<mode>(target + k, source[k]);
                                  }
                                  return;
                                }
                                for (int64_t k = 0; k < run; ++k) {
                                  Combine<mode>(target + k * x_step,
                                                source[k * value_step]);
                                }
                              });
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
  } else if (slice >= kMinSlicePart * threads) {
    pool.ParallelFor(slice, (slice + threads - 1) / threads,
                     [&](int64_t begin, int64_t end) {
                       PutPart<mode, T>(put, begin, end, 0, extent);
                     });
  } else {
    const int64_t part = (extent + threads - 1) / threads;
    put.resolved = ResolveAll(put.places, pool);
    pool.ParallelFor(threads, 1, [&](int64_t begin, int64_t end) {
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

// Where index tensors point: offsets in a tensor whose neighbouring dimensions
// [first, first + count) are indexed, each by a tensor, all of the same sizes.

#ifndef TVARANT_DAEMON_KERNELS_HOST_INDEX_INDEX_PLACES_H_
#define TVARANT_DAEMON_KERNELS_HOST_INDEX_INDEX_PLACES_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/kernels/host/element_runs.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "proto/base/strided.h"

namespace tvarant::host {

// Thread-safe.
class IndexPlaces {
 public:
  static constexpr int64_t kBlock = 512;
  static constexpr int64_t kBad = -1;

  // names[k]: the dimension that an error about index k names. wrap: negative
  // indices count from the end.
  IndexPlaces(const Tensor& x, int first, absl::Span<const Tensor> indices,
              absl::Span<const int64_t> names, bool wrap)
      : x_(x), first_(first), indices_(indices), names_(names), wrap_(wrap) {}

  int64_t count() const { return indices_[0].numel(); }

  // Offsets of positions [begin, end), at most kBlock; kBad for a bad one.
  void Resolve(int64_t begin, int64_t end, int64_t* places) {
    std::fill(places, places + (end - begin), 0);
    for (size_t k = 0; k < indices_.size(); ++k) {
      const Tensor& index = indices_[k];
      const int64_t size = x_.sizes[first_ + k];
      const int64_t stride = x_.strides[first_ + k];
      const int64_t added = wrap_ ? size : 0;
      base::StridedLoop<1> loop(index.sizes, index.rank, {index.strides});
      loop.Coalesce();
      const int64_t step = loop.inner_stride(0);
      ForEachRun(loop, begin, end,
                 [&](const auto& at, int64_t first, int64_t n) {
                   for (int64_t i = 0; i < n; ++i) {
                     const int64_t value = IndexAt(index, at[0] + i * step);
                     const int64_t wrapped = value < 0 ? value + added : value;
                     int64_t* place = places + (first - begin) + i;
                     if (static_cast<uint64_t>(wrapped) >=
                         static_cast<uint64_t>(size)) {
                       bad_[k].Report(first + i, value);
                       *place = kBad;
                     } else if (*place != kBad) {
                       *place += wrapped * stride;
                     }
                   }
                 });
    }
  }

  absl::Status status() const {
    for (size_t k = 0; k < indices_.size(); ++k) {
      absl::Status status =
          bad_[k].status(names_[k], x_.sizes[first_ + static_cast<int>(k)]);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  const Tensor& x_;
  int first_;
  absl::Span<const Tensor> indices_;
  absl::Span<const int64_t> names_;
  bool wrap_;
  BadIndex bad_[base::kMaxDims];
};

// What indexing leaves of a tensor `whole`, and the tensor `picked` of sizes
// [kept before][sizes of the indices][kept after]: the loop over the kept
// dimensions (operands picked, whole), and picked's walk over positions.
struct PickedLoops {
  base::StridedLoop<2> kept;
  base::StridedLoop<1> positions;
};

inline PickedLoops LoopsOf(const Tensor& picked, const Tensor& whole, int first,
                           int num_indexed, int index_rank) {
  int64_t sizes[base::kMaxDims], strides[2][base::kMaxDims];
  int rank = 0;
  for (int d = 0; d < whole.rank; ++d) {
    if (d >= first && d < first + num_indexed) continue;
    const int p = d < first ? d : d - num_indexed + index_rank;
    sizes[rank] = whole.sizes[d];
    strides[0][rank] = picked.strides[p];
    strides[1][rank] = whole.strides[d];
    ++rank;
  }
  PickedLoops loops{base::StridedLoop<2>(sizes, rank, {strides[0], strides[1]}),
                    base::StridedLoop<1>(picked.sizes + first, index_rank,
                                         {picked.strides + first})};
  loops.positions.Coalesce();
  return loops;
}

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_INDEX_INDEX_PLACES_H_

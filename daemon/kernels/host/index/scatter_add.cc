// scatter_add: y[i][index[i][j][k]][k] += values[i][j][k] for dim 1, and
// alike, in the order of j: every line along dim belongs to one thread, so the
// result does not depend on their number.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/half.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/index/bad_index.h"
#include "proto/base/strided.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 13;
constexpr int64_t kLinesPerBlock = 64;

template <typename T>
void Accumulate(T* sum, T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    *sum = FromFloat<T>(ToFloat(*sum) + ToFloat(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    *sum = *sum || value;
  } else if constexpr (std::is_floating_point_v<T>) {
    *sum += value;
  } else {
    // Unsigned arithmetic wraps.
    *sum = static_cast<T>(static_cast<uint64_t>(*sum) +
                          static_cast<uint64_t>(value));
  }
}

// A stored bool may hold any byte: not to be read as a bool.
struct BoolByte {
  uint8_t byte;
};

template <>
void Accumulate<BoolByte>(BoolByte* sum, BoolByte value) {
  sum->byte = sum->byte != 0 || value.byte != 0;
}

// Adds lines [begin, end), line l along dim being element l of the loop over
// the other dimensions (operands y, index, values).
template <typename T>
void AddLines(const base::StridedLoop<3>& loop, const HostLaunch& launch,
              int64_t begin, int64_t end, BadIndex* bad) {
  const Tensor& y = launch.dst[0];
  const Tensor& index = launch.src[0];
  const Tensor& values = launch.src[1];
  const int64_t dim = launch.ints[0];
  const bool scalar = index.rank == 0;
  const int64_t count = scalar ? 1 : index.sizes[dim];
  const int64_t size = y.rank == 0 ? 1 : y.sizes[dim];
  const int64_t y_dim = y.rank == 0 ? 0 : y.strides[dim];
  const int64_t index_dim = scalar ? 0 : index.strides[dim];
  const int64_t value_dim = scalar ? 0 : values.strides[dim];
  const int64_t inner = loop.inner_size();
  for (int64_t line = begin; line < end;) {
    // Neighbouring lines share cache lines: walk them side by side.
    const int64_t lines =
        std::min({kLinesPerBlock, end - line, inner - line % inner});
    T* to = reinterpret_cast<T*>(y.data) + loop.OffsetOf(0, line);
    const int64_t index_at = loop.OffsetOf(1, line);
    const T* from =
        reinterpret_cast<const T*>(values.data) + loop.OffsetOf(2, line);
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t l = 0; l < lines; ++l) {
        const int64_t at =
            IndexAt(index, index_at + l * loop.inner_stride(1) + j * index_dim);
        if (at < 0 || at >= size) {
          bad->Report((line + l) * count + j, at);
          continue;
        }
        Accumulate(to + l * loop.inner_stride(0) + at * y_dim,
                   from[l * loop.inner_stride(2) + j * value_dim]);
      }
    }
    line += lines;
  }
}

using AddLinesFn = void (*)(const base::StridedLoop<3>&, const HostLaunch&,
                            int64_t, int64_t, BadIndex*);

AddLinesFn Pick(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return AddLines<BoolByte>;
    case DType::kUInt8:
      return AddLines<uint8_t>;
    case DType::kInt8:
      return AddLines<int8_t>;
    case DType::kInt16:
      return AddLines<int16_t>;
    case DType::kInt32:
      return AddLines<int32_t>;
    case DType::kInt64:
      return AddLines<int64_t>;
    case DType::kFloat16:
      return AddLines<Half>;
    case DType::kBFloat16:
      return AddLines<BFloat16>;
    case DType::kFloat32:
      return AddLines<float>;
    case DType::kFloat64:
      return AddLines<double>;
    default:
      return nullptr;
  }
}

}  // namespace

absl::Status RunScatterAdd(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& y = launch.dst[0];
  const Tensor& index = launch.src[0];
  const Tensor& values = launch.src[1];
  const AddLinesFn add = Pick(y.dtype);
  if (add == nullptr || values.dtype != y.dtype || !IsIndexDType(index.dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("scatter_add: no kernel for ", NameOf(values.dtype),
                     " into ", NameOf(y.dtype), " by ", NameOf(index.dtype)));
  }
  if (index.numel() == 0) return absl::OkStatus();
  const int64_t dim = launch.ints[0];
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
  const int64_t count = index.rank == 0 ? 1 : index.sizes[dim];
  BadIndex bad;
  pool.ParallelFor(
      loop.num_rows() * loop.inner_size(),
      std::max<int64_t>(16, kElementsPerTask / count),
      [&](int64_t begin, int64_t end) { add(loop, launch, begin, end, &bad); });
  return bad.status(dim, y.rank == 0 ? 1 : y.sizes[dim]);
}

}  // namespace tvarant::host

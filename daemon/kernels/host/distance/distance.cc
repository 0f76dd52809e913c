// pair_distance and its gradient: distances between the rows of two matrices,
// or between those of one, each pair once:
//   y[b, i, j] = (sum over k of |a[b, i, k] - c[b, j, k]|^p)^(1/p)

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "daemon/kernels/host/distance/distance_rows.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/scratch.h"

namespace tvarant::host {
namespace {

constexpr int64_t kGrain = 16 << 10;

template <typename T>
DistanceLoops<T> Loops();
template <>
DistanceLoops<float> Loops() {
  return TVARANT_FOR_ISA(DistanceLoopsF32)();
}
template <>
DistanceLoops<double> Loops() {
  return TVARANT_FOR_ISA(DistanceLoopsF64)();
}

// Rows of a [B, N, K] or [N, K] tensor.
template <typename T>
class Rows {
 public:
  explicit Rows(const Tensor& tensor)
      : data_(reinterpret_cast<T*>(tensor.data)),
        batch_stride_(tensor.rank == 3 ? tensor.strides[0] : 0),
        row_stride_(tensor.strides[tensor.rank - 2]),
        stride_(tensor.strides[tensor.rank - 1]),
        size_(tensor.sizes[tensor.rank - 1]) {}

  int64_t size() const { return size_; }
  bool is_dense() const { return stride_ == 1 || size_ <= 1; }
  T* At(int64_t batch, int64_t row) const {
    return data_ + batch * batch_stride_ + row * row_stride_;
  }
  // The row in place, or copied to `buffer`.
  const T* Read(int64_t batch, int64_t row, T* buffer) const {
    const T* from = At(batch, row);
    if (is_dense()) return from;
    for (int64_t k = 0; k < size_; ++k) buffer[k] = from[k * stride_];
    return buffer;
  }
  int64_t stride() const { return stride_; }

 private:
  T* data_;
  int64_t batch_stride_, row_stride_, stride_, size_;
};

// Which pairs there are, and where their distance stands.
class Pairs {
 public:
  Pairs(const Tensor& a, const Tensor& b)
      : is_condensed_(!b.present()),
        rows_(a.sizes[a.rank - 2]),
        columns_(is_condensed_ ? rows_ : b.sizes[1]),
        batches_(is_condensed_ ? 1 : a.sizes[0]) {}

  bool is_condensed() const { return is_condensed_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t batches() const { return batches_; }
  bool IsPair(int64_t i, int64_t j) const { return !is_condensed_ || i != j; }
  // Offset in elements; the condensed form holds i < j, row by row.
  int64_t At(const Tensor& y, int64_t batch, int64_t i, int64_t j) const {
    if (!is_condensed_) {
      return batch * y.strides[0] + i * y.strides[1] + j * y.strides[2];
    }
    const int64_t low = std::min(i, j), high = std::max(i, j);
    const int64_t before = low * (2 * rows_ - low - 1) / 2;
    return (before + high - low - 1) * y.strides[0];
  }

 private:
  bool is_condensed_;
  int64_t rows_, columns_, batches_;
};

absl::Status NoMemory() {
  return absl::ResourceExhaustedError("pair_distance: no memory for rows");
}

template <typename T>
absl::Status Forward(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& y = launch.dst[0];
  const Pairs pairs(launch.src[0], launch.src[1]);
  const Rows<T> a(launch.src[0]);
  const Rows<T> b(pairs.is_condensed() ? launch.src[0] : launch.src[1]);
  const DistanceLoops<T> loops = Loops<T>();
  const double p = launch.scalar;
  const Norm norm = NormOf(p);
  const int64_t n = a.size(), columns = pairs.columns();
  if (y.numel() == 0) return absl::OkStatus();
  std::atomic<bool> failed = false;
  // By places of the full matrix; a row may be too few for all threads.
  pool.ParallelFor(
      pairs.batches() * pairs.rows() * columns,
      std::max<int64_t>(kGrain / (n + 8), 1), [&](int64_t begin, int64_t end) {
        T* buffer = reinterpret_cast<T*>(
            Scratch(static_cast<size_t>(2 * n + 1) * sizeof(T)));
        if (buffer == nullptr) {
          failed = true;
          return;
        }
        const T* from = nullptr;
        int64_t last_row = -1;
        for (int64_t at = begin; at < end; ++at) {
          const int64_t row = at / columns, j = at % columns;
          const int64_t batch = row / pairs.rows(), i = row % pairs.rows();
          if (pairs.is_condensed() && j <= i) continue;
          if (row != last_row) from = a.Read(batch, i, buffer);
          last_row = row;
          reinterpret_cast<T*>(y.data)[pairs.At(y, batch, i, j)] =
              loops.distance(from, b.Read(batch, j, buffer + n), n, norm, p);
        }
      });
  return failed ? NoMemory() : absl::OkStatus();
}

template <typename T>
absl::Status Backward(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& dy = launch.src[0];
  const Tensor& y = launch.src[3];
  const Pairs pairs(launch.src[1], launch.src[2]);
  const Rows<T> da(launch.dst[0]), a(launch.src[1]);
  const Rows<T> b(pairs.is_condensed() ? launch.src[1] : launch.src[2]);
  const DistanceLoops<T> loops = Loops<T>();
  const double p = launch.scalar;
  const Norm norm = NormOf(p);
  const int64_t n = a.size(), columns = pairs.columns();
  if (launch.dst[0].numel() == 0) return absl::OkStatus();
  std::atomic<bool> failed = false;
  pool.ParallelFor(
      pairs.batches() * pairs.rows(),
      std::max<int64_t>(kGrain / ((n + 8) * (columns + 1)), 1),
      [&](int64_t begin, int64_t end) {
        T* buffer = reinterpret_cast<T*>(
            Scratch(static_cast<size_t>(3 * n) * sizeof(T)));
        if (buffer == nullptr) {
          failed = true;
          return;
        }
        T* const sum = buffer + 2 * n;
        for (int64_t row = begin; row < end; ++row) {
          const int64_t batch = row / pairs.rows(), i = row % pairs.rows();
          const T* from = a.Read(batch, i, buffer);
          std::fill(sum, sum + n, T(0));
          for (int64_t j = 0; j < columns; ++j) {
            if (!pairs.IsPair(i, j)) continue;
            const T gradient =
                reinterpret_cast<const T*>(dy.data)[pairs.At(dy, batch, i, j)];
            const T distance =
                reinterpret_cast<const T*>(y.data)[pairs.At(y, batch, i, j)];
            loops.add_gradient(from, b.Read(batch, j, buffer + n), n, norm, p,
                               gradient, distance, sum);
          }
          T* to = da.At(batch, i);
          for (int64_t k = 0; k < n; ++k) to[k * da.stride()] = sum[k];
        }
      });
  return failed ? NoMemory() : absl::OkStatus();
}

}  // namespace

absl::Status RunPairDistance(const HostLaunch& launch, ThreadPool& pool) {
  return launch.src[0].dtype == DType::kFloat64 ? Forward<double>(launch, pool)
                                                : Forward<float>(launch, pool);
}

absl::Status RunPairDistanceBackward(const HostLaunch& launch,
                                     ThreadPool& pool) {
  return launch.src[1].dtype == DType::kFloat64 ? Backward<double>(launch, pool)
                                                : Backward<float>(launch, pool);
}

}  // namespace tvarant::host

// fft: Fourier transforms along one dimension, of complex or real lines.
//
// Lines are copied to blocks of scratch memory, some side by side so that they
// vectorise, and back.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "daemon/kernels/host/fft/fft_lines.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/scratch.h"
#include "proto/base/strided.h"

namespace tvarant::host {

FftShape::FftShape(int64_t length) : n(length), inner(length) {
  const auto factor = [this](int64_t value) {
    num_factors = 0;
    int64_t rest = value;
    for (const int64_t r : {int64_t{4}, int64_t{2}, int64_t{3}, int64_t{5}}) {
      for (; rest % r == 0; rest /= r) factors[num_factors++] = r;
    }
    for (int64_t r = 7; r <= kMaxFactor; r += 2) {
      for (; rest % r == 0; rest /= r) factors[num_factors++] = r;
    }
    return rest == 1;
  };
  if (factor(n)) return;
  inner = 1;
  while (inner < 2 * n - 1) inner *= 2;
  factor(inner);
}

namespace {

constexpr int64_t kLanes = 8;
constexpr int64_t kLaneLimit = 1 << 13;  // longer lines go one by one
constexpr int64_t kGrain = 8 << 10;      // numbers worth a thread

template <typename T>
FftLoops<T> Loops();
template <>
FftLoops<float> Loops() {
  return TVARANT_FOR_ISA(FftLoopsF32)();
}
template <>
FftLoops<double> Loops() {
  return TVARANT_FOR_ISA(FftLoopsF64)();
}

// One side of the transform: lines of complex or real numbers.
template <typename T>
struct Lines {
  Lines(const Tensor& tensor, int dim)
      : data(reinterpret_cast<T*>(tensor.data)),
        is_complex(IsComplex(tensor.dtype)),
        count(tensor.sizes[dim]),
        step(tensor.strides[dim] * (is_complex ? 2 : 1)) {}
  T* At(int64_t offset) const { return data + offset * (is_complex ? 2 : 1); }

  T* data;
  bool is_complex;
  int64_t count;  // numbers of a line
  int64_t step;   // between them, in numbers of type T
};

template <typename T>
absl::Status Run(const HostLaunch& launch, ThreadPool& pool) {
  const int dim = static_cast<int>(launch.ints[0]);
  const bool is_forward = launch.ints[1] != 0;
  const Tensor& y = launch.dst[0];
  const Tensor& x = launch.src[0];
  if (y.numel() == 0) return absl::OkStatus();
  const Lines<T> from(x, dim), to(y, dim);
  const FftShape shape(from.is_complex && !to.is_complex ? to.count
                                                         : from.count);
  const T scale = static_cast<T>(launch.floats[0]);
  const FftLoops<T> loops = Loops<T>();
  int64_t sizes[base::kMaxDims];
  std::copy(x.sizes, x.sizes + x.rank, sizes);
  sizes[dim] = 1;
  const base::StridedLoop<2> offsets(sizes, x.rank, {y.strides, x.strides});
  int64_t lines = 1;
  for (int i = 0; i < x.rank; ++i) lines *= sizes[i];
  const int64_t lanes = shape.inner <= kLaneLimit ? std::min(kLanes, lines) : 1;
  const int64_t blocks = (lines + lanes - 1) / lanes;
  const int64_t n = shape.n, size = shape.inner * lanes;

  // The inverse transform is the forward one with both parts exchanged.
  const auto load = [&](int64_t line, int64_t lane, T* work) {
    T* const re = (is_forward ? work : work + size) + lane;
    T* const im = (is_forward ? work + size : work) + lane;
    const T* source = from.At(offsets.OffsetOf(1, line));
    for (int64_t k = 0; k < std::min(from.count, n); ++k) {
      re[k * lanes] = source[k * from.step];
      im[k * lanes] = from.is_complex ? source[k * from.step + 1] : T(0);
    }
    if (to.is_complex) return;
    // The upper half mirrors the lower one; what has no mirror is real.
    im[0] = T(0);
    if (n % 2 == 0) im[n / 2 * lanes] = T(0);
    for (int64_t k = from.count; k < n; ++k) {
      re[k * lanes] = re[(n - k) * lanes];
      im[k * lanes] = -im[(n - k) * lanes];
    }
  };
  const auto store = [&](int64_t line, int64_t lane, const T* result) {
    const T* const re = (is_forward ? result : result + size) + lane;
    const T* const im = (is_forward ? result + size : result) + lane;
    T* target = to.At(offsets.OffsetOf(0, line));
    for (int64_t k = 0; k < to.count; ++k) {
      target[k * to.step] = re[k * lanes] * scale;
      if (to.is_complex) target[k * to.step + 1] = im[k * lanes] * scale;
    }
  };

  // Each thread makes its tables: few, large parts.
  const int64_t part = (blocks + pool.num_threads() - 1) / pool.num_threads();
  std::atomic<bool> failed = false;
  pool.ParallelFor(
      blocks, std::max(part, kGrain / size + 1),
      [&](int64_t begin, int64_t end) {
        const auto numbers = static_cast<size_t>(
            shape.table_size() +
            std::max(shape.work_size(lanes), shape.work_size(1)));
        T* const tables = reinterpret_cast<T*>(Scratch(numbers * sizeof(T)));
        if (tables == nullptr) {
          failed = true;
          return;
        }
        T* const work = tables + shape.table_size();
        loops.prepare(shape, tables, work);
        for (int64_t block = begin; block < end; ++block) {
          const int64_t first = block * lanes;
          const int64_t count = std::min(lanes, lines - first);
          for (int64_t l = 0; l < count; ++l) load(first + l, l, work);
          for (int64_t l = count; l < lanes; ++l) {
            for (int64_t k = 0; k < n; ++k) {
              work[k * lanes + l] = work[size + k * lanes + l] = T(0);
            }
          }
          const T* result = loops.run(shape, tables, work, lanes);
          for (int64_t l = 0; l < count; ++l) store(first + l, l, result);
        }
      });
  if (failed) return absl::ResourceExhaustedError("fft: no memory for lines");
  return absl::OkStatus();
}

}  // namespace

absl::Status RunFft(const HostLaunch& launch, ThreadPool& pool) {
  const DType dtype = launch.src[0].dtype;
  return dtype == DType::kFloat64 || dtype == DType::kComplex128
             ? Run<double>(launch, pool)
             : Run<float>(launch, pool);
}

}  // namespace tvarant::host

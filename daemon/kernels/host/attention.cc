// attention: softmax(scale * q @ k^T + mask) @ v for blocks of queries.
//
// A block's scores stay in cache: they are a product, its rows a softmax, and
// the result again a product, all by the functions of those kernels.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/gemm/gemm_few_rows.h"
#include "daemon/kernels/host/gemm/gemm_tile.h"
#include "daemon/kernels/host/half.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/scratch.h"
#include "daemon/kernels/host/softmax_rows.h"

namespace tvarant::host {
namespace {

constexpr int64_t kMaxRows = 64;
constexpr int64_t kBlockScores = 1 << 17;
constexpr int64_t kProductsPerTask = 1 << 19;
constexpr int64_t kAlignment = 64;

int64_t RoundUp(int64_t x) {
  return (x + kAlignment - 1) / kAlignment * kAlignment;
}

// The matrix of one head: dimensions 2 and 3 of [B, H, M, D].
GemmMatrix HeadOf(const Tensor& t, int64_t batch, int64_t head) {
  const int64_t at = batch * t.strides[0] + head * t.strides[1];
  return {t.data + at * static_cast<int64_t>(SizeOf(t.dtype)), t.dtype,
          t.strides[2], t.strides[3]};
}

GemmMatrix Transposed(GemmMatrix x) {
  std::swap(x.row_stride, x.col_stride);
  return x;
}

// What a mask element adds to a score.
double MaskAt(const Tensor& mask, int64_t at) {
  switch (mask.dtype) {
    case DType::kBool:
      return mask.data[at] != 0 ? 0.0
                                : -std::numeric_limits<double>::infinity();
    case DType::kFloat16:
      return ToFloat(reinterpret_cast<const Half*>(mask.data)[at]);
    case DType::kBFloat16:
      return ToFloat(reinterpret_cast<const BFloat16*>(mask.data)[at]);
    case DType::kFloat32:
      return reinterpret_cast<const float*>(mask.data)[at];
    default:
      return reinterpret_cast<const double*>(mask.data)[at];
  }
}

class Attention {
 public:
  explicit Attention(const HostLaunch& launch)
      : launch_(launch),
        y_(launch.dst[0]),
        sums_(launch.dst[1]),
        q_(launch.src[0]),
        k_(launch.src[1]),
        v_(launch.src[2]),
        mask_(launch.src[3]),
        kernels_(TVARANT_FOR_ISA(kGemmKernels)),
        wide_(q_.dtype == DType::kFloat64),
        causal_(launch.ints[0] != 0),
        heads_(q_.sizes[1]),
        queries_(q_.sizes[2]),
        keys_(k_.sizes[2]),
        rows_(std::clamp<int64_t>(kBlockScores / std::max<int64_t>(keys_, 1), 1,
                                  kMaxRows)) {}

  absl::Status Run(ThreadPool& pool) {
    if (y_.sizes[0] == 0 || heads_ == 0 || queries_ == 0) {
      return absl::OkStatus();
    }
    const int64_t blocks = (queries_ + rows_ - 1) / rows_;
    const double products = static_cast<double>(rows_) *
                            static_cast<double>(keys_ + 1) *
                            static_cast<double>(q_.sizes[3] + v_.sizes[3] + 1);
    const int64_t grain = std::max<int64_t>(
        1,
        static_cast<int64_t>(static_cast<double>(kProductsPerTask) / products));
    std::atomic<bool> out_of_memory{false};
    pool.ParallelForOrCancel(
        y_.sizes[0] * heads_ * blocks, grain, [&](int64_t begin, int64_t end) {
          for (int64_t task = begin; task < end; ++task) {
            const int64_t head = task / blocks, row = task % blocks * rows_;
            const bool done =
                wide_ ? Block<double>(head / heads_, head % heads_, row)
                      : Block<float>(head / heads_, head % heads_, row);
            if (!done) out_of_memory = true;
          }
        });
    if (out_of_memory) {
      return absl::ResourceExhaustedError(
          absl::StrCat(NameOf(launch_.kernel), ": no host memory for scores"));
    }
    return absl::OkStatus();
  }

 private:
  const GemmKernel& KernelFor(const GemmProblem& g) const {
    if (wide_) return kernels_.f64;
    if (g.a.dtype == DType::kBFloat16 && g.b.dtype == DType::kBFloat16 &&
        kernels_.bf16.tile != nullptr && HasBFloat16()) {
      return kernels_.bf16;
    }
    return kernels_.f32;
  }

  bool IsFewRows(const GemmProblem& g) const {
    return KernelFor(g).few_rows != nullptr && g.m <= kFewRows &&
           (g.b.col_stride == 1 || g.b.row_stride == 1);
  }

  size_t ScratchFor(const GemmProblem& g) const {
    return IsFewRows(g) ? kFewRowsScratchBytes
                        : KernelFor(g).scratch_bytes(g, {0, g.m, 0, g.n});
  }

  void Multiply(const GemmProblem& g, char* scratch) const {
    const GemmKernel& kernel = KernelFor(g);
    (IsFewRows(g) ? kernel.few_rows : kernel.tile)(g, {0, g.m, 0, g.n},
                                                   scratch);
  }

  // Queries [row, row + rows_) of one head. False: no memory.
  template <typename T>
  bool Block(int64_t batch, int64_t head, int64_t row) const {
    const int64_t rows = std::min(rows_, queries_ - row);
    // No query of the block sees a key beyond.
    const int64_t keys = causal_ ? std::min(keys_, row + rows) : keys_;
    const int64_t group = head / (heads_ / k_.sizes[1]);
    const DType computed = wide_ ? DType::kFloat64 : DType::kFloat32;

    GemmProblem scores;
    scores.a = HeadOf(q_, batch, head);
    scores.a.data += row * q_.strides[2] * SizeOf(q_.dtype);
    scores.b = Transposed(HeadOf(k_, batch, group));
    scores.c = {nullptr, computed, keys, 1};
    scores.m = rows;
    scores.n = keys;
    scores.k = q_.sizes[3];
    scores.alpha = launch_.scalar;
    GemmProblem result;
    result.a = scores.c;
    result.b = HeadOf(v_, batch, group);
    result.c = HeadOf(y_, batch, head);
    result.c.data += row * y_.strides[2] * SizeOf(y_.dtype);
    result.m = rows;
    result.n = v_.sizes[3];
    result.k = keys;

    const int64_t score_bytes =
        RoundUp(rows * keys * static_cast<int64_t>(sizeof(T)));
    const int64_t best_bytes =
        RoundUp(rows * static_cast<int64_t>(sizeof(Best)));
    const size_t work =
        std::max({static_cast<size_t>(SoftmaxScratchBytes(rows, keys)),
                  ScratchFor(scores), ScratchFor(result)});
    char* scratch =
        Scratch(static_cast<size_t>(score_bytes + best_bytes) + work);
    if (scratch == nullptr) return false;
    T* s = reinterpret_cast<T*>(scratch);
    Best* best = reinterpret_cast<Best*>(scratch + score_bytes);
    scratch += score_bytes + best_bytes;
    scores.c.data = result.a.data = reinterpret_cast<char*>(s);

    if (keys > 0) {
      Multiply(scores, scratch);
      Mask(batch, head, row, rows, keys, s);
      FindBest(rows, keys, s, best);
      const RowView view{scores.c.data, computed, keys, 1};
      TVARANT_FOR_ISA(SoftmaxRows)
      (SoftmaxKind::kSoftmax, view, view, rows, keys, scratch);
    }
    for (int64_t i = 0; i < rows; ++i) {
      const bool none = keys == 0 || best[i].score == -kInfinity;
      if (none) std::fill_n(s + i * keys, keys, T{0});
      if (!sums_.present()) continue;
      // The largest probability is exp(its score - logsumexp).
      const double sum =
          none ? -kInfinity
               : best[i].score -
                     std::log(static_cast<double>(s[i * keys + best[i].key]));
      const int64_t at = batch * sums_.strides[0] + head * sums_.strides[1] +
                         (row + i) * sums_.strides[2];
      reinterpret_cast<T*>(sums_.data)[at] = static_cast<T>(sum);
    }
    if (result.n > 0) Multiply(result, scratch);
    return true;
  }

  struct Best {
    double score;
    int64_t key;
  };
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  template <typename T>
  void Mask(int64_t batch, int64_t head, int64_t row, int64_t rows,
            int64_t keys, T* s) const {
    for (int64_t i = 0; i < rows; ++i) {
      T* score = s + i * keys;
      if (causal_) {
        for (int64_t j = row + i + 1; j < keys; ++j) {
          score[j] = static_cast<T>(-kInfinity);
        }
      }
      if (!mask_.present()) continue;
      const int64_t at = batch * mask_.strides[0] + head * mask_.strides[1] +
                         (row + i) * mask_.strides[2];
      for (int64_t j = 0; j < keys; ++j) {
        score[j] += static_cast<T>(MaskAt(mask_, at + j * mask_.strides[3]));
      }
    }
  }

  template <typename T>
  static void FindBest(int64_t rows, int64_t keys, const T* s, Best* best) {
    for (int64_t i = 0; i < rows; ++i) {
      T most = s[i * keys];
      int64_t key = 0;
      for (int64_t j = 1; j < keys; ++j) {
        // A NaN that is first stays, and is the result.
        if (s[i * keys + j] > most) most = s[i * keys + j], key = j;
      }
      best[i] = {static_cast<double>(most), key};
    }
  }

  const HostLaunch& launch_;
  const Tensor &y_, &sums_, &q_, &k_, &v_, &mask_;
  const GemmKernels& kernels_;
  const bool wide_, causal_;
  const int64_t heads_, queries_, keys_, rows_;
};

}  // namespace

absl::Status RunAttention(const HostLaunch& launch, ThreadPool& pool) {
  return Attention(launch).Run(pool);
}

}  // namespace tvarant::host

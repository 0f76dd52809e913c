// nll_loss and its gradient:
//   loss[i] = -weight[target[i]] * logp[i, target[i]], 0 where ignored
//   mean: sum(loss) / sum(weight[target[i]])

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/half.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/scratch.h"

namespace tvarant::host {
namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
Wide<T> At(const Tensor& t, int64_t at) {
  return ToFloat(reinterpret_cast<const T*>(t.data)[at]);
}

template <typename T>
void Put(const Tensor& t, int64_t at, double value) {
  reinterpret_cast<T*>(t.data)[at] = FromFloat<T>(static_cast<Wide<T>>(value));
}

// The rows of logp, [N, C] or [N, C, L]: N times L distributions.
struct Rows {
  explicit Rows(const Tensor& logp)
      : count(logp.sizes[0] * (logp.rank == 3 ? logp.sizes[2] : 1)),
        classes(logp.sizes[1]),
        inner(logp.rank == 3 ? logp.sizes[2] : 1) {}
  // Where row `row` starts in logp, and its element in a tensor [N] or [N, L].
  int64_t In(const Tensor& logp, int64_t row) const {
    return row / inner * logp.strides[0] +
           (logp.rank == 3 ? row % inner * logp.strides[2] : 0);
  }
  int64_t Of(const Tensor& t, int64_t row) const {
    if (t.rank == 0) return 0;
    return row / inner * t.strides[0] +
           (t.rank == 2 ? row % inner * t.strides[1] : 0);
  }

  int64_t count, classes, inner;
};

// Each target is read once: the value used is the one that was checked.
int64_t TargetAt(const Tensor& target, int64_t at) {
  if (target.dtype == DType::kUInt8) {
    return reinterpret_cast<const volatile uint8_t*>(target.data)[at];
  }
  return reinterpret_cast<const volatile int64_t*>(target.data)[at];
}

// Remembers the first row's target out of range. Thread-safe; locks only when
// something is wrong.
class TargetCheck {
 public:
  bool InRange(int64_t row, int64_t target, int64_t classes) {
    if (target >= 0 && target < classes) return true;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (row < row_) {
      row_ = row;
      bad_ = target;
    }
    return false;
  }
  absl::Status status() const {
    if (row_ == INT64_MAX) return absl::OkStatus();
    return absl::OutOfRangeError(
        absl::StrCat("Target ", bad_, " is out of bounds."));
  }

 private:
  std::mutex mutex_;
  int64_t row_ = INT64_MAX;
  int64_t bad_ = 0;
};

// Rows that one partial sum stands for, whatever the number of threads.
constexpr int64_t kChunk = 4096;

struct Sums {
  double loss = 0;
  double weight = 0;
};

template <typename T>
absl::Status Forward(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& logp = launch.src[0];
  const Tensor& target = launch.src[1];
  const Tensor& weight = launch.src[2];
  const Tensor& loss = launch.dst[0];
  const int64_t reduction = launch.ints[0], ignore = launch.ints[1];
  const Rows rows(logp);
  const int64_t chunks = (rows.count + kChunk - 1) / kChunk;
  auto* sums = reinterpret_cast<Sums*>(
      Scratch(static_cast<size_t>(chunks + 1) * sizeof(Sums)));
  if (sums == nullptr) {
    return absl::ResourceExhaustedError("nll_loss: no memory for sums");
  }
  TargetCheck check;
  pool.ParallelFor(chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t chunk = first; chunk < last; ++chunk) {
      Sums sum;
      const int64_t end = std::min(rows.count, (chunk + 1) * kChunk);
      for (int64_t i = chunk * kChunk; i < end; ++i) {
        const int64_t t = TargetAt(target, rows.Of(target, i));
        double value = 0;
        if (t != ignore && check.InRange(i, t, rows.classes)) {
          const double w =
              weight.present() ? At<T>(weight, t * weight.strides[0]) : 1.0;
          value = -w * At<T>(logp, rows.In(logp, i) + t * logp.strides[1]);
          sum.loss += value;
          sum.weight += w;
        }
        if (reduction == kNone) Put<T>(loss, rows.Of(loss, i), value);
      }
      sums[chunk] = sum;
    }
  });
  Sums total;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    total.loss += sums[chunk].loss;
    total.weight += sums[chunk].weight;
  }
  if (reduction != kNone) {
    // All ignored: 0 / 0, NaN as in PyTorch.
    Put<T>(loss, 0,
           reduction == kMean ? total.loss / total.weight : total.loss);
  }
  Put<T>(launch.dst[1], 0, reduction == kNone ? 0 : total.weight);
  return check.status();
}

template <typename T>
absl::Status Backward(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& dloss = launch.src[0];
  const Tensor& target = launch.src[1];
  const Tensor& weight = launch.src[2];
  const Tensor& dlogp = launch.dst[0];
  const int64_t reduction = launch.ints[0], ignore = launch.ints[1];
  const Rows rows(dlogp);
  const int64_t classes = rows.classes;
  TargetCheck check;
  pool.ParallelFor(
      rows.count, 1 + (1 << 15) / (classes + 1),
      [&](int64_t begin, int64_t end) {
        // Class by class where the rows lie side by side.
        for (int64_t i = begin; i < end;) {
          const int64_t next = std::min(end, (i / rows.inner + 1) * rows.inner);
          const int64_t step = rows.inner > 1 ? dlogp.strides[2] : 0;
          const int64_t start = rows.In(dlogp, i);
          for (int64_t c = 0; c < classes; ++c) {
            for (int64_t k = 0; k < next - i; ++k) {
              Put<T>(dlogp, start + c * dlogp.strides[1] + k * step, 0);
            }
          }
          i = next;
        }
        for (int64_t i = begin; i < end; ++i) {
          const int64_t t = TargetAt(target, rows.Of(target, i));
          if (t == ignore || !check.InRange(i, t, classes)) continue;
          const double w =
              weight.present() ? At<T>(weight, t * weight.strides[0]) : 1.0;
          const double grad = At<T>(dloss, rows.Of(dloss, i));
          double value = -w * grad;
          if (reduction == kMean) value /= At<T>(launch.src[3], 0);
          Put<T>(dlogp, rows.In(dlogp, i) + t * dlogp.strides[1], value);
        }
      });
  return check.status();
}

absl::Status Unimplemented(const HostLaunch& launch, DType dtype) {
  return absl::UnimplementedError(absl::StrCat(
      NameOf(launch.kernel), ": no kernel for dtype ", NameOf(dtype)));
}

// All floating operands of one dtype, the target int64 or uint8.
bool Supported(const HostLaunch& launch, DType dtype, DType target) {
  if (!IsFloating(dtype)) return false;
  if (target != DType::kInt64 && target != DType::kUInt8) return false;
  for (const Tensor& t : launch.dst) {
    if (t.dtype != dtype) return false;
  }
  for (size_t i = 0; i < launch.src.size(); ++i) {
    const Tensor& t = launch.src[i];
    if (i != 1 && t.present() && t.dtype != dtype) return false;
  }
  return true;
}

}  // namespace

absl::Status RunNllLoss(const HostLaunch& launch, ThreadPool& pool) {
  const DType dtype = launch.src[0].dtype;
  if (!Supported(launch, dtype, launch.src[1].dtype)) {
    return Unimplemented(launch, dtype);
  }
  switch (dtype) {
    case DType::kFloat16:
      return Forward<Half>(launch, pool);
    case DType::kBFloat16:
      return Forward<BFloat16>(launch, pool);
    case DType::kFloat32:
      return Forward<float>(launch, pool);
    default:
      return Forward<double>(launch, pool);
  }
}

absl::Status RunNllLossBackward(const HostLaunch& launch, ThreadPool& pool) {
  const DType dtype = launch.dst[0].dtype;
  if (!Supported(launch, dtype, launch.src[1].dtype)) {
    return Unimplemented(launch, dtype);
  }
  switch (dtype) {
    case DType::kFloat16:
      return Backward<Half>(launch, pool);
    case DType::kBFloat16:
      return Backward<BFloat16>(launch, pool);
    case DType::kFloat32:
      return Backward<float>(launch, pool);
    default:
      return Backward<double>(launch, pool);
  }
}

}  // namespace tvarant::host

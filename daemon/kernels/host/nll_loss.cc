// nll_loss and its gradient:
//   loss[i] = -weight[target[i]] * logp[i, target[i]], 0 where ignored
//   mean: sum(loss) / sum(weight[target[i]])

#include <cstdint>
#include <optional>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/half.h"
#include "daemon/kernels/host/host_kernels.h"

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

int64_t TargetAt(const Tensor& target, int64_t i) {
  const int64_t at = i * target.strides[0];
  if (target.dtype == DType::kUInt8) {
    return reinterpret_cast<const uint8_t*>(target.data)[at];
  }
  return reinterpret_cast<const int64_t*>(target.data)[at];
}

int64_t StrideOf(const Tensor& t) { return t.rank == 0 ? 0 : t.strides[0]; }

// Remembers the first target out of range.
class TargetCheck {
 public:
  bool InRange(int64_t target, int64_t classes) {
    if (target >= 0 && target < classes) return true;
    if (!bad_) bad_ = target;
    return false;
  }
  absl::Status status() const {
    if (!bad_) return absl::OkStatus();
    return absl::OutOfRangeError(
        absl::StrCat("Target ", *bad_, " is out of bounds."));
  }

 private:
  std::optional<int64_t> bad_;
};

template <typename T>
absl::Status Forward(const HostLaunch& launch) {
  const Tensor& logp = launch.src[0];
  const Tensor& target = launch.src[1];
  const Tensor& weight = launch.src[2];
  const Tensor& loss = launch.dst[0];
  const int64_t reduction = launch.ints[0], ignore = launch.ints[1];
  const int64_t n = logp.sizes[0], classes = logp.sizes[1];
  TargetCheck check;
  double sum = 0, total_weight = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t t = TargetAt(target, i);
    double value = 0;
    if (t != ignore && check.InRange(t, classes)) {
      const double w =
          weight.present() ? At<T>(weight, t * weight.strides[0]) : 1.0;
      value = -w * At<T>(logp, i * logp.strides[0] + t * logp.strides[1]);
      sum += value;
      total_weight += w;
    }
    if (reduction == kNone) Put<T>(loss, i * StrideOf(loss), value);
  }
  if (reduction != kNone) {
    // All ignored: 0 / 0, NaN as in PyTorch.
    Put<T>(loss, 0, reduction == kMean ? sum / total_weight : sum);
  }
  Put<T>(launch.dst[1], 0, reduction == kNone ? 0 : total_weight);
  return check.status();
}

template <typename T>
absl::Status Backward(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& dloss = launch.src[0];
  const Tensor& target = launch.src[1];
  const Tensor& weight = launch.src[2];
  const Tensor& dlogp = launch.dst[0];
  const int64_t reduction = launch.ints[0], ignore = launch.ints[1];
  const int64_t n = dlogp.sizes[0], classes = dlogp.sizes[1];
  pool.ParallelFor(
      n, 1 + (1 << 15) / (classes + 1), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t c = 0; c < classes; ++c) {
            Put<T>(dlogp, i * dlogp.strides[0] + c * dlogp.strides[1], 0);
          }
        }
      });
  TargetCheck check;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t t = TargetAt(target, i);
    if (t == ignore || !check.InRange(t, classes)) continue;
    const double w =
        weight.present() ? At<T>(weight, t * weight.strides[0]) : 1.0;
    const double grad =
        At<T>(dloss, reduction == kNone ? i * StrideOf(dloss) : 0);
    double value = -w * grad;
    if (reduction == kMean) value /= At<T>(launch.src[3], 0);
    Put<T>(dlogp, i * dlogp.strides[0] + t * dlogp.strides[1], value);
  }
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

absl::Status RunNllLoss(const HostLaunch& launch, ThreadPool&) {
  const DType dtype = launch.src[0].dtype;
  if (!Supported(launch, dtype, launch.src[1].dtype)) {
    return Unimplemented(launch, dtype);
  }
  switch (dtype) {
    case DType::kFloat16:
      return Forward<Half>(launch);
    case DType::kBFloat16:
      return Forward<BFloat16>(launch);
    case DType::kFloat32:
      return Forward<float>(launch);
    default:
      return Forward<double>(launch);
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

// resample and its gradient: interpolation and padding with what is there.
// Coordinates are computed as PyTorch does: in float for float and half types.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/scratch.h"
#include "daemon/kernels/host/volume/resample_loops.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 14;

enum Mode : int64_t {
  kNearest = 0,
  kNearestExact = 1,
  kLinear = 2,
  kCubic = 3,
  kReflect = 4,
  kReplicate = 5,
  kLinearAntialias = 6,
  kCubicAntialias = 7,
};

bool IsAntialiased(int64_t mode) {
  return mode == kLinearAntialias || mode == kCubicAntialias;
}

// Half the width of an antialiasing filter, in elements of x.
double SupportOf(int64_t mode, double scale) {
  return (mode == kLinearAntialias ? 1 : 2) * std::max(scale, 1.0);
}

int TapsOf(int64_t mode, double scale, int64_t x_size) {
  if (IsAntialiased(mode)) {
    const double most = 2 * std::ceil(SupportOf(mode, scale)) + 1;
    return static_cast<int>(std::min(most, static_cast<double>(x_size)));
  }
  return mode == kLinear ? 2 : mode == kCubic ? 4 : 1;
}

int64_t Clamp(int64_t at, int64_t size) {
  return std::clamp<int64_t>(at, 0, size - 1);
}

int64_t NearestOf(int64_t at, int64_t x_size, int64_t y_size, float scale) {
  if (y_size == x_size) return at;
  if (y_size == 2 * x_size) return at / 2;
  return std::min(
      static_cast<int64_t>(std::floor(static_cast<float>(at) * scale)),
      x_size - 1);
}

int64_t ReflectionOf(int64_t at, int64_t pad, int64_t size) {
  at -= pad;
  if (at < 0) at = -at;
  if (at >= size) at = 2 * (size - 1) - at;
  return Clamp(at, size);
}

// Keys, "Cubic convolution interpolation for digital image processing" (1981),
// with a = -0.75.
template <typename C>
void CubicWeights(C t, double* weights) {
  const C a = C(-0.75);
  const auto inner = [&](C x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto outer = [&](C x) {
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  };
  weights[0] = static_cast<double>(outer(t + 1));
  weights[1] = static_cast<double>(inner(t));
  weights[2] = static_cast<double>(inner(1 - t));
  weights[3] = static_cast<double>(outer(2 - t));
}

// The filters of Pillow: a triangle, and Keys' cubic with a = -0.5.
template <typename C>
C Filter(int64_t mode, C x) {
  x = std::abs(x);
  if (mode == kLinearAntialias) return std::max(1 - x, C(0));
  const C a = C(-0.5);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : C(0);
}

// Weights of all elements under the filter, which widens as y shrinks.
template <typename C>
void FillFiltered(int64_t mode, double scale_given, const ResampleAxis& axis,
                  int32_t* at, double* weight) {
  const C scale = static_cast<C>(scale_given);
  const C support = static_cast<C>(SupportOf(mode, scale_given));
  const C inverse = scale >= 1 ? 1 / scale : C(1);
  const int64_t taps = axis.taps;
  for (int64_t i = 0; i < axis.y_size; ++i) {
    const C center = scale * (static_cast<C>(i) + C(0.5));
    const int64_t low = std::clamp<int64_t>(
        static_cast<int64_t>(center - support + C(0.5)), 0, axis.x_size - 1);
    const int64_t high =
        std::min(static_cast<int64_t>(center + support + C(0.5)), axis.x_size);
    const int64_t count = std::clamp<int64_t>(high - low, 0, taps);
    C total = 0;
    for (int64_t k = 0; k < taps; ++k) {
      const C w =
          k < count ? Filter(mode, (static_cast<C>(k + low) - center + C(0.5)) *
                                       inverse)
                    : C(0);
      at[i * taps + k] = static_cast<int32_t>(Clamp(low + k, axis.x_size));
      weight[i * taps + k] = static_cast<double>(w);
      total += w;
    }
    for (int64_t k = 0; k < taps && total != 0; ++k) {
      weight[i * taps + k] =
          static_cast<double>(static_cast<C>(weight[i * taps + k]) / total);
    }
  }
}

// C: the type that coordinates are computed in.
template <typename C>
void FillAxis(int64_t mode, bool align_corners, int64_t pad, double scale_given,
              const ResampleAxis& axis, int32_t* at, double* weight) {
  if (IsAntialiased(mode)) {
    return FillFiltered<C>(mode, scale_given, axis, at, weight);
  }
  const C scale = static_cast<C>(scale_given);
  for (int64_t i = 0; i < axis.y_size; ++i) {
    const C source = align_corners
                         ? scale * static_cast<C>(i)
                         : scale * (static_cast<C>(i) + C(0.5)) - C(0.5);
    switch (mode) {
      case kNearest:
        at[i] = static_cast<int32_t>(
            Clamp(NearestOf(i, axis.x_size, axis.y_size,
                            static_cast<float>(scale_given)),
                  axis.x_size));
        break;
      case kNearestExact:
        at[i] = static_cast<int32_t>(Clamp(
            static_cast<int64_t>(std::floor((static_cast<float>(i) + 0.5f) *
                                            static_cast<float>(scale_given))),
            axis.x_size));
        break;
      case kLinear: {
        // The identity, whatever the scale says.
        const C place = axis.x_size == axis.y_size ? static_cast<C>(i)
                                                   : std::max(source, C(0));
        const int64_t low = Clamp(static_cast<int64_t>(place), axis.x_size);
        const C part = std::clamp(place - static_cast<C>(low), C(0), C(1));
        at[2 * i] = static_cast<int32_t>(low);
        at[2 * i + 1] = static_cast<int32_t>(Clamp(low + 1, axis.x_size));
        weight[2 * i] = static_cast<double>(1 - part);
        weight[2 * i + 1] = static_cast<double>(part);
        break;
      }
      case kCubic: {
        const C floor = std::floor(source);
        const int64_t low = static_cast<int64_t>(floor);
        for (int k = 0; k < 4; ++k) {
          at[4 * i + k] = static_cast<int32_t>(Clamp(low - 1 + k, axis.x_size));
        }
        CubicWeights<C>(std::clamp(source - floor, C(0), C(1)), weight + 4 * i);
        break;
      }
      case kReflect:
        at[i] = static_cast<int32_t>(ReflectionOf(i, pad, axis.x_size));
        break;
      default:
        at[i] = static_cast<int32_t>(Clamp(i - pad, axis.x_size));
    }
  }
}

absl::Status NoMemory(const HostLaunch& launch) {
  return absl::ResourceExhaustedError(
      absl::StrCat(NameOf(launch.kernel), ": no host memory for coordinates"));
}

// False: no memory. The plan's tables live in the thread's LaunchScratch.
bool MakePlan(const HostLaunch& launch, const Tensor& x, const Tensor& y,
              ResamplePlan* plan) {
  const int64_t mode = launch.ints[0];
  const bool blends = mode == kLinear || mode == kCubic || IsAntialiased(mode);
  plan->dtype = x.dtype;
  plan->x = x.data;
  plan->y = y.data;
  plan->channels = x.sizes[1];
  plan->x_batch = x.strides[0];
  plan->x_channel = x.strides[1];
  plan->y_batch = y.strides[0];
  plan->y_channel = y.strides[1];
  // A dimension that stays as it is has one tap.
  int64_t entries = 0;
  for (int i = 0; i < 3; ++i) {
    ResampleAxis& axis = plan->axes[i];
    axis.x_size = x.sizes[2 + i];
    axis.y_size = y.sizes[2 + i];
    axis.x_stride = x.strides[2 + i];
    axis.y_stride = y.strides[2 + i];
    const bool same = axis.x_size == 1 && axis.y_size == 1;
    axis.taps = same ? 1 : TapsOf(mode, launch.floats[i], axis.x_size);
    entries += axis.y_size * axis.taps;
  }
  char* tables = LaunchScratch(static_cast<size_t>(entries) *
                               (sizeof(double) + sizeof(int32_t)));
  if (tables == nullptr) return false;
  double* weight = reinterpret_cast<double*>(tables);
  int32_t* at = reinterpret_cast<int32_t*>(weight + entries);
  for (int i = 0; i < 3; ++i) {
    ResampleAxis& axis = plan->axes[i];
    axis.at = at;
    axis.weight = blends ? weight : nullptr;
    if (blends && axis.x_size == 1 && axis.y_size == 1) {
      at[0] = 0;
      weight[0] = 1;
    } else {
      const auto fill =
          x.dtype == DType::kFloat64 ? FillAxis<double> : FillAxis<float>;
      fill(mode, launch.ints[1] != 0, launch.ints[2 + i], launch.floats[i],
           axis, at, weight);
    }
    at += axis.y_size * axis.taps;
    weight += axis.y_size * axis.taps;
  }
  return true;
}

using Loop = void (*)(const ResamplePlan&, int64_t, int64_t, char*);

absl::Status Run(const HostLaunch& launch, const ResamplePlan& plan, Loop loop,
                 int64_t items, double cost, size_t scratch_bytes,
                 ThreadPool& pool) {
  std::atomic<bool> out_of_memory{false};
  pool.ParallelFor(
      items,
      std::max<int64_t>(1, static_cast<int64_t>(kElementsPerTask / (cost + 1))),
      [&](int64_t begin, int64_t end) {
        char* scratch = Scratch(scratch_bytes);
        if (scratch == nullptr) {
          out_of_memory = true;
          return;
        }
        loop(plan, begin, end, scratch);
      });
  return out_of_memory ? NoMemory(launch) : absl::OkStatus();
}

bool Interleaved(const Tensor& t) {
  return t.sizes[1] > 1 && t.strides[1] == 1;
}

double CostOfPlane(const Tensor& y) {
  return static_cast<double>(y.sizes[2]) * static_cast<double>(y.sizes[3]) *
         static_cast<double>(y.sizes[4]);
}

}  // namespace

absl::Status RunResample(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& x = launch.src[0];
  const Tensor& y = launch.dst[0];
  if (y.numel() == 0) return absl::OkStatus();
  ResamplePlan plan;
  if (!MakePlan(launch, x, y, &plan)) return NoMemory(launch);
  const ResampleKernels& kernels = TVARANT_FOR_ISA(kResampleKernels);
  if (Interleaved(x) && Interleaved(y)) {
    const int64_t rows = y.sizes[0] * y.sizes[2] * y.sizes[3];
    return Run(
        launch, plan, kernels.channels, rows,
        4.0 * static_cast<double>(y.sizes[4]) * static_cast<double>(y.sizes[1]),
        0, pool);
  }
  const size_t scratch =
      sizeof(double) *
      static_cast<size_t>(plan.axes[2].x_size +
                          plan.axes[2].y_size * plan.axes[2].taps);
  return Run(launch, plan, kernels.planes, y.sizes[0] * y.sizes[1],
             4 * CostOfPlane(y), scratch, pool);
}

absl::Status RunResampleBackward(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& dx = launch.dst[0];
  const Tensor& dy = launch.src[0];
  if (!IsFloating(dx.dtype)) {
    return absl::UnimplementedError(absl::StrCat(
        NameOf(launch.kernel), ": no kernel for dtype ", NameOf(dx.dtype)));
  }
  if (dx.numel() == 0) return absl::OkStatus();
  ResamplePlan plan;
  if (!MakePlan(launch, dx, dy, &plan)) return NoMemory(launch);
  const bool half = SizeOf(dx.dtype) == 2;
  const double bytes =
      8.0 * static_cast<double>(dx.sizes[4]) + (half ? 4 * CostOfPlane(dx) : 0);
  if (bytes > 1e15) return NoMemory(launch);
  return Run(launch, plan, TVARANT_FOR_ISA(kResampleKernels).backward,
             dx.sizes[0] * dx.sizes[1], 4 * CostOfPlane(dy),
             static_cast<size_t>(bytes), pool);
}

}  // namespace tvarant::host

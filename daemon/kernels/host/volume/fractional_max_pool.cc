// fractional_max_pool: windows whose places a number in [0, 1) chooses
// (Graham, "Fractional max-pooling", 2014).

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 14;

struct Axis {
  int64_t size, windows, kernel;
  double sample;

  // Where window o begins; within the axis whatever the sample is.
  template <typename V>
  int64_t StartOf(int64_t o) const {
    const int64_t last = size - kernel;
    if (o == windows - 1) return last;
    const V alpha = static_cast<V>(last) / static_cast<V>(windows - 1);
    const V s = static_cast<V>(sample);
    const V place = (static_cast<V>(o) + s) * alpha, first = s * alpha;
    const V limit = static_cast<V>(size);
    if (!(place >= 0 && place <= limit && first >= 0)) return 0;
    return std::clamp<int64_t>(
        static_cast<int64_t>(place) - static_cast<int64_t>(first), 0, last);
  }
};

template <typename T>
void PoolPlane(const HostLaunch& launch, int64_t plane) {
  using V = ValueType<T>;
  const Tensor& y = launch.dst[0];
  const Tensor& indices = launch.dst[1];
  const Tensor& x = launch.src[0];
  const Tensor& samples = launch.src[1];
  const int64_t n = plane / x.sizes[1], c = plane % x.sizes[1];
  const auto start = [&](const Tensor& t) {
    return n * t.strides[0] + c * t.strides[1];
  };
  const T* from = reinterpret_cast<const T*>(x.data) + start(x);
  T* to = reinterpret_cast<T*>(y.data) + start(y);
  int64_t* places = reinterpret_cast<int64_t*>(indices.data) + start(indices);
  Axis axes[3];
  for (int i = 0; i < 3; ++i) {
    const T* sample = reinterpret_cast<const T*>(samples.data) +
                      start(samples) + i * samples.strides[2];
    axes[i] = {x.sizes[2 + i], y.sizes[2 + i], launch.ints[i],
               static_cast<double>(ToValue(*sample))};
  }
  const auto& [d, h, w] = axes;
  for (int64_t od = 0; od < d.windows; ++od) {
    const int64_t first_d = d.StartOf<V>(od);
    for (int64_t oh = 0; oh < h.windows; ++oh) {
      const int64_t first_h = h.StartOf<V>(oh);
      for (int64_t ow = 0; ow < w.windows; ++ow) {
        const int64_t first_w = w.StartOf<V>(ow);
        V best = -std::numeric_limits<V>::infinity();
        int64_t place = (first_d * h.size + first_h) * w.size + first_w;
        for (int64_t i = first_d; i < first_d + d.kernel; ++i) {
          for (int64_t j = first_h; j < first_h + h.kernel; ++j) {
            for (int64_t k = first_w; k < first_w + w.kernel; ++k) {
              const V value = ToValue(
                  from[i * x.strides[2] + j * x.strides[3] + k * x.strides[4]]);
              if (!(value > best) && !IsNan(value)) continue;
              best = value;
              place = (i * h.size + j) * w.size + k;
            }
          }
        }
        to[od * y.strides[2] + oh * y.strides[3] + ow * y.strides[4]] =
            FromValue<T>(best);
        places[od * indices.strides[2] + oh * indices.strides[3] +
               ow * indices.strides[4]] = place;
      }
    }
  }
}

}  // namespace

absl::Status RunFractionalMaxPool(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& y = launch.dst[0];
  if (y.numel() == 0) return absl::OkStatus();
  double cost = 1;
  for (int i = 0; i < 3; ++i) {
    cost *= static_cast<double>(y.sizes[2 + i]) *
            static_cast<double>(launch.ints[i]);
  }
  const auto grain =
      std::max<int64_t>(1, static_cast<int64_t>(kElementsPerTask / (cost + 1)));
  ForElementType(y.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (kIsFloat<T>) {
      pool.ParallelFor(y.sizes[0] * y.sizes[1], grain,
                       [&](int64_t begin, int64_t end) {
                         for (int64_t p = begin; p < end; ++p) {
                           PoolPlane<T>(launch, p);
                         }
                       });
    }
  });
  return absl::OkStatus();
}

}  // namespace tvarant::host

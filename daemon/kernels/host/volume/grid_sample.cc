// grid_sample and its gradients.
//
//   y[n, c, p] = sum over taps i, j, k of p's place
//       weight_d[i] * weight_h[j] * weight_w[k] * x[n, c, d[i], h[j], w[k]]

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "daemon/kernels/host/element_type.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/scratch.h"
#include "daemon/kernels/host/volume/grid_taps.h"

namespace tvarant::host {
namespace {

constexpr int64_t kElementsPerTask = 1 << 13;

struct Sampling {
  Sampling(const HostLaunch& launch, const Tensor& x, const Tensor& grid,
           const Tensor& y)
      : rules{static_cast<GridMode>(launch.ints[0]),
              static_cast<GridPadding>(launch.ints[1]), launch.ints[2] != 0},
        x(x),
        grid(grid),
        y(y),
        axes(static_cast<int>(grid.sizes[4])),
        points(y.sizes[2] * y.sizes[3] * y.sizes[4]) {}

  GridRules rules;
  const Tensor& x;
  const Tensor& grid;
  const Tensor& y;
  int axes;
  int64_t points;  // of one batch item
};

// A place of y and what it is made of.
template <typename T>
struct Point {
  using V = ValueType<T>;

  Point(const Sampling& s, int64_t n, int64_t p) {
    const int64_t w = p % s.y.sizes[4], h = p / s.y.sizes[4] % s.y.sizes[3];
    const int64_t d = p / s.y.sizes[4] / s.y.sizes[3];
    const auto offset = [&](const Tensor& t, int first) {
      return d * t.strides[first] + h * t.strides[first + 1] +
             w * t.strides[first + 2];
    };
    y_offset = offset(s.y, 2);
    grid_offset = n * s.grid.strides[0] + offset(s.grid, 1);
    const T* place = reinterpret_cast<const T*>(s.grid.data) + grid_offset;
    // The grid's first number is the last axis.
    for (int i = 0; i < s.axes; ++i) {
      taps[2 - i].Set(s.rules, ToValue(place[i * s.grid.strides[4]]),
                      s.x.sizes[4 - i]);
    }
  }

  // body(offset in a plane laid out by strides, i, j, k) for taps inside.
  template <typename Body>
  void ForTaps(const int64_t* strides, Body body) const {
    for (int i = 0; i < taps[0].count; ++i) {
      if (taps[0].at[i] < 0) continue;
      for (int j = 0; j < taps[1].count; ++j) {
        if (taps[1].at[j] < 0) continue;
        for (int k = 0; k < taps[2].count; ++k) {
          if (taps[2].at[k] < 0) continue;
          body(taps[0].at[i] * strides[0] + taps[1].at[j] * strides[1] +
                   taps[2].at[k] * strides[2],
               i, j, k);
        }
      }
    }
  }
  V WeightOf(int i, int j, int k) const {
    return taps[0].weight[i] * taps[1].weight[j] * taps[2].weight[k];
  }

  AxisTaps<V> taps[3];
  int64_t y_offset, grid_offset;
};

template <typename T>
void Sample(const Sampling& s, int64_t n, int64_t p) {
  using V = ValueType<T>;
  const Point<T> point(s, n, p);
  int64_t at[16];
  V weight[16];
  int count = 0;
  point.ForTaps(s.x.strides + 2, [&](int64_t offset, int i, int j, int k) {
    at[count] = offset;
    weight[count++] = point.WeightOf(i, j, k);
  });
  const T* x = reinterpret_cast<const T*>(s.x.data) + n * s.x.strides[0];
  T* y = reinterpret_cast<T*>(s.y.data) + n * s.y.strides[0] + point.y_offset;
  for (int64_t c = 0; c < s.x.sizes[1]; ++c) {
    V sum = 0;
    for (int t = 0; t < count; ++t) sum += weight[t] * ToValue(x[at[t]]);
    *y = FromValue<T>(sum);
    x += s.x.strides[1];
    y += s.y.strides[1];
  }
}

// The gradient of one plane of x, added up in `sums` and then written.
template <typename T>
void SpreadPlane(const Sampling& s, const Tensor& dx, int64_t plane,
                 ValueType<T>* sums) {
  using V = ValueType<T>;
  const int64_t n = plane / s.x.sizes[1], c = plane % s.x.sizes[1];
  const int64_t* size = s.x.sizes + 2;
  const int64_t strides[3] = {size[1] * size[2], size[2], 1};
  std::fill(sums, sums + size[0] * strides[0], V(0));
  const T* dy = reinterpret_cast<const T*>(s.y.data) + n * s.y.strides[0] +
                c * s.y.strides[1];
  for (int64_t p = 0; p < s.points; ++p) {
    const Point<T> point(s, n, p);
    const V gradient = ToValue(dy[point.y_offset]);
    point.ForTaps(strides, [&](int64_t offset, int i, int j, int k) {
      sums[offset] += gradient * point.WeightOf(i, j, k);
    });
  }
  T* to = reinterpret_cast<T*>(dx.data) + n * dx.strides[0] + c * dx.strides[1];
  for (int64_t d = 0; d < size[0]; ++d) {
    for (int64_t h = 0; h < size[1]; ++h) {
      for (int64_t w = 0; w < size[2]; ++w) {
        to[d * dx.strides[2] + h * dx.strides[3] + w * dx.strides[4]] =
            FromValue<T>(*sums++);
      }
    }
  }
}

// The gradient of one place of the grid.
template <typename T>
void PlaceGradient(const Sampling& s, const Tensor& dgrid, int64_t n,
                   int64_t p) {
  using V = ValueType<T>;
  const Point<T> point(s, n, p);
  const auto& taps = point.taps;
  const T* x = reinterpret_cast<const T*>(s.x.data) + n * s.x.strides[0];
  const T* dy = reinterpret_cast<const T*>(s.y.data) + n * s.y.strides[0] +
                point.y_offset;
  V slopes[3] = {0, 0, 0};
  point.ForTaps(s.x.strides + 2, [&](int64_t offset, int i, int j, int k) {
    V sum = 0;
    for (int64_t c = 0; c < s.x.sizes[1]; ++c) {
      sum += ToValue(x[offset + c * s.x.strides[1]]) *
             ToValue(dy[c * s.y.strides[1]]);
    }
    slopes[0] += sum * taps[0].slope[i] * taps[1].weight[j] * taps[2].weight[k];
    slopes[1] += sum * taps[0].weight[i] * taps[1].slope[j] * taps[2].weight[k];
    slopes[2] += sum * taps[0].weight[i] * taps[1].weight[j] * taps[2].slope[k];
  });
  int64_t at = n * dgrid.strides[0];
  const int64_t w = p % s.y.sizes[4], h = p / s.y.sizes[4] % s.y.sizes[3];
  at += p / s.y.sizes[4] / s.y.sizes[3] * dgrid.strides[1] +
        h * dgrid.strides[2] + w * dgrid.strides[3];
  for (int i = 0; i < s.axes; ++i) {
    reinterpret_cast<T*>(dgrid.data)[at + i * dgrid.strides[4]] =
        FromValue<T>(slopes[2 - i]);
  }
}

// body(n, point) for every place of y.
template <typename Body>
void ForPoints(const Sampling& s, ThreadPool& pool, const Body& body) {
  const int64_t cost = 32 + 4 * s.x.sizes[1];
  pool.ParallelFor(s.y.sizes[0] * s.points,
                   std::max<int64_t>(1, kElementsPerTask / cost),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       body(i / s.points, i % s.points);
                     }
                   });
}

// False: no memory.
template <typename T>
bool SpreadAll(const Sampling& s, const Tensor& dx, ThreadPool& pool) {
  std::atomic<bool> out_of_memory{false};
  const int64_t cells = s.x.sizes[2] * s.x.sizes[3] * s.x.sizes[4];
  pool.ParallelFor(
      s.x.sizes[0] * s.x.sizes[1],
      std::max<int64_t>(1, kElementsPerTask / (32 * s.points + cells)),
      [&](int64_t begin, int64_t end) {
        auto* sums = reinterpret_cast<ValueType<T>*>(
            Scratch(static_cast<size_t>(cells) * sizeof(ValueType<T>)));
        if (sums == nullptr) {
          out_of_memory = true;
          return;
        }
        for (int64_t p = begin; p < end; ++p) SpreadPlane<T>(s, dx, p, sums);
      });
  return !out_of_memory;
}

}  // namespace

absl::Status RunGridSample(const HostLaunch& launch, ThreadPool& pool) {
  const Sampling s(launch, launch.src[0], launch.src[1], launch.dst[0]);
  if (s.y.numel() == 0) return absl::OkStatus();
  ForElementType(s.x.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (kIsFloat<T>) {
      ForPoints(s, pool, [&](int64_t n, int64_t p) { Sample<T>(s, n, p); });
    }
  });
  return absl::OkStatus();
}

absl::Status RunGridSampleBackward(const HostLaunch& launch, ThreadPool& pool) {
  const Sampling s(launch, launch.src[1], launch.src[2], launch.src[0]);
  const Tensor& dx = launch.dst[0];
  const Tensor& dgrid = launch.dst[1];
  bool have_memory = true;
  ForElementType(s.x.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (kIsFloat<T>) {
      if (dx.present() && dx.numel() > 0) {
        have_memory = SpreadAll<T>(s, dx, pool);
      }
      if (dgrid.present() && dgrid.numel() > 0) {
        ForPoints(s, pool, [&](int64_t n, int64_t p) {
          PlaceGradient<T>(s, dgrid, n, p);
        });
      }
    }
  });
  if (have_memory) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "grid_sample_backward: no host memory for a plane");
}

}  // namespace tvarant::host

// Where a place of a grid lies between the elements of an axis, and with which
// weights; the rules are PyTorch's (ATen/native/GridSampler.h).
//
// Example:
//   AxisTaps<float> taps;
//   taps.Set(rules, /*place=*/0.3f, /*size=*/7);
//   for (int k = 0; k < taps.count; ++k) ... taps.at[k], taps.weight[k]

#ifndef TVARANT_DAEMON_KERNELS_HOST_VOLUME_GRID_TAPS_H_
#define TVARANT_DAEMON_KERNELS_HOST_VOLUME_GRID_TAPS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tvarant::host {

enum class GridMode : int64_t { kLinear = 0, kNearest = 1, kCubic = 2 };
enum class GridPadding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

struct GridRules {
  GridMode mode;
  GridPadding padding;
  bool align_corners;
};

// A coordinate and its derivative by the grid's number.
template <typename V>
struct GridCoordinate {
  V value;
  V slope;
};

template <typename V>
GridCoordinate<V> Clip(GridCoordinate<V> c, int64_t size) {
  const V last = static_cast<V>(size - 1);
  // NaN becomes 0.
  if (!(c.value > 0)) return {V(0), V(0)};
  if (c.value >= last) return {last, V(0)};
  return c;
}

template <typename V>
GridCoordinate<V> Reflect(GridCoordinate<V> c, int64_t size, bool align) {
  const V low = align ? V(0) : V(-0.5);
  const V span = static_cast<V>(align ? size - 1 : size);
  if (span == 0) return {V(0), V(0)};
  V in = c.value - low;
  const V sign = in < 0 ? V(-1) : V(1);
  in *= sign;
  const V extra = std::fmod(in, span);
  const bool even = std::fmod(std::floor(in / span), V(2)) == 0;
  return even ? GridCoordinate<V>{extra + low, c.slope * sign}
              : GridCoordinate<V>{span - extra + low, -c.slope * sign};
}

template <typename V>
GridCoordinate<V> Pad(const GridRules& rules, GridCoordinate<V> c,
                      int64_t size) {
  if (rules.padding == GridPadding::kZeros) return c;
  if (rules.padding == GridPadding::kReflection) {
    c = Reflect(c, size, rules.align_corners);
  }
  return Clip(c, size);
}

template <typename V>
struct AxisTaps {
  int count = 1;
  int64_t at[4] = {0, 0, 0, 0};  // -1: outside, counts as 0
  V weight[4] = {1, 0, 0, 0};
  V slope[4] = {0, 0, 0, 0};  // of the weight, by the grid's number

  void Set(const GridRules& rules, V place, int64_t size) {
    const V n = static_cast<V>(size);
    GridCoordinate<V> c =
        rules.align_corners
            ? GridCoordinate<V>{(place + 1) / 2 * (n - 1), (n - 1) / 2}
            : GridCoordinate<V>{((place + 1) * n - 1) / 2, n / 2};
    if (rules.mode == GridMode::kCubic) return SetCubic(rules, c, size);
    c = Pad(rules, c, size);
    if (rules.mode == GridMode::kNearest) {
      count = 1;
      at[0] = Inside(std::nearbyint(c.value), size);
      weight[0] = 1;
      slope[0] = 0;
      return;
    }
    const V floor = std::floor(c.value), part = c.value - floor;
    count = 2;
    at[0] = Inside(floor, size);
    at[1] = Inside(floor + 1, size);
    weight[0] = 1 - part;
    weight[1] = part;
    slope[0] = -c.slope;
    slope[1] = c.slope;
  }

 private:
  static int64_t Inside(V place, int64_t size) {
    return place >= 0 && place < static_cast<V>(size)
               ? static_cast<int64_t>(place)
               : -1;
  }

  // Keys (1981) with a = -0.75; each tap is padded by itself.
  void SetCubic(const GridRules& rules, GridCoordinate<V> c, int64_t size) {
    const V floor = std::floor(c.value), t = c.value - floor, a = V(-0.75);
    const auto inner = [&](V x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
    const auto outer = [&](V x) {
      return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    };
    const auto inner_slope = [&](V x) {
      return (3 * (a + 2) * x - 2 * (a + 3)) * x;
    };
    const auto outer_slope = [&](V x) {
      return (3 * a * x - 10 * a) * x + 8 * a;
    };
    count = 4;
    weight[0] = outer(t + 1);
    weight[1] = inner(t);
    weight[2] = inner(1 - t);
    weight[3] = outer(2 - t);
    slope[0] = outer_slope(t + 1) * c.slope;
    slope[1] = inner_slope(t) * c.slope;
    slope[2] = -inner_slope(1 - t) * c.slope;
    slope[3] = -outer_slope(2 - t) * c.slope;
    for (int k = 0; k < 4; ++k) {
      const GridCoordinate<V> tap{floor + static_cast<V>(k - 1), V(0)};
      at[k] = Inside(Pad(rules, tap, size).value, size);
    }
  }
};

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_VOLUME_GRID_TAPS_H_

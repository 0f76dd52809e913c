// grid_sample and its gradients, fractional_max_pool.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

struct GridShape {
  int64_t batch, channels, x[3], y[3], axes;
};

constexpr GridShape kGridShapes[] = {
    {2, 3, {1, 4, 5}, {1, 3, 7}, 2},  {1, 1, {1, 1, 6}, {1, 2, 2}, 2},
    {1, 20, {1, 9, 3}, {1, 5, 1}, 2}, {1, 2, {3, 4, 5}, {2, 3, 4}, 3},
    {2, 1, {1, 5, 2}, {1, 1, 9}, 3},
};

struct Tap {
  int64_t at;  // -1: outside
  Real weight, slope;
};

// Where a number of the grid lies, by the definition: neighbours of a
// coordinate, moved into the axis first.
std::vector<Tap> TapsOf(int64_t mode, int64_t padding, bool align, Real place,
                        int64_t size) {
  const Real n = static_cast<Real>(size);
  Real slope = align ? (n - 1) / 2 : n / 2;
  Real c = align ? (place + 1) / 2 * (n - 1) : ((place + 1) * n - 1) / 2;
  const auto pad = [&](Real at, Real* factor) {
    if (padding == 0) return at;
    if (padding == 2) {
      // Mirrors stand on the first and last element, or half one beyond.
      const Real low = align ? 0 : -0.5L, high = align ? n - 1 : n - 0.5L;
      for (int turn = 0; high > low && (at < low || at > high); ++turn) {
        at = at < low ? 2 * low - at : 2 * high - at;
        *factor = -*factor;
      }
    }
    if (at <= 0 || at >= n - 1) *factor = 0;
    return std::min(std::max<Real>(at, 0), n - 1);
  };
  const auto tap = [&](Real at, Real weight, Real by) {
    const bool inside = at >= 0 && at < n;
    return Tap{inside ? static_cast<int64_t>(at) : -1, weight, by};
  };
  if (mode == 2) {
    std::vector<Tap> taps;
    const Real floor = std::floor(c), a = -0.75L;
    for (int k = -1; k <= 2; ++k) {
      const Real d = c - (floor + k), x = std::fabs(d);
      const Real weight = x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1
                                 : a * (((x - 5) * x + 8) * x - 4);
      const Real by = x <= 1 ? (3 * (a + 2) * x - 2 * (a + 3)) * x
                             : a * ((3 * x - 10) * x + 8);
      Real unused = 1;
      taps.push_back(
          tap(pad(floor + k, &unused), weight, (d < 0 ? -by : by) * slope));
    }
    return taps;
  }
  c = pad(c, &slope);
  if (mode == 1) return {tap(std::nearbyint(c), 1, 0)};
  const Real floor = std::floor(c);
  return {tap(floor, 1 - (c - floor), -slope),
          tap(floor + 1, c - floor, slope)};
}

absl::Status RunGrid(Backend& backend, const std::string& name, DType dtype,
                     int64_t mode, int64_t padding, bool align, bool backward) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const GridShape& s : kGridShapes) {
    if (mode == 2 && s.axes == 3) continue;
    ++turn;
    const Dims x_sizes = {s.batch, s.channels, s.x[0], s.x[1], s.x[2]};
    const Dims y_sizes = {s.batch, s.channels, s.y[0], s.y[1], s.y[2]};
    const Dims grid_sizes = {s.batch, s.y[0], s.y[1], s.y[2], s.axes};
    Tensor x(dtype, x_sizes, kDstLayouts[turn % 4]);
    Tensor y(dtype, y_sizes, kDstLayouts[(turn + 1) % 4]);
    Tensor grid(dtype, grid_sizes, kDstLayouts[(turn + 2) % 4]);
    Tensor dx(dtype, x_sizes, kDstLayouts[(turn + 3) % 4]);
    Tensor dgrid(dtype, grid_sizes, kDstLayouts[turn % 4]);
    x.FillRandom(random, -2, 3);
    y.FillRandom(random, -2, 3);
    // Multiples of 1 / 64 that half types hold too, away from the places
    // where a coordinate has no derivative.
    grid.Fill([&](int64_t) -> Real {
      return (static_cast<Real>(random() % 160) - 80 + 0.37L) / 64;
    });
    std::vector<Real> want_y(y.numel()), want_dx(x.numel()),
        want_dgrid(grid.numel());
    for (int64_t i = 0; i < y.numel(); ++i) {
      const Dims at = y.CoordinatesOf(i);
      std::vector<Tap> taps[3] = {{{0, 1, 0}}, {}, {}};
      int64_t place[3];
      for (int64_t k = 0; k < s.axes; ++k) {
        place[2 - k] = grid.IndexOf({at[0], at[2], at[3], at[4], k});
        taps[2 - k] =
            TapsOf(mode, padding, align, grid.Get(place[2 - k]), s.x[2 - k]);
      }
      for (const Tap& d : taps[0]) {
        for (const Tap& h : taps[1]) {
          for (const Tap& w : taps[2]) {
            if (d.at < 0 || h.at < 0 || w.at < 0) continue;
            const int64_t j = x.IndexOf({at[0], at[1], d.at, h.at, w.at});
            const Real weight = d.weight * h.weight * w.weight;
            want_y[i] += weight * x.Get(j);
            want_dx[j] += weight * y.Get(i);
            const Real product = x.Get(j) * y.Get(i);
            if (s.axes == 3) {
              want_dgrid[place[0]] += product * d.slope * h.weight * w.weight;
            }
            want_dgrid[place[1]] += product * d.weight * h.slope * w.weight;
            want_dgrid[place[2]] += product * d.weight * h.weight * w.slope;
          }
        }
      }
    }
    Launch launch(backward ? Kernel::kGridSampleBackward : Kernel::kGridSample);
    launch.ints = {mode, padding, align ? 1 : 0};
    const Tolerance tolerance{.ulps = 64, .absolute = 512};
    if (!backward) {
      launch.dst = {&y};
      launch.src = {&x, &grid};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(ExpectValues(
          name, y, [&](int64_t i) { return want_y[i]; }, tolerance));
      continue;
    }
    launch.dst = {turn == 2 ? nullptr : &dx, turn == 3 ? nullptr : &dgrid};
    launch.src = {&y, &x, &grid};
    RETURN_IF_ERROR(backend.Run(launch));
    if (turn != 2) {
      RETURN_IF_ERROR(ExpectValues(
          absl::StrCat(name, " dx"), dx, [&](int64_t i) { return want_dx[i]; },
          tolerance));
    }
    if (turn != 3) {
      RETURN_IF_ERROR(ExpectValues(absl::StrCat(name, " dgrid"), dgrid,
                                   [&](int64_t i) { return want_dgrid[i]; },
                                   {.ulps = 64, .absolute = 4096}));
    }
  }
  return absl::OkStatus();
}

absl::Status RunFractional(Backend& backend, const std::string& name,
                           DType dtype) {
  std::mt19937_64 random = SeedOf(name);
  struct Shape {
    int64_t batch, channels, x[3], y[3], window[3];
  };
  size_t turn = 0;
  for (const Shape& s : {Shape{2, 3, {1, 7, 9}, {1, 3, 4}, {1, 2, 3}},
                         Shape{1, 2, {6, 5, 8}, {3, 1, 5}, {2, 5, 2}},
                         Shape{1, 1, {4, 4, 4}, {4, 4, 4}, {1, 1, 1}}}) {
    ++turn;
    Tensor x(dtype, {s.batch, s.channels, s.x[0], s.x[1], s.x[2]},
             kDstLayouts[turn % 4]);
    Tensor y(dtype, {s.batch, s.channels, s.y[0], s.y[1], s.y[2]},
             kDstLayouts[(turn + 1) % 4]);
    Tensor indices(DType::kInt64, y.sizes(), kDstLayouts[(turn + 2) % 4]);
    Tensor samples(dtype, {s.batch, s.channels, 3}, kDstLayouts[turn % 4]);
    x.FillRandom(random, -100, 100);
    x.Set(x.numel() / 2, NAN);
    // Quarters: places don't depend on rounding.
    samples.Fill([&](int64_t) { return static_cast<Real>(random() % 4) / 4; });
    Launch launch(Kernel::kFractionalMaxPool);
    launch.ints = {s.window[0], s.window[1], s.window[2]};
    launch.dst = {&y, &indices};
    launch.src = {&x, &samples};
    RETURN_IF_ERROR(backend.Run(launch));
    std::vector<Real> best(y.numel()), where(y.numel());
    for (int64_t i = 0; i < y.numel(); ++i) {
      const Dims at = y.CoordinatesOf(i);
      int64_t first[3];
      for (int k = 0; k < 3; ++k) {
        const int64_t last = s.x[k] - s.window[k], o = at[2 + k];
        first[k] = last;
        if (o == s.y[k] - 1) continue;
        const Real sample = samples.Get(samples.IndexOf({at[0], at[1], k}));
        const Real alpha =
            static_cast<Real>(last) / static_cast<Real>(s.y[k] - 1);
        // As exact as a float; a place on the edge counts as beyond it.
        const auto whole = [](Real value) {
          return static_cast<int64_t>(std::floor(value + 1e-6L));
        };
        first[k] = whole((static_cast<Real>(o) + sample) * alpha) -
                   whole(sample * alpha);
      }
      bool found = false;
      for (int64_t d = first[0]; d < first[0] + s.window[0]; ++d) {
        for (int64_t h = first[1]; h < first[1] + s.window[1]; ++h) {
          for (int64_t w = first[2]; w < first[2] + s.window[2]; ++w) {
            const Real value = x.Get(x.IndexOf({at[0], at[1], d, h, w}));
            if (found && !(value > best[i]) && !std::isnan(value)) continue;
            found = true;
            best[i] = value;
            where[i] = static_cast<Real>((d * s.x[1] + h) * s.x[2] + w);
          }
        }
      }
    }
    RETURN_IF_ERROR(
        ExpectValues(name, y, [&](int64_t i) { return best[i]; }, {}));
    RETURN_IF_ERROR(ExpectValues(absl::StrCat(name, " indices"), indices,
                                 [&](int64_t i) { return where[i]; }, {}));
  }
  return absl::OkStatus();
}

}  // namespace

void AddGridCases(CaseList& cases) {
  constexpr const char* kModes[] = {"linear", "nearest", "cubic"};
  constexpr const char* kPaddings[] = {"zeros", "border", "reflection"};
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (int64_t mode = 0; mode < 3; ++mode) {
      for (int64_t padding = 0; padding < 3; ++padding) {
        for (const bool align : {false, true}) {
          for (const bool backward : {false, true}) {
            const std::string name = absl::StrCat(
                backward ? "grid_sample_backward/" : "grid_sample/",
                NameOf(dtype), "/", kModes[mode], "/", kPaddings[padding],
                align ? "/align_corners" : "");
            cases.push_back(
                {name,
                 backward ? Kernel::kGridSampleBackward : Kernel::kGridSample,
                 {},
                 [=](Backend& backend) {
                   return RunGrid(backend, name, dtype, mode, padding, align,
                                  backward);
                 }});
          }
        }
      }
    }
  }
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const std::string name =
        absl::StrCat("fractional_max_pool/", NameOf(dtype));
    cases.push_back(
        {name, Kernel::kFractionalMaxPool, {}, [=](Backend& backend) {
           return RunFractional(backend, name, dtype);
         }});
  }
}

}  // namespace tvarant::conformance

// resample and its gradient.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

struct ResampleShape {
  int64_t batch, channels, x[3], y[3];
};

constexpr ResampleShape kResampleShapes[] = {
    {2, 3, {1, 4, 5}, {1, 8, 10}}, {1, 2, {1, 7, 9}, {1, 3, 20}},
    {1, 1, {3, 4, 5}, {5, 3, 7}},  {2, 70, {1, 3, 3}, {1, 5, 4}},
    {1, 2, {1, 1, 6}, {1, 1, 40}}, {1, 1, {1, 1, 1}, {1, 3, 2}},
    {1, 1, {1, 16, 1}, {1, 1, 5}},
};

// Coordinates of x and their weights for coordinate i of y.
struct Taps {
  std::vector<int64_t> at;
  std::vector<Real> weight;
};

Taps TapsOf(int64_t mode, bool align, int64_t pad, int64_t i, int64_t x,
            int64_t y) {
  const Real in = static_cast<Real>(x), out = static_cast<Real>(y);
  const auto clamp = [&](int64_t at) {
    return std::min(std::max<int64_t>(at, 0), x - 1);
  };
  const Real scale = align ? (y > 1 ? (in - 1) / (out - 1) : 0) : in / out;
  const Real half = 0.5L;
  const Real place = align ? scale * static_cast<Real>(i)
                           : scale * (static_cast<Real>(i) + half) - half;
  const int64_t low = static_cast<int64_t>(std::floor(place));
  if (mode >= 6) {
    // All elements under a filter as wide as an element of y, at least.
    const Real wide = std::max<Real>(scale, 1), reach = (mode - 5) * wide;
    const Real center = scale * (static_cast<Real>(i) + half);
    Taps taps;
    Real total = 0;
    for (int64_t at = 0; at < x; ++at) {
      const Real d = std::fabs(static_cast<Real>(at) + half - center) / wide;
      const Real a = -0.5L;
      Real weight = std::max<Real>(1 - d, 0);
      if (mode == 7) {
        weight = d < 1   ? ((a + 2) * d - (a + 3)) * d * d + 1
                 : d < 2 ? a * (((d - 5) * d + 8) * d - 4)
                         : 0;
      }
      if (d * wide >= reach) continue;
      taps.at.push_back(at);
      taps.weight.push_back(weight);
      total += weight;
    }
    for (Real& weight : taps.weight) weight /= total;
    return taps;
  }
  switch (mode) {
    case 0:
      return {{clamp(i * x / y)}, {1}};
    case 1:
      return {{clamp((2 * i + 1) * x / (2 * y))}, {1}};
    case 2: {
      const Real from = std::max<Real>(place, 0);
      const int64_t first = clamp(static_cast<int64_t>(from));
      const Real part = std::min<Real>(from - static_cast<Real>(first), 1);
      return {{first, clamp(first + 1)}, {1 - part, part}};
    }
    case 3: {
      Taps taps;
      for (int64_t k = -1; k <= 2; ++k) {
        const Real d = std::fabs(place - static_cast<Real>(low + k));
        const Real a = -0.75L;
        taps.at.push_back(clamp(low + k));
        taps.weight.push_back(d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1
                                     : a * (((d - 5) * d + 8) * d - 4));
      }
      return taps;
    }
    case 4: {
      const int64_t at = i - pad, from = at < 0 ? -at : at;
      return {{from >= x ? 2 * (x - 1) - from : from}, {1}};
    }
    default:
      return {{clamp(i - pad)}, {1}};
  }
}

absl::Status RunResample(Backend& backend, const std::string& name, DType dtype,
                         int64_t mode, bool align, bool backward) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (ResampleShape shape : kResampleShapes) {
    ++turn;
    int64_t pad[3] = {0, 0, 0};
    if (mode == 4 || mode == 5) {
      // Less than a side on each end, also negative: cropped.
      for (int k = 0; k < 3; ++k) {
        pad[k] = shape.x[k] > 3 ? (turn % 2 ? 2 : -1) : shape.x[k] - 1;
        shape.y[k] = shape.x[k] + pad[k] + (shape.x[k] > 1 ? 1 : 0);
      }
    }
    Tensor x(dtype,
             {shape.batch, shape.channels, shape.x[0], shape.x[1], shape.x[2]},
             kDstLayouts[turn % 4]);
    Tensor y(dtype,
             {shape.batch, shape.channels, shape.y[0], shape.y[1], shape.y[2]},
             kDstLayouts[(turn + 1) % 4]);
    x.FillRandom(random, -2, 3);
    y.FillRandom(random, -2, 3);
    Launch launch(backward ? Kernel::kResampleBackward : Kernel::kResample);
    launch.ints = {mode, align ? 1 : 0, pad[0], pad[1], pad[2]};
    for (int k = 0; k < 3; ++k) {
      const double in = static_cast<double>(shape.x[k]);
      const double out = static_cast<double>(shape.y[k]);
      launch.floats.push_back(!align    ? in / out
                              : out > 1 ? (in - 1) / (out - 1)
                                        : 0);
    }
    launch.dst = {backward ? &x : &y};
    launch.src = {backward ? &y : &x};
    std::vector<Real> want((backward ? x : y).numel());
    for (int64_t i = 0; i < y.numel(); ++i) {
      const Dims at = y.CoordinatesOf(i);
      Taps taps[3];
      for (int k = 0; k < 3; ++k) {
        taps[k] =
            TapsOf(mode, align, pad[k], at[2 + k], shape.x[k], shape.y[k]);
      }
      for (size_t d = 0; d < taps[0].at.size(); ++d) {
        for (size_t h = 0; h < taps[1].at.size(); ++h) {
          for (size_t w = 0; w < taps[2].at.size(); ++w) {
            const int64_t j = x.IndexOf(
                {at[0], at[1], taps[0].at[d], taps[1].at[h], taps[2].at[w]});
            const Real weight =
                taps[0].weight[d] * taps[1].weight[h] * taps[2].weight[w];
            if (backward) {
              want[j] += weight * y.Get(i);
            } else {
              want[i] += weight * x.Get(j);
            }
          }
        }
      }
    }
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(name, backward ? x : y,
                                 [&](int64_t i) { return want[i]; },
                                 {.ulps = 32, .absolute = 128}));
  }
  return absl::OkStatus();
}

void AddCases(CaseList& cases, DType dtype) {
  constexpr const char* kModes[] = {
      "nearest", "nearest_exact", "linear",           "cubic",
      "reflect", "replicate",     "linear_antialias", "cubic_antialias"};
  for (int64_t mode = 0; mode < 8; ++mode) {
    for (const bool align : {false, true}) {
      for (const bool backward : {false, true}) {
        if (align && mode != 2 && mode != 3 && mode < 6) continue;
        const std::string name = absl::StrCat(
            backward ? "resample_backward/" : "resample/", NameOf(dtype), "/",
            kModes[mode], align ? "/align_corners" : "");
        cases.push_back(
            {name,
             backward ? Kernel::kResampleBackward : Kernel::kResample,
             {},
             [=](Backend& backend) {
               return RunResample(backend, name, dtype, mode, align, backward);
             }});
      }
    }
  }
}

}  // namespace

void AddResampleCases(CaseList& cases) {
  for (const DType dtype : kFloatDTypes) AddCases(cases, dtype);
}

}  // namespace tvarant::conformance

// channel_norm, pooling, resampling and their gradients.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

// --- channel_norm ------------------------------------------------------------

constexpr double kEps = 1e-5, kMomentum = 0.1;

struct NormShape {
  int64_t batch, channels, length, groups;

  int64_t statistics() const { return groups == 0 ? channels : batch * groups; }
  Real count() const {
    return static_cast<Real>(length) *
           static_cast<Real>(groups == 0 ? batch : channels / groups);
  }
  // Of element i of [N, C, L].
  int64_t ChannelOf(int64_t i) const { return i / length % channels; }
  int64_t StatisticOf(int64_t i) const {
    const int64_t n = i / length / channels, c = ChannelOf(i);
    return groups == 0 ? c : n * groups + c / (channels / groups);
  }
};

constexpr NormShape kNormShapes[] = {
    {2, 3, 5, 0},  {4, 17, 1, 0}, {3, 5, 600, 0}, {1, 2, 70, 0}, {2, 6, 9, 3},
    {3, 4, 33, 1}, {2, 6, 50, 6}, {1, 66, 40, 2}, {7, 65, 3, 0}};

struct Statistics {
  std::vector<Real> mean, variance;
};

Statistics StatisticsOf(const NormShape& shape, const Tensor& x) {
  Statistics s{std::vector<Real>(shape.statistics()),
               std::vector<Real>(shape.statistics())};
  for (int64_t i = 0; i < x.numel(); ++i) {
    s.mean[shape.StatisticOf(i)] += x.Get(i) / shape.count();
  }
  for (int64_t i = 0; i < x.numel(); ++i) {
    const Real d = x.Get(i) - s.mean[shape.StatisticOf(i)];
    s.variance[shape.StatisticOf(i)] += d * d / shape.count();
  }
  return s;
}

absl::Status RunChannelNorm(Backend& backend, const std::string& name,
                            DType dtype, DType parameter, bool affine,
                            bool constant) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const NormShape& shape : kNormShapes) {
    ++turn;
    const Dims sizes = {shape.batch, shape.channels, shape.length};
    const Dims vector = {shape.statistics()};
    Tensor x(dtype, sizes, kSrcLayouts[turn % 4]);
    Tensor y(dtype, sizes, kDstLayouts[turn % 4]);
    Tensor weight(parameter, {shape.channels}, kSrcLayouts[turn % 4]);
    Tensor bias(parameter, {shape.channels});
    Tensor mean(parameter, vector, kDstLayouts[turn % 4]);
    Tensor rstd(parameter, vector);
    Tensor running_mean(parameter, vector), running_var(parameter, vector);
    x.FillRandom(random, -2, 3);
    weight.FillRandom(random, 0.5L, 1.5L);
    bias.FillRandom(random, -1, 1);
    running_mean.FillRandom(random, -1, 1);
    running_var.FillRandom(random, 0.5L, 2);
    const std::vector<Real> old_mean = running_mean.Values(),
                            old_var = running_var.Values();
    Launch launch(Kernel::kChannelNorm);
    launch.ints = {shape.groups, constant ? 1 : 0};
    launch.floats = {kEps, kMomentum};
    launch.dst = {&y, &mean, &rstd, constant ? nullptr : &running_mean,
                  constant ? nullptr : &running_var};
    launch.src = {&x, affine ? &weight : nullptr, affine ? &bias : nullptr,
                  constant ? &running_mean : nullptr,
                  constant ? &running_var : nullptr};
    RETURN_IF_ERROR(backend.Run(launch));

    Statistics s = StatisticsOf(shape, x);
    if (constant) s = {old_mean, old_var};
    const auto rstd_of = [&](int64_t i) {
      return 1 / std::sqrt(s.variance[i] + static_cast<Real>(kEps));
    };
    RETURN_IF_ERROR(ExpectValues(absl::StrCat(name, " mean"), mean,
                                 [&](int64_t i) { return s.mean[i]; },
                                 {.ulps = 4, .absolute = 4}));
    RETURN_IF_ERROR(
        ExpectValues(absl::StrCat(name, " rstd"), rstd, rstd_of, {.ulps = 16}));
    RETURN_IF_ERROR(ExpectValues(
        name, y,
        [&](int64_t i) {
          const int64_t at = shape.StatisticOf(i), c = shape.ChannelOf(i);
          const Real value = (x.Get(i) - s.mean[at]) * rstd_of(at);
          return affine ? value * weight.Get(c) + bias.Get(c) : value;
        },
        {.ulps = 32, .absolute = 64}));
    if (constant) continue;
    const Real m = kMomentum, n = shape.count();
    RETURN_IF_ERROR(ExpectValues(
        absl::StrCat(name, " running mean"), running_mean,
        [&](int64_t i) { return m * s.mean[i] + (1 - m) * old_mean[i]; },
        {.ulps = 4, .absolute = 4}));
    RETURN_IF_ERROR(ExpectValues(
        absl::StrCat(name, " running variance"), running_var,
        [&](int64_t i) {
          return m * s.variance[i] * n / (n - 1) + (1 - m) * old_var[i];
        },
        {.ulps = 8, .absolute = 4}));
  }
  return absl::OkStatus();
}

absl::Status RunChannelNormBackward(Backend& backend, const std::string& name,
                                    DType dtype, DType parameter, bool affine,
                                    bool constant) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const NormShape& shape : kNormShapes) {
    ++turn;
    const Dims sizes = {shape.batch, shape.channels, shape.length};
    const Dims vector = {shape.statistics()};
    Tensor x(dtype, sizes, kSrcLayouts[turn % 4]);
    Tensor dy(dtype, sizes, kSrcLayouts[(turn + 1) % 6]);
    Tensor dx(dtype, sizes, kDstLayouts[turn % 4]);
    Tensor weight(parameter, {shape.channels});
    Tensor dweight(parameter, {shape.channels}, kDstLayouts[turn % 4]);
    Tensor dbias(parameter, {shape.channels});
    Tensor mean(parameter, vector), rstd(parameter, vector);
    x.FillRandom(random, -2, 3);
    dy.FillRandom(random, -1, 1);
    weight.FillRandom(random, 0.5L, 1.5L);
    const Statistics s = StatisticsOf(shape, x);
    mean.Fill([&](int64_t i) { return s.mean[i]; });
    rstd.Fill([&](int64_t i) {
      return 1 / std::sqrt(s.variance[i] + static_cast<Real>(kEps));
    });
    Launch launch(Kernel::kChannelNormBackward);
    launch.ints = {shape.groups, constant ? 1 : 0};
    launch.dst = {turn % 3 == 0 ? nullptr : &dx, &dweight, &dbias};
    launch.src = {&dy, &x, &mean, &rstd, affine ? &weight : nullptr};
    RETURN_IF_ERROR(backend.Run(launch));

    std::vector<Real> average(shape.statistics()), slope(shape.statistics());
    std::vector<Real> want_dweight(shape.channels), want_dbias(shape.channels);
    const auto normal = [&](int64_t i) {
      const int64_t at = shape.StatisticOf(i);
      return (x.Get(i) - mean.Get(at)) * rstd.Get(at);
    };
    const auto g = [&](int64_t i) {
      return dy.Get(i) * (affine ? weight.Get(shape.ChannelOf(i)) : 1);
    };
    for (int64_t i = 0; i < x.numel(); ++i) {
      want_dweight[shape.ChannelOf(i)] += dy.Get(i) * normal(i);
      want_dbias[shape.ChannelOf(i)] += dy.Get(i);
      if (constant) continue;
      average[shape.StatisticOf(i)] += g(i) / shape.count();
      slope[shape.StatisticOf(i)] += g(i) * normal(i) / shape.count();
    }
    const Tolerance sums = {
        .ulps = 32,
        .absolute =
            64 + 4 * std::sqrt(static_cast<Real>(shape.batch * shape.length))};
    RETURN_IF_ERROR(ExpectValues(
        absl::StrCat(name, " dweight"), dweight,
        [&](int64_t i) { return want_dweight[i]; }, sums));
    RETURN_IF_ERROR(ExpectValues(
        absl::StrCat(name, " dbias"), dbias,
        [&](int64_t i) { return want_dbias[i]; }, sums));
    if (turn % 3 == 0) continue;
    RETURN_IF_ERROR(ExpectValues(
        absl::StrCat(name, " dx"), dx,
        [&](int64_t i) {
          const int64_t at = shape.StatisticOf(i);
          return rstd.Get(at) * (g(i) - average[at] - normal(i) * slope[at]);
        },
        {.ulps = 32, .absolute = 64}));
  }
  return absl::OkStatus();
}

// --- Pooling -----------------------------------------------------------------

struct PoolShape {
  int64_t batch, channels;
  int64_t size[3], out[3];
  bool adaptive;
  int64_t window[3], stride[3], padding[3], dilation[3];
};

constexpr PoolShape kPoolShapes[] = {
    {2,
     3,
     {1, 6, 7},
     {1, 3, 3},
     false,
     {1, 2, 2},
     {1, 2, 2},
     {0, 0, 0},
     {1, 1, 1}},
    {1,
     2,
     {1, 9, 40},
     {1, 5, 20},
     false,
     {1, 3, 3},
     {1, 2, 2},
     {0, 1, 1},
     {1, 1, 1}},
    {1,
     2,
     {5, 6, 7},
     {3, 4, 3},
     false,
     {3, 3, 3},
     {2, 1, 2},
     {1, 0, 0},
     {1, 1, 1}},
    {2,
     70,
     {1, 5, 5},
     {1, 5, 5},
     false,
     {1, 3, 3},
     {1, 1, 1},
     {0, 1, 1},
     {1, 1, 1}},
    // The last window reaches beyond the padding, as in ceil mode.
    {1,
     3,
     {1, 1, 9},
     {1, 1, 4},
     false,
     {1, 1, 4},
     {1, 1, 3},
     {0, 0, 1},
     {1, 1, 1}},
    {2,
     3,
     {1, 7, 5},
     {1, 3, 4},
     true,
     {1, 1, 1},
     {1, 1, 1},
     {0, 0, 0},
     {1, 1, 1}},
    {1,
     2,
     {4, 3, 9},
     {2, 5, 3},
     true,
     {1, 1, 1},
     {1, 1, 1},
     {0, 0, 0},
     {1, 1, 1}},
    // Dilated: not for averages.
    {2,
     3,
     {1, 9, 11},
     {1, 5, 3},
     false,
     {1, 3, 3},
     {1, 1, 2},
     {0, 0, 1},
     {1, 2, 3}},
};

bool IsDilated(const PoolShape& s) {
  return s.dilation[1] > 1 || s.dilation[2] > 1;
}

struct PoolTensors {
  PoolTensors(const PoolShape& s, DType dtype, size_t turn)
      : large(dtype, {s.batch, s.channels, s.size[0], s.size[1], s.size[2]},
              kDstLayouts[turn % 4]),
        small(dtype, {s.batch, s.channels, s.out[0], s.out[1], s.out[2]},
              kDstLayouts[(turn + 1) % 4]),
        indices(DType::kInt64, small.sizes(), kDstLayouts[(turn + 2) % 4]) {}
  Tensor large, small, indices;
};

// Calls visit(index in the large volume) for a window; `counted` is its size
// with the padding.
template <typename Visit>
void ForWindow(const PoolShape& s, const PoolTensors& t, int64_t small,
               Real* counted, const Visit& visit) {
  const Dims at = t.small.CoordinatesOf(small);
  std::vector<int64_t> places[3];
  *counted = 1;
  for (int k = 0; k < 3; ++k) {
    int64_t size = 0;
    if (s.adaptive) {
      const int64_t o = at[2 + k];
      for (int64_t i = o * s.size[k] / s.out[k];
           i * s.out[k] < (o + 1) * s.size[k]; ++i, ++size) {
        places[k].push_back(i);
      }
    } else {
      for (int64_t i = 0; i < s.window[k]; ++i) {
        const int64_t place =
            at[2 + k] * s.stride[k] - s.padding[k] + i * s.dilation[k];
        if (place < s.size[k] + s.padding[k]) ++size;
        if (place >= 0 && place < s.size[k]) places[k].push_back(place);
      }
    }
    *counted *= static_cast<Real>(size);
  }
  for (const int64_t d : places[0]) {
    for (const int64_t h : places[1]) {
      for (const int64_t w : places[2]) {
        visit(t.large.IndexOf({at[0], at[1], d, h, w}));
      }
    }
  }
}

std::vector<int64_t> PoolInts(const PoolShape& s) {
  std::vector<int64_t> ints = {s.adaptive ? 1 : 0};
  for (const int64_t* three : {s.window, s.stride, s.padding}) {
    ints.insert(ints.end(), three, three + 3);
  }
  return ints;
}

absl::Status RunMaxPool(Backend& backend, const std::string& name,
                        DType dtype) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const PoolShape& shape : kPoolShapes) {
    PoolTensors t(shape, dtype, ++turn);
    t.large.FillRandom(random, 0, 100);
    if (IsFloating(dtype)) t.large.Set(t.large.numel() / 2, NAN);
    Launch launch(Kernel::kMaxPool);
    launch.ints = PoolInts(shape);
    launch.ints.insert(launch.ints.end(), shape.dilation, shape.dilation + 3);
    launch.dst = {&t.small, &t.indices};
    launch.src = {&t.large};
    RETURN_IF_ERROR(backend.Run(launch));
    std::vector<Real> best(t.small.numel()), where(t.small.numel());
    for (int64_t i = 0; i < t.small.numel(); ++i) {
      bool first = true;
      Real counted;
      ForWindow(shape, t, i, &counted, [&](int64_t at) {
        const Real value = t.large.Get(at);
        if (!first && !(value > best[i]) && !std::isnan(value)) return;
        first = false;
        best[i] = value;
        where[i] = static_cast<Real>(
            at % (shape.size[0] * shape.size[1] * shape.size[2]));
      });
    }
    RETURN_IF_ERROR(
        ExpectValues(name, t.small, [&](int64_t i) { return best[i]; }, {}));
    RETURN_IF_ERROR(ExpectValues(absl::StrCat(name, " indices"), t.indices,
                                 [&](int64_t i) { return where[i]; }, {}));
  }
  return absl::OkStatus();
}

absl::Status RunAvgPool(Backend& backend, const std::string& name, DType dtype,
                        bool backward, bool count_padding, int64_t divisor) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const PoolShape& shape : kPoolShapes) {
    if (IsDilated(shape)) continue;
    PoolTensors t(shape, dtype, ++turn);
    t.large.FillRandom(random, -2, 3);
    t.small.FillRandom(random, -2, 3);
    Launch launch(backward ? Kernel::kAvgPoolBackward : Kernel::kAvgPool);
    launch.ints = PoolInts(shape);
    launch.ints.insert(launch.ints.end(), {count_padding ? 1 : 0, divisor});
    launch.dst = {backward ? &t.large : &t.small};
    launch.src = {backward ? &t.small : &t.large};
    std::vector<Real> want((backward ? t.large : t.small).numel());
    for (int64_t i = 0; i < t.small.numel(); ++i) {
      std::vector<int64_t> places;
      Real counted;
      ForWindow(shape, t, i, &counted,
                [&](int64_t at) { places.push_back(at); });
      if (!count_padding) counted = static_cast<Real>(places.size());
      if (divisor != 0) counted = static_cast<Real>(divisor);
      for (const int64_t at : places) {
        if (backward) {
          want[at] += t.small.Get(i) / counted;
        } else {
          want[i] += t.large.Get(at) / counted;
        }
      }
    }
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(name, backward ? t.large : t.small,
                                 [&](int64_t i) { return want[i]; },
                                 {.ulps = 8, .absolute = 8}));
  }
  return absl::OkStatus();
}

// --- Resampling --------------------------------------------------------------

struct ResampleShape {
  int64_t batch, channels, x[3], y[3];
};

constexpr ResampleShape kResampleShapes[] = {
    {2, 3, {1, 4, 5}, {1, 8, 10}}, {1, 2, {1, 7, 9}, {1, 3, 20}},
    {1, 1, {3, 4, 5}, {5, 3, 7}},  {2, 70, {1, 3, 3}, {1, 5, 4}},
    {1, 2, {1, 1, 6}, {1, 1, 40}}, {1, 1, {1, 1, 1}, {1, 3, 2}},
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
    if (mode >= 4) {
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

bool IsHalf(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

using Run = std::function<absl::Status(Backend&)>;

void AddPoolCases(CaseList& cases, DType dtype) {
  const std::string max = absl::StrCat("max_pool/", NameOf(dtype));
  cases.push_back({max, Kernel::kMaxPool, {}, [=](Backend& backend) {
                     return RunMaxPool(backend, max, dtype);
                   }});
  if (!IsFloating(dtype)) return;
  for (const bool backward : {false, true}) {
    for (const auto& [count, divisor] :
         {std::pair<bool, int64_t>{true, 0}, {false, 0}, {true, 7}}) {
      const std::string name = absl::StrCat(
          backward ? "avg_pool_backward/" : "avg_pool/", NameOf(dtype),
          count ? "" : "/inside", divisor != 0 ? "/divisor" : "");
      cases.push_back({name,
                       backward ? Kernel::kAvgPoolBackward : Kernel::kAvgPool,
                       {},
                       [=, count = count, divisor = divisor](Backend& backend) {
                         return RunAvgPool(backend, name, dtype, backward,
                                           count, divisor);
                       }});
    }
  }
}

void AddResampleCases(CaseList& cases, DType dtype) {
  constexpr const char* kModes[] = {"nearest", "nearest_exact", "linear",
                                    "cubic",   "reflect",       "replicate"};
  for (int64_t mode = 0; mode < 6; ++mode) {
    for (const bool align : {false, true}) {
      for (const bool backward : {false, true}) {
        if (align && mode != 2 && mode != 3) continue;
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

void AddVolumeCases(CaseList& cases) {
  for (const DType dtype : kFloatDTypes) {
    for (const bool wide : {false, true}) {
      if (wide && !IsHalf(dtype)) continue;
      for (const bool affine : {false, true}) {
        for (const bool constant : {false, true}) {
          const DType parameter = wide ? DType::kFloat32 : dtype;
          const std::string suffix =
              absl::StrCat(NameOf(dtype), wide ? "/float32" : "",
                           affine ? "" : "/plain", constant ? "/constant" : "");
          const std::string forward = absl::StrCat("channel_norm/", suffix);
          cases.push_back(
              {forward, Kernel::kChannelNorm, {}, [=](Backend& backend) {
                 return RunChannelNorm(backend, forward, dtype, parameter,
                                       affine, constant);
               }});
          const std::string backward =
              absl::StrCat("channel_norm_backward/", suffix);
          cases.push_back({backward,
                           Kernel::kChannelNormBackward,
                           {},
                           [=](Backend& backend) {
                             return RunChannelNormBackward(backend, backward,
                                                           dtype, parameter,
                                                           affine, constant);
                           }});
        }
      }
    }
    AddPoolCases(cases, dtype);
    AddResampleCases(cases, dtype);
  }
  for (const DType dtype : kIntDTypes) AddPoolCases(cases, dtype);
}

}  // namespace tvarant::conformance

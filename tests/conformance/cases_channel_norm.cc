// channel_norm and its gradient.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

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

bool IsHalf(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

}  // namespace

void AddChannelNormCases(CaseList& cases) {
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
  }
}

}  // namespace tvarant::conformance

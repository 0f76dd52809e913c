// softmax, log_softmax, layer_norm and their gradients.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

// Walks the elements that share all coordinates but one.
template <typename Visit>
void AlongDim(const Tensor& x, int64_t i, int dim, const Visit& visit) {
  Dims at = x.CoordinatesOf(i);
  for (at[dim] = 0; at[dim] < x.size(dim); ++at[dim]) visit(x.IndexOf(at));
}

const std::vector<Dims>& SoftmaxShapes() {
  static const auto* const kShapes = new std::vector<Dims>{
      {1},     {7},      {17},         {1000},     {0},      {3, 5},
      {5, 33}, {33, 16}, {64, 10},     {2, 3, 17}, {3, 0},   {0, 3},
      {4, 1},  {7, 300}, {2, 3, 4, 5}, {2, 2500},  {100, 40}};
  return *kShapes;
}

Real LogSumAlong(const Tensor& x, int64_t i, int dim) {
  Real largest = -INFINITY;
  AlongDim(x, i, dim,
           [&](int64_t k) { largest = std::max(largest, x.Get(k)); });
  Real sum = 0;
  AlongDim(x, i, dim, [&](int64_t k) { sum += std::exp(x.Get(k) - largest); });
  return largest + std::log(sum);
}

absl::Status RunSoftmax(Backend& backend, const std::string& name, bool log,
                        DType dtype, DType result) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const Dims& shape : SoftmaxShapes()) {
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      ++turn;
      Tensor x(dtype, shape, kSrcLayouts[turn % 6]);
      Tensor y(result, shape, kDstLayouts[turn % 4]);
      x.FillRandom(random, -10, 10);
      // Large values must not overflow, -inf is a probability of 0.
      for (int64_t i = 0; i < x.numel(); ++i) {
        if (random() % 40 == 0) x.Set(i, 600);
        if (random() % 40 == 1 && x.size(dim) > 5) x.Set(i, -INFINITY);
      }
      Launch launch(log ? Kernel::kLogSoftmax : Kernel::kSoftmax);
      launch.ints = {dim};
      launch.dst = {&y};
      launch.src = {&x};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(ExpectValues(
          name, y,
          [&](int64_t i) {
            const Real value = x.Get(i) - LogSumAlong(x, i, dim);
            return log ? value : std::exp(value);
          },
          // log(softmax) of values up to 600 has the error of those.
          {.ulps = 16, .absolute = log ? 1024.0L : 1.0L}));
    }
  }
  return absl::OkStatus();
}

absl::Status RunSoftmaxBackward(Backend& backend, const std::string& name,
                                bool log, DType dtype, DType result) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const Dims& shape : SoftmaxShapes()) {
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      ++turn;
      Tensor y(dtype, shape, kSrcLayouts[turn % 4]);
      Tensor dy(dtype, shape, kSrcLayouts[(turn + 3) % 6]);
      Tensor dx(result, shape, kDstLayouts[turn % 4]);
      dy.FillRandom(random, -1, 1);
      // What the forward pass would have kept.
      y.FillRandom(random, -3, 3);
      const Tensor x = y;
      y.Fill([&](int64_t i) {
        const Real value = x.Get(i) - LogSumAlong(x, i, dim);
        return log ? value : std::exp(value);
      });
      Launch launch(log ? Kernel::kLogSoftmaxBackward
                        : Kernel::kSoftmaxBackward);
      launch.ints = {dim};
      launch.dst = {&dx};
      launch.src = {&dy, &y};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(
          ExpectValues(name, dx,
                       [&](int64_t i) {
                         Real sum = 0;
                         AlongDim(y, i, dim, [&](int64_t k) {
                           sum += log ? dy.Get(k) : dy.Get(k) * y.Get(k);
                         });
                         return log ? dy.Get(i) - std::exp(y.Get(i)) * sum
                                    : y.Get(i) * (dy.Get(i) - sum);
                       },
                       {.ulps = 16, .absolute = 16}));
    }
  }
  return absl::OkStatus();
}

struct RowsAndColumns {
  int64_t rows, columns;
};

constexpr RowsAndColumns kLayerNormShapes[] = {
    {1, 1}, {3, 5},    {5, 16},  {17, 33}, {64, 384},
    {0, 5}, {2, 1000}, {300, 7}, {1, 64},  {2, 2500}};

constexpr double kEps = 1e-5;

// Statistics of one row.
struct Moments {
  Real mean = 0, rstd = 0;
};

Moments MomentsOf(const Tensor& x, int64_t row) {
  const int64_t n = x.size(1);
  Moments moments;
  for (int64_t k = 0; k < n; ++k) moments.mean += x.Get(row * n + k);
  moments.mean /= static_cast<Real>(n);
  Real variance = 0;
  for (int64_t k = 0; k < n; ++k) {
    const Real d = x.Get(row * n + k) - moments.mean;
    variance += d * d;
  }
  moments.rstd = 1 / std::sqrt(variance / static_cast<Real>(n) + kEps);
  return moments;
}

std::vector<Moments> MomentsOfRows(const Tensor& x) {
  std::vector<Moments> moments;
  for (int64_t row = 0; row < x.size(0); ++row) {
    moments.push_back(MomentsOf(x, row));
  }
  return moments;
}

absl::Status RunLayerNorm(Backend& backend, const std::string& name,
                          DType dtype, DType statistics, bool affine) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const auto& [rows, columns] : kLayerNormShapes) {
    ++turn;
    const int64_t n = columns;
    const Layout layout = kSrcLayouts[turn % 6];
    Tensor x(dtype, {rows, n}, layout);
    Tensor weight(turn % 2 ? dtype : statistics, {n}, kSrcLayouts[turn % 4]);
    Tensor bias(dtype, {n}, kSrcLayouts[(turn + 1) % 4]);
    Tensor y(dtype, {rows, n}, kDstLayouts[turn % 4]);
    Tensor mean(statistics, {rows}, kDstLayouts[(turn + 1) % 4]);
    Tensor rstd(statistics, {rows});
    x.FillRandom(random, -2, 3);
    weight.FillRandom(random, 0.5L, 1.5L);
    bias.FillRandom(random, -1, 1);
    Launch launch(Kernel::kLayerNorm);
    launch.params.scalar = kEps;
    launch.dst = {&y, &mean, &rstd};
    launch.src = {&x, affine ? &weight : nullptr, affine ? &bias : nullptr};
    RETURN_IF_ERROR(backend.Run(launch));
    const std::vector<Moments> moments = MomentsOfRows(x);
    RETURN_IF_ERROR(ExpectValues(absl::StrCat(name, " mean"), mean,
                                 [&](int64_t i) { return moments[i].mean; },
                                 {.ulps = 4, .absolute = 4}));
    RETURN_IF_ERROR(ExpectValues(absl::StrCat(name, " rstd"), rstd,
                                 [&](int64_t i) { return moments[i].rstd; },
                                 {.ulps = 16}));
    // Equal values leave a difference of rounding errors, times 1 / sqrt(eps).
    const bool constant = layout == Layout::kRepeated || n == 1;
    RETURN_IF_ERROR(ExpectValues(
        name, y,
        [&](int64_t i) {
          const Moments& row = moments[i / n];
          const Real value = (x.Get(i) - row.mean) * row.rstd;
          return affine ? value * weight.Get(i % n) + bias.Get(i % n) : value;
        },
        {.ulps = 32, .absolute = constant ? 4096.0L : 32.0L}));
  }
  return absl::OkStatus();
}

absl::Status RunLayerNormBackward(Backend& backend, const std::string& name,
                                  DType dtype, DType statistics,
                                  unsigned outputs, bool affine) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const auto& [rows, columns] : kLayerNormShapes) {
    ++turn;
    const int64_t n = columns, m = rows;
    // A single column normalises to 0, whose gradient is all cancellation.
    if (n == 1) continue;
    Tensor x(dtype, {m, n}, kSrcLayouts[turn % 4]);
    Tensor dy(dtype, {m, n}, kSrcLayouts[(turn + 2) % 6]);
    Tensor mean(statistics, {m}), rstd(statistics, {m}, Layout::kGaps);
    Tensor weight(dtype, {n}, kSrcLayouts[turn % 4]);
    Tensor dx(dtype, {m, n}, kDstLayouts[turn % 4]);
    Tensor dweight(dtype, {n}, kDstLayouts[(turn + 1) % 4]), dbias(dtype, {n});
    x.FillRandom(random, -2, 3);
    dy.FillRandom(random, -1, 1);
    weight.FillRandom(random, 0.5L, 1.5L);
    const std::vector<Moments> moments = MomentsOfRows(x);
    mean.Fill([&](int64_t i) { return moments[i].mean; });
    rstd.Fill([&](int64_t i) { return moments[i].rstd; });
    Launch launch(Kernel::kLayerNormBackward);
    launch.dst = {outputs & 1 ? &dx : nullptr, outputs & 2 ? &dweight : nullptr,
                  outputs & 4 ? &dbias : nullptr};
    launch.src = {&dy, &x, &mean, &rstd, affine ? &weight : nullptr};
    RETURN_IF_ERROR(backend.Run(launch));

    // h: the normalised input; g: the gradient with the weight.
    const std::vector<Real> slope = dy.Values();
    std::vector<Real> h = x.Values(), g = slope;
    std::vector<Real> sum_g(m), sum_gh(m), want_dweight(n), want_dbias(n);
    for (int64_t i = 0; i < m * n; ++i) {
      const int64_t row = i / n, k = i % n;
      h[i] = (h[i] - mean.Get(row)) * rstd.Get(row);
      if (affine) g[i] *= weight.Get(k);
      sum_g[row] += g[i];
      sum_gh[row] += g[i] * h[i];
      want_dweight[k] += slope[i] * h[i];
      want_dbias[k] += slope[i];
    }
    if (outputs & 1) {
      RETURN_IF_ERROR(ExpectValues(
          absl::StrCat(name, " dx"), dx,
          [&](int64_t i) {
            const int64_t row = i / n;
            return rstd.Get(row) *
                   (g[i] - (sum_g[row] + h[i] * sum_gh[row]) / Real(n));
          },
          {.ulps = 32, .absolute = 32}));
    }
    const Tolerance long_sum = {
        .ulps = 32, .absolute = 8 * std::sqrt(static_cast<Real>(m)) + 8};
    if (outputs & 2) {
      RETURN_IF_ERROR(ExpectValues(
          absl::StrCat(name, " dweight"), dweight,
          [&](int64_t k) { return want_dweight[k]; }, long_sum));
    }
    if (outputs & 4) {
      RETURN_IF_ERROR(ExpectValues(
          absl::StrCat(name, " dbias"), dbias,
          [&](int64_t k) { return want_dbias[k]; }, long_sum));
    }
  }
  return absl::OkStatus();
}

bool IsHalf(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

}  // namespace

void AddNormCases(CaseList& cases) {
  const auto add = [&](Kernel kernel, const std::string& name,
                       std::function<absl::Status(Backend&)> run) {
    cases.push_back({name, kernel, {}, std::move(run)});
  };
  for (const DType dtype : kFloatDTypes) {
    for (const bool wide : {false, true}) {
      if (wide && !IsHalf(dtype)) continue;
      const DType other = wide ? DType::kFloat32 : dtype;
      const std::string suffix =
          absl::StrCat("/", NameOf(dtype), wide ? "/float32" : "");
      for (const bool log : {false, true}) {
        const std::string forward =
            absl::StrCat(log ? "log_softmax" : "softmax", suffix);
        add(log ? Kernel::kLogSoftmax : Kernel::kSoftmax, forward,
            [=](Backend& backend) {
              return RunSoftmax(backend, forward, log, dtype, other);
            });
        const std::string backward =
            absl::StrCat(log ? "log_softmax" : "softmax", "_backward", suffix);
        add(log ? Kernel::kLogSoftmaxBackward : Kernel::kSoftmaxBackward,
            backward, [=](Backend& backend) {
              return RunSoftmaxBackward(backend, backward, log, other, dtype);
            });
      }
      for (const bool affine : {true, false}) {
        const std::string forward =
            absl::StrCat("layer_norm", suffix, affine ? "" : "/plain");
        add(Kernel::kLayerNorm, forward, [=](Backend& backend) {
          return RunLayerNorm(backend, forward, dtype, other, affine);
        });
        for (const unsigned outputs : {7u, 1u, 2u, 4u, 6u}) {
          const std::string backward =
              absl::StrCat("layer_norm_backward", suffix,
                           affine ? "" : "/plain", "/outputs", outputs);
          add(Kernel::kLayerNormBackward, backward, [=](Backend& backend) {
            return RunLayerNormBackward(backend, backward, dtype, other,
                                        outputs, affine);
          });
        }
      }
    }
  }
}

}  // namespace tvarant::conformance

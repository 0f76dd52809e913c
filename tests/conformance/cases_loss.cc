// nll_loss and its gradient.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

constexpr int64_t kNone = 0, kMean = 1, kSum = 2;
constexpr int64_t kIgnore = -100;

// `inner` places of each row have a distribution; 0: logp is a matrix.
struct Shape {
  int64_t rows, classes, inner = 0;

  Dims logp() const {
    return inner == 0 ? Dims{rows, classes} : Dims{rows, classes, inner};
  }
  Dims target() const { return inner == 0 ? Dims{rows} : Dims{rows, inner}; }
};

constexpr Shape kShapes[] = {{1, 1},    {5, 3},      {17, 10},  {64, 33},
                             {300, 4},  {1, 3, 1},   {2, 5, 7}, {3, 4, 65},
                             {9000, 2}, {2, 3, 5000}};

// Log-probabilities, targets (some ignored) and weights of one shape.
struct Loss {
  Loss(DType dtype, const Shape& shape, size_t turn, bool weighted,
       std::mt19937_64& random)
      : shape(shape),
        logp(dtype, shape.logp(), kSrcLayouts[turn % 4]),
        target(DType::kInt64, shape.target(), kSrcLayouts[turn % 4]),
        weight(dtype, {shape.classes}, kSrcLayouts[(turn + 1) % 4]),
        weighted(weighted) {
    logp.FillRandom(random, -5, 0);
    weight.FillRandom(random, 0.5L, 1.5L);
    target.Fill([&](int64_t i) -> Real {
      return i % 5 == 4 ? kIgnore
                        : static_cast<int64_t>(random() % shape.classes);
    });
  }
  // Of a target's class `c` in logp.
  int64_t PlaceOf(int64_t row, int64_t c) const {
    const int64_t inner = std::max<int64_t>(shape.inner, 1);
    return (row / inner * shape.classes + c) * inner + row % inner;
  }
  Real WeightOf(int64_t row) const {
    const int64_t t = static_cast<int64_t>(target.Get(row));
    if (t == kIgnore) return 0;
    return weighted ? weight.Get(t) : 1;
  }
  Real LossOf(int64_t row) const {
    const int64_t t = static_cast<int64_t>(target.Get(row));
    if (t == kIgnore) return 0;
    return -WeightOf(row) * logp.Get(PlaceOf(row, t));
  }
  template <typename F>
  Real Total(const F& f) const {
    Real total = 0;
    for (int64_t i = 0; i < target.numel(); ++i) total += f(i);
    return total;
  }
  Real TotalWeight() const {
    return Total([&](int64_t i) { return WeightOf(i); });
  }
  const Tensor* weight_or_null() const { return weighted ? &weight : nullptr; }

  Shape shape;
  Tensor logp, target, weight;
  bool weighted;
};

absl::Status RunNllLoss(Backend& backend, const std::string& name, DType dtype,
                        int64_t reduction, bool weighted) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const Shape& shape : kShapes) {
    const Loss loss(dtype, shape, ++turn, weighted, random);
    Tensor y(dtype, reduction == kNone ? shape.target() : Dims{});
    Tensor total_weight(dtype, {});
    Launch launch(Kernel::kNllLoss);
    launch.ints = {reduction, kIgnore};
    launch.dst = {&y, &total_weight};
    launch.src = {&loss.logp, &loss.target, loss.weight_or_null()};
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(
        name, y,
        [&](int64_t i) -> Real {
          if (reduction == kNone) return loss.LossOf(i);
          const Real sum =
              loss.Total([&](int64_t row) { return loss.LossOf(row); });
          return reduction == kSum ? sum : sum / loss.TotalWeight();
        },
        {.ulps = 256}));
    if (reduction == kNone) continue;
    RETURN_IF_ERROR(ExpectValues(
        absl::StrCat(name, " total weight"), total_weight,
        [&](int64_t) { return loss.TotalWeight(); }, {.ulps = 256}));
  }
  return absl::OkStatus();
}

absl::Status RunNllLossBackward(Backend& backend, const std::string& name,
                                DType dtype, int64_t reduction, bool weighted) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const Shape& shape : kShapes) {
    const Loss loss(dtype, shape, ++turn, weighted, random);
    Tensor dloss(dtype, reduction == kNone ? shape.target() : Dims{});
    Tensor total_weight(dtype, {});
    Tensor dlogp(dtype, shape.logp(), kDstLayouts[turn % 4]);
    dloss.FillRandom(random, 0.5L, 2);
    total_weight.Set(0, loss.TotalWeight());
    Launch launch(Kernel::kNllLossBackward);
    launch.ints = {reduction, kIgnore};
    launch.dst = {&dlogp};
    launch.src = {&dloss, &loss.target, loss.weight_or_null(), &total_weight};
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(
        name, dlogp,
        [&](int64_t i) -> Real {
          const int64_t inner = std::max<int64_t>(shape.inner, 1);
          const int64_t row = i / inner / shape.classes * inner + i % inner;
          if (loss.target.Get(row) != i / inner % shape.classes) return 0;
          const Real slope =
              -loss.WeightOf(row) * dloss.Get(reduction == kNone ? row : 0);
          return reduction == kMean ? slope / total_weight.Get(0) : slope;
        },
        {.ulps = 8}));
  }
  return absl::OkStatus();
}

// The mean over nothing is NaN, as 0 / 0 is.
absl::Status RunAllIgnored(Backend& backend) {
  Tensor logp(DType::kFloat32, {3, 4}), target(DType::kInt64, {3});
  logp.Fill([](int64_t) { return -1; });
  target.Fill([](int64_t) { return kIgnore; });
  Tensor y(DType::kFloat32, {}), total_weight(DType::kFloat32, {});
  Launch launch(Kernel::kNllLoss);
  launch.ints = {kMean, kIgnore};
  launch.dst = {&y, &total_weight};
  launch.src = {&logp, &target, nullptr};
  RETURN_IF_ERROR(backend.Run(launch));
  RETURN_IF_ERROR(ExpectValues("loss", y, [](int64_t) -> Real { return NAN; }));
  return ExpectValues("total weight", total_weight, [](int64_t) { return 0; });
}

absl::Status RunBadTarget(Backend& backend, bool backward) {
  for (const int64_t bad : {int64_t{4}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    Tensor logp(DType::kFloat32, {3, 4}), target(DType::kInt64, {3});
    logp.Fill([](int64_t) { return -1; });
    target.Fill([&](int64_t i) -> Real { return i == 1 ? bad : 0; });
    Tensor y(DType::kFloat32, {}), total_weight(DType::kFloat32, {});
    total_weight.Set(0, 3);
    y.Set(0, 1);
    Launch launch(backward ? Kernel::kNllLossBackward : Kernel::kNllLoss);
    launch.ints = {kMean, kIgnore};
    if (backward) {
      launch.dst = {&logp};
      launch.src = {&y, &target, nullptr, &total_weight};
    } else {
      launch.dst = {&y, &total_weight};
      launch.src = {&logp, &target, nullptr};
    }
    const absl::Status status = backend.Run(launch);
    if (status.code() != absl::StatusCode::kOutOfRange) {
      return absl::InternalError(absl::StrCat(
          "target ", bad, " gives ", status.ToString(), ", want OUT_OF_RANGE"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddLossCases(CaseList& cases) {
  const auto add = [&](Kernel kernel, const std::string& name,
                       std::function<absl::Status(Backend&)> run) {
    cases.push_back({name, kernel, {}, std::move(run)});
  };
  constexpr const char* kReductions[] = {"none", "mean", "sum"};
  for (const DType dtype : kFloatDTypes) {
    for (const int64_t reduction : {kNone, kMean, kSum}) {
      for (const bool weighted : {false, true}) {
        const std::string suffix =
            absl::StrCat("/", kReductions[reduction], "/", NameOf(dtype),
                         weighted ? "/weighted" : "");
        add(Kernel::kNllLoss, "nll_loss" + suffix, [=](Backend& backend) {
          return RunNllLoss(backend, "nll_loss" + suffix, dtype, reduction,
                            weighted);
        });
        add(Kernel::kNllLossBackward, "nll_loss_backward" + suffix,
            [=](Backend& backend) {
              return RunNllLossBackward(backend, "nll_loss_backward" + suffix,
                                        dtype, reduction, weighted);
            });
      }
    }
  }
  add(Kernel::kNllLoss, "nll_loss/all_ignored", RunAllIgnored);
  add(Kernel::kNllLoss, "nll_loss/bad_target",
      [](Backend& backend) { return RunBadTarget(backend, false); });
  add(Kernel::kNllLossBackward, "nll_loss_backward/bad_target",
      [](Backend& backend) { return RunBadTarget(backend, true); });
}

}  // namespace tvarant::conformance

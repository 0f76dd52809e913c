// pair_distance, its gradient, and reduce_foreach.

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kOrders[] = {0, 0.5, 1, 1.5, 2, 3, kInfinity};

struct Shape {
  int64_t batch, rows, columns, width;
};
constexpr Shape kShapes[] = {{1, 1, 1, 1},   {2, 3, 5, 7}, {1, 4, 2, 64},
                             {1, 2, 3, 131}, {3, 2, 2, 0}, {2, 0, 3, 4},
                             {1, 90, 80, 3}};

// Two matrices, or one and its pairs.
struct Matrices {
  Matrices(DType dtype, const Shape& shape, bool condensed, size_t turn,
           std::mt19937_64& random)
      : condensed(condensed),
        shape(shape),
        a(dtype,
          condensed ? Dims{shape.rows, shape.width}
                    : Dims{shape.batch, shape.rows, shape.width},
          kDstLayouts[turn % 4]),
        b(dtype, {shape.batch, shape.columns, shape.width},
          kSrcLayouts[turn % 6]) {
    a.FillRandom(random, -2, 2);
    b.FillRandom(random, -2, 2);
    // Some equal elements, and equal rows.
    for (int64_t i = 0; i < a.numel(); i += 3) a.Set(i, 0.5L);
    if (shape.width == 1) a.Fill([](int64_t i) { return i % 2; });
  }

  Dims result_sizes() const {
    if (condensed) return {shape.rows * (shape.rows - 1) / 2};
    return {shape.batch, shape.rows, shape.columns};
  }
  const Tensor* second() const { return condensed ? nullptr : &b; }
  int64_t columns() const { return condensed ? shape.rows : shape.columns; }
  Real Difference(int64_t batch, int64_t i, int64_t j, int64_t k) const {
    const Tensor& other = condensed ? a : b;
    return a.Get((batch * shape.rows + i) * shape.width + k) -
           other.Get((batch * columns() + j) * shape.width + k);
  }
  Real Distance(int64_t batch, int64_t i, int64_t j, double p) const {
    Real sum = 0;
    for (int64_t k = 0; k < shape.width; ++k) {
      const Real d = std::fabs(Difference(batch, i, j, k));
      if (p == kInfinity) {
        sum = std::max(sum, d);
      } else {
        sum += p == 0 ? Real(d != 0) : std::pow(d, static_cast<Real>(p));
      }
    }
    return p == 0 || p == kInfinity ? sum
                                    : std::pow(sum, 1 / static_cast<Real>(p));
  }
  // Place of the distance of rows i and j.
  int64_t PlaceOf(int64_t batch, int64_t i, int64_t j) const {
    if (!condensed) return (batch * shape.rows + i) * shape.columns + j;
    int64_t place = 0;
    for (int64_t row = 0; row < std::min(i, j); ++row) {
      place += shape.rows - row - 1;
    }
    return place + std::max(i, j) - std::min(i, j) - 1;
  }
  std::vector<Real> Distances(double p) const {
    std::vector<Real> all;
    for (int64_t n = 0; n < (condensed ? 1 : shape.batch); ++n) {
      for (int64_t i = 0; i < shape.rows; ++i) {
        for (int64_t j = condensed ? i + 1 : 0; j < columns(); ++j) {
          all.push_back(Distance(n, i, j, p));
        }
      }
    }
    return all;
  }

  bool condensed;
  Shape shape;
  Tensor a, b;
};

absl::Status RunDistance(Backend& backend, const std::string& name, DType dtype,
                         double p, bool condensed) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const Shape& shape : kShapes) {
    const Matrices m(dtype, shape, condensed, ++turn, random);
    Tensor y(dtype, m.result_sizes(), kDstLayouts[turn % 4]);
    Launch launch(Kernel::kPairDistance);
    launch.params.scalar = p;
    launch.dst = {&y};
    launch.src = {&m.a, m.second()};
    RETURN_IF_ERROR(backend.Run(launch));
    const std::vector<Real> want = m.Distances(p);
    RETURN_IF_ERROR(ExpectValues(
        name, y, [&](int64_t i) { return want[static_cast<size_t>(i)]; },
        {.ulps = 64}));
  }
  return absl::OkStatus();
}

Real SlopeOf(Real d, Real distance, double p) {
  const Real sign = d > 0 ? 1 : d < 0 ? -1 : 0;
  if (p == 0 || distance == 0 || d == 0) return 0;
  if (p == kInfinity) return std::fabs(d) == distance ? sign : 0;
  return sign * std::pow(std::fabs(d) / distance, static_cast<Real>(p - 1));
}

absl::Status RunBackward(Backend& backend, const std::string& name, DType dtype,
                         double p, bool condensed) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const Shape& shape : kShapes) {
    const Matrices m(dtype, shape, condensed, ++turn, random);
    Tensor y(dtype, m.result_sizes());
    Tensor dy(dtype, m.result_sizes(), kSrcLayouts[turn % 4]);
    Tensor da(dtype, m.a.sizes(), kDstLayouts[(turn + 1) % 4]);
    const std::vector<Real> distances = m.Distances(p);
    y.Fill([&](int64_t i) { return distances[static_cast<size_t>(i)]; });
    dy.FillRandom(random, 0.5L, 2);
    Launch launch(Kernel::kPairDistanceBackward);
    launch.params.scalar = p;
    launch.dst = {&da};
    launch.src = {&dy, &m.a, m.second(), &y};
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(
        name, da,
        [&](int64_t at) {
          const int64_t k = at % shape.width, row = at / shape.width;
          const int64_t batch = row / shape.rows, i = row % shape.rows;
          Real sum = 0;
          for (int64_t j = 0; j < m.columns(); ++j) {
            if (condensed && i == j) continue;
            const int64_t place = m.PlaceOf(batch, i, j);
            sum += dy.Get(place) *
                   SlopeOf(RoundTo(dtype, m.Difference(batch, i, j, k)),
                           y.Get(place), p);
          }
          return sum;
        },
        {.ulps = 256, .absolute = 256}));
  }
  return absl::OkStatus();
}

// One launch over tensors of many shapes and layouts.
absl::Status RunReduceForeach(Backend& backend, const std::string& name,
                              DType dtype, ReduceOp op, double p) {
  std::mt19937_64 random = SeedOf(name);
  std::vector<Tensor> tensors;
  size_t turn = 0;
  for (const Dims& shape : Shapes()) {
    tensors.emplace_back(dtype, shape, kSrcLayouts[++turn % 6]);
    if (op == ReduceOp::kMax && tensors.back().numel() == 0) {
      tensors.pop_back();
    } else {
      tensors.back().FillRandom(random, -3, 3);
    }
  }
  Tensor y(dtype, {static_cast<int64_t>(tensors.size())}, Layout::kGaps);
  Launch launch(Kernel::kReduceForeach);
  launch.ints = {static_cast<int64_t>(op)};
  launch.params.scalar = p;
  launch.dst = {&y};
  for (const Tensor& tensor : tensors) launch.src.push_back(&tensor);
  RETURN_IF_ERROR(backend.Run(launch));
  return ExpectValues(
      name, y,
      [&](int64_t i) {
        const std::vector<Real> values =
            tensors[static_cast<size_t>(i)].Values();
        Real sum = op == ReduceOp::kMax ? -INFINITY : 0;
        for (const Real value : values) {
          if (op == ReduceOp::kMax || p == kInfinity) {
            sum =
                std::max(sum, op == ReduceOp::kMax ? value : std::fabs(value));
          } else {
            sum += std::pow(std::fabs(value), static_cast<Real>(p));
          }
        }
        if (op == ReduceOp::kMax || p == kInfinity) return sum;
        return std::pow(sum, 1 / static_cast<Real>(p));
      },
      {.ulps = 64});
}

}  // namespace

void AddDistanceCases(CaseList& cases) {
  const auto add = [&](Kernel kernel, const std::string& name,
                       std::function<absl::Status(Backend&)> run) {
    cases.push_back({name, kernel, {}, std::move(run)});
  };
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const double p : kOrders) {
      for (const bool condensed : {false, true}) {
        const std::string suffix =
            absl::StrCat("/p", p, condensed ? "/pairs/" : "/", NameOf(dtype));
        add(Kernel::kPairDistance, "pair_distance" + suffix,
            [=](Backend& backend) {
              return RunDistance(backend, "pair_distance" + suffix, dtype, p,
                                 condensed);
            });
        add(Kernel::kPairDistanceBackward, "pair_distance_backward" + suffix,
            [=](Backend& backend) {
              return RunBackward(backend, "pair_distance_backward" + suffix,
                                 dtype, p, condensed);
            });
      }
    }
  }
  for (const DType dtype : kFloatDTypes) {
    for (const double p : {1.0, 2.0, kInfinity}) {
      const std::string name =
          absl::StrCat("reduce_foreach/norm", p, "/", NameOf(dtype));
      add(Kernel::kReduceForeach, name, [=](Backend& backend) {
        return RunReduceForeach(backend, name, dtype, ReduceOp::kNorm, p);
      });
    }
    const std::string name = absl::StrCat("reduce_foreach/max/", NameOf(dtype));
    add(Kernel::kReduceForeach, name, [=](Backend& backend) {
      return RunReduceForeach(backend, name, dtype, ReduceOp::kMax, 0);
    });
  }
}

}  // namespace tvarant::conformance

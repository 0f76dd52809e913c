// gemm_bias_act.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

constexpr Real kPi = 3.14159265358979323846264338327950288L;

struct Extents {
  int64_t batch, m, n, k;
};

constexpr Extents kExtents[] = {{1, 1, 1, 1},
                                {1, 3, 5, 7},
                                {1, 1, 17, 33},
                                {1, 17, 1, 33},
                                {1, 16, 16, 16},
                                {1, 33, 65, 19},
                                {2, 3, 4, 5},
                                {3, 17, 9, 31},
                                {1, 64, 10, 64},
                                {1, 100, 70, 90},
                                {1, 0, 5, 3},
                                {1, 5, 0, 3},
                                {2, 3, 4, 0},
                                {0, 3, 4, 5},
                                {1, 130, 140, 150},
                                // Few rows or columns, long sums, whole tiles.
                                {1, 3, 40, 1100},
                                {2, 20, 12, 1500},
                                {1, 70, 2, 600},
                                {1, 1, 300, 400},
                                {1, 128, 192, 72},
                                {2, 136, 72, 128}};

enum class Bias { kNone, kRow, kFull };

Real Activate(Act act, Real x) {
  switch (act) {
    case Act::kNone:
      return x;
    case Act::kRelu:
      return x > 0 ? x : 0;
    case Act::kSilu:
      return x / (1 + std::exp(-x));
    case Act::kGelu:
      return x / 2 * std::erfc(-x / std::sqrt(Real{2}));
    case Act::kGeluTanh:
      return x / 2 *
             (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x)));
  }
  return 0;
}

absl::Status RunGemm(Backend& backend, const std::string& name, DType dtype,
                     Act act, Bias bias, double alpha, double beta) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  // Transposed, sliced and repeated inputs; a repeated batch.
  constexpr Layout kInputs[] = {Layout::kContiguous, Layout::kTransposed,
                                Layout::kOffset, Layout::kGaps,
                                Layout::kBroadcast};
  for (const Extents& e : kExtents) {
    ++turn;
    Tensor a(dtype, {e.batch, e.m, e.k}, kInputs[turn % 5]);
    Tensor b(dtype, {e.batch, e.k, e.n}, kInputs[(turn / 2) % 5]);
    Tensor c(dtype, {e.batch, e.m, e.n}, kDstLayouts[turn % 4]);
    // A bias row for all rows has strides [0, 0, 1], so it is made as a
    // repeated tensor of one row.
    Tensor added(
        dtype, {e.batch, e.m, e.n},
        bias == Bias::kFull ? kInputs[(turn + 1) % 5] : Layout::kRepeated);
    const Real limit = IsFloating(dtype) ? 1 : 9;
    const Real low = dtype == DType::kUInt8 ? 0 : -limit;
    a.FillRandom(random, low, limit);
    b.FillRandom(random, low, limit);
    added.FillRandom(random, low, limit);
    Launch launch(Kernel::kGemm);
    launch.params.batch = e.batch;
    launch.params.m = e.m;
    launch.params.n = e.n;
    launch.params.k = e.k;
    launch.params.act = act;
    launch.params.alpha = alpha;
    launch.params.beta = beta;
    launch.dst = {&c};
    launch.src = {&a, &b};
    if (bias != Bias::kNone) launch.src.push_back(&added);
    RETURN_IF_ERROR(backend.Run(launch));
    // The absolute part grows with the sum: |terms| <= 1 each.
    const Real terms = static_cast<Real>(e.k);
    const Real scale = 4 + std::max(std::sqrt(terms) * 4, terms / 4);
    const std::vector<Real> a_values = a.Values(), b_values = b.Values();
    const auto want = [&](int64_t i) {
      const int64_t row = i / e.n, column = i % e.n;  // row: of all batches
      const Real* a_row = a_values.data() + row * e.k;
      const Real* b_matrix = b_values.data() + row / e.m * e.k * e.n;
      Real sum = 0;
      for (int64_t k = 0; k < e.k; ++k) {
        sum += a_row[k] * b_matrix[k * e.n + column];
      }
      sum *= alpha;
      if (bias != Bias::kNone) sum += beta * added.Get(i);
      return Activate(act, sum);
    };
    RETURN_IF_ERROR(
        ExpectValues(name, c, want, {.ulps = 8, .absolute = scale}));
  }
  return absl::OkStatus();
}

// beta = 0 does not read the bias; k = 0 gives the bias alone.
absl::Status RunEdges(Backend& backend) {
  Tensor a(DType::kFloat32, {1, 4, 3}), b(DType::kFloat32, {1, 3, 5}),
      c(DType::kFloat32, {1, 4, 5}), bias(DType::kFloat32, {1, 4, 5});
  a.Fill([](int64_t i) { return i; });
  b.Fill([](int64_t i) { return i; });
  bias.Fill([](int64_t) -> Real { return NAN; });
  Launch launch(Kernel::kGemm);
  launch.params.batch = 1;
  launch.params.m = 4;
  launch.params.n = 5;
  launch.params.k = 3;
  launch.params.beta = 0;
  launch.dst = {&c};
  launch.src = {&a, &b, &bias};
  RETURN_IF_ERROR(backend.Run(launch));
  RETURN_IF_ERROR(ExpectValues("beta 0", c, [&](int64_t i) {
    Real sum = 0;
    for (int64_t k = 0; k < 3; ++k)
      sum += a.Get(i / 5 * 3 + k) * b.Get(k * 5 + i % 5);
    return sum;
  }));

  Tensor no_a(DType::kFloat32, {1, 4, 0}), no_b(DType::kFloat32, {1, 0, 5});
  bias.Fill([](int64_t i) { return i - 10; });
  Launch empty(Kernel::kGemm);
  empty.params.batch = 1;
  empty.params.m = 4;
  empty.params.n = 5;
  empty.params.k = 0;
  empty.params.beta = 2;
  empty.params.act = Act::kRelu;
  empty.dst = {&c};
  empty.src = {&no_a, &no_b, &bias};
  RETURN_IF_ERROR(backend.Run(empty));
  return ExpectValues(
      "k 0", c, [](int64_t i) -> Real { return i > 10 ? 2 * (i - 10) : 0; });
}

// NaN and infinity in the inputs reach the result.
absl::Status RunSpecialValues(Backend& backend) {
  Tensor a(DType::kFloat32, {1, 3, 4}), b(DType::kFloat32, {1, 4, 2}),
      c(DType::kFloat32, {1, 3, 2});
  a.Fill([](int64_t) { return 1; });
  b.Fill([](int64_t) { return 1; });
  a.Set(5, NAN);
  a.Set(8, INFINITY);
  Launch launch(Kernel::kGemm);
  launch.params.batch = 1;
  launch.params.m = 3;
  launch.params.n = 2;
  launch.params.k = 4;
  launch.dst = {&c};
  launch.src = {&a, &b};
  RETURN_IF_ERROR(backend.Run(launch));
  return ExpectValues("special", c, [](int64_t i) -> Real {
    return i < 2 ? 4 : i < 4 ? NAN : INFINITY;
  });
}

}  // namespace

void AddGemmCases(CaseList& cases) {
  const auto add = [&](const std::string& name,
                       std::function<absl::Status(Backend&)> run) {
    cases.push_back({name, Kernel::kGemm, {}, std::move(run)});
  };
  struct Named {
    Act act;
    const char* name;
  };
  constexpr Named kActs[] = {{Act::kNone, "none"},
                             {Act::kRelu, "relu"},
                             {Act::kSilu, "silu"},
                             {Act::kGelu, "gelu"},
                             {Act::kGeluTanh, "gelu_tanh"}};
  for (const DType dtype : kFloatDTypes) {
    for (const Named& act : kActs) {
      const std::string name =
          absl::StrCat("gemm_bias_act/", act.name, "/", NameOf(dtype));
      add(name, [=](Backend& backend) {
        return RunGemm(backend, name, dtype, act.act, Bias::kNone, 1, 0);
      });
      add(name + "/bias", [=](Backend& backend) {
        return RunGemm(backend, name, dtype, act.act, Bias::kRow, 1, 1);
      });
    }
    const std::string name =
        absl::StrCat("gemm_bias_act/addmm/", NameOf(dtype));
    add(name, [=](Backend& backend) {
      return RunGemm(backend, name, dtype, Act::kNone, Bias::kFull, 0.5, -2);
    });
  }
  for (const DType dtype : kIntDTypes) {
    const std::string name =
        absl::StrCat("gemm_bias_act/addmm/", NameOf(dtype));
    add(name, [=](Backend& backend) {
      return RunGemm(backend, name, dtype, Act::kNone, Bias::kFull, 2, 3);
    });
  }
  add("gemm_bias_act/edges", RunEdges);
  add("gemm_bias_act/special_values", RunSpecialValues);
}

}  // namespace tvarant::conformance

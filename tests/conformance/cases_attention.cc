// attention.

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

struct Shape {
  int64_t batch, heads, groups, queries, keys, width, value_width;
};

constexpr Shape kShapes[] = {
    {1, 1, 1, 1, 1, 1, 1},       {2, 3, 3, 5, 7, 4, 6},
    {1, 4, 2, 1, 300, 64, 64},   {2, 2, 2, 70, 130, 32, 48},
    {1, 8, 2, 3, 600, 128, 128}, {1, 1, 1, 33, 65, 256, 200},
    {2, 6, 3, 9, 40, 24, 16},    {1, 2, 1, 100, 33, 40, 72},
    {2, 2, 2, 4, 0, 8, 8},       {2, 2, 2, 12, 0, 8, 8},
    {1, 2, 1, 0, 5, 8, 8},       {0, 2, 1, 3, 5, 8, 8},
    {1, 1, 1, 2, 9, 0, 3},       {1, 2, 2, 11, 6, 3, 0},
};

enum class Mask { kNone, kBool, kFloat, kCausal };
constexpr Mask kMasks[] = {Mask::kNone, Mask::kBool, Mask::kFloat,
                           Mask::kCausal};

const char* NameOf(Mask mask) {
  switch (mask) {
    case Mask::kNone:
      return "plain";
    case Mask::kBool:
      return "bool_mask";
    case Mask::kFloat:
      return "float_mask";
    case Mask::kCausal:
      return "causal";
  }
  return "";
}

struct Result {
  std::vector<Real> values;
  Real sum;  // log of the sum of exponentials
};

// One query by plain sums.
Result Expected(const Shape& s, Real scale, Mask kind, const Dims& at,
                const Tensor& q, const Tensor& k, const Tensor& v,
                const Tensor& mask) {
  const int64_t group = at[1] / (s.heads / s.groups);
  std::vector<Real> scores;
  Real best = -kInfinity;
  for (int64_t j = 0; j < s.keys; ++j) {
    Real dot = 0;
    for (int64_t d = 0; d < s.width; ++d) {
      dot += q.Get(q.IndexOf({at[0], at[1], at[2], d})) *
             k.Get(k.IndexOf({at[0], group, j, d}));
    }
    dot *= scale;
    const Real m = mask.Get(mask.IndexOf({at[0], at[1], at[2], j}));
    if (kind == Mask::kBool && m == 0) dot = -kInfinity;
    if (kind == Mask::kFloat) dot += m;
    if (kind == Mask::kCausal && j > at[2]) dot = -kInfinity;
    scores.push_back(dot);
    best = std::max(best, dot);
  }
  Result result{std::vector<Real>(s.value_width), -kInfinity};
  if (best == -kInfinity) return result;
  Real total = 0;
  for (Real& score : scores) total += score = std::exp(score - best);
  result.sum = best + std::log(total);
  for (int64_t j = 0; j < s.keys; ++j) {
    for (int64_t e = 0; e < s.value_width; ++e) {
      result.values[e] +=
          scores[j] / total * v.Get(v.IndexOf({at[0], group, j, e}));
    }
  }
  return result;
}

absl::Status RunShape(Backend& backend, const std::string& name, DType dtype,
                      Mask kind, const Shape& s, size_t turn,
                      std::mt19937_64& random) {
  const auto src = [&](size_t k) { return kSrcLayouts[(turn + k) % 6]; };
  Tensor y(dtype, {s.batch, s.heads, s.queries, s.value_width},
           kDstLayouts[turn % 4]);
  Tensor sums(dtype == DType::kFloat64 ? dtype : DType::kFloat32,
              {s.batch, s.heads, s.queries}, kDstLayouts[(turn + 1) % 4]);
  // Every second shape as it comes from a layer: rows that vectors can read.
  const bool plain = turn % 2 == 0;
  const auto layout = [&](size_t k) {
    return plain ? Layout::kContiguous : src(k);
  };
  Tensor q(dtype, {s.batch, s.heads, s.queries, s.width}, layout(0));
  Tensor k(dtype, {s.batch, s.groups, s.keys, s.width}, layout(1));
  Tensor v(dtype, {s.batch, s.groups, s.keys, s.value_width}, layout(2));
  const DType mask_dtype = kind == Mask::kBool ? DType::kBool
                           : turn % 3 == 0     ? DType::kFloat32
                                               : dtype;
  Tensor mask(mask_dtype, {s.batch, s.heads, s.queries, s.keys}, src(3));
  for (Tensor* t : {&q, &k, &v}) t->FillRandom(random, -1, 1);
  mask.Fill([&](int64_t i) -> Real {
    const Dims at = mask.CoordinatesOf(i);
    // A query that sees nothing, and one that sees the last keys alone.
    const bool none =
        at[2] == 2 || (at[2] == 1 && at[3] < s.keys / 2) || random() % 4 == 0;
    if (kind == Mask::kBool) return none ? 0 : 1;
    return none ? -kInfinity : static_cast<Real>(random() % 9) / 4 - 1;
  });
  const bool with_sums = turn % 3 != 2;
  // Keeps scores below the square root of the width, and their rounding small.
  const double scale =
      1 / std::sqrt(static_cast<double>(std::max<int64_t>(s.width, 1)));
  Launch launch(Kernel::kAttention);
  launch.params.scalar = scale;
  launch.ints = {kind == Mask::kCausal};
  launch.dst = {&y, with_sums ? &sums : nullptr};
  launch.src = {&q, &k, &v,
                kind == Mask::kBool || kind == Mask::kFloat ? &mask : nullptr};
  RETURN_IF_ERROR(backend.Run(launch));
  std::vector<Real> want, want_sums;
  for (int64_t i = 0; i < s.batch * s.heads * s.queries; ++i) {
    const Result result = Expected(
        s, scale, kind,
        {i / s.queries / s.heads, i / s.queries % s.heads, i % s.queries}, q, k,
        v, mask);
    want.insert(want.end(), result.values.begin(), result.values.end());
    want_sums.push_back(result.sum);
  }
  const std::string what = absl::StrCat(name, " ", q.Describe(), " keys ",
                                        s.keys, " of ", s.groups, " heads");
  RETURN_IF_ERROR(ExpectValues(what, y, [&](int64_t i) { return want[i]; },
                               {.ulps = 64, .absolute = 64}));
  if (!with_sums) return absl::OkStatus();
  return ExpectValues(absl::StrCat(what, ", sums"), sums,
                      [&](int64_t i) { return want_sums[i]; },
                      {.ulps = 64, .absolute = 64});
}

absl::Status RunAttention(Backend& backend, const std::string& name,
                          DType dtype, Mask kind) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const Shape& shape : kShapes) {
    RETURN_IF_ERROR(
        RunShape(backend, name, dtype, kind, shape, turn++, random));
  }
  return absl::OkStatus();
}

}  // namespace

void AddAttentionCases(CaseList& cases) {
  for (const DType dtype : kFloatDTypes) {
    for (const Mask mask : kMasks) {
      const std::string name =
          absl::StrCat("attention/", NameOf(mask), "/", NameOf(dtype));
      cases.push_back({name, Kernel::kAttention, {}, [=](Backend& backend) {
                         return RunAttention(backend, name, dtype, mask);
                       }});
    }
  }
}

}  // namespace tvarant::conformance

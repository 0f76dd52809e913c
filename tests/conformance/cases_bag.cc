// embedding_bag, embedding_renorm.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

absl::Status RunEmbeddingBag(Backend& backend, DType dtype, int64_t mode,
                             bool scaled) {
  std::mt19937_64 random = SeedOf("embedding_bag");
  constexpr int64_t kRows = 11, kTokens = 40, kPadding = 3;
  size_t turn = 0;
  for (const int64_t width : {1, 7, 33}) {
    for (const bool has_last : {false, true}) {
      ++turn;
      const std::vector<int64_t> begins = {0, 4, 4, 20, 39, kTokens};
      const int64_t bags = 5;
      Tensor weight(dtype, {kRows, width}, kSrcLayouts[turn % 4]);
      Tensor index(turn % 2 ? DType::kInt32 : DType::kInt64, {kTokens},
                   kSrcLayouts[turn % 4]);
      Tensor offsets(DType::kInt64, {has_last ? bags + 1 : bags});
      Tensor scales(dtype, {kTokens}, kSrcLayouts[(turn + 1) % 4]);
      Tensor y(dtype, {bags, width}, kDstLayouts[turn % 4]);
      Tensor sizes(DType::kInt64, {bags}, kDstLayouts[turn % 4]);
      Tensor rows(DType::kInt64, {bags, width}, kDstLayouts[turn % 4]);
      weight.FillRandom(random, -1, 1);
      scales.FillRandom(random, -1, 1);
      index.Fill([&](int64_t) { return random() % kRows; });
      offsets.Fill([&](int64_t i) { return begins[i]; });
      Launch launch(Kernel::kEmbeddingBag);
      launch.ints = {mode, kPadding};
      launch.dst = {&y, &sizes, mode == 2 ? &rows : nullptr};
      launch.src = {&weight, &index, &offsets, scaled ? &scales : nullptr};
      RETURN_IF_ERROR(backend.Run(launch));
      const auto members = [&](int64_t b) {
        std::vector<int64_t> found;
        for (int64_t t = begins[b]; t < begins[b + 1]; ++t) {
          if (index.Get(t) != kPadding) found.push_back(t);
        }
        return found;
      };
      RETURN_IF_ERROR(ExpectValues("bag sizes", sizes, [&](int64_t b) {
        return static_cast<Real>(members(b).size());
      }));
      RETURN_IF_ERROR(ExpectValues(
          "embedding_bag", y,
          [&](int64_t i) -> Real {
            const auto found = members(i / width);
            Real sum = 0;
            bool first = true;
            for (const int64_t t : found) {
              const Real value =
                  weight.Get(static_cast<int64_t>(index.Get(t)) * width +
                             i % width) *
                  (scaled ? scales.Get(t) : 1);
              sum = mode < 2 ? sum + value
                             : (first ? value : std::max(sum, value));
              first = false;
            }
            return mode == 1 && !found.empty() ? sum / found.size() : sum;
          },
          {.ulps = 16, .absolute = 16}));
      if (mode != 2) continue;
      RETURN_IF_ERROR(ExpectValues("rows", rows, [&](int64_t i) -> Real {
        Real best = 0, row = -1;
        for (const int64_t t : members(i / width)) {
          const Real value = weight.Get(
              static_cast<int64_t>(index.Get(t)) * width + i % width);
          if (row < 0 || value > best) {
            best = value;
            row = index.Get(t);
          }
        }
        return row;
      }));
    }
  }
  return absl::OkStatus();
}

absl::Status RunEmbeddingRenorm(Backend& backend, DType dtype, double p) {
  std::mt19937_64 random = SeedOf("embedding_renorm");
  constexpr int64_t kRows = 9, kWidth = 17;
  Tensor weight(dtype, {kRows, kWidth}, Layout::kGaps);
  weight.FillRandom(random, -2, 2);
  const std::vector<Real> before = weight.Values();
  Tensor index(DType::kInt64, {4});
  index.Fill([](int64_t i) { return i * 3 % 8; });  // 0 3 6 1
  Launch launch(Kernel::kEmbeddingRenorm);
  launch.floats = {1.5, p};
  launch.dst = {&weight};
  launch.src = {&index};
  RETURN_IF_ERROR(backend.Run(launch));
  return ExpectValues(
      "embedding_renorm", weight,
      [&](int64_t i) -> Real {
        const int64_t row = i / kWidth;
        if (row != 0 && row != 3 && row != 6 && row != 1) return before[i];
        Real norm = 0;
        for (int64_t d = 0; d < kWidth; ++d) {
          const Real value = std::fabs(before[row * kWidth + d]);
          norm = std::isinf(p) ? std::max(norm, value)
                               : norm + std::pow(value, static_cast<Real>(p));
        }
        if (!std::isinf(p)) norm = std::pow(norm, 1 / static_cast<Real>(p));
        return norm > 1.5L ? before[i] * 1.5L / (norm + 1e-7L) : before[i];
      },
      {.ulps = 8, .absolute = 8});
}

}  // namespace

void AddBagCases(CaseList& cases) {
  const auto add = [&](Kernel kernel, const std::string& name,
                       std::function<absl::Status(Backend&)> run) {
    cases.push_back({name, kernel, {}, std::move(run)});
  };
  for (const DType dtype : kFloatDTypes) {
    for (const int64_t mode : {0, 1, 2}) {
      for (const bool scaled : {false, true}) {
        if (scaled && mode != 0) continue;
        add(Kernel::kEmbeddingBag,
            absl::StrCat("embedding_bag/", NameOf(dtype), "/", mode,
                         scaled ? "/scaled" : ""),
            [=](Backend& b) {
              return RunEmbeddingBag(b, dtype, mode, scaled);
            });
      }
    }
    for (const double p : {1.0, 2.0, 3.0, double{INFINITY}}) {
      add(Kernel::kEmbeddingRenorm,
          absl::StrCat("embedding_renorm/", NameOf(dtype), "/", p),
          [=](Backend& b) { return RunEmbeddingRenorm(b, dtype, p); });
    }
  }
}

}  // namespace tvarant::conformance

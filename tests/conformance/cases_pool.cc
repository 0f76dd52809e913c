// max_pool, avg_pool and its gradient.

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

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

void AddCases(CaseList& cases, DType dtype) {
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

}  // namespace

void AddPoolCases(CaseList& cases) {
  for (const DType dtype : kFloatDTypes) AddCases(cases, dtype);
  for (const DType dtype : kIntDTypes) AddCases(cases, dtype);
}

}  // namespace tvarant::conformance

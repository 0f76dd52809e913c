// sort, order_statistic, sort_rows, search_sorted, histogram,
// cumulate_extreme, log_cumsum_exp.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

constexpr DType kOrdered[] = {
    DType::kBool,    DType::kUInt8,  DType::kInt8,    DType::kInt16,
    DType::kInt32,   DType::kInt64,  DType::kFloat16, DType::kBFloat16,
    DType::kFloat32, DType::kFloat64};

// NaN is above all.
bool Less(Real a, Real b) { return !std::isnan(a) && (std::isnan(b) || a < b); }

Tensor& FillForOrder(Tensor& x, std::mt19937_64& random) {
  const bool real = IsFloating(x.dtype());
  return x.Fill([&](int64_t) -> Real {
    const auto choice = random() % 8;
    if (real && choice == 0) return NAN;
    if (real && choice == 1) return -Real{0};
    if (real && choice == 2) return random() % 2 ? INFINITY : -INFINITY;
    const Real value = static_cast<Real>(random() % 200) - 100;
    return real && choice == 3 ? value / 7 : value;
  });
}

// Element j of the line along dim that element i is in.
int64_t InLine(const Tensor& x, Dims at, int dim, int64_t j) {
  at[dim] = j;
  return x.IndexOf(at);
}

std::vector<int64_t> OrderOf(const Tensor& x, const Dims& at, int dim,
                             bool descending) {
  std::vector<int64_t> order(x.size(dim));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const Real left = x.Get(InLine(x, at, dim, a));
    const Real right = x.Get(InLine(x, at, dim, b));
    return descending ? Less(right, left) : Less(left, right);
  });
  return order;
}

absl::Status RunSort(Backend& backend, DType dtype, bool descending) {
  std::mt19937_64 random = SeedOf("sort");
  size_t turn = 0;
  for (const Dims& shape :
       {Dims{1}, Dims{7}, Dims{250}, Dims{70000}, Dims{3, 300}, Dims{300, 3},
        Dims{2, 3, 4}, Dims{5, 1, 7}, Dims{0, 3}, Dims{40, 33}}) {
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      for (const int64_t divisor : {1, 2, 10}) {
        ++turn;
        Dims result = shape;
        result[dim] = (shape[dim] + divisor - 1) / divisor;
        Tensor x(dtype, shape, kSrcLayouts[turn % 6]);
        FillForOrder(x, random);
        Tensor values(dtype, result, kDstLayouts[turn % 4]);
        Tensor indices(DType::kInt64, result, kDstLayouts[(turn + 1) % 4]);
        Launch launch(Kernel::kSort);
        launch.ints = {dim, descending};
        launch.dst = {&values, &indices};
        launch.src = {&x};
        RETURN_IF_ERROR(backend.Run(launch));
        std::vector<Real> want(values.numel());
        std::vector<int64_t> places(values.numel());
        for (int64_t i = 0; i < values.numel(); ++i) {
          Dims at = values.CoordinatesOf(i);
          if (at[dim] != 0) continue;
          const auto order = OrderOf(x, at, dim, descending);
          for (int64_t j = 0; j < result[dim]; ++j) {
            const int64_t to = InLine(values, at, dim, j);
            want[to] = x.Get(InLine(x, at, dim, order[j]));
            places[to] = order[j];
          }
        }
        RETURN_IF_ERROR(
            ExpectValues("values", values, [&](int64_t i) { return want[i]; }));
        RETURN_IF_ERROR(ExpectValues("indices", indices,
                                     [&](int64_t i) { return places[i]; }));
      }
    }
  }
  return absl::OkStatus();
}

Real Statistic(std::vector<Real> line, OrderStatistic what, int64_t k) {
  std::stable_sort(line.begin(), line.end(), Less);
  const auto nans = std::count_if(line.begin(), line.end(),
                                  [](Real x) { return std::isnan(x); });
  const auto n = static_cast<int64_t>(line.size());
  switch (what) {
    case OrderStatistic::kKth:
      return line[k];
    case OrderStatistic::kMedian:
      return nans > 0 ? NAN : line[(n - 1) / 2];
    case OrderStatistic::kNanMedian:
      return nans == n ? NAN : line[(n - nans - 1) / 2];
    case OrderStatistic::kMode: {
      Real best = line[0];
      int64_t best_count = 0;
      for (const Real x : line) {
        const auto count = std::count(line.begin(), line.end(), x);
        if (count > best_count) {
          best = x;
          best_count = count;
        }
      }
      return best;
    }
  }
  return 0;
}

absl::Status RunOrderStatistic(Backend& backend, DType dtype,
                               OrderStatistic what) {
  std::mt19937_64 random = SeedOf("order_statistic");
  size_t turn = 0;
  for (const Dims& shape : {Dims{1}, Dims{8}, Dims{501}, Dims{3, 9}, Dims{9, 3},
                            Dims{2, 5, 4}, Dims{0, 3}}) {
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      if (shape[dim] == 0) continue;
      ++turn;
      Dims result = shape;
      result[dim] = 1;
      Tensor x(dtype, shape, kSrcLayouts[turn % 4]);
      FillForOrder(x, random);
      Tensor values(dtype, result, kDstLayouts[turn % 4]);
      Tensor indices(DType::kInt64, result, kDstLayouts[(turn + 1) % 4]);
      const int64_t k = shape[dim] / 3;
      Launch launch(Kernel::kOrderStatistic);
      launch.ints = {dim, static_cast<int64_t>(what), k};
      launch.dst = {&values, &indices};
      launch.src = {&x};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(ExpectValues("values", values, [&](int64_t i) {
        std::vector<Real> line;
        for (int64_t j = 0; j < shape[dim]; ++j) {
          line.push_back(x.Get(InLine(x, values.CoordinatesOf(i), dim, j)));
        }
        return Statistic(line, what, k);
      }));
      // Several places may be right: what stands there must be the value.
      for (int64_t i = 0; i < indices.numel(); ++i) {
        const auto at = static_cast<int64_t>(indices.Get(i));
        if (at < 0 || at >= shape[dim]) {
          return absl::InternalError(absl::StrCat("index ", at));
        }
      }
      RETURN_IF_ERROR(ExpectValues("values by index", values, [&](int64_t i) {
        return x.Get(InLine(x, values.CoordinatesOf(i), dim,
                            static_cast<int64_t>(indices.Get(i))));
      }));
    }
  }
  return absl::OkStatus();
}

absl::Status RunSortRows(Backend& backend, DType dtype) {
  std::mt19937_64 random = SeedOf("sort_rows");
  size_t turn = 0;
  for (const Dims& shape :
       {Dims{1, 1}, Dims{40, 3}, Dims{9, 0}, Dims{0, 4}, Dims{300, 2}}) {
    ++turn;
    Tensor x(dtype, shape, kSrcLayouts[turn % 4]);
    x.Fill([&](int64_t) -> Real {
      const auto choice = random() % 4;
      return choice == 0 && IsFloating(dtype) ? Real{NAN}
                                              : static_cast<Real>(choice);
    });
    Tensor order(DType::kInt64, {shape[0]}, kDstLayouts[turn % 4]);
    Launch launch(Kernel::kSortRows);
    launch.dst = {&order};
    launch.src = {&x};
    RETURN_IF_ERROR(backend.Run(launch));
    std::vector<int64_t> want(shape[0]);
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(), [&](int64_t a, int64_t b) {
      for (int64_t j = 0; j < shape[1]; ++j) {
        const Real left = x.Get(a * shape[1] + j);
        const Real right = x.Get(b * shape[1] + j);
        if (Less(left, right)) return true;
        if (Less(right, left)) return false;
      }
      return false;
    });
    RETURN_IF_ERROR(
        ExpectValues("order", order, [&](int64_t i) { return want[i]; }));
  }
  return absl::OkStatus();
}

absl::Status RunSearchSorted(Backend& backend, DType dtype, DType place,
                             bool right) {
  std::mt19937_64 random = SeedOf("search_sorted");
  size_t turn = 0;
  struct Shapes {
    Dims sequence, values;
  };
  for (const Shapes& shapes :
       {Shapes{{9}, {40}}, Shapes{{9}, {}}, Shapes{{0}, {3}},
        Shapes{{1}, {2, 3}}, Shapes{{3, 17}, {3, 50}},
        Shapes{{2, 3, 5}, {2, 3, 1}}, Shapes{{100}, {30, 200}}}) {
    for (const bool sorted_by : {false, true}) {
      ++turn;
      const int64_t n = shapes.sequence.back();
      const bool flat = shapes.values.empty();
      Tensor sequence(dtype, shapes.sequence, kSrcLayouts[turn % 4]);
      Tensor sorter(DType::kInt64, shapes.sequence, kSrcLayouts[turn % 4]);
      Tensor values(dtype, shapes.values,
                    flat ? Layout::kContiguous : kSrcLayouts[turn % 6]);
      Tensor y(place, shapes.values,
               flat ? Layout::kContiguous : kDstLayouts[turn % 4]);
      FillForOrder(values, random);
      const auto rising = [&](int64_t i) { return 5 * i - 40; };
      // In falling order, where a sorter turns it around.
      sequence.Fill([&](int64_t i) -> Real {
        return RoundTo(
            dtype,
            std::min<int64_t>(rising(sorted_by ? n - 1 - i % n : i % n), 100));
      });
      sorter.Fill([&](int64_t i) -> Real { return n - 1 - i % n; });
      // Types without a sign wrap: sort what came of it.
      for (int64_t line = 0; n > 0 && line < sequence.numel() / n; ++line) {
        std::vector<Real> elements;
        for (int64_t j = 0; j < n; ++j) {
          elements.push_back(sequence.Get(line * n + j));
        }
        std::sort(elements.begin(), elements.end());
        if (sorted_by) std::reverse(elements.begin(), elements.end());
        for (int64_t j = 0; j < n; ++j) {
          sequence.Set(line * n + j, elements[j]);
        }
      }
      Launch launch(Kernel::kSearchSorted);
      launch.ints = {right};
      launch.dst = {&y};
      launch.src = {&sequence, &values, sorted_by ? &sorter : nullptr};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(ExpectValues("places", y, [&](int64_t i) -> Real {
        const int64_t line =
            shapes.sequence.size() == 1 ? 0 : i / shapes.values.back();
        const Real value = values.Get(i);
        if (std::isnan(value)) return n;
        Real count = 0;
        for (int64_t j = 0; j < n; ++j) {
          const Real element = sequence.Get(line * n + j);
          count += right ? element <= value : element < value;
        }
        return count;
      }));
    }
  }
  return absl::OkStatus();
}

absl::Status RunHistogram(Backend& backend, DType dtype, DType result,
                          bool weighted) {
  std::mt19937_64 random = SeedOf("histogram");
  const bool real = IsFloating(dtype);
  size_t turn = 0;
  for (const Dims& shape : {Dims{0}, Dims{50}, Dims{100000}, Dims{7, 33}}) {
    if (weighted && shape.size() != 1) continue;
    ++turn;
    constexpr int64_t kBins = 16;
    Tensor x(dtype, shape, kSrcLayouts[turn % 6]);
    Tensor weights(result, shape, kSrcLayouts[(turn + 1) % 6]);
    Tensor y(result, {kBins}, kDstLayouts[turn % 4]);
    x.Fill([&](int64_t) -> Real {
      if (!real) return random() % kBins;
      if (random() % 50 == 0) return NAN;
      return static_cast<Real>(random() % 640) / 64 - 1;
    });
    weights.Fill([&](int64_t) { return random() % 3; });
    Launch launch(Kernel::kHistogram);
    launch.ints = {real};
    launch.floats = {0, 8};
    launch.dst = {&y};
    launch.src = {&x, weighted ? &weights : nullptr};
    RETURN_IF_ERROR(backend.Run(launch));
    std::vector<Real> want(kBins);
    for (int64_t i = 0; i < x.numel(); ++i) {
      const Real value = x.Get(i);
      if (real && !(value >= 0 && value <= 8)) continue;
      const auto bin = static_cast<int64_t>(real ? value * 2 : value);
      want[std::min(bin, kBins - 1)] += weighted ? weights.Get(i) : 1;
    }
    RETURN_IF_ERROR(
        ExpectValues("bins", y, [&](int64_t i) { return want[i]; }));
  }
  return absl::OkStatus();
}

absl::Status RunCumulateExtreme(Backend& backend, DType dtype, bool minimum) {
  std::mt19937_64 random = SeedOf("cumulate_extreme");
  size_t turn = 0;
  for (const Dims& shape :
       {Dims{1}, Dims{300}, Dims{3, 40}, Dims{40, 3}, Dims{2, 9, 5}, Dims{0, 3},
        Dims{7, 200}, Dims{2100}}) {
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      ++turn;
      Tensor x(dtype, shape, kSrcLayouts[turn % 6]);
      FillForOrder(x, random);
      Tensor values(dtype, shape, kDstLayouts[turn % 4]);
      Tensor indices(DType::kInt64, shape, kDstLayouts[(turn + 1) % 4]);
      Launch launch(Kernel::kCumulateExtreme);
      launch.ints = {dim, minimum};
      launch.dst = {&values, &indices};
      launch.src = {&x};
      RETURN_IF_ERROR(backend.Run(launch));
      const auto best = [&](int64_t i) {
        const Dims at = x.CoordinatesOf(i);
        int64_t found = 0;
        for (int64_t j = 1; j <= at[dim]; ++j) {
          const Real old = x.Get(InLine(x, at, dim, found));
          const Real value = x.Get(InLine(x, at, dim, j));
          if (std::isnan(value) ||
              (!std::isnan(old) && (minimum ? value <= old : value >= old))) {
            found = j;
          }
        }
        return found;
      };
      RETURN_IF_ERROR(ExpectValues("indices", indices, best));
      RETURN_IF_ERROR(ExpectValues("values", values, [&](int64_t i) {
        return x.Get(InLine(x, x.CoordinatesOf(i), dim, best(i)));
      }));
    }
  }
  return absl::OkStatus();
}

absl::Status RunLogCumsumExp(Backend& backend, DType dtype) {
  std::mt19937_64 random = SeedOf("log_cumsum_exp");
  size_t turn = 0;
  for (const Dims& shape :
       {Dims{1}, Dims{100}, Dims{3, 40}, Dims{2, 9, 5}, Dims{0, 3}}) {
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      ++turn;
      Tensor x(dtype, shape, kSrcLayouts[turn % 6]);
      x.Fill([&](int64_t) -> Real {
        const auto choice = random() % 20;
        if (choice == 0) return -INFINITY;
        return static_cast<Real>(random() % 2000) / 100 - 10;
      });
      Tensor y(dtype, shape, kDstLayouts[turn % 4]);
      Launch launch(Kernel::kLogCumsumExp);
      launch.ints = {dim};
      launch.dst = {&y};
      launch.src = {&x};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(ExpectValues("log_cumsum_exp", y,
                                   [&](int64_t i) {
                                     const Dims at = x.CoordinatesOf(i);
                                     Real sum = 0;
                                     for (int64_t j = 0; j <= at[dim]; ++j) {
                                       sum += std::exp(
                                           x.Get(InLine(x, at, dim, j)));
                                     }
                                     return std::log(sum);
                                   },
                                   {.ulps = 4, .absolute = 4}));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddSortCases(CaseList& cases) {
  const auto add = [&](Kernel kernel, const std::string& what,
                       std::function<absl::Status(Backend&)> run) {
    cases.push_back(
        {absl::StrCat(NameOf(kernel), "/", what), kernel, {}, std::move(run)});
  };
  for (const DType dtype : kOrdered) {
    const std::string type = NameOf(dtype);
    for (const bool second : {false, true}) {
      add(Kernel::kSort, absl::StrCat(type, second ? "/descending" : ""),
          [=](Backend& b) { return RunSort(b, dtype, second); });
      add(Kernel::kCumulateExtreme,
          absl::StrCat(type, second ? "/min" : "/max"),
          [=](Backend& b) { return RunCumulateExtreme(b, dtype, second); });
      for (const DType place : {DType::kInt64, DType::kInt32}) {
        add(Kernel::kSearchSorted,
            absl::StrCat(type, "/", NameOf(place), second ? "/right" : ""),
            [=](Backend& b) {
              return RunSearchSorted(b, dtype, place, second);
            });
      }
    }
    for (const OrderStatistic what :
         {OrderStatistic::kKth, OrderStatistic::kMedian,
          OrderStatistic::kNanMedian, OrderStatistic::kMode}) {
      add(Kernel::kOrderStatistic,
          absl::StrCat(type, "/", static_cast<int>(what)),
          [=](Backend& b) { return RunOrderStatistic(b, dtype, what); });
    }
    add(Kernel::kSortRows, type,
        [=](Backend& b) { return RunSortRows(b, dtype); });
    const DType counts = IsFloating(dtype) ? dtype : DType::kInt64;
    if (dtype != DType::kBool && dtype != DType::kFloat16 &&
        dtype != DType::kBFloat16) {
      add(Kernel::kHistogram, type,
          [=](Backend& b) { return RunHistogram(b, dtype, counts, false); });
      for (const DType sums : {DType::kFloat32, DType::kFloat64}) {
        add(Kernel::kHistogram, absl::StrCat(type, "/", NameOf(sums)),
            [=](Backend& b) { return RunHistogram(b, dtype, sums, true); });
      }
    }
  }
  for (const DType dtype : kFloatDTypes) {
    add(Kernel::kLogCumsumExp, NameOf(dtype),
        [=](Backend& b) { return RunLogCumsumExp(b, dtype); });
  }
}

}  // namespace tvarant::conformance

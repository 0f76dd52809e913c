// index, index_put, scatter, nonzero, masked_select, masked_scatter; bad
// input also of embedding_bag and embedding_renorm.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

constexpr DType kMoved[] = {DType::kBool,    DType::kUInt8,    DType::kInt8,
                            DType::kInt16,   DType::kInt32,    DType::kInt64,
                            DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                            DType::kFloat64, DType::kComplex64};

bool IsComputed(DType dtype) { return !IsComplex(dtype); }

// Which dimensions of x are indexed, by indices of which sizes.
struct Picked {
  Dims x;
  int first, count;
  Dims index;
};

const Picked kPicked[] = {
    {{5}, 0, 1, {9}},         {{5}, 0, 1, {}},
    {{7, 33}, 0, 1, {40}},    {{7, 33}, 1, 1, {3, 5}},
    {{7, 33}, 0, 2, {2, 50}}, {{3, 4, 5}, 1, 1, {70}},
    {{3, 4, 5}, 0, 3, {600}}, {{2, 3, 4, 5}, 1, 2, {2, 3}},
    {{300, 64}, 0, 1, {500}}, {{3, 20000}, 0, 1, {4}},
    {{3, 4}, 0, 1, {0}}};

Dims PickedSizes(const Picked& p) {
  Dims sizes(p.x.begin(), p.x.begin() + p.first);
  sizes.insert(sizes.end(), p.index.begin(), p.index.end());
  sizes.insert(sizes.end(), p.x.begin() + p.first + p.count, p.x.end());
  return sizes;
}

// Row-major place in x of element i of the picked tensor.
int64_t PlaceOf(const Picked& p, const Tensor& picked,
                const std::vector<Tensor>& indices, const Tensor& x,
                int64_t i) {
  const Dims at = picked.CoordinatesOf(i);
  const Dims position(at.begin() + p.first,
                      at.begin() + p.first + p.index.size());
  Dims place(at.begin(), at.begin() + p.first);
  for (int k = 0; k < p.count; ++k) {
    const auto value =
        static_cast<int64_t>(indices[k].Get(indices[k].IndexOf(position)));
    place.push_back(value < 0 ? value + p.x[p.first + k] : value);
  }
  place.insert(place.end(), at.begin() + p.first + p.index.size(), at.end());
  return x.IndexOf(place);
}

std::vector<Tensor> MakeIndices(const Picked& p, DType dtype, size_t turn,
                                std::mt19937_64& random) {
  std::vector<Tensor> indices;
  for (int k = 0; k < p.count; ++k) {
    const bool flat = p.index.empty();
    indices.emplace_back(
        dtype, p.index,
        flat ? Layout::kContiguous : kSrcLayouts[(turn + k) % 6]);
    const int64_t size = p.x[p.first + k];
    indices.back().Fill([&](int64_t) -> Real {
      const auto at = static_cast<int64_t>(random() % size);
      return random() % 2 ? at - size : at;
    });
  }
  return indices;
}

absl::Status RunIndex(Backend& backend, DType dtype, DType index_dtype) {
  std::mt19937_64 random = SeedOf("index");
  size_t turn = 0;
  for (const Picked& p : kPicked) {
    ++turn;
    Tensor x(dtype, p.x, kSrcLayouts[turn % 6]);
    x.FillRandom(random, 0, 100);
    const auto indices = MakeIndices(p, index_dtype, turn, random);
    Tensor y(dtype, PickedSizes(p), kDstLayouts[turn % 4]);
    Launch launch(Kernel::kIndexPick);
    launch.params.flags = kWrapNegative;
    launch.ints = {p.first};
    launch.dst = {&y};
    launch.src = {&x};
    for (int k = 0; k < p.count; ++k) {
      launch.ints.push_back(p.first + k);
      launch.src.push_back(&indices[k]);
    }
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues("index", y, [&](int64_t i) {
      return x.Get(PlaceOf(p, y, indices, x, i));
    }));
  }
  return absl::OkStatus();
}

Real Combined(PutMode mode, DType dtype, Real old, Real value) {
  switch (mode) {
    case PutMode::kSet:
      return value;
    case PutMode::kAdd:
      return RoundTo(dtype, old + value);
    case PutMode::kMultiply:
      return RoundTo(dtype, old * value);
    case PutMode::kMax:
      return std::isnan(old) || std::isnan(value) ? NAN : std::max(old, value);
    case PutMode::kMin:
      return std::isnan(old) || std::isnan(value) ? NAN : std::min(old, value);
  }
  return 0;
}

absl::Status RunIndexPut(Backend& backend, DType dtype, PutMode mode) {
  std::mt19937_64 random = SeedOf("index_put");
  size_t turn = 0;
  for (const Picked& p : kPicked) {
    ++turn;
    Tensor x(dtype, p.x, kDstLayouts[turn % 4]);
    const auto indices = MakeIndices(p, DType::kInt64, turn, random);
    Tensor values(dtype, PickedSizes(p), kSrcLayouts[turn % 6]);
    // Small whole numbers: no rounding.
    x.Fill([&](int64_t) { return random() % 3; });
    values.Fill([&](int64_t) {
      return mode == PutMode::kMultiply ? random() % 2 : random() % 3;
    });
    std::vector<Real> want = x.Values();
    for (int64_t i = 0; i < values.numel(); ++i) {
      Real& element = want[PlaceOf(p, values, indices, x, i)];
      element = Combined(mode, dtype, element, values.Get(i));
    }
    Launch launch(Kernel::kIndexPut);
    launch.params.flags = kWrapNegative;
    launch.ints = {p.first, static_cast<int64_t>(mode)};
    launch.dst = {&x};
    launch.src = {&values};
    for (int k = 0; k < p.count; ++k) {
      launch.ints.push_back(p.first + k);
      launch.src.push_back(&indices[k]);
    }
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(
        ExpectValues("index_put", x, [&](int64_t i) { return want[i]; }));
  }
  return absl::OkStatus();
}

absl::Status RunScatter(Backend& backend, DType dtype, PutMode mode) {
  std::mt19937_64 random = SeedOf("scatter");
  size_t turn = 0;
  struct Shapes {
    Dims y, index;
  };
  for (const Shapes& shapes :
       {Shapes{{5}, {40}}, Shapes{{1}, {33}}, Shapes{{100}, {20000}},
        Shapes{{4, 7}, {4, 40}}, Shapes{{33, 4}, {90, 3}},
        Shapes{{3, 4, 5}, {2, 9, 5}}, Shapes{{3, 4}, {0, 4}}}) {
    for (int dim = 0; dim < static_cast<int>(shapes.y.size()); ++dim) {
      bool fits = true;
      for (size_t d = 0; d < shapes.y.size(); ++d) {
        fits &= static_cast<int>(d) == dim || shapes.index[d] <= shapes.y[d];
      }
      if (!fits) continue;
      ++turn;
      Tensor y(dtype, shapes.y, kDstLayouts[turn % 4]);
      Tensor index(turn % 2 ? DType::kInt64 : DType::kInt32, shapes.index,
                   kSrcLayouts[(turn + 1) % 6]);
      Tensor values(dtype, shapes.index, kSrcLayouts[turn % 6]);
      y.Fill([&](int64_t) { return random() % 3; });
      values.Fill([&](int64_t) -> Real {
        if (mode == PutMode::kAdd) return random() % 400 == 0;
        return random() % (mode == PutMode::kMultiply ? 2 : 3);
      });
      index.Fill([&](int64_t) { return random() % shapes.y[dim]; });
      std::vector<Real> want = y.Values();
      for (int64_t i = 0; i < index.numel(); ++i) {
        Dims at = index.CoordinatesOf(i);
        at[dim] = static_cast<int64_t>(index.Get(i));
        Real& element = want[y.IndexOf(at)];
        element = Combined(mode, dtype, element, values.Get(i));
      }
      Launch launch(Kernel::kScatter);
      launch.ints = {dim, static_cast<int64_t>(mode)};
      launch.dst = {&y};
      launch.src = {&index, &values};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(
          ExpectValues("scatter", y, [&](int64_t i) { return want[i]; }));
    }
  }
  return absl::OkStatus();
}

absl::Status RunNonzero(Backend& backend, DType dtype) {
  std::mt19937_64 random = SeedOf("nonzero");
  size_t turn = 0;
  for (const Dims& shape : Shapes()) {
    ++turn;
    Tensor x(dtype, shape,
             shape.empty() ? Layout::kContiguous : kSrcLayouts[turn % 6]);
    x.Fill([&](int64_t) -> Real {
      const auto choice = random() % 4;
      return choice == 0 ? Real{1} : choice == 1 ? -Real{0} : Real{0};
    });
    std::vector<int64_t> found;
    for (int64_t i = 0; i < x.numel(); ++i) {
      if (x.Get(i) != 0) found.push_back(i);
    }
    const auto count = static_cast<int64_t>(found.size());
    for (const int64_t rows : {count, count + 3, count / 2}) {
      Tensor y(DType::kInt64, {rows, x.rank()}, kDstLayouts[turn % 4]);
      Launch launch(Kernel::kNonzero);
      launch.ints = {-7};
      launch.dst = {&y};
      launch.src = {&x};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(ExpectValues("nonzero", y, [&](int64_t i) -> Real {
        const int64_t row = i / x.rank();
        if (row >= count) return -7;
        return x.CoordinatesOf(found[row])[i % x.rank()];
      }));
    }
  }
  return absl::OkStatus();
}

absl::Status RunMasked(Backend& backend, DType dtype) {
  std::mt19937_64 random = SeedOf("masked");
  size_t turn = 0;
  for (const Dims& shape : Shapes()) {
    ++turn;
    const bool flat = shape.empty();
    Tensor x(dtype, shape, flat ? Layout::kOffset : kSrcLayouts[turn % 6]);
    Tensor mask(DType::kBool, shape,
                flat ? Layout::kContiguous : kSrcLayouts[(turn + 1) % 6]);
    x.FillRandom(random, 0, 100);
    mask.Fill([&](int64_t) { return random() % 3 == 0; });
    std::vector<int64_t> found;
    for (int64_t i = 0; i < x.numel(); ++i) {
      if (mask.Get(i) != 0) found.push_back(i);
    }
    const auto count = static_cast<int64_t>(found.size());
    Tensor y(dtype, {count}, kDstLayouts[turn % 4]);
    Launch select(Kernel::kMaskedSelect);
    select.dst = {&y};
    select.src = {&x, &mask};
    RETURN_IF_ERROR(backend.Run(select));
    RETURN_IF_ERROR(ExpectValues("masked_select", y,
                                 [&](int64_t i) { return x.Get(found[i]); }));

    Tensor target(dtype, shape, flat ? Layout::kOffset : kDstLayouts[turn % 4]);
    Tensor source(dtype, {count + 2}, kSrcLayouts[turn % 4]);
    target.FillRandom(random, 0, 100);
    source.FillRandom(random, 0, 100);
    std::vector<Real> want = target.Values();
    for (int64_t i = 0; i < count; ++i) want[found[i]] = source.Get(i);
    Launch scatter(Kernel::kMaskedScatter);
    scatter.dst = {&target};
    scatter.src = {&mask, &source};
    RETURN_IF_ERROR(backend.Run(scatter));
    RETURN_IF_ERROR(ExpectValues("masked_scatter", target,
                                 [&](int64_t i) { return want[i]; }));
  }
  return absl::OkStatus();
}

// A bad index among good ones, or a source that is too short.
absl::Status RunBadInput(Backend& backend, Kernel kernel) {
  constexpr int64_t kSize = 5;
  for (const int64_t bad : {kSize, INT64_MAX, INT64_MIN}) {
    Tensor index(DType::kInt64, {4});
    index.Fill([&](int64_t i) -> Real { return i == 2 ? bad : i; });
    Tensor table(DType::kFloat32, {kSize, 3}), rows(DType::kFloat32, {4, 3});
    Tensor vector(DType::kFloat32, {kSize}), four(DType::kFloat32, {4});
    Tensor offsets(DType::kInt64, {1}), sizes(DType::kInt64, {1});
    Tensor bag(DType::kFloat32, {1, 3}), mask(DType::kBool, {kSize});
    for (Tensor* tensor : {&table, &rows, &vector, &four}) {
      tensor->Fill([](int64_t i) { return i; });
    }
    offsets.Set(0, 0);
    mask.Fill([&](int64_t) { return bad == kSize; });
    Launch launch(kernel);
    switch (kernel) {
      case Kernel::kIndexPick:
        launch.ints = {0, 0};
        launch.dst = {&rows};
        launch.src = {&table, &index};
        break;
      case Kernel::kIndexPut:
        launch.ints = {0, 1, 0};
        launch.dst = {&table};
        launch.src = {&rows, &index};
        break;
      case Kernel::kScatter:
        launch.ints = {0, 1};
        launch.dst = {&vector};
        launch.src = {&index, &four};
        break;
      case Kernel::kEmbeddingBag:
        launch.ints = {0, -1};
        launch.dst = {&bag, &sizes, nullptr};
        launch.src = {&table, &index, &offsets, nullptr};
        break;
      case Kernel::kEmbeddingRenorm:
        launch.floats = {1, 2};
        launch.dst = {&table};
        launch.src = {&index};
        break;
      default:
        launch.dst = {&vector};
        launch.src = {&mask, &four};
        break;
    }
    const absl::Status status = backend.Run(launch);
    if (kernel == Kernel::kMaskedScatter) {
      const bool fails = bad == kSize;
      if (status.ok() == fails) {
        return absl::InternalError(absl::StrCat("gives ", status.ToString()));
      }
      continue;
    }
    if (status.code() != absl::StatusCode::kOutOfRange) {
      return absl::InternalError(absl::StrCat(
          "index ", bad, " gives ", status.ToString(), ", want OUT_OF_RANGE"));
    }
    index.Set(2, 0);
    RETURN_IF_ERROR(backend.Run(launch));
  }
  return absl::OkStatus();
}

const char* NameOf(PutMode mode) {
  constexpr const char* kNames[] = {"set", "add", "multiply", "max", "min"};
  return kNames[static_cast<int>(mode)];
}

}  // namespace

void AddPickCases(CaseList& cases) {
  const auto add = [&](Kernel kernel, const std::string& name,
                       std::function<absl::Status(Backend&)> run) {
    cases.push_back({name, kernel, {}, std::move(run)});
  };
  for (const DType dtype : kMoved) {
    const std::string type = NameOf(dtype);
    for (const DType index : {DType::kInt64, DType::kInt32}) {
      add(Kernel::kIndexPick, absl::StrCat("index/", type, "/", NameOf(index)),
          [=](Backend& b) { return RunIndex(b, dtype, index); });
    }
    for (const PutMode mode : {PutMode::kSet, PutMode::kAdd, PutMode::kMultiply,
                               PutMode::kMax, PutMode::kMin}) {
      if (mode != PutMode::kSet && !IsComputed(dtype)) continue;
      add(Kernel::kIndexPut,
          absl::StrCat("index_put/", type, "/", NameOf(mode)),
          [=](Backend& b) { return RunIndexPut(b, dtype, mode); });
      add(Kernel::kScatter, absl::StrCat("scatter/", type, "/", NameOf(mode)),
          [=](Backend& b) { return RunScatter(b, dtype, mode); });
    }
    add(Kernel::kMaskedSelect, absl::StrCat("masked_select/", type),
        [=](Backend& b) { return RunMasked(b, dtype); });
    if (!IsComputed(dtype)) continue;
    add(Kernel::kNonzero, absl::StrCat("nonzero/", type),
        [=](Backend& b) { return RunNonzero(b, dtype); });
  }
  for (const Kernel kernel :
       {Kernel::kIndexPick, Kernel::kIndexPut, Kernel::kScatter,
        Kernel::kEmbeddingBag, Kernel::kEmbeddingRenorm,
        Kernel::kMaskedScatter}) {
    add(kernel, absl::StrCat(NameOf(kernel), "/bad_input"),
        [=](Backend& b) { return RunBadInput(b, kernel); });
  }
}

}  // namespace tvarant::conformance

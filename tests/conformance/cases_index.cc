// index_select, gather, scatter_add, embedding_backward.

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

constexpr DType kMoved[] = {DType::kBool,    DType::kUInt8,    DType::kInt8,
                            DType::kInt16,   DType::kInt32,    DType::kInt64,
                            DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                            DType::kFloat64, DType::kComplex64};

constexpr DType kAdded[] = {DType::kUInt8,    DType::kInt8,    DType::kInt16,
                            DType::kInt32,    DType::kInt64,   DType::kFloat16,
                            DType::kBFloat16, DType::kFloat32, DType::kFloat64};

absl::Status WantOutOfRange(const absl::Status& status, int64_t index) {
  if (status.code() == absl::StatusCode::kOutOfRange) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "index ", index, " gives ", status.ToString(), ", want OUT_OF_RANGE"));
}

absl::Status RunIndexSelect(Backend& backend, DType dtype, DType index_dtype,
                            bool wrap) {
  std::mt19937_64 random = SeedOf("index_select");
  size_t turn = 0;
  for (const Dims& shape : {Dims{5}, Dims{7, 33}, Dims{30, 16}, Dims{3, 4, 5},
                            Dims{1, 1}, Dims{100, 64}}) {
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      for (const int64_t count : {0, 1, 9, 65}) {
        ++turn;
        Tensor x(dtype, shape, kSrcLayouts[turn % 6]);
        x.FillRandom(random, 0, 100);
        Tensor index(index_dtype, {count}, kSrcLayouts[turn % 4]);
        const int64_t size = shape[dim];
        index.Fill([&](int64_t) -> Real {
          const int64_t at = static_cast<int64_t>(random() % size);
          return wrap && random() % 2 ? at - size : at;
        });
        Dims result = shape;
        result[dim] = count;
        Tensor y(dtype, result, kDstLayouts[turn % 4]);
        Launch launch(Kernel::kIndexSelect);
        launch.ints = {dim};
        launch.params.flags = wrap ? uint32_t{kWrapNegative} : 0u;
        launch.dst = {&y};
        launch.src = {&x, &index};
        RETURN_IF_ERROR(backend.Run(launch));
        RETURN_IF_ERROR(ExpectValues("index_select", y, [&](int64_t i) {
          Dims at = y.CoordinatesOf(i);
          const int64_t picked = static_cast<int64_t>(index.Get(at[dim]));
          at[dim] = picked < 0 ? picked + size : picked;
          return x.Get(x.IndexOf(at));
        }));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RunGather(Backend& backend, DType dtype) {
  std::mt19937_64 random = SeedOf("gather");
  size_t turn = 0;
  struct Shapes {
    Dims x, index;
  };
  for (const Shapes& shapes :
       {Shapes{{5}, {9}}, Shapes{{4, 33}, {4, 70}}, Shapes{{33, 4}, {40, 3}},
        Shapes{{3, 4, 5}, {2, 9, 5}}, Shapes{{3, 4}, {0, 4}}}) {
    for (int dim = 0; dim < static_cast<int>(shapes.x.size()); ++dim) {
      bool fits = true;
      for (size_t d = 0; d < shapes.x.size(); ++d) {
        fits &= static_cast<int>(d) == dim || shapes.index[d] <= shapes.x[d];
      }
      if (!fits) continue;
      ++turn;
      Tensor x(dtype, shapes.x, kSrcLayouts[turn % 6]);
      Tensor index(DType::kInt64, shapes.index, kSrcLayouts[(turn + 1) % 6]);
      Tensor y(dtype, shapes.index, kDstLayouts[turn % 4]);
      x.FillRandom(random, 0, 100);
      index.Fill([&](int64_t) { return random() % shapes.x[dim]; });
      Launch launch(Kernel::kGather);
      launch.ints = {dim};
      launch.dst = {&y};
      launch.src = {&x, &index};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(ExpectValues("gather", y, [&](int64_t i) {
        Dims at = y.CoordinatesOf(i);
        at[dim] = static_cast<int64_t>(index.Get(i));
        return x.Get(x.IndexOf(at));
      }));
    }
  }
  return absl::OkStatus();
}

absl::Status RunScatterAdd(Backend& backend, DType dtype) {
  std::mt19937_64 random = SeedOf("scatter_add");
  size_t turn = 0;
  struct Shapes {
    Dims y, index;
  };
  for (const Shapes& shapes :
       {Shapes{{5}, {40}}, Shapes{{1}, {33}}, Shapes{{4, 7}, {4, 40}},
        Shapes{{33, 4}, {90, 3}}, Shapes{{3, 4, 5}, {2, 9, 5}},
        Shapes{{3, 4}, {0, 4}}}) {
    for (int dim = 0; dim < static_cast<int>(shapes.y.size()); ++dim) {
      bool fits = true;
      for (size_t d = 0; d < shapes.y.size(); ++d) {
        fits &= static_cast<int>(d) == dim || shapes.index[d] <= shapes.y[d];
      }
      if (!fits) continue;
      ++turn;
      Tensor y(dtype, shapes.y, kDstLayouts[turn % 4]);
      Tensor index(DType::kInt64, shapes.index, kSrcLayouts[(turn + 1) % 6]);
      Tensor values(dtype, shapes.index, kSrcLayouts[turn % 6]);
      // Whole numbers: the order of additions does not show.
      y.Fill([&](int64_t) { return random() % 4; });
      values.Fill([&](int64_t) { return random() % 3; });
      index.Fill([&](int64_t) { return random() % shapes.y[dim]; });
      std::vector<Real> want;
      for (int64_t i = 0; i < y.numel(); ++i) want.push_back(y.Get(i));
      for (int64_t i = 0; i < index.numel(); ++i) {
        Dims at = index.CoordinatesOf(i);
        at[dim] = static_cast<int64_t>(index.Get(i));
        want[y.IndexOf(at)] += values.Get(i);
      }
      Launch launch(Kernel::kScatterAdd);
      launch.ints = {dim};
      launch.dst = {&y};
      launch.src = {&index, &values};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(
          ExpectValues("scatter_add", y, [&](int64_t i) { return want[i]; }));
    }
  }
  return absl::OkStatus();
}

absl::Status RunEmbeddingBackward(Backend& backend, DType dtype,
                                  DType index_dtype, int64_t padding,
                                  bool scale) {
  std::mt19937_64 random = SeedOf("embedding_backward");
  struct Shape {
    int64_t rows, columns, tokens;
  };
  size_t turn = 0;
  for (const auto& [rows, columns, tokens] :
       {Shape{5, 3, 20}, Shape{30, 16, 7}, Shape{10, 33, 300}, Shape{5, 4, 0},
        Shape{1000, 8, 50}}) {
    ++turn;
    Tensor dy(dtype, {tokens, columns}, kSrcLayouts[turn % 6]);
    Tensor index(index_dtype, {tokens}, kSrcLayouts[turn % 4]);
    Tensor dweight(dtype, {rows, columns}, kDstLayouts[turn % 4]);
    dy.FillRandom(random, -1, 1);
    index.Fill([&, rows = rows](int64_t) { return random() % rows; });
    Launch launch(Kernel::kEmbeddingBackward);
    launch.ints = {padding, scale};
    launch.dst = {&dweight};
    launch.src = {&dy, &index};
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(
        "embedding_backward", dweight,
        [&, columns = columns, tokens = tokens](int64_t i) -> Real {
          const int64_t row = i / columns;
          if (row == padding) return 0;
          Real sum = 0;
          int64_t count = 0;
          for (int64_t t = 0; t < tokens; ++t) {
            if (index.Get(t) != row) continue;
            sum += dy.Get(t * columns + i % columns);
            ++count;
          }
          return scale && count > 0 ? sum / count : sum;
        },
        {.ulps = 16, .absolute = 32}));
  }
  return absl::OkStatus();
}

// One bad index among good ones, for each kernel that takes indices.
absl::Status RunBadIndex(Backend& backend, Kernel kernel, bool wrap) {
  constexpr int64_t kSize = 5;
  for (const int64_t bad :
       {kSize, wrap ? -kSize - 1 : int64_t{-1}, INT64_MAX, INT64_MIN}) {
    Tensor index(DType::kInt64, {4});
    index.Fill([&](int64_t i) -> Real { return i == 2 ? bad : i; });
    Tensor table(DType::kFloat32, {kSize, 3});
    Tensor rows(DType::kFloat32, {4, 3});
    Tensor vector(DType::kFloat32, {kSize});
    Tensor picked(DType::kFloat32, {4});
    for (Tensor* tensor : {&table, &rows, &vector, &picked}) {
      tensor->Fill([](int64_t i) { return i; });
    }
    Launch launch(kernel);
    launch.ints = {0};
    launch.params.flags = wrap ? uint32_t{kWrapNegative} : 0u;
    switch (kernel) {
      case Kernel::kIndexSelect:
        launch.dst = {&rows};
        launch.src = {&table, &index};
        break;
      case Kernel::kGather:
        launch.dst = {&picked};
        launch.src = {&vector, &index};
        break;
      case Kernel::kScatterAdd:
        launch.dst = {&vector};
        launch.src = {&index, &picked};
        break;
      default:
        launch.ints = {-1, 0};
        launch.dst = {&table};
        launch.src = {&rows, &index};
        break;
    }
    RETURN_IF_ERROR(WantOutOfRange(backend.Run(launch), bad));
    // The device goes on.
    index.Set(2, 0);
    RETURN_IF_ERROR(backend.Run(launch));
  }
  return absl::OkStatus();
}

}  // namespace

void AddIndexCases(CaseList& cases) {
  const auto add = [&](Kernel kernel, const std::string& name,
                       std::function<absl::Status(Backend&)> run) {
    cases.push_back({name, kernel, {}, std::move(run)});
  };
  for (const DType dtype : kMoved) {
    for (const DType index : {DType::kInt64, DType::kInt32}) {
      add(Kernel::kIndexSelect,
          absl::StrCat("index_select/", NameOf(dtype), "/", NameOf(index)),
          [=](Backend& backend) {
            return RunIndexSelect(backend, dtype, index, false);
          });
    }
    add(Kernel::kIndexSelect,
        absl::StrCat("index_select/", NameOf(dtype), "/wrap"),
        [=](Backend& backend) {
          return RunIndexSelect(backend, dtype, DType::kInt64, true);
        });
    add(Kernel::kGather, absl::StrCat("gather/", NameOf(dtype)),
        [=](Backend& backend) { return RunGather(backend, dtype); });
  }
  for (const DType dtype : kAdded) {
    add(Kernel::kScatterAdd, absl::StrCat("scatter_add/", NameOf(dtype)),
        [=](Backend& backend) { return RunScatterAdd(backend, dtype); });
  }
  for (const DType dtype : kFloatDTypes) {
    for (const DType index : {DType::kInt64, DType::kInt32}) {
      for (const int64_t padding : {-1, 2}) {
        for (const bool scale : {false, true}) {
          add(Kernel::kEmbeddingBackward,
              absl::StrCat("embedding_backward/", NameOf(dtype), "/",
                           NameOf(index), padding < 0 ? "" : "/padding",
                           scale ? "/scale" : ""),
              [=](Backend& backend) {
                return RunEmbeddingBackward(backend, dtype, index, padding,
                                            scale);
              });
        }
      }
    }
  }
  add(Kernel::kIndexSelect, "index_select/bad_index", [](Backend& backend) {
    return RunBadIndex(backend, Kernel::kIndexSelect, false);
  });
  add(Kernel::kIndexSelect, "index_select/bad_index/wrap",
      [](Backend& backend) {
        return RunBadIndex(backend, Kernel::kIndexSelect, true);
      });
  add(Kernel::kGather, "gather/bad_index", [](Backend& backend) {
    return RunBadIndex(backend, Kernel::kGather, false);
  });
  add(Kernel::kScatterAdd, "scatter_add/bad_index", [](Backend& backend) {
    return RunBadIndex(backend, Kernel::kScatterAdd, false);
  });
  add(Kernel::kEmbeddingBackward, "embedding_backward/bad_index",
      [](Backend& backend) {
        return RunBadIndex(backend, Kernel::kEmbeddingBackward, false);
      });
}

}  // namespace tvarant::conformance

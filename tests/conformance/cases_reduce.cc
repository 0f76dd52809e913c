// reduce and cumulate.

#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/reduce_reference.h"

namespace tvarant::conformance {
namespace {

// Shapes with the dimensions to reduce.
struct Reduction {
  Dims shape;
  std::vector<int> dims;
};

const std::vector<Reduction>& Reductions() {
  static const auto* const kReductions = new std::vector<Reduction>{
      {{}, {}},
      {{1}, {0}},
      {{7}, {0}},
      {{17}, {0}},
      {{1000}, {0}},
      {{70000}, {0}},
      {{3, 5}, {0}},
      {{3, 5}, {1}},
      {{3, 5}, {0, 1}},
      {{3, 5}, {}},
      {{65, 33}, {0}},
      {{65, 33}, {1}},
      {{4, 3, 17}, {1}},
      {{4, 3, 17}, {0, 2}},
      {{2, 3, 4, 5}, {0, 1}},
      {{2, 3, 4, 5}, {2, 3}},
      {{2, 3, 4, 5}, {1, 3}},
      {{300, 200}, {0}},
      {{300, 200}, {1}},
      {{1, 9, 1}, {0, 2}},
      {{5, 0}, {0}},
  };
  return *kReductions;
}

// The elements of x for element i of y, and the number of reduced elements.
Values ElementsOf(const Tensor& x, const Tensor& y, int64_t i,
                  const std::vector<int>& dims) {
  Values values;
  Dims at = y.CoordinatesOf(i);
  std::function<void(size_t)> visit = [&](size_t k) {
    if (k == dims.size()) {
      values.push_back(x.Get(x.IndexOf(at)));
      return;
    }
    for (int64_t v = 0; v < x.size(dims[k]); ++v) {
      at[dims[k]] = v;
      visit(k + 1);
    }
  };
  visit(0);
  return values;
}

absl::Status RunReduce(Backend& backend, const std::string& name,
                       const ReduceReference& reference, DType dtype,
                       double scalar, bool with_nan) {
  std::mt19937_64 random = SeedOf(name);
  const bool indices =
      reference.op == ReduceOp::kMaxDim || reference.op == ReduceOp::kMinDim;
  const bool second_mean =
      reference.op == ReduceOp::kVar || reference.op == ReduceOp::kStd;
  size_t turn = 0;
  for (const Reduction& reduction : Reductions()) {
    ++turn;
    Dims result = reduction.shape;
    int64_t count = 1;
    for (const int d : reduction.dims) {
      count *= reduction.shape[d];
      result[d] = 1;
    }
    // Long sums of half precision overflow or lose all their digits.
    if (EpsilonOf(dtype) > 1e-4 && count > 2000) continue;
    Tensor x(dtype, reduction.shape, kSrcLayouts[turn % 6]);
    // Whole numbers tie often, so that "the first" is tested.
    if (reference.op == ReduceOp::kProd) {
      x.FillRandom(random, reference.low, reference.high);
    } else if (indices || reference.op == ReduceOp::kArgMax ||
               reference.op == ReduceOp::kArgMin ||
               reference.op == ReduceOp::kAny ||
               reference.op == ReduceOp::kAll ||
               reference.op == ReduceOp::kCountNonzero) {
      x.Fill([&](int64_t) -> Real {
        const int64_t value = static_cast<int64_t>(random() % 9);
        return dtype == DType::kBool    ? Real(value > 3)
               : dtype == DType::kUInt8 ? value
                                        : value - 4;
      });
    } else if (!IsFloating(dtype)) {
      x.FillRandom(random, dtype == DType::kUInt8 ? 0 : -100, 100);
    } else {
      x.FillRandom(random, reference.low, reference.high);
    }
    if (with_nan) {
      for (int64_t i = 0; i < x.numel(); ++i) {
        if (random() % 50 == 0) x.Set(i, NAN);
      }
    }
    Tensor y(reference.result(dtype), result, kDstLayouts[turn % 4]);
    Tensor second(indices ? DType::kInt64 : y.dtype(), result,
                  kDstLayouts[(turn + 1) % 4]);
    Launch launch(Kernel::kReduce);
    launch.ints = {static_cast<int64_t>(reference.op)};
    launch.params.scalar = scalar;
    launch.dst = {&y};
    if (indices || (second_mean && turn % 2 == 0))
      launch.dst.push_back(&second);
    launch.src = {&x};
    RETURN_IF_ERROR(backend.Run(launch));
    // Each factor of a product rounds once: a random walk.
    const Real roundings =
        reference.op == ReduceOp::kProd ? 2 * std::sqrt(Real(count)) : 0;
    RETURN_IF_ERROR(ExpectValues(
        name, y,
        [&](int64_t i) {
          return reference.value(ElementsOf(x, y, i, reduction.dims), scalar);
        },
        {.ulps = reference.tolerance.ulps + roundings,
         .absolute = reference.tolerance.absolute == 0
                         ? 0
                         : reference.tolerance.absolute +
                               static_cast<Real>(count) / 16}));
    if (launch.dst.size() < 2) continue;
    RETURN_IF_ERROR(ExpectValues(
        absl::StrCat(name, " second output"), second,
        [&](int64_t i) -> Real {
          const Values values = ElementsOf(x, y, i, reduction.dims);
          if (second_mean) {
            return Sum(values) / static_cast<Real>(values.size());
          }
          return IndexOfLargest(values,
                                reference.op == ReduceOp::kMaxDim ? 1 : -1);
        },
        {.ulps = 8, .absolute = 8}));
  }
  return absl::OkStatus();
}

// Over no elements: the neutral element of each reduction that has one.
absl::Status RunEmpty(Backend& backend, const ReduceReference& reference) {
  Tensor x(DType::kFloat32, {3, 0}),
      y(reference.result(DType::kFloat32), {3, 1});
  Launch launch(Kernel::kReduce);
  launch.ints = {static_cast<int64_t>(reference.op)};
  launch.params.scalar = reference.scalars[0];
  launch.dst = {&y};
  launch.src = {&x};
  const absl::Status status = backend.Run(launch);
  if (!reference.empty) {
    return status.code() == absl::StatusCode::kInvalidArgument
               ? absl::OkStatus()
               : absl::InternalError("the largest of nothing is no error");
  }
  RETURN_IF_ERROR(status);
  return ExpectValues(reference.name, y, [&](int64_t) {
    return reference.value({}, reference.scalars[0]);
  });
}

// Sums of half precision must be made in a wider type.
absl::Status RunLongSum(Backend& backend, DType dtype) {
  Tensor x(dtype, {1, 4096}), y(dtype, {1, 1}), wide(DType::kFloat32, {1, 1});
  x.Fill([](int64_t i) { return i % 2 == 0 ? 1 : 0.5L; });
  for (Tensor* out : {&y, &wide}) {
    Launch launch(Kernel::kReduce);
    launch.ints = {static_cast<int64_t>(ReduceOp::kSum)};
    launch.dst = {out};
    launch.src = {&x};
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(
        "sum", *out, [](int64_t) -> Real { return 3072; }, {.ulps = 0}));
  }
  return absl::OkStatus();
}

absl::Status RunCumulate(Backend& backend, DType dtype, bool product) {
  std::mt19937_64 random = SeedOf("cumulate");
  const DType result = SumType(dtype);
  size_t turn = 0;
  for (const Dims& shape :
       {Dims{1}, Dims{0}, Dims{17}, Dims{300}, Dims{5, 33}, Dims{33, 5},
        Dims{3, 4, 7}, Dims{0, 3}, Dims{2100}}) {
    // Long sums of half precision lose their digits.
    if (EpsilonOf(dtype) > 1e-4 && shape[0] > 1000) continue;
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      ++turn;
      Tensor x(dtype, shape, kSrcLayouts[turn % 6]);
      if (product) {
        // Powers of two and one: exact however long.
        x.Fill([&](int64_t) -> Real {
          return IsFloating(dtype) ? (random() % 2 ? 2.0L : 0.5L)
                                   : Real(random() % 5 == 0 ? 3 : 1);
        });
      } else {
        x.Fill([&](int64_t) { return random() % 5; });
      }
      Tensor y(result, shape, kDstLayouts[turn % 4]);
      Launch launch(Kernel::kCumulate);
      launch.ints = {dim, product};
      launch.dst = {&y};
      launch.src = {&x};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(ExpectValues(
          "cumulate", y,
          [&](int64_t i) {
            Dims at = y.CoordinatesOf(i);
            const int64_t last = at[dim];
            Real total = product ? 1 : 0;
            uint64_t wrapped = 1;
            for (at[dim] = 0; at[dim] <= last; ++at[dim]) {
              const Real value = x.Get(x.IndexOf(at));
              total = product ? total * value : total + value;
              wrapped *= static_cast<uint64_t>(value);
            }
            return product && !IsFloating(dtype)
                       ? static_cast<Real>(static_cast<int64_t>(wrapped))
                       : total;
          },
          {.ulps = 2}));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddReduceCases(CaseList& cases) {
  const auto add = [&](const std::string& name,
                       std::function<absl::Status(Backend&)> run) {
    cases.push_back({name, Kernel::kReduce, {}, std::move(run)});
  };
  for (const ReduceReference& reference : ReduceReferences()) {
    std::vector<DType> dtypes(std::begin(kFloatDTypes), std::end(kFloatDTypes));
    if (reference.integers) {
      dtypes.insert(dtypes.end(), std::begin(kIntDTypes), std::end(kIntDTypes));
      dtypes.push_back(DType::kBool);
    }
    for (const DType dtype : dtypes) {
      for (const double scalar : reference.scalars) {
        for (const bool with_nan : {false, true}) {
          if (with_nan && (!IsFloating(dtype) || !reference.nan)) continue;
          const std::string name = absl::StrCat(
              "reduce/", reference.name, "/", NameOf(dtype),
              reference.scalars.size() > 1 ? absl::StrCat("/", scalar) : "",
              with_nan ? "/nan" : "");
          add(name, [=](Backend& backend) {
            return RunReduce(backend, name, reference, dtype, scalar, with_nan);
          });
        }
      }
    }
    add(absl::StrCat("reduce/", reference.name, "/empty"),
        [=](Backend& backend) { return RunEmpty(backend, reference); });
  }
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    add(absl::StrCat("reduce/long_sum/", NameOf(dtype)),
        [=](Backend& backend) { return RunLongSum(backend, dtype); });
  }
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
        DType::kInt32, DType::kInt64, DType::kUInt8, DType::kBool}) {
    for (const bool product : {false, true}) {
      cases.push_back({absl::StrCat("cumulate/", product ? "product" : "sum",
                                    "/", NameOf(dtype)),
                       Kernel::kCumulate,
                       {},
                       [=](Backend& backend) {
                         return RunCumulate(backend, dtype, product);
                       }});
    }
  }
}

}  // namespace tvarant::conformance

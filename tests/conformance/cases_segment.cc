// segment_reduce and its gradient; within.

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/ops/data_checks.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

constexpr ReduceOp kReductions[] = {ReduceOp::kSum, ReduceOp::kMean,
                                    ReduceOp::kProd, ReduceOp::kMax,
                                    ReduceOp::kMin};
constexpr const char* kReductionNames[] = {"sum", "mean", "prod", "max", "min"};

// Offsets of each row: empty segments, and elements of none.
const Dims kOffsets[] = {{0, 3, 3, 7}, {1, 1, 2, 6}};

Real ReduceSegment(ReduceOp op, const std::vector<Real>& values,
                   const Real* initial) {
  const Real infinity = std::numeric_limits<Real>::infinity();
  Real result = op == ReduceOp::kProd  ? 1
                : op == ReduceOp::kMax ? -infinity
                : op == ReduceOp::kMin ? infinity
                                       : 0;
  if (initial != nullptr) result = *initial;
  for (const Real value : values) {
    switch (op) {
      case ReduceOp::kProd:
        result *= value;
        break;
      case ReduceOp::kMax:
        result = std::max(result, value);
        break;
      case ReduceOp::kMin:
        result = std::min(result, value);
        break;
      default:
        result += value;
    }
  }
  if (op != ReduceOp::kMean) return result;
  if (!values.empty()) return result / static_cast<Real>(values.size());
  return initial != nullptr ? result : NAN;
}

absl::Status RunSegments(Backend& backend, const std::string& name, DType dtype,
                         ReduceOp op, bool has_initial, bool backward) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const int64_t inner : {1, 5}) {
    ++turn;
    constexpr int64_t kOuter = 2, kLength = 7, kSegments = 3;
    const Dims x_sizes = {kOuter, kLength, inner};
    const Dims y_sizes = {kOuter, kSegments, inner};
    Tensor x(dtype, x_sizes, kDstLayouts[turn % 4]);
    Tensor y(dtype, y_sizes, kDstLayouts[(turn + 1) % 4]);
    Tensor dy(dtype, y_sizes, kDstLayouts[(turn + 2) % 4]);
    Tensor dx(dtype, x_sizes, kDstLayouts[(turn + 3) % 4]);
    Tensor offsets(turn == 1 ? DType::kInt64 : DType::kInt32,
                   {kOuter, kSegments + 1}, kDstLayouts[turn % 4]);
    offsets.Fill([&](int64_t i) {
      return static_cast<Real>(kOffsets[i / 4][static_cast<size_t>(i % 4)]);
    });
    // Few different numbers, so that extremes are met twice, and zeros.
    x.Fill([&](int64_t) { return static_cast<Real>(random() % 4) - 1; });
    dy.Fill([&](int64_t) { return static_cast<Real>(random() % 8) + 1; });
    const Real initial = 2;
    std::vector<Real> want_y(y.numel()), want_dx(x.numel());
    for (int64_t i = 0; i < y.numel(); ++i) {
      const Dims at = y.CoordinatesOf(i);
      const Dims& row = kOffsets[at[0]];
      const int64_t begin = row[static_cast<size_t>(at[1])];
      const int64_t end = row[static_cast<size_t>(at[1] + 1)];
      const auto value = [&](int64_t j) {
        return x.Get(x.IndexOf({at[0], j, at[2]}));
      };
      std::vector<Real> values;
      for (int64_t j = begin; j < end; ++j) values.push_back(value(j));
      want_y[i] = ReduceSegment(op, values, has_initial ? &initial : nullptr);
      y.Set(i, want_y[i]);
      Real equal = 0;
      for (const Real v : values) equal += v == want_y[i] ? 1 : 0;
      for (int64_t j = begin; j < end; ++j) {
        Real& to = want_dx[x.IndexOf({at[0], j, at[2]})];
        const Real gradient = dy.Get(i);
        if (op == ReduceOp::kProd) {
          to = gradient * (has_initial ? initial : 1);
          for (int64_t k = begin; k < end; ++k) to *= k == j ? 1 : value(k);
        } else if (op == ReduceOp::kMax || op == ReduceOp::kMin) {
          to = value(j) == want_y[i] ? gradient / equal : 0;
        } else {
          to = op == ReduceOp::kSum ? gradient
                                    : gradient / static_cast<Real>(end - begin);
        }
      }
    }
    Launch launch(backward ? Kernel::kSegmentReduceBackward
                           : Kernel::kSegmentReduce);
    launch.ints = {static_cast<int64_t>(op), has_initial ? 1 : 0};
    launch.floats = {static_cast<double>(initial)};
    Tensor fresh(dtype, y_sizes, kDstLayouts[turn % 4]);
    launch.dst = {backward ? &dx : &fresh};
    if (backward) {
      launch.src = {&dy, &y, &x, &offsets};
    } else {
      launch.src = {&x, &offsets};
    }
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(name, backward ? dx : fresh, [&](int64_t i) {
      return backward ? want_dx[i] : want_y[i];
    }));
    // Offsets that fall, and that leave the row.
    for (const Real bad : {-1.0L, 8.0L}) {
      offsets.Set(1, bad);
      const absl::Status status = backend.Run(launch);
      if (status.code() != absl::StatusCode::kInvalidArgument) {
        return absl::InternalError(absl::StrCat(
            "offset ", static_cast<double>(bad), " gives ", status.ToString()));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RunWithin(Backend& backend, const std::string& name, DType dtype) {
  std::mt19937_64 random = SeedOf(name);
  size_t turn = 0;
  for (const Dims& shape :
       {Dims{}, Dims{1}, Dims{0}, Dims{33}, Dims{7, 9}, Dims{3, 100000}}) {
    ++turn;
    Tensor x(dtype, shape, kDstLayouts[turn % 4]);
    Launch launch(Kernel::kWithin);
    launch.ints = {static_cast<int64_t>(DataCheck::kBernoulli), 0, 1};
    launch.floats = {0, 1};
    launch.src = {&x};
    const auto expect = [&](bool good, Real value) {
      const absl::Status status = backend.Run(launch);
      if (good == status.ok() &&
          (good || (status.code() == absl::StatusCode::kInvalidArgument &&
                    absl::StrContains(status.message(), "p_in >= 0")))) {
        return absl::OkStatus();
      }
      return absl::InternalError(absl::StrCat(name, ": ",
                                              static_cast<double>(value),
                                              " gives ", status.ToString()));
    };
    x.Fill([&](int64_t) { return static_cast<Real>(random() % 2); });
    RETURN_IF_ERROR(expect(true, 0));
    if (x.numel() == 0) continue;
    std::vector<Real> bad = {2};
    if (dtype != DType::kUInt8) bad.push_back(-1);
    if (IsFloating(dtype)) {
      bad.insert(bad.end(), {1.5L, -0.25L, static_cast<Real>(NAN),
                             static_cast<Real>(INFINITY)});
    }
    for (const Real value : bad) {
      const int64_t at = static_cast<int64_t>(random() % x.numel());
      const Real before = x.Get(at);
      x.Set(at, value);
      RETURN_IF_ERROR(expect(false, value));
      x.Set(at, before);
    }
    RETURN_IF_ERROR(expect(true, 1));
  }
  return absl::OkStatus();
}

}  // namespace

void AddSegmentCases(CaseList& cases) {
  for (const DType dtype : kFloatDTypes) {
    for (size_t op = 0; op < 5; ++op) {
      for (const bool initial : {false, true}) {
        for (const bool backward : {false, true}) {
          const std::string name = absl::StrCat(
              backward ? "segment_reduce_backward/" : "segment_reduce/",
              NameOf(dtype), "/", kReductionNames[op],
              initial ? "/initial" : "");
          cases.push_back({name,
                           backward ? Kernel::kSegmentReduceBackward
                                    : Kernel::kSegmentReduce,
                           {},
                           [=](Backend& backend) {
                             return RunSegments(backend, name, dtype,
                                                kReductions[op], initial,
                                                backward);
                           }});
        }
      }
    }
  }
  for (const auto* dtypes : {&kFloatDTypes[0], &kIntDTypes[0]}) {
    const size_t count = dtypes == kFloatDTypes ? std::size(kFloatDTypes)
                                                : std::size(kIntDTypes);
    for (size_t i = 0; i < count; ++i) {
      const DType dtype = dtypes[i];
      const std::string name = absl::StrCat("within/", NameOf(dtype));
      cases.push_back({name, Kernel::kWithin, {}, [=](Backend& backend) {
                         return RunWithin(backend, name, dtype);
                       }});
    }
  }
}

}  // namespace tvarant::conformance

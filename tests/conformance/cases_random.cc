// random and dropout: ranges, moments, repeatability, and the counter.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

struct Parameters {
  Distribution distribution;
  double a = 0, b = 0;
  int64_t low = 0, high = 0;
};

absl::Status Draw(Backend& backend, const Parameters& parameters, int64_t seed,
                  int64_t offset, Tensor& y) {
  Launch launch(Kernel::kRandom);
  launch.ints = {static_cast<int64_t>(parameters.distribution), seed, offset,
                 parameters.low, parameters.high};
  launch.floats = {parameters.a, parameters.b};
  launch.dst = {&y};
  return backend.Run(launch);
}

absl::Status WantNear(const std::string& what, Real got, Real want,
                      Real within) {
  if (std::fabs(got - want) <= within) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      what, " is ", static_cast<double>(got), ", want ",
      static_cast<double>(want), " within ", static_cast<double>(within)));
}

struct Moments {
  Real mean = 0, variance = 0, low = INFINITY, high = -INFINITY;
};

Moments MomentsOf(const Tensor& y) {
  Moments m;
  const Real n = static_cast<Real>(y.numel());
  for (int64_t i = 0; i < y.numel(); ++i) {
    m.mean += y.Get(i) / n;
    m.low = std::min(m.low, y.Get(i));
    m.high = std::max(m.high, y.Get(i));
  }
  for (int64_t i = 0; i < y.numel(); ++i) {
    m.variance += (y.Get(i) - m.mean) * (y.Get(i) - m.mean) / n;
  }
  return m;
}

// Mean and variance of 40,000 draws, within five standard errors.
absl::Status RunMoments(Backend& backend, const Parameters& p, DType dtype,
                        Real mean, Real variance, Real fourth_moment, Real low,
                        Real high) {
  Tensor y(dtype, {200, 200}, Layout::kTransposed);
  RETURN_IF_ERROR(Draw(backend, p, 1234567, 89, y));
  const Moments m = MomentsOf(y);
  const Real n = static_cast<Real>(y.numel());
  const Real rounding = EpsilonOf(dtype) * 2 * (1 + std::fabs(mean));
  RETURN_IF_ERROR(
      WantNear("mean", m.mean, mean, 5 * std::sqrt(variance / n) + rounding));
  RETURN_IF_ERROR(
      WantNear("variance", m.variance, variance,
               5 * std::sqrt((fourth_moment - variance * variance) / n) +
                   rounding * (1 + variance)));
  if (m.low < low || m.high > high) {
    return absl::InternalError(absl::StrCat(
        "values from ", static_cast<double>(m.low), " to ",
        static_cast<double>(m.high), ", want ", static_cast<double>(low),
        " to ", static_cast<double>(high)));
  }
  return absl::OkStatus();
}

absl::Status RunUniform(Backend& backend, DType dtype) {
  RETURN_IF_ERROR(RunMoments(
      backend, {.distribution = Distribution::kUniform, .a = -1, .b = 3}, dtype,
      1, 16.0L / 12, 256.0L / 80, -1, 3));
  // The end is never drawn.
  Tensor y(dtype, {40000});
  RETURN_IF_ERROR(Draw(backend,
                       {.distribution = Distribution::kUniform, .a = 0, .b = 1},
                       5, 0, y));
  for (int64_t i = 0; i < y.numel(); ++i) {
    if (!(y.Get(i) >= 0 && y.Get(i) < 1)) {
      return absl::InternalError("a value is outside [0, 1)");
    }
  }
  return absl::OkStatus();
}

absl::Status RunNormal(Backend& backend, DType dtype) {
  const Real infinity = INFINITY;
  RETURN_IF_ERROR(RunMoments(
      backend, {.distribution = Distribution::kNormal, .a = 0.5, .b = 2}, dtype,
      0.5L, 4, 48, -20, 20));
  Tensor y(dtype, {40000});
  RETURN_IF_ERROR(Draw(backend,
                       {.distribution = Distribution::kNormal, .a = 0, .b = 1},
                       5, 0, y));
  // Share of the values within one and two standard deviations.
  int64_t one = 0, two = 0;
  for (int64_t i = 0; i < y.numel(); ++i) {
    if (!(std::fabs(y.Get(i)) < infinity)) {
      return absl::InternalError("a value is not finite");
    }
    one += std::fabs(y.Get(i)) < 1;
    two += std::fabs(y.Get(i)) < 2;
  }
  RETURN_IF_ERROR(WantNear("within 1", one / 40000.0L, 0.6827L, 0.02L));
  return WantNear("within 2", two / 40000.0L, 0.9545L, 0.01L);
}

absl::Status RunBernoulli(Backend& backend, DType dtype) {
  for (const double p : {0.0, 0.3, 1.0}) {
    Tensor y(dtype, {40000});
    RETURN_IF_ERROR(Draw(
        backend, {.distribution = Distribution::kBernoulli, .a = p}, 9, 3, y));
    Real sum = 0;
    for (int64_t i = 0; i < y.numel(); ++i) {
      if (y.Get(i) != 0 && y.Get(i) != 1) {
        return absl::InternalError("a value is neither 0 nor 1");
      }
      sum += y.Get(i);
    }
    RETURN_IF_ERROR(
        WantNear("mean", sum / 40000, p, p == 0 || p == 1 ? 0 : 0.0125L));
  }
  return absl::OkStatus();
}

absl::Status RunInteger(Backend& backend, DType dtype) {
  const bool is_unsigned = dtype == DType::kUInt8 || dtype == DType::kBool;
  const int64_t low = is_unsigned ? 0 : -3;
  const int64_t high = dtype == DType::kBool ? 2 : 8;
  Tensor y(dtype, {40000});
  RETURN_IF_ERROR(
      Draw(backend,
           {.distribution = Distribution::kInteger, .low = low, .high = high},
           77, 0, y));
  std::vector<int64_t> counts(high - low, 0);
  for (int64_t i = 0; i < y.numel(); ++i) {
    const Real value = y.Get(i);
    if (value < low || value >= high || value != std::trunc(value)) {
      return absl::InternalError("a value is out of range");
    }
    ++counts[static_cast<int64_t>(value) - low];
  }
  for (const int64_t count : counts) {
    RETURN_IF_ERROR(WantNear("count", count, 40000.0L / counts.size(), 400));
  }
  return absl::OkStatus();
}

// A range wider than 32 bits, and the widest.
absl::Status RunWideInteger(Backend& backend) {
  for (const auto& [low, high] :
       {std::pair<int64_t, int64_t>{-(int64_t{1} << 40), int64_t{1} << 40},
        {INT64_MIN, INT64_MAX}}) {
    Tensor y(DType::kInt64, {10000});
    RETURN_IF_ERROR(
        Draw(backend,
             {.distribution = Distribution::kInteger, .low = low, .high = high},
             3, 0, y));
    int64_t positive = 0;
    for (int64_t i = 0; i < y.numel(); ++i) {
      if (y.Get(i) < low || y.Get(i) >= high) {
        return absl::InternalError("a value is out of range");
      }
      positive += y.Get(i) >= 0;
    }
    RETURN_IF_ERROR(WantNear("positive", positive, 5000, 300));
    RETURN_IF_ERROR(WantNear("deviation",
                             std::sqrt(MomentsOf(y).variance) / high,
                             1 / std::sqrt(3.0L), 0.03L));
  }
  return absl::OkStatus();
}

absl::Status RunFullInteger(Backend& backend) {
  Tensor y(DType::kInt64, {10000});
  RETURN_IF_ERROR(
      Draw(backend, {.distribution = Distribution::kFullInteger}, 3, 0, y));
  // Each bit is set half of the time.
  for (int bit = 0; bit < 64; ++bit) {
    int64_t set = 0;
    for (int64_t i = 0; i < y.numel(); ++i) {
      set += static_cast<int64_t>(y.Get(i)) >> bit & 1;
    }
    RETURN_IF_ERROR(WantNear(absl::StrCat("bit ", bit), set, 5000, 300));
  }
  return absl::OkStatus();
}

// The same seed and offset give the same numbers in every layout; another
// seed or offset gives others; one counter more moves them by 4 elements, or 2
// where an element takes two words.
absl::Status RunCounter(Backend& backend, const Parameters& p, DType dtype,
                        int64_t elements_per_counter) {
  Tensor y(dtype, {37}), again(dtype, {37}, Layout::kGaps);
  Tensor moved(dtype, {37}), seeded(dtype, {37}), far(dtype, {37});
  constexpr int64_t kSeed = -0x123456789abcdef;
  RETURN_IF_ERROR(Draw(backend, p, kSeed, 10, y));
  RETURN_IF_ERROR(Draw(backend, p, kSeed, 10, again));
  RETURN_IF_ERROR(Draw(backend, p, kSeed, 11, moved));
  RETURN_IF_ERROR(Draw(backend, p, kSeed ^ int64_t{1} << 40, 10, seeded));
  RETURN_IF_ERROR(Draw(backend, p, kSeed, 10 + (int64_t{1} << 33), far));
  RETURN_IF_ERROR(ExpectValues(
      "again", again, [&](int64_t i) { return y.Get(i); }, {.ulps = 0}));
  int64_t same_seed = 0, same_far = 0;
  for (int64_t i = 0; i < 37; ++i) {
    if (i + elements_per_counter < 37 &&
        moved.Get(i) != y.Get(i + elements_per_counter)) {
      return absl::InternalError(absl::StrCat(
          "offset + 1 does not move by ", elements_per_counter, " elements"));
    }
    same_seed += seeded.Get(i) == y.Get(i);
    same_far += far.Get(i) == y.Get(i);
  }
  if (same_seed > 18 || same_far > 18) {
    return absl::InternalError("high bits of seed or offset don't count");
  }
  return absl::OkStatus();
}

absl::Status RunDropout(Backend& backend, DType dtype) {
  std::mt19937_64 random = SeedOf("dropout");
  size_t turn = 0;
  for (const Dims& shape : Shapes()) {
    for (const double p : {0.0, 0.25, 1.0}) {
      ++turn;
      Tensor x(dtype, shape, kSrcLayouts[turn % 6]);
      Tensor y(dtype, shape, kDstLayouts[turn % 4]);
      Tensor mask(DType::kBool, shape, kDstLayouts[(turn + 1) % 4]);
      x.FillRandom(random, 1, 2);
      Launch launch(Kernel::kDropout);
      launch.ints = {42, static_cast<int64_t>(turn)};
      launch.floats = {p};
      launch.dst = {&y, &mask};
      launch.src = {&x};
      RETURN_IF_ERROR(backend.Run(launch));
      RETURN_IF_ERROR(ExpectValues("dropout", y, [&](int64_t i) {
        return mask.Get(i) != 0 ? x.Get(i) / (1 - Real{p}) : Real{0};
      }));
      const Real n = static_cast<Real>(mask.numel());
      if (n == 0) continue;
      Real kept = 0;
      for (int64_t i = 0; i < mask.numel(); ++i) kept += mask.Get(i);
      RETURN_IF_ERROR(WantNear("share kept", kept / n, 1 - p,
                               5 * std::sqrt(p * (1 - p) / n)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddRandomCases(CaseList& cases) {
  const auto add = [&](const std::string& name,
                       std::function<absl::Status(Backend&)> run) {
    cases.push_back({name, Kernel::kRandom, {}, std::move(run)});
  };
  for (const DType dtype : kFloatDTypes) {
    const std::string suffix = absl::StrCat("/", NameOf(dtype));
    add("random/uniform" + suffix,
        [=](Backend& backend) { return RunUniform(backend, dtype); });
    add("random/normal" + suffix,
        [=](Backend& backend) { return RunNormal(backend, dtype); });
    add("random/exponential" + suffix, [=](Backend& backend) {
      return RunMoments(backend,
                        {.distribution = Distribution::kExponential, .a = 2},
                        dtype, 0.5L, 0.25L, 9.0L / 16, 0, 1000);
    });
    add("random/bernoulli" + suffix,
        [=](Backend& backend) { return RunBernoulli(backend, dtype); });
    add("random/integer" + suffix,
        [=](Backend& backend) { return RunInteger(backend, dtype); });
    add("random/counter" + suffix, [=](Backend& backend) {
      return RunCounter(
          backend, {.distribution = Distribution::kUniform, .a = 0, .b = 1},
          dtype, dtype == DType::kFloat64 ? 2 : 4);
    });
    cases.push_back(
        {"dropout" + suffix, Kernel::kDropout, {}, [=](Backend& backend) {
           return RunDropout(backend, dtype);
         }});
  }
  for (const DType dtype : {DType::kBool, DType::kUInt8, DType::kInt8,
                            DType::kInt16, DType::kInt32, DType::kInt64}) {
    const std::string suffix = absl::StrCat("/", NameOf(dtype));
    add("random/bernoulli" + suffix,
        [=](Backend& backend) { return RunBernoulli(backend, dtype); });
    add("random/integer" + suffix,
        [=](Backend& backend) { return RunInteger(backend, dtype); });
  }
  add("random/integer/wide", RunWideInteger);
  add("random/full_integer", RunFullInteger);
  add("random/counter/int64", [](Backend& backend) {
    return RunCounter(backend, {.distribution = Distribution::kFullInteger},
                      DType::kInt64, 2);
  });
}

}  // namespace tvarant::conformance

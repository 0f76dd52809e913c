// ctc_loss and its gradient, against the sum over every path.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

constexpr int64_t kSteps = 5, kBatch = 4, kClasses = 3, kStates = 7;
// Steps, letters and first letter of each sample. The last can't be spelled.
constexpr int64_t kSamples[kBatch][3] = {
    {5, 2, 0}, {4, 3, 2}, {3, 0, 5}, {1, 2, 5}};
constexpr int64_t kTargets[] = {1, 2, 2, 2, 1, 2, 1};

struct Ctc {
  Ctc(DType dtype, DType index, Layout layout, std::mt19937_64& random)
      : logp(dtype, {kSteps, kBatch, kClasses}, layout),
        targets(index, {std::size(kTargets)}, layout),
        nll(dtype, {kBatch}),
        alpha(dtype, {kBatch, kSteps, kStates}) {
    logp.FillRandom(random, -3, -0.2L);
    targets.Fill([](int64_t i) { return kTargets[i]; });
    ints = {0, 1};
    for (const auto& sample : kSamples) {
      ints.insert(ints.end(), sample, sample + 3);
    }
  }

  // exp(logp)
  Real P(int64_t t, int64_t n, int64_t c) const {
    return std::exp(logp.Get((t * kBatch + n) * kClasses + c));
  }
  // The path's letters without repeats and blanks are the target.
  bool Spells(int64_t n, const std::vector<int64_t>& path) const {
    std::vector<int64_t> letters;
    for (size_t t = 0; t < path.size(); ++t) {
      if (path[t] != 0 && (t == 0 || path[t] != path[t - 1])) {
        letters.push_back(path[t]);
      }
    }
    const int64_t* want = kTargets + kSamples[n][2];
    return letters == std::vector<int64_t>(want, want + kSamples[n][1]);
  }
  // Calls body(path, probability) for every path that spells the target.
  template <typename F>
  void ForEachPath(int64_t n, const F& body) const {
    const int64_t steps = kSamples[n][0];
    int64_t paths = 1;
    for (int64_t t = 0; t < steps; ++t) paths *= kClasses;
    for (int64_t number = 0; number < paths; ++number) {
      std::vector<int64_t> path;
      Real probability = 1;
      for (int64_t t = 0, rest = number; t < steps; ++t, rest /= kClasses) {
        path.push_back(rest % kClasses);
        probability *= P(t, n, path.back());
      }
      if (Spells(n, path)) body(path, probability);
    }
  }
  Real Probability(int64_t n) const {
    Real sum = 0;
    ForEachPath(n, [&](const std::vector<int64_t>&, Real p) { sum += p; });
    return sum;
  }

  Tensor logp, targets, nll, alpha;
  std::vector<int64_t> ints;
};

absl::Status RunForward(Backend& backend, Ctc& ctc) {
  Launch launch(Kernel::kCtcLoss);
  launch.ints = ctc.ints;
  launch.dst = {&ctc.nll, &ctc.alpha};
  launch.src = {&ctc.logp, &ctc.targets};
  return backend.Run(launch);
}

absl::Status RunCtc(Backend& backend, const std::string& name, DType dtype,
                    DType index) {
  std::mt19937_64 random = SeedOf(name);
  for (const Layout layout : kDstLayouts) {
    Ctc ctc(dtype, index, layout, random);
    RETURN_IF_ERROR(RunForward(backend, ctc));
    RETURN_IF_ERROR(ExpectValues(
        name, ctc.nll, [&](int64_t n) { return -std::log(ctc.Probability(n)); },
        {.ulps = 64}));
  }
  return absl::OkStatus();
}

absl::Status RunCtcBackward(Backend& backend, const std::string& name,
                            DType dtype, DType index) {
  std::mt19937_64 random = SeedOf(name);
  for (const Layout layout : kDstLayouts) {
    Ctc ctc(dtype, index, layout, random);
    RETURN_IF_ERROR(RunForward(backend, ctc));
    Tensor dnll(dtype, {kBatch}, layout);
    Tensor dlogp(dtype, ctc.logp.sizes(), layout);
    dnll.FillRandom(random, 0.5L, 2);
    Launch launch(Kernel::kCtcLossBackward);
    launch.ints = ctc.ints;
    launch.dst = {&dlogp};
    launch.src = {&dnll, &ctc.logp, &ctc.targets, &ctc.nll, &ctc.alpha};
    RETURN_IF_ERROR(backend.Run(launch));
    RETURN_IF_ERROR(ExpectValues(
        name, dlogp,
        [&](int64_t i) -> Real {
          const int64_t t = i / kClasses / kBatch, n = i / kClasses % kBatch;
          const Real total = ctc.Probability(n);
          if (t >= kSamples[n][0] || total == 0) return 0;
          Real through = 0;
          ctc.ForEachPath(n, [&](const std::vector<int64_t>& path, Real p) {
            if (path[static_cast<size_t>(t)] == i % kClasses) through += p;
          });
          return dnll.Get(n) * (ctc.P(t, n, i % kClasses) - through / total);
        },
        {.ulps = 64, .absolute = 64}));
  }
  return absl::OkStatus();
}

absl::Status RunBadLetter(Backend& backend, bool backward) {
  std::mt19937_64 random = SeedOf("ctc");
  Ctc ctc(DType::kFloat32, DType::kInt64, Layout::kContiguous, random);
  RETURN_IF_ERROR(RunForward(backend, ctc));
  for (const int64_t bad : {int64_t{3}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    ctc.targets.Set(1, bad);
    absl::Status status;
    if (backward) {
      Tensor dlogp(DType::kFloat32, ctc.logp.sizes());
      Launch launch(Kernel::kCtcLossBackward);
      launch.ints = ctc.ints;
      launch.dst = {&dlogp};
      launch.src = {&ctc.nll, &ctc.logp, &ctc.targets, &ctc.nll, &ctc.alpha};
      status = backend.Run(launch);
    } else {
      status = RunForward(backend, ctc);
    }
    if (status.code() != absl::StatusCode::kOutOfRange) {
      return absl::InternalError(absl::StrCat(
          "letter ", bad, " gives ", status.ToString(), ", want OUT_OF_RANGE"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddCtcCases(CaseList& cases) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const DType index : {DType::kInt32, DType::kInt64}) {
      const std::string suffix =
          absl::StrCat("/", NameOf(dtype), "/", NameOf(index));
      cases.push_back(
          {"ctc_loss" + suffix, Kernel::kCtcLoss, {}, [=](Backend& backend) {
             return RunCtc(backend, "ctc_loss" + suffix, dtype, index);
           }});
      cases.push_back({"ctc_loss_backward" + suffix,
                       Kernel::kCtcLossBackward,
                       {},
                       [=](Backend& backend) {
                         return RunCtcBackward(backend,
                                               "ctc_loss_backward" + suffix,
                                               dtype, index);
                       }});
    }
  }
  cases.push_back(
      {"ctc_loss/bad_letter", Kernel::kCtcLoss, {}, [](Backend& backend) {
         return RunBadLetter(backend, false);
       }});
  cases.push_back(
      {"ctc_loss_backward/bad_letter",
       Kernel::kCtcLossBackward,
       {},
       [](Backend& backend) { return RunBadLetter(backend, true); }});
}

}  // namespace tvarant::conformance

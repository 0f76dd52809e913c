// ctc_loss and its gradient: the negative log of the probability that a
// sequence of distributions spells a target, over all ways to stretch it.
//
// Graves et al., "Connectionist temporal classification" (2006). The target
// with blanks between and around its letters has 2 S + 1 states; alpha and
// beta are log probabilities of what comes before and after a state.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/scratch.h"

namespace tvarant::host {
namespace {

template <typename T>
constexpr T kNever = -std::numeric_limits<T>::infinity();

template <typename T>
T LogSum(T a, T b) {
  const T high = std::max(a, b);
  if (high == kNever<T>) return high;
  return high + std::log1p(std::exp(std::min(a, b) - high));
}
template <typename T>
T LogSum(T a, T b, T c) {
  const T high = std::max({a, b, c});
  if (high == kNever<T>) return high;
  return high +
         std::log(std::exp(a - high) + std::exp(b - high) + std::exp(c - high));
}

// One sample of the batch: ints = {blank, zero_infinity, then for each sample
// its steps, its letters, and where its target begins}.
struct Sample {
  Sample(const HostLaunch& launch, int64_t index)
      : blank(launch.ints[0]),
        steps(launch.ints[2 + 3 * index]),
        letters(launch.ints[3 + 3 * index]),
        begin(launch.ints[4 + 3 * index]) {}
  int64_t states() const { return 2 * letters + 1; }

  int64_t blank, steps, letters, begin;
};

// The letters of a sample, each read once and checked. False for a bad one.
bool ReadLetters(const Tensor& targets, const Sample& sample, int64_t classes,
                 int64_t* letters, int64_t* bad) {
  for (int64_t s = 0; s < sample.letters; ++s) {
    const int64_t at = (sample.begin + s) * targets.strides[0];
    const int64_t letter =
        targets.dtype == DType::kInt32
            ? reinterpret_cast<const volatile int32_t*>(targets.data)[at]
            : reinterpret_cast<const volatile int64_t*>(targets.data)[at];
    if (letter < 0 || letter >= classes) {
      *bad = letter;
      return false;
    }
    letters[s] = letter;
  }
  return true;
}

int64_t ClassAt(const Sample& sample, const int64_t* letters, int64_t state) {
  return state % 2 == 0 ? sample.blank : letters[state / 2];
}

// A letter may follow its predecessor at once if it is another one.
bool MaySkip(const int64_t* letters, int64_t state) {
  return state % 2 != 0 && state >= 3 &&
         letters[state / 2] != letters[state / 2 - 1];
}

// The first bad letter of a launch. Thread-safe; the text needs one only.
class Failure {
 public:
  void BadLetter(int64_t letter) { bad_ = letter, has_bad_ = true; }
  void NoMemory() { no_memory_ = true; }
  absl::Status status() const {
    if (no_memory_) return absl::ResourceExhaustedError("ctc_loss: no memory");
    if (!has_bad_) return absl::OkStatus();
    return absl::OutOfRangeError(
        absl::StrCat("Target ", bad_.load(), " is out of bounds."));
  }

 private:
  std::atomic<int64_t> bad_ = 0;
  std::atomic<bool> has_bad_ = false;
  std::atomic<bool> no_memory_ = false;
};

template <typename T>
struct Alpha {
  Alpha(const Tensor& t, int64_t sample)
      : data(reinterpret_cast<T*>(t.data) + sample * t.strides[0]),
        step(t.strides[1]),
        state(t.strides[2]) {}
  T& operator()(int64_t t, int64_t s) const {
    return data[t * step + s * state];
  }
  T* data;
  int64_t step, state;
};

template <typename T>
struct LogP {
  LogP(const Tensor& t, int64_t sample)
      : data(reinterpret_cast<T*>(t.data) + sample * t.strides[1]),
        step(t.strides[0]),
        cls(t.strides[2]) {}
  T& operator()(int64_t t, int64_t c) const { return data[t * step + c * cls]; }
  T* data;
  int64_t step, cls;
};

template <typename T>
T Last(const Alpha<T>& alpha, const Sample& sample) {
  if (sample.steps == 0) return sample.letters == 0 ? T(0) : kNever<T>;
  const int64_t states = sample.states();
  const T blank = alpha(sample.steps - 1, states - 1);
  return states == 1 ? blank
                     : LogSum(blank, alpha(sample.steps - 1, states - 2));
}

template <typename T>
absl::Status Forward(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& nll = launch.dst[0];
  const Tensor& logp = launch.src[0];
  const int64_t classes = logp.sizes[2];
  Failure failure;
  pool.ParallelFor(nll.numel(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const Sample sample(launch, n);
      auto* letters = reinterpret_cast<int64_t*>(
          Scratch(static_cast<size_t>(sample.letters + 1) * sizeof(int64_t)));
      if (letters == nullptr) return failure.NoMemory();
      int64_t bad;
      if (!ReadLetters(launch.src[1], sample, classes, letters, &bad)) {
        failure.BadLetter(bad);
        continue;
      }
      const Alpha<T> alpha(launch.dst[1], n);
      const LogP<const T> p(logp, n);
      const int64_t states = sample.states();
      for (int64_t t = 0; t < sample.steps; ++t) {
        for (int64_t s = 0; s < states; ++s) {
          T before;
          if (t == 0) {
            before = s < 2 ? T(0) : kNever<T>;
          } else {
            const T stay = alpha(t - 1, s);
            const T next = s > 0 ? alpha(t - 1, s - 1) : kNever<T>;
            before = MaySkip(letters, s)
                         ? LogSum(stay, next, alpha(t - 1, s - 2))
                         : LogSum(stay, next);
          }
          alpha(t, s) = before == kNever<T>
                            ? before
                            : before + p(t, ClassAt(sample, letters, s));
        }
      }
      reinterpret_cast<T*>(nll.data)[n * nll.strides[0]] =
          -Last<T>(alpha, sample);
    }
  });
  return failure.status();
}

// d nll / d logp[t, c] = exp(logp) - sum over states of c of
// exp(alpha + beta - logp + nll), as PyTorch has it: of the softmax's input.
template <typename T>
absl::Status Backward(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& dlogp = launch.dst[0];
  const Tensor& dnll = launch.src[0];
  const Tensor& logp = launch.src[1];
  const Tensor& nll = launch.src[3];
  const bool zero_infinity = launch.ints[1] != 0;
  const int64_t steps = dlogp.sizes[0], classes = dlogp.sizes[2];
  Failure failure;
  pool.ParallelFor(dlogp.sizes[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const Sample sample(launch, n);
      const int64_t states = sample.states();
      // Letters, beta of this step and the next, sums by class.
      char* scratch =
          Scratch(static_cast<size_t>(sample.letters + 1) * sizeof(int64_t) +
                  static_cast<size_t>(2 * states + classes) * sizeof(T));
      if (scratch == nullptr) return failure.NoMemory();
      auto* letters = reinterpret_cast<int64_t*>(scratch);
      T* beta = reinterpret_cast<T*>(letters + sample.letters + 1);
      T* next = beta + states;
      T* const sums = next + states;
      const LogP<T> gradient(dlogp, n);
      const LogP<const T> p(logp, n);
      const Alpha<const T> alpha(launch.src[4], n);
      const T loss = reinterpret_cast<const T*>(nll.data)[n * nll.strides[0]];
      const T scale =
          reinterpret_cast<const T*>(dnll.data)[n * dnll.strides[0]];
      int64_t bad;
      const bool is_good =
          ReadLetters(launch.src[2], sample, classes, letters, &bad);
      if (!is_good) failure.BadLetter(bad);
      const bool is_zero =
          !is_good ||
          (zero_infinity && loss == std::numeric_limits<T>::infinity());
      const int64_t used = is_zero ? 0 : sample.steps;
      for (int64_t t = used; t < steps; ++t) {
        for (int64_t c = 0; c < classes; ++c) gradient(t, c) = T(0);
      }
      for (int64_t t = used - 1; t >= 0; --t) {
        std::fill(sums, sums + classes, kNever<T>);
        for (int64_t s = 0; s < states; ++s) {
          T after;
          if (t == used - 1) {
            after = s >= states - 2 ? T(0) : kNever<T>;
          } else {
            const T stay = next[s];
            const T step = s + 1 < states ? next[s + 1] : kNever<T>;
            after = s + 2 < states && MaySkip(letters, s + 2)
                        ? LogSum(stay, step, next[s + 2])
                        : LogSum(stay, step);
          }
          const int64_t c = ClassAt(sample, letters, s);
          beta[s] = after == kNever<T> ? after : after + p(t, c);
          // alpha holds this step's probability already.
          sums[c] = LogSum(sums[c], alpha(t, s) + after);
        }
        for (int64_t c = 0; c < classes; ++c) {
          gradient(t, c) =
              (std::exp(p(t, c)) - std::exp(sums[c] + loss)) * scale;
        }
        std::swap(beta, next);
      }
    }
  });
  return failure.status();
}

}  // namespace

absl::Status RunCtcLoss(const HostLaunch& launch, ThreadPool& pool) {
  return launch.src[0].dtype == DType::kFloat64 ? Forward<double>(launch, pool)
                                                : Forward<float>(launch, pool);
}

absl::Status RunCtcLossBackward(const HostLaunch& launch, ThreadPool& pool) {
  return launch.dst[0].dtype == DType::kFloat64 ? Backward<double>(launch, pool)
                                                : Backward<float>(launch, pool);
}

}  // namespace tvarant::host

#include "daemon/kernels/host/reduce/reduce_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace tvarant::host {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Gather GatherOf(ReduceOp op, double p) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return Gather::kSum;
    case ReduceOp::kProd:
      return Gather::kProd;
    case ReduceOp::kMax:
      return Gather::kMax;
    case ReduceOp::kMin:
      return Gather::kMin;
    case ReduceOp::kArgMax:
    case ReduceOp::kMaxDim:
      return Gather::kArgMax;
    case ReduceOp::kArgMin:
    case ReduceOp::kMinDim:
      return Gather::kArgMin;
    case ReduceOp::kAny:
      return Gather::kAny;
    case ReduceOp::kAll:
      return Gather::kAll;
    case ReduceOp::kNorm:
      if (p == 0) return Gather::kCountNonzero;
      if (p == 1) return Gather::kAbsSum;
      if (p == 2) return Gather::kSquares;
      if (p == kInfinity) return Gather::kAbsMax;
      if (p == -kInfinity) return Gather::kAbsMin;
      return Gather::kPowers;
    case ReduceOp::kVar:
    case ReduceOp::kStd:
      return Gather::kMoments;
    case ReduceOp::kSumSquares:
      return Gather::kSquares;
    case ReduceOp::kCountNonzero:
      return Gather::kCountNonzero;
    case ReduceOp::kLogSumExp:
      return Gather::kLogSumExp;
    case ReduceOp::kNanSum:
      return Gather::kNanSum;
  }
  return Gather::kSum;
}

bool IsReduceOp(ReduceOp op) {
  return op >= ReduceOp::kSum && op <= ReduceOp::kNanSum;
}

template <typename T>
bool Better(Gather gather, T x, T value) {
  const bool largest = gather == Gather::kMax || gather == Gather::kAbsMax ||
                       gather == Gather::kArgMax;
  return (largest ? x > value : x < value) || (x != x && value == value);
}

double FiniteOrZero(double x) { return std::isinf(x) ? 0 : x; }

template <typename T>
void JoinValues(Gather gather, T next, T* value) {
  switch (gather) {
    case Gather::kProd:
      if constexpr (std::is_integral_v<T>) {
        *value = static_cast<T>(static_cast<uint64_t>(*value) *
                                static_cast<uint64_t>(next));
      } else {
        *value *= next;
      }
      break;
    case Gather::kMax:
    case Gather::kMin:
    case Gather::kAbsMax:
    case Gather::kAbsMin:
      if (Better(gather, next, *value)) *value = next;
      break;
    case Gather::kAny:
      if (next != 0) *value = 1;
      break;
    case Gather::kAll:
      if (next == 0) *value = 0;
      break;
    default:
      if constexpr (std::is_integral_v<T>) {
        *value = static_cast<T>(static_cast<uint64_t>(*value) +
                                static_cast<uint64_t>(next));
      } else {
        *value += next;
      }
      break;
  }
}

void JoinMoments(const ReduceState& next, ReduceState* state) {
  if (next.count == 0) return;
  if (state->count == 0) {
    *state = next;
    return;
  }
  const double total = static_cast<double>(state->count + next.count);
  const double delta = next.real - state->real;
  state->second += next.second + delta * delta *
                                     static_cast<double>(state->count) *
                                     (static_cast<double>(next.count) / total);
  state->real += delta * (static_cast<double>(next.count) / total);
  state->count += next.count;
}

void JoinLogSumExp(const ReduceState& next, ReduceState* state) {
  const double largest =
      Better(Gather::kMax, next.real, state->real) ? next.real : state->real;
  const auto rescaled = [largest](const ReduceState& s) {
    if (s.second == 0) return 0.0;
    return s.second * std::exp(FiniteOrZero(s.real) - FiniteOrZero(largest));
  };
  state->second = rescaled(*state) + rescaled(next);
  state->real = largest;
}

double Variance(const Reduction& reduction, const ReduceState& state) {
  const double degrees = std::max(
      0.0, static_cast<double>(reduction.num_elements) - reduction.scalar);
  return state.second / degrees;
}

double Norm(double p, double gathered) {
  if (p == 0 || p == 1 || std::isinf(p)) return gathered;
  if (p == 2) return std::sqrt(gathered);
  return std::pow(gathered, 1 / p);
}

double FinishReal(const Reduction& reduction, const ReduceState& state) {
  switch (reduction.op) {
    case ReduceOp::kMean:
      return state.real / static_cast<double>(reduction.num_elements);
    case ReduceOp::kNorm:
      return Norm(reduction.scalar, state.real);
    case ReduceOp::kVar:
      return Variance(reduction, state);
    case ReduceOp::kStd:
      return std::sqrt(Variance(reduction, state));
    case ReduceOp::kLogSumExp:
      return std::log(state.second) + FiniteOrZero(state.real);
    default:
      return state.real;
  }
}

}  // namespace

bool MakeReduction(ReduceOp op, ComputeClass compute_class, double scalar,
                   int64_t num_elements, Reduction* reduction) {
  if (!IsReduceOp(op) || compute_class == ComputeClass::kNone) return false;
  reduction->op = op;
  reduction->gather = GatherOf(op, scalar);
  reduction->is_float = compute_class == ComputeClass::kF32 ||
                        compute_class == ComputeClass::kF64;
  reduction->scalar = scalar;
  reduction->num_elements = num_elements;
  const bool needs_float = op == ReduceOp::kMean || op == ReduceOp::kNorm ||
                           op == ReduceOp::kVar || op == ReduceOp::kStd ||
                           op == ReduceOp::kLogSumExp;
  return reduction->is_float || !needs_float;
}

ReduceState StartState(const Reduction& reduction) {
  ReduceState state;
  const auto set = [&](double real, int64_t integer) {
    if (reduction.is_float) {
      state.real = real;
    } else {
      state.integer = integer;
    }
  };
  switch (reduction.gather) {
    case Gather::kProd:
    case Gather::kAll:
      set(1, 1);
      break;
    case Gather::kMax:
    case Gather::kLogSumExp:
      set(-kInfinity, std::numeric_limits<int64_t>::min());
      break;
    case Gather::kMin:
    case Gather::kAbsMin:
      set(kInfinity, std::numeric_limits<int64_t>::max());
      break;
    case Gather::kArgMax:
    case Gather::kArgMin:
      set(0, 0);
      state.count = -1;
      break;
    default:
      set(0, 0);
      break;
  }
  return state;
}

void JoinStates(const Reduction& reduction, const ReduceState& next,
                ReduceState* state) {
  switch (reduction.gather) {
    case Gather::kMoments:
      JoinMoments(next, state);
      return;
    case Gather::kLogSumExp:
      JoinLogSumExp(next, state);
      return;
    case Gather::kArgMax:
    case Gather::kArgMin: {
      if (next.count < 0) return;
      const bool better =
          state->count < 0 ||
          (reduction.is_float
               ? Better(reduction.gather, next.real, state->real)
               : Better(reduction.gather, next.integer, state->integer));
      if (better) *state = next;
      return;
    }
    default:
      break;
  }
  if (reduction.is_float) {
    JoinValues(reduction.gather, next.real, &state->real);
  } else {
    JoinValues(reduction.gather, next.integer, &state->integer);
  }
}

bool ResultIsInteger(const Reduction& reduction) {
  return !reduction.is_float || reduction.op == ReduceOp::kArgMax ||
         reduction.op == ReduceOp::kArgMin;
}

ReduceState FinishState(const Reduction& reduction, const ReduceState& state) {
  ReduceState result;
  if (reduction.op == ReduceOp::kArgMax || reduction.op == ReduceOp::kArgMin) {
    result.integer = state.count;
  } else if (reduction.is_float) {
    result.real = FinishReal(reduction, state);
  } else {
    result.integer = state.integer;
  }
  return result;
}

}  // namespace tvarant::host

#include "daemon/kernels/host/reduce/reduce_loops.h"

#include <cstdint>

#include "daemon/kernels/host/pointwise/element_math.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

// Elements that a row loop takes at once where it needs them twice.
constexpr int64_t kBlock = 1024;

template <typename T>
struct AccumulatorOf {
  using Type = int64_t;
  static constexpr int64_t kLowest = INT64_MIN;
  static constexpr int64_t kHighest = INT64_MAX;
};
struct FloatAccumulator {
  using Type = double;
  static constexpr double kLowest = -__builtin_inf();
  static constexpr double kHighest = __builtin_inf();
};
template <>
struct AccumulatorOf<float> : FloatAccumulator {};
template <>
struct AccumulatorOf<double> : FloatAccumulator {};
template <typename T>
using Accumulator = typename AccumulatorOf<T>::Type;

template <typename A>
TVARANT_ELEMENT A& ValueOf(ReduceState* state);
template <>
TVARANT_ELEMENT double& ValueOf<double>(ReduceState* state) {
  return state->real;
}
template <>
TVARANT_ELEMENT int64_t& ValueOf<int64_t>(ReduceState* state) {
  return state->integer;
}

// Vectors of accumulators, and of as many elements.
constexpr int kLanes = kVectorBytes / 8;
template <typename A>
struct VectorOf {
  typedef A Type __attribute__((vector_size(kVectorBytes)));
};
template <typename A>
using Vector = typename VectorOf<A>::Type;

template <typename A, typename T>
TVARANT_ELEMENT Vector<A> LoadAs(const T* x) {
  typedef T Narrow __attribute__((vector_size(kLanes * sizeof(T))));
  typedef T Loose
      __attribute__((vector_size(kLanes * sizeof(T)), aligned(1), may_alias));
  const Narrow narrow = *reinterpret_cast<const Loose*>(x);
  return __builtin_convertvector(narrow, Vector<A>);
}

// How one element goes into an accumulator; V is the accumulator's type or a
// vector of it. `zero` is 0 of that type.
struct AddElement {
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V) const {
    return acc + x;
  }
};
struct AddUnlessNan {
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V zero) const {
    return acc + (x == x ? x : zero);
  }
};
struct Multiply {
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V) const {
    return acc * x;
  }
};
struct Larger {
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V) const {
    return ((x > acc) | (x != x)) ? x : acc;
  }
};
struct Smaller {
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V) const {
    return ((x < acc) | (x != x)) ? x : acc;
  }
};
struct OrNonzero {
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V zero) const {
    return x != zero ? zero + 1 : acc;
  }
};
struct AndNonzero {
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V zero) const {
    return x == zero ? zero : acc;
  }
};
struct CountNonzero {
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V zero) const {
    return acc + (x != zero ? zero + 1 : zero);
  }
};
struct AddAbsolute {
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V zero) const {
    return acc + (x < zero ? -x : x);
  }
};
struct AddSquare {
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V) const {
    return acc + x * x;
  }
};
struct LargerAbsolute {
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V zero) const {
    return Larger()(acc, x < zero ? -x : x, zero);
  }
};
struct SmallerAbsolute {
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V zero) const {
    return Smaller()(acc, x < zero ? -x : x, zero);
  }
};
struct AddSquaredDeviation {
  double mean;
  template <typename V>
  TVARANT_ELEMENT V operator()(V acc, V x, V) const {
    const V deviation = x - mean;
    return acc + deviation * deviation;
  }
};

// Folds x[0..n) into acc: four vectors of accumulators, joined by `join`.
// `start` is the value that changes nothing.
template <typename T, typename Take, typename Join>
TVARANT_ELEMENT Accumulator<T> FoldRow(Accumulator<T> acc, const T* x,
                                       int64_t n, Accumulator<T> start,
                                       Take take, Join join) {
  using A = Accumulator<T>;
  constexpr int64_t kStep = 4 * kLanes;
  int64_t i = 0;
  if (n >= kStep) {
    const Vector<A> zero = {};
    const Vector<A> first = zero + start;
    Vector<A> a0 = first, a1 = first, a2 = first, a3 = first;
    for (; i + kStep <= n; i += kStep) {
      a0 = take(a0, LoadAs<A>(x + i), zero);
      a1 = take(a1, LoadAs<A>(x + i + kLanes), zero);
      a2 = take(a2, LoadAs<A>(x + i + 2 * kLanes), zero);
      a3 = take(a3, LoadAs<A>(x + i + 3 * kLanes), zero);
    }
    const Vector<A> all = join(join(a0, a1, zero), join(a2, a3, zero), zero);
    for (int lane = 0; lane < kLanes; ++lane) {
      acc = join(acc, static_cast<A>(all[lane]), A(0));
    }
  }
  for (; i < n; ++i) acc = take(acc, static_cast<A>(x[i]), A(0));
  return acc;
}

// The value of each gather that changes nothing.
template <Gather kGather, typename A>
constexpr A StartOf() {
  switch (kGather) {
    case Gather::kProd:
    case Gather::kAll:
      return A(1);
    case Gather::kMax:
      return AccumulatorOf<A>::kLowest;
    case Gather::kMin:
    case Gather::kAbsMin:
      return AccumulatorOf<A>::kHighest;
    default:
      return A(0);
  }
}

template <typename T, Gather kGather, typename Take, typename Join>
void Row(ReduceState* state, const void* x, int64_t n, int64_t, double) {
  using A = Accumulator<T>;
  A& value = ValueOf<A>(state);
  value = FoldRow(value, static_cast<const T*>(x), n, StartOf<kGather, A>(),
                  Take(), Join());
}

template <typename T, typename Take>
void Column(const ReduceColumns& columns, const void* x, int64_t n, int64_t,
            int64_t, double) {
  using A = Accumulator<T>;
  auto* values = static_cast<A*>(columns.value);
  auto* elements = static_cast<const T*>(x);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    values[i] = Take()(values[i], static_cast<A>(elements[i]), A(0));
  }
}

typedef float Floats __attribute__((vector_size(kVectorBytes)));
constexpr int64_t kFloats = kVectorBytes / static_cast<int64_t>(sizeof(float));

TVARANT_ELEMENT Floats LoadFloats(const void* x) {
  typedef float Loose
      __attribute__((vector_size(kVectorBytes), aligned(1), may_alias));
  return *static_cast<const Loose*>(x);
}

// Eight by a tree, which loses as little as three additions.
TVARANT_ELEMENT Floats SumOfEight(const char* x, int64_t stride) {
  const Floats a = LoadFloats(x) + LoadFloats(x + stride);
  const Floats b = LoadFloats(x + 2 * stride) + LoadFloats(x + 3 * stride);
  const Floats c = LoadFloats(x + 4 * stride) + LoadFloats(x + 5 * stride);
  const Floats d = LoadFloats(x + 6 * stride) + LoadFloats(x + 7 * stride);
  return (a + b) + (c + d);
}

TVARANT_ELEMENT void AddAsDoubles(const Floats& sum, Vector<double>* low,
                                  Vector<double>* high) {
  float lanes[kFloats];
  __builtin_memcpy(lanes, &sum, sizeof(lanes));
  *low += LoadAs<double>(lanes);
  *high += LoadAs<double>(lanes + kLanes);
}

// Sums of floats: eight vectors in float, what they give in double. Converting
// each element first was bound by the conversions.
void SumFloatRow(ReduceState* state, const void* x, int64_t n, int64_t,
                 double) {
  constexpr int64_t kStep = 8 * kFloats;
  const float* elements = static_cast<const float*>(x);
  double sum = state->real;
  int64_t i = 0;
  if (n >= kStep) {
    Vector<double> a = {}, b = {};
    for (; i + kStep <= n; i += kStep) {
      AddAsDoubles(
          SumOfEight(reinterpret_cast<const char*>(elements + i), kVectorBytes),
          &a, &b);
    }
    const Vector<double> all = a + b;
    for (int lane = 0; lane < kLanes; ++lane) sum += all[lane];
  }
  state->real =
      FoldRow(sum, elements + i, n - i, 0.0, AddElement(), AddElement());
}

void SumFloatRows(const ReduceColumns& columns, const char* x,
                  int64_t row_stride, int64_t n) {
  auto* sums = static_cast<double*>(columns.value);
  typedef double Loose
      __attribute__((vector_size(kVectorBytes), aligned(1), may_alias));
  int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) {
    Vector<double> low = *reinterpret_cast<const Loose*>(sums + i);
    Vector<double> high = *reinterpret_cast<const Loose*>(sums + i + kLanes);
    AddAsDoubles(
        SumOfEight(x + i * static_cast<int64_t>(sizeof(float)), row_stride),
        &low, &high);
    *reinterpret_cast<Loose*>(sums + i) = low;
    *reinterpret_cast<Loose*>(sums + i + kLanes) = high;
  }
  for (; i < n; ++i) {
    const char* at = x + i * static_cast<int64_t>(sizeof(float));
    for (int64_t r = 0; r < kRowsAtOnce; ++r, at += row_stride) {
      sums[i] += static_cast<double>(*reinterpret_cast<const float*>(at));
    }
  }
}

// The largest element of a block, or the smallest, in the elements' own type.
template <typename T, typename Take>
TVARANT_ELEMENT T BestOf(const T* x, int64_t n) {
  typedef T Wide __attribute__((vector_size(kVectorBytes)));
  typedef T Loose
      __attribute__((vector_size(kVectorBytes), aligned(1), may_alias));
  constexpr int64_t kWide = kVectorBytes / static_cast<int64_t>(sizeof(T));
  T best = x[0];
  int64_t i = 0;
  if (n >= 2 * kWide) {
    const Wide zero = {};
    Wide a = *reinterpret_cast<const Loose*>(x);
    Wide b = *reinterpret_cast<const Loose*>(x + kWide);
    for (i = 2 * kWide; i + 2 * kWide <= n; i += 2 * kWide) {
      const Wide next_a = *reinterpret_cast<const Loose*>(x + i);
      const Wide next_b = *reinterpret_cast<const Loose*>(x + i + kWide);
      a = Take()(a, next_a, zero);
      b = Take()(b, next_b, zero);
    }
    a = Take()(a, b, zero);
    for (int lane = 0; lane < kWide; ++lane) {
      best = Take()(best, static_cast<T>(a[lane]), T(0));
    }
  }
  for (; i < n; ++i) best = Take()(best, x[i], T(0));
  return best;
}

// Whether x replaces value: it is better, or the first NaN.
template <bool kLargest, typename A>
TVARANT_ELEMENT bool Replaces(A x, A value) {
  const bool better = kLargest ? x > value : x < value;
  return better | ((x != x) & (value == value));
}

template <typename T, bool kLargest>
void ArgRow(ReduceState* state, const void* x, int64_t n, int64_t first_index,
            double) {
  using A = Accumulator<T>;
  auto* elements = static_cast<const T*>(x);
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = n - at < kBlock ? n - at : kBlock;
    T best;
    if constexpr (kLargest) {
      best = BestOf<T, Larger>(elements + at, count);
    } else {
      best = BestOf<T, Smaller>(elements + at, count);
    }
    // An index of -1: nothing was seen.
    if (state->count >= 0 &&
        !Replaces<kLargest, A>(static_cast<A>(best), ValueOf<A>(state))) {
      continue;
    }
    int64_t i = at;
    while (!(elements[i] == best) &&
           !((best != best) & (elements[i] != elements[i]))) {
      ++i;
    }
    ValueOf<A>(state) = static_cast<A>(best);
    state->count = first_index + i;
  }
}

template <typename T, bool kLargest>
void ArgColumn(const ReduceColumns& columns, const void* x, int64_t n,
               int64_t index, int64_t rows, double) {
  using A = Accumulator<T>;
  auto* values = static_cast<A*>(columns.value);
  auto* elements = static_cast<const T*>(x);
  int64_t* indices = columns.count;
  if (rows == 1) {
    for (int64_t i = 0; i < n; ++i) {
      values[i] = static_cast<A>(elements[i]);
      indices[i] = index;
    }
    return;
  }
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const A element = static_cast<A>(elements[i]);
    const bool replaces = Replaces<kLargest>(element, values[i]);
    values[i] = sel(replaces, element, values[i]);
    indices[i] = sel(replaces, index, indices[i]);
  }
}

// Mean and squared deviations of each block, by two passes over it, joined by
// Chan, Golub and LeVeque's formula (1979).
template <typename T>
void MomentsRow(ReduceState* state, const void* x, int64_t n, int64_t, double) {
  auto* elements = static_cast<const T*>(x);
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = n - at < kBlock ? n - at : kBlock;
    const double sum =
        FoldRow(0.0, elements + at, count, 0.0, AddElement(), AddElement());
    const double mean = sum / static_cast<double>(count);
    const double squares = FoldRow(0.0, elements + at, count, 0.0,
                                   AddSquaredDeviation{mean}, AddElement());
    const double before = static_cast<double>(state->count);
    const double total = before + static_cast<double>(count);
    const double delta = mean - state->real;
    state->second +=
        squares +
        (before > 0
             ? delta * delta * (before * static_cast<double>(count) / total)
             : 0);
    state->real =
        before > 0 ? state->real + delta * (static_cast<double>(count) / total)
                   : mean;
    state->count += count;
  }
}

// Welford's update (1962).
template <typename T>
void MomentsColumn(const ReduceColumns& columns, const void* x, int64_t n,
                   int64_t, int64_t rows, double) {
  auto* means = static_cast<double*>(columns.value);
  auto* elements = static_cast<const T*>(x);
  double* squares = columns.second;
  int64_t* counts = columns.count;
  const double weight = 1.0 / static_cast<double>(rows);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const double element = static_cast<double>(elements[i]);
    const double delta = element - means[i];
    const double mean = means[i] + delta * weight;
    squares[i] += delta * (element - mean);
    means[i] = mean;
    counts[i] = rows;
  }
}

template <typename T>
void PowersRow(ReduceState* state, const void* x, int64_t n, int64_t,
               double p) {
  auto* elements = static_cast<const T*>(x);
  double powers[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = n - at < kBlock ? n - at : kBlock;
    for (int64_t i = 0; i < count; ++i) {
      powers[i] = fn_pow(fn_abs(static_cast<double>(elements[at + i])), p);
    }
    state->real =
        FoldRow(state->real, powers, count, 0.0, AddElement(), AddElement());
  }
}

template <typename T>
void PowersColumn(const ReduceColumns& columns, const void* x, int64_t n,
                  int64_t, int64_t, double p) {
  auto* values = static_cast<double*>(columns.value);
  auto* elements = static_cast<const T*>(x);
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    values[i] += fn_pow(fn_abs(static_cast<double>(elements[i])), p);
  }
}

TVARANT_ELEMENT double FiniteOrZero(double x) {
  return sel(fn_abs(x) == __builtin_inf(), 0.0, x);
}

// Sums count exponentials relative to the largest element; an infinite one
// counts as 0, so that nothing becomes inf - inf.
template <typename T>
void LogSumExpRow(ReduceState* state, const void* x, int64_t n, int64_t,
                  double) {
  auto* elements = static_cast<const T*>(x);
  T powers[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = n - at < kBlock ? n - at : kBlock;
    const double block =
        static_cast<double>(BestOf<T, Larger>(elements + at, count));
    const double largest = Larger()(state->real, block, 0.0);
    const T base = static_cast<T>(FiniteOrZero(largest));
    for (int64_t i = 0; i < count; ++i) {
      powers[i] = fn_exp(elements[at + i] - base);
    }
    const double rescale =
        state->second == 0 ? 0
                           : state->second * fn_exp(FiniteOrZero(state->real) -
                                                    FiniteOrZero(largest));
    state->second =
        rescale + FoldRow(0.0, powers, count, 0.0, AddElement(), AddElement());
    state->real = largest;
  }
}

template <typename T>
void LogSumExpColumn(const ReduceColumns& columns, const void* x, int64_t n,
                     int64_t, int64_t, double) {
  auto* largest = static_cast<double*>(columns.value);
  auto* elements = static_cast<const T*>(x);
  double* sums = columns.second;
  TVARANT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const double element = static_cast<double>(elements[i]);
    const double before = largest[i];
    const double now = fn_max(element, before);
    const double base = FiniteOrZero(now);
    sums[i] = sums[i] * fn_exp(before - base) + fn_exp(element - base);
    largest[i] = now;
  }
}

template <typename T>
constexpr ComputeClass ClassOf();
template <>
constexpr ComputeClass ClassOf<int32_t>() {
  return ComputeClass::kI32;
}
template <>
constexpr ComputeClass ClassOf<int64_t>() {
  return ComputeClass::kI64;
}
template <>
constexpr ComputeClass ClassOf<float>() {
  return ComputeClass::kF32;
}
template <>
constexpr ComputeClass ClassOf<double>() {
  return ComputeClass::kF64;
}

void Set(ReduceTable* table, Gather gather, ComputeClass compute_class,
         RowLoop row, ColumnLoop column) {
  const int g = static_cast<int>(gather), c = ClassIndex(compute_class);
  table->row[g][c] = row;
  table->column[g][c] = column;
}

template <typename T, Gather kGather, typename Take, typename Join>
void AddGather(ReduceTable* table) {
  Set(table, kGather, ClassOf<T>(), Row<T, kGather, Take, Join>,
      Column<T, Take>);
}

template <typename T>
void AddAnyType(ReduceTable* table) {
  AddGather<T, Gather::kSum, AddElement, AddElement>(table);
  AddGather<T, Gather::kNanSum, AddUnlessNan, AddElement>(table);
  AddGather<T, Gather::kProd, Multiply, Multiply>(table);
  AddGather<T, Gather::kMax, Larger, Larger>(table);
  AddGather<T, Gather::kMin, Smaller, Smaller>(table);
  AddGather<T, Gather::kAny, OrNonzero, OrNonzero>(table);
  AddGather<T, Gather::kAll, AndNonzero, AndNonzero>(table);
  AddGather<T, Gather::kCountNonzero, CountNonzero, AddElement>(table);
  AddGather<T, Gather::kSquares, AddSquare, AddElement>(table);
  Set(table, Gather::kArgMax, ClassOf<T>(), ArgRow<T, true>,
      ArgColumn<T, true>);
  Set(table, Gather::kArgMin, ClassOf<T>(), ArgRow<T, false>,
      ArgColumn<T, false>);
}

template <typename T>
void AddFloats(ReduceTable* table) {
  AddGather<T, Gather::kAbsSum, AddAbsolute, AddElement>(table);
  AddGather<T, Gather::kAbsMax, LargerAbsolute, Larger>(table);
  AddGather<T, Gather::kAbsMin, SmallerAbsolute, Smaller>(table);
  Set(table, Gather::kPowers, ClassOf<T>(), PowersRow<T>, PowersColumn<T>);
  Set(table, Gather::kMoments, ClassOf<T>(), MomentsRow<T>, MomentsColumn<T>);
  Set(table, Gather::kLogSumExp, ClassOf<T>(), LogSumExpRow<T>,
      LogSumExpColumn<T>);
}

ReduceTable MakeTable() {
  ReduceTable table;
  AddAnyType<int32_t>(&table);
  AddAnyType<int64_t>(&table);
  AddAnyType<float>(&table);
  AddAnyType<double>(&table);
  AddFloats<float>(&table);
  AddFloats<double>(&table);
  const int sum = static_cast<int>(Gather::kSum);
  const int floats = ClassIndex(ComputeClass::kF32);
  table.row[sum][floats] = SumFloatRow;
  table.rows[sum][floats] = SumFloatRows;
  return table;
}

}  // namespace

const ReduceTable& GetReduceTableOfIsa() {
  static const ReduceTable table = MakeTable();
  return table;
}

}  // namespace tvarant::host::TVARANT_ISA

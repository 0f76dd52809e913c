#include "daemon/kernels/host/softmax_rows.h"

#include "daemon/kernels/host/row_block.h"
#include "daemon/kernels/host/vec.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

template <typename T>
T RowMax(const T* x, int64_t n) {
  using V = Vec<T>;
  constexpr int kLanes = V::kLanes;
  const T lowest = -__builtin_inf();
  V max0 = V::All(lowest), max1 = max0;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    max0 = Max(max0, V::Load(x + i));
    max1 = Max(max1, V::Load(x + i + kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) max0 = Max(max0, V::Load(x + i));
  if (i < n) max1 = Max(max1, LoadPart<T>(x + i, n - i, lowest));
  return MaxLane(Max(max0, max1));
}

// y = exp(x - max); returns the sum. y may be null.
template <typename T>
T ExpSum(const T* x, int64_t n, T max, T* y) {
  using V = Vec<T>;
  constexpr int kLanes = V::kLanes;
  const V shift = V::All(max);
  V sum = V::All(T(0)), sum1 = sum;
  int64_t i = 0;
  // Two at once: one waits for its polynomial's steps.
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const V e = Exp(V::Load(x + i) - shift);
    const V e1 = Exp(V::Load(x + i + kLanes) - shift);
    if (y != nullptr) {
      e.Store(y + i);
      e1.Store(y + i + kLanes);
    }
    sum = sum + e;
    sum1 = sum1 + e1;
  }
  sum = sum + sum1;
  for (; i + kLanes <= n; i += kLanes) {
    const V e = Exp(V::Load(x + i) - shift);
    if (y != nullptr) e.Store(y + i);
    sum = sum + e;
  }
  if (i < n) {
    const T lowest = -__builtin_inf();
    const V e = Exp(LoadPart<T>(x + i, n - i, lowest) - shift);
    if (y != nullptr) StorePart(e, n - i, y + i);
    sum = sum + e;
  }
  return Sum(sum);
}

template <typename T>
void Forward(SoftmaxKind kind, const RowView& x, const RowView& y, int64_t rows,
             int64_t n, T* scratch) {
  const InRows<T> in(x, rows, n, scratch);
  const OutRows<T> out(y, n, scratch + rows * n);
  for (int64_t row = 0; row < rows; ++row) {
    const T* src = in.row(row);
    T* dst = out.row(row);
    const T max = RowMax(src, n);
    if (kind == SoftmaxKind::kSoftmax) {
      const T scale = T(1) / ExpSum(src, n, max, dst);
      for (int64_t i = 0; i < n; ++i) dst[i] *= scale;
    } else {
      const T log_sum = Log(ExpSum<T>(src, n, max, nullptr));
      for (int64_t i = 0; i < n; ++i) dst[i] = (src[i] - max) - log_sum;
    }
  }
  out.Finish(y, rows, n);
}

template <typename T>
T Dot(const T* a, const T* b, int64_t n) {
  using V = Vec<T>;
  constexpr int kLanes = V::kLanes;
  V sum0 = V::All(T(0)), sum1 = sum0;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    sum0 = Fma(V::Load(a + i), V::Load(b + i), sum0);
    sum1 = Fma(V::Load(a + i + kLanes), V::Load(b + i + kLanes), sum1);
  }
  T sum = Sum(sum0 + sum1);
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <typename T>
T Total(const T* a, int64_t n) {
  using V = Vec<T>;
  constexpr int kLanes = V::kLanes;
  V sum0 = V::All(T(0)), sum1 = sum0;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    sum0 = sum0 + V::Load(a + i);
    sum1 = sum1 + V::Load(a + i + kLanes);
  }
  T sum = Sum(sum0 + sum1);
  for (; i < n; ++i) sum += a[i];
  return sum;
}

template <typename T>
void Backward(SoftmaxKind kind, const RowView& dy, const RowView& y,
              const RowView& dx, int64_t rows, int64_t n, T* scratch) {
  using V = Vec<T>;
  const InRows<T> grad(dy, rows, n, scratch);
  const InRows<T> kept(y, rows, n, scratch + rows * n);
  const OutRows<T> out(dx, n, scratch + 2 * rows * n);
  for (int64_t row = 0; row < rows; ++row) {
    const T* g = grad.row(row);
    const T* p = kept.row(row);
    T* dst = out.row(row);
    if (kind == SoftmaxKind::kSoftmax) {
      const T dot = Dot(g, p, n);
      for (int64_t i = 0; i < n; ++i) dst[i] = p[i] * (g[i] - dot);
      continue;
    }
    const V sum = V::All(Total(g, n));
    int64_t i = 0;
    for (; i + V::kLanes <= n; i += V::kLanes) {
      (V::Load(g + i) - Exp(V::Load(p + i)) * sum).Store(dst + i);
    }
    if (i < n) {
      const V part = LoadPart<T>(g + i, n - i, T(0)) -
                     Exp(LoadPart<T>(p + i, n - i, T(0))) * sum;
      StorePart(part, n - i, dst + i);
    }
  }
  out.Finish(dx, rows, n);
}

}  // namespace

void SoftmaxRows(SoftmaxKind kind, const RowView& x, const RowView& y,
                 int64_t rows, int64_t n, char* scratch) {
  if (y.dtype == DType::kFloat64) {
    Forward(kind, x, y, rows, n, reinterpret_cast<double*>(scratch));
  } else {
    Forward(kind, x, y, rows, n, reinterpret_cast<float*>(scratch));
  }
}

void SoftmaxBackwardRows(SoftmaxKind kind, const RowView& dy, const RowView& y,
                         const RowView& dx, int64_t rows, int64_t n,
                         char* scratch) {
  if (dx.dtype == DType::kFloat64) {
    Backward(kind, dy, y, dx, rows, n, reinterpret_cast<double*>(scratch));
  } else {
    Backward(kind, dy, y, dx, rows, n, reinterpret_cast<float*>(scratch));
  }
}

}  // namespace tvarant::host::TVARANT_ISA

#include "daemon/kernels/host/layer_norm_rows.h"

#include "daemon/kernels/host/row_block.h"
#include "daemon/kernels/host/vec.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

// sum of f(i) over [0, n); f takes an index and gives a vector there, and
// tail(i) one value.
template <typename T, typename F, typename Tail>
TVARANT_INLINE T SumOf(int64_t n, F f, Tail tail) {
  using V = Vec<T>;
  constexpr int kLanes = V::kLanes;
  V sum0 = V::All(T(0)), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    sum0 = sum0 + f(i);
    sum1 = sum1 + f(i + kLanes);
    sum2 = sum2 + f(i + 2 * kLanes);
    sum3 = sum3 + f(i + 3 * kLanes);
  }
  for (; i + kLanes <= n; i += kLanes) sum0 = sum0 + f(i);
  T sum = Sum((sum0 + sum1) + (sum2 + sum3));
  for (; i < n; ++i) sum += tail(i);
  return sum;
}

template <typename T>
TVARANT_INLINE T SquareRoot(T x) {
  if constexpr (__is_same(T, float)) {
    return __builtin_sqrtf(x);
  } else {
    return __builtin_sqrt(x);
  }
}

// A row of n, or null if absent.
template <typename T>
const T* OneRow(const RowView& view, int64_t n, T* buffer) {
  if (view.dtype == DType::kInvalid) return nullptr;
  return InRows<T>(view, 1, n, buffer).data;
}

template <typename T>
void PutOne(const RowView& view, int64_t row, T value) {
  RowView one = view;
  one.data += row * view.row_stride * static_cast<int64_t>(SizeOf(view.dtype));
  one.step = 1;
  Scatter<T>(&value, 1, 1, one);
}

template <typename T>
T GetOne(const RowView& view, int64_t row) {
  RowView one = view;
  one.data += row * view.row_stride * static_cast<int64_t>(SizeOf(view.dtype));
  one.step = 1;
  T value = T(0);
  Gather<T>(one, 1, 1, &value);
  return value;
}

template <typename T>
void Forward(const LayerNormRowsArgs& args, int64_t rows, int64_t n,
             T* scratch) {
  using V = Vec<T>;
  const T* weight = OneRow(args.weight, n, scratch);
  const T* bias = OneRow(args.bias, n, scratch + n);
  const InRows<T> in(args.x, rows, n, scratch + 2 * n);
  const OutRows<T> out(args.y, n, scratch + (2 + rows) * n);
  for (int64_t row = 0; row < rows; ++row) {
    const T* x = in.row(row);
    T* y = out.row(row);
    const T mean = SumOf<T>(
                       n, [&](int64_t i) { return V::Load(x + i); },
                       [&](int64_t i) { return x[i]; }) /
                   static_cast<T>(n);
    const V all_mean = V::All(mean);
    // Two passes: no cancellation between large squares.
    const T var =
        SumOf<T>(
            n,
            [&](int64_t i) {
              const V d = V::Load(x + i) - all_mean;
              return d * d;
            },
            [&](int64_t i) { return (x[i] - mean) * (x[i] - mean); }) /
        static_cast<T>(n);
    const T rstd = T(1) / SquareRoot(var + static_cast<T>(args.eps));
    PutOne(args.mean, row, mean);
    PutOne(args.rstd, row, rstd);
    if (weight != nullptr && bias != nullptr) {
      for (int64_t i = 0; i < n; ++i) {
        y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
      }
    } else {
      for (int64_t i = 0; i < n; ++i) {
        const T h = (x[i] - mean) * rstd;
        y[i] = (weight != nullptr ? h * weight[i] : h) +
               (bias != nullptr ? bias[i] : T(0));
      }
    }
  }
  out.Finish(args.y, rows, n);
}

template <typename T>
void Backward(const LayerNormBackwardRowsArgs& args, int64_t rows, int64_t n,
              T* scratch) {
  using V = Vec<T>;
  const T* weight = OneRow(args.weight, n, scratch);
  const InRows<T> grad(args.dy, rows, n, scratch + 2 * n);
  const InRows<T> in(args.x, rows, n, scratch + (2 + rows) * n);
  T* dweight = reinterpret_cast<T*>(args.dweight);
  T* dbias = reinterpret_cast<T*>(args.dbias);
  const bool wants_dx = args.dx.dtype != DType::kInvalid;
  const OutRows<T> out(args.dx, n, scratch + (2 + 2 * rows) * n);
  for (int64_t row = 0; row < rows; ++row) {
    const T* dy = grad.row(row);
    const T* x = in.row(row);
    const T mean = GetOne<T>(args.mean, row);
    const T rstd = GetOne<T>(args.rstd, row);
    const V all_mean = V::All(mean), all_rstd = V::All(rstd);
    if (wants_dx) {
      const auto g = [&](int64_t i) {
        const V d = V::Load(dy + i);
        return weight != nullptr ? d * V::Load(weight + i) : d;
      };
      const auto g1 = [&](int64_t i) {
        return weight != nullptr ? dy[i] * weight[i] : dy[i];
      };
      const T scale = T(1) / static_cast<T>(n);
      const T sum_g = SumOf<T>(n, g, g1) * scale;
      const T sum_gh =
          SumOf<T>(
              n,
              [&](int64_t i) {
                return g(i) * ((V::Load(x + i) - all_mean) * all_rstd);
              },
              [&](int64_t i) { return g1(i) * ((x[i] - mean) * rstd); }) *
          scale;
      T* dx = out.row(row);
      for (int64_t i = 0; i < n; ++i) {
        const T h = (x[i] - mean) * rstd;
        const T gi = weight != nullptr ? dy[i] * weight[i] : dy[i];
        dx[i] = rstd * (gi - sum_g - h * sum_gh);
      }
    }
    if (dweight != nullptr) {
      for (int64_t i = 0; i < n; ++i) {
        dweight[i] += dy[i] * ((x[i] - mean) * rstd);
      }
    }
    if (dbias != nullptr) {
      for (int64_t i = 0; i < n; ++i) dbias[i] += dy[i];
    }
  }
  if (wants_dx) out.Finish(args.dx, rows, n);
}

}  // namespace

void LayerNormRows(const LayerNormRowsArgs& args, int64_t rows, int64_t n,
                   char* scratch) {
  if (args.x.dtype == DType::kFloat64) {
    Forward(args, rows, n, reinterpret_cast<double*>(scratch));
  } else {
    Forward(args, rows, n, reinterpret_cast<float*>(scratch));
  }
}

void LayerNormBackwardRows(const LayerNormBackwardRowsArgs& args, int64_t rows,
                           int64_t n, char* scratch) {
  if (args.x.dtype == DType::kFloat64) {
    Backward(args, rows, n, reinterpret_cast<double*>(scratch));
  } else {
    Backward(args, rows, n, reinterpret_cast<float*>(scratch));
  }
}

}  // namespace tvarant::host::TVARANT_ISA

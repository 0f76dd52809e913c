#include "daemon/kernels/host/gemm/gemm_few_rows.h"

#include "daemon/kernels/host/gemm/gemm_element.h"
#include "daemon/kernels/host/gemm/gemm_epilogue.h"
#include "daemon/kernels/host/vec.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

constexpr int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }

// sums[r][j] += sum over `rows` rows p of a[r][p] * b[p][j].
template <typename T, typename S, int m, int rows>
void AddRows(const T* a, const S* b, int64_t b_stride, int64_t cols, T* sums) {
  using V = Vec<T>;
  V x[m][rows];
  for (int r = 0; r < m; ++r) {
    for (int p = 0; p < rows; ++p) x[r][p] = V::All(a[r * kFewRowsDepth + p]);
  }
  int64_t j = 0;
  for (; j + V::kLanes <= cols; j += V::kLanes) {
    V line[rows];
    for (int p = 0; p < rows; ++p) line[p] = V::Load(b + p * b_stride + j);
    for (int r = 0; r < m; ++r) {
      T* at = sums + r * kFewRowsCols + j;
      V sum = V::Load(at);
      for (int p = 0; p < rows; ++p) sum = Fma(x[r][p], line[p], sum);
      sum.Store(at);
    }
  }
  for (; j < cols; ++j) {
    for (int r = 0; r < m; ++r) {
      for (int p = 0; p < rows; ++p) {
        sums[r * kFewRowsCols + j] +=
            a[r * kFewRowsDepth + p] * Widen<T>(b[p * b_stride + j]);
      }
    }
  }
}

template <typename T, typename S, int m>
void ByRows(const T* a, int64_t kc, const S* b, int64_t b_stride, int64_t cols,
            T* sums) {
  int64_t p = 0;
  for (; p + 4 <= kc; p += 4) {
    AddRows<T, S, m, 4>(a + p, b + p * b_stride, b_stride, cols, sums);
  }
  for (; p < kc; ++p) {
    AddRows<T, S, m, 1>(a + p, b + p * b_stride, b_stride, cols, sums);
  }
}

// sums[r][j] += sum over p of a[r][p] * b[j][p] for `width` columns j of B.
template <typename T, typename S, int m, int width>
void AddColumns(const T* a, int64_t kc, const S* b, int64_t b_stride, T* sums) {
  using V = Vec<T>;
  V sum[m][width];
  for (int r = 0; r < m; ++r) {
    for (int j = 0; j < width; ++j) sum[r][j] = V::All(T(0));
  }
  int64_t p = 0;
  for (; p + V::kLanes <= kc; p += V::kLanes) {
    V x[m];
    for (int r = 0; r < m; ++r) x[r] = V::Load(a + r * kFewRowsDepth + p);
    for (int j = 0; j < width; ++j) {
      const V y = V::Load(b + j * b_stride + p);
      for (int r = 0; r < m; ++r) sum[r][j] = Fma(x[r], y, sum[r][j]);
    }
  }
  for (int r = 0; r < m; ++r) {
    for (int j = 0; j < width; ++j) {
      T rest = Sum(sum[r][j]);
      for (int64_t q = p; q < kc; ++q) {
        rest += a[r * kFewRowsDepth + q] * Widen<T>(b[j * b_stride + q]);
      }
      sums[r * kFewRowsCols + j] += rest;
    }
  }
}

template <typename T, typename S, int m>
void ByColumns(const T* a, int64_t kc, const S* b, int64_t b_stride,
               int64_t cols, T* sums) {
  constexpr int kWidth = m <= 2 ? 4 : 2;
  int64_t j = 0;
  for (; j + kWidth <= cols; j += kWidth) {
    AddColumns<T, S, m, kWidth>(a, kc, b + j * b_stride, b_stride, sums + j);
  }
  for (; j < cols; ++j) {
    AddColumns<T, S, m, 1>(a, kc, b + j * b_stride, b_stride, sums + j);
  }
}

template <typename T, int m>
void RunRows(const GemmProblem& g, const GemmRange& r, T* a, T* sums) {
  constexpr int kStep = 2 * Vec<T>::kLanes;
  for (int64_t j = r.n_begin; j < r.n_end; j += kFewRowsCols) {
    const int64_t cols = Min(kFewRowsCols, r.n_end - j);
    for (int row = 0; row < m; ++row) {
      for (int64_t i = 0; i < kFewRowsCols; ++i) {
        sums[row * kFewRowsCols + i] = T(0);
      }
    }
    for (int64_t p = 0; p < g.k; p += kFewRowsDepth) {
      const int64_t kc = Min(kFewRowsDepth, g.k - p);
      ForStored<T>(g.a.dtype, [&](auto stored) {
        using S = decltype(stored);
        const S* src = reinterpret_cast<const S*>(g.a.data);
        for (int row = 0; row < m; ++row) {
          for (int64_t i = 0; i < kc; ++i) {
            a[row * kFewRowsDepth + i] =
                Widen<T>(src[row * g.a.row_stride + (p + i) * g.a.col_stride]);
          }
        }
      });
      ForStored<T>(g.b.dtype, [&](auto stored) {
        using S = decltype(stored);
        const S* b = reinterpret_cast<const S*>(g.b.data) + p * g.b.row_stride +
                     j * g.b.col_stride;
        if (g.b.col_stride == 1) {
          ByRows<T, S, m>(a, kc, b, g.b.row_stride, cols, sums);
        } else {
          ByColumns<T, S, m>(a, kc, b, g.b.col_stride, cols, sums);
        }
      });
    }
    for (int row = 0; row < m; ++row) {
      for (int64_t i = 0; i < cols; i += kStep) {
        FinishRow<T, kStep>(g, row, j + i, Min(kStep, cols - i),
                            sums + row * kFewRowsCols + i);
      }
    }
  }
}

template <typename T>
void Run(const GemmProblem& g, const GemmRange& range, char* scratch) {
  T* a = reinterpret_cast<T*>(scratch);
  T* sums = a + kFewRows * kFewRowsDepth;
  switch (g.m) {
    case 1:
      return RunRows<T, 1>(g, range, a, sums);
    case 2:
      return RunRows<T, 2>(g, range, a, sums);
    case 3:
      return RunRows<T, 3>(g, range, a, sums);
    default:
      return RunRows<T, 4>(g, range, a, sums);
  }
}

}  // namespace

void FewRowsF32(const GemmProblem& problem, const GemmRange& range,
                char* scratch) {
  Run<float>(problem, range, scratch);
}

void FewRowsF64(const GemmProblem& problem, const GemmRange& range,
                char* scratch) {
  Run<double>(problem, range, scratch);
}

}  // namespace tvarant::host::TVARANT_ISA

// What happens to a finished row of the register tile: alpha, bias,
// activation, rounding, store. Include only in SIMD sources.

#ifndef TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_EPILOGUE_H_
#define TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_EPILOGUE_H_

#include "daemon/kernels/host/gemm/gemm_element.h"
#include "daemon/kernels/host/gemm/gemm_tile.h"
#include "daemon/kernels/host/vec.h"

namespace tvarant::host::TVARANT_ISA {

template <typename T>
TVARANT_INLINE T FactorOf(double x) {
  if constexpr (kIsFloatType<T>) {
    return static_cast<T>(x);
  } else {
    return static_cast<T>(static_cast<int64_t>(x));
  }
}

template <typename T>
TVARANT_INLINE Vec<T> Activate(Vec<T> x, Act act) {
  using V = Vec<T>;
  switch (act) {
    case Act::kRelu:
      return Relu(x);
    case Act::kSilu:
      return x / (V::All(T(1)) + Exp(V::All(T(0)) - x));
    case Act::kGelu:
      return V::All(T(0.5)) * x *
             (V::All(T(1)) + Erf(x * V::All(T(0.70710678118654752440))));
    case Act::kGeluTanh: {
      const V cubic = V::All(T(0.044715)) * x * x * x;
      return V::All(T(0.5)) * x *
             (V::All(T(1)) +
              Tanh(V::All(T(0.79788456080286535588)) * (x + cubic)));
    }
    default:
      return x;
  }
}

// One row of at most kCols results: columns [col, col + cols) of row `row`.
// x holds kCols products, padded, and is overwritten.
template <typename T, int kCols>
void FinishRow(const GemmProblem& g, int64_t row, int64_t col, int64_t cols,
               T* x) {
  using V = Vec<T>;
  constexpr int kLanes = V::kLanes;
  if (g.alpha != 1) {
    const V alpha = V::All(FactorOf<T>(g.alpha));
    for (int i = 0; i < kCols; i += kLanes)
      (V::Load(x + i) * alpha).Store(x + i);
  }
  if (g.bias.dtype != DType::kInvalid && g.beta != 0) {
    alignas(64) T copy[kCols];
    const T* bias = copy;
    const int64_t step = g.bias.col_stride;
    ForStored<T>(g.bias.dtype, [&](auto stored) {
      using S = decltype(stored);
      const S* src = reinterpret_cast<const S*>(g.bias.data) +
                     row * g.bias.row_stride + col * step;
      if (sizeof(S) == sizeof(T) && step == 1 && cols == kCols) {
        bias = reinterpret_cast<const T*>(src);
        return;
      }
      for (int i = 0; i < kCols; ++i) {
        copy[i] = i < cols ? Widen<T>(src[i * step]) : T(0);
      }
    });
    const V beta = V::All(FactorOf<T>(g.beta));
    for (int i = 0; i < kCols; i += kLanes) {
      Fma(beta, V::Load(bias + i), V::Load(x + i)).Store(x + i);
    }
  }
  if constexpr (kIsFloatType<T>) {
    if (g.act != Act::kNone) {
      for (int i = 0; i < kCols; i += kLanes) {
        Activate(V::Load(x + i), g.act).Store(x + i);
      }
    }
  }
  const int64_t step = g.c.col_stride;
  ForStored<T>(g.c.dtype, [&](auto stored) {
    using S = decltype(stored);
    S* dst = reinterpret_cast<S*>(g.c.data) + row * g.c.row_stride + col * step;
    if constexpr (!kIsFloatType<T>) {
      // Relu after the product wrapped to the stored type, as written out.
      if (g.act == Act::kRelu) {
        for (int i = 0; i < cols; ++i) {
          const S wrapped = static_cast<S>(x[i]);
          x[i] = wrapped < S(0) ? T(0) : x[i];
        }
      }
    } else if constexpr (__is_same(S, T)) {
      if (step == 1 && cols == kCols) {
        for (int i = 0; i < kCols; i += kLanes) V::Load(x + i).Store(dst + i);
        return;
      }
    }
    for (int i = 0; i < cols; ++i) dst[i * step] = Narrow<S>(x[i]);
  });
}

}  // namespace tvarant::host::TVARANT_ISA

#endif  // TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_EPILOGUE_H_

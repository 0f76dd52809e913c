#include "daemon/kernels/host/volume/pool_loops.h"

#include "daemon/kernels/host/half.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

constexpr int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t Max(int64_t a, int64_t b) { return a > b ? a : b; }

// The type that sums of S are made in.
template <typename S>
struct WideOf {
  using Type = int64_t;
};
template <>
struct WideOf<float> {
  using Type = float;
};
template <>
struct WideOf<Half> {
  using Type = float;
};
template <>
struct WideOf<BFloat16> {
  using Type = float;
};
template <>
struct WideOf<double> {
  using Type = double;
};
template <typename S>
using Wide = typename WideOf<S>::Type;

template <typename S>
TVARANT_INLINE auto Compared(S x) {
  if constexpr (__is_same(S, Half) || __is_same(S, BFloat16)) {
    return ToFloat(x);
  } else {
    return x;
  }
}

template <typename S>
TVARANT_INLINE Wide<S> Widen(S x) {
  return static_cast<Wide<S>>(Compared(x));
}

template <typename S>
TVARANT_INLINE S Narrow(Wide<S> x) {
  if constexpr (__is_same(S, Half) || __is_same(S, BFloat16)) {
    return FromFloat<S>(x);
  } else {
    return static_cast<S>(x);
  }
}

template <typename S>
TVARANT_INLINE S Lowest() {
  if constexpr (__is_same(S, float) || __is_same(S, double)) {
    return -static_cast<S>(__builtin_inf());
  } else if constexpr (__is_same(S, Half)) {
    return Half{0xFC00};
  } else if constexpr (__is_same(S, BFloat16)) {
    return BFloat16{0xFF80};
  } else if constexpr (static_cast<S>(-1) > S(0)) {
    return S(0);
  } else {
    return static_cast<S>(int64_t{1} << (8 * sizeof(S) - 1));
  }
}

// Larger, or NaN: what max takes.
template <typename S>
TVARANT_INLINE bool Wins(S x, S over) {
  const auto a = Compared(x);
  return a > Compared(over) || a != a;
}

// Positions begin, begin + step, ... below end, all in the large volume.
struct Window {
  int64_t begin, end, step;
  int64_t counted;  // elements of the average, padding counted or not
};

Window WindowOf(const PoolPlan& p, int dim, int64_t at) {
  const int64_t size = p.large_size[dim];
  if (p.adaptive) {
    const int64_t out = p.small_size[dim];
    const int64_t begin = at * size / out;
    const int64_t end = ((at + 1) * size + out - 1) / out;
    return {begin, end, 1, end - begin};
  }
  const int64_t step = p.dilation[dim];
  const int64_t first = at * p.stride[dim] - p.padding[dim];
  const int64_t last = first + (p.kernel[dim] - 1) * step + 1;
  int64_t begin = first;
  if (begin < 0) begin += (step - 1 - first) / step * step;
  const int64_t end = Min(last, size);
  const int64_t with_padding = Min(last, size + p.padding[dim]) - first;
  return {begin, end, step,
          p.count_padding ? with_padding : Max(end - begin, 0)};
}

// The windows of a row, in scratch before the row itself; returns its end.
char* WindowsOfRow(const PoolPlan& p, char* scratch) {
  Window* windows = reinterpret_cast<Window*>(scratch);
  for (int64_t i = 0; i < p.small_size[2]; ++i) windows[i] = WindowOf(p, 2, i);
  return reinterpret_cast<char*>(windows + p.small_size[2]);
}

TVARANT_INLINE int64_t DivisorOf(const PoolPlan& p, const Window& d,
                                 const Window& h, const Window& w) {
  return p.divisor != 0 ? p.divisor : d.counted * h.counted * w.counted;
}

// Outputs [low, high) of a row whose window holds tap k of dimension w.
struct Range {
  int64_t low, high;
};

Range OutputsOf(const PoolPlan& p, int64_t tap) {
  const int64_t first = tap * p.dilation[2] - p.padding[2];
  const int64_t stride = p.stride[2], size = p.large_size[2];
  const int64_t low = first < 0 ? (stride - 1 - first) / stride : 0;
  const int64_t high = first < size ? (size - 1 - first) / stride + 1 : 0;
  return {low, Min(high, p.small_size[2])};
}

// Taps of dimension w that some output of a row holds.
Range TapsOf(const PoolPlan& p) {
  const int64_t step = p.dilation[2];
  const int64_t reach = (p.small_size[2] - 1) * p.stride[2];
  const int64_t low =
      p.padding[2] > reach ? (p.padding[2] - reach + step - 1) / step : 0;
  const int64_t high = (p.large_size[2] - 1 + p.padding[2]) / step + 1;
  return {low, Min(high, p.kernel[2])};
}

template <typename Body>
void ForStored(DType dtype, Body body) {
  switch (dtype) {
    case DType::kUInt8:
      return body(uint8_t());
    case DType::kInt8:
      return body(int8_t());
    case DType::kInt16:
      return body(int16_t());
    case DType::kInt32:
      return body(int32_t());
    case DType::kInt64:
      return body(int64_t());
    case DType::kFloat16:
      return body(Half());
    case DType::kBFloat16:
      return body(BFloat16());
    case DType::kFloat32:
      return body(float());
    case DType::kFloat64:
      return body(double());
    default:
      return;
  }
}

template <typename Body>
void ForAveraged(DType dtype, Body body) {
  switch (dtype) {
    case DType::kInt64:
      return body(int64_t());
    case DType::kFloat16:
      return body(Half());
    case DType::kBFloat16:
      return body(BFloat16());
    case DType::kFloat32:
      return body(float());
    case DType::kFloat64:
      return body(double());
    default:
      return;
  }
}

int64_t PlaneOffset(const PoolVolume& v, int64_t plane, int64_t channels) {
  return plane / channels * v.strides[0] + plane % channels * v.strides[1];
}

// A row of outputs of one plane: the best value of each and where it is.
template <typename S>
void MaxRow(const PoolPlan& p, const S* x, const Window& d, const Window& h,
            const Window* windows, S* best, int64_t* where) {
  const int64_t out = p.small_size[2];
  const int64_t row_size = p.large_size[2], plane = p.large_size[1] * row_size;
  const int64_t step = p.large.strides[4];
  const int64_t base = d.begin * plane + h.begin * row_size;
  if (p.adaptive) {
    for (int64_t i = 0; i < out; ++i) {
      const Window& w = windows[i];
      best[i] = Lowest<S>();
      where[i] = base + w.begin;
      for (int64_t z = d.begin; z < d.end; ++z) {
        for (int64_t y = h.begin; y < h.end; ++y) {
          const S* row = x + z * p.large.strides[2] + y * p.large.strides[3];
          for (int64_t j = w.begin; j < w.end; ++j) {
            if (!Wins(row[j * step], best[i])) continue;
            best[i] = row[j * step];
            where[i] = z * plane + y * row_size + j;
          }
        }
      }
    }
    return;
  }
  for (int64_t i = 0; i < out; ++i) {
    best[i] = Lowest<S>();
    where[i] = base + Min(windows[i].begin, row_size - 1);
  }
  const Range taps = TapsOf(p);
  for (int64_t z = d.begin; z < d.end; z += d.step) {
    for (int64_t y = h.begin; y < h.end; y += h.step) {
      const S* row = x + z * p.large.strides[2] + y * p.large.strides[3];
      const int64_t at = z * plane + y * row_size;
      for (int64_t k = taps.low; k < taps.high; ++k) {
        const Range outputs = OutputsOf(p, k);
        const int64_t first = k * p.dilation[2] - p.padding[2];
        const int64_t stride = p.stride[2];
        for (int64_t i = outputs.low; i < outputs.high; ++i) {
          const S value = row[(first + i * stride) * step];
          const bool wins = Wins(value, best[i]);
          best[i] = wins ? value : best[i];
          where[i] = wins ? at + first + i * stride : where[i];
        }
      }
    }
  }
}

void MaxPlanes(const PoolPlan& p, int64_t begin, int64_t end, char* scratch) {
  const Window* windows = reinterpret_cast<const Window*>(scratch);
  int64_t* where = reinterpret_cast<int64_t*>(WindowsOfRow(p, scratch));
  ForStored(p.dtype, [&](auto stored) {
    using S = decltype(stored);
    S* best = reinterpret_cast<S*>(where + p.small_size[2]);
    for (int64_t plane = begin; plane < end; ++plane) {
      const S* x = reinterpret_cast<const S*>(p.large.data) +
                   PlaneOffset(p.large, plane, p.channels);
      for (int64_t d = 0; d < p.small_size[0]; ++d) {
        const Window window_d = WindowOf(p, 0, d);
        for (int64_t h = 0; h < p.small_size[1]; ++h) {
          MaxRow<S>(p, x, window_d, WindowOf(p, 1, h), windows, best, where);
          S* y = reinterpret_cast<S*>(p.small.data) +
                 PlaneOffset(p.small, plane, p.channels) +
                 d * p.small.strides[2] + h * p.small.strides[3];
          int64_t* indices = reinterpret_cast<int64_t*>(p.indices.data) +
                             PlaneOffset(p.indices, plane, p.channels) +
                             d * p.indices.strides[2] +
                             h * p.indices.strides[3];
          for (int64_t i = 0; i < p.small_size[2]; ++i) {
            y[i * p.small.strides[4]] = best[i];
            indices[i * p.indices.strides[4]] = where[i];
          }
        }
      }
    }
  });
}

// Calls body(n, d, h, w) for each position of rows [begin, end) of small.
template <typename Body>
void ForPositions(const PoolPlan& p, int64_t begin, int64_t end, Body body) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t h = row % p.small_size[1];
    const int64_t d = row / p.small_size[1] % p.small_size[0];
    const int64_t n = row / p.small_size[1] / p.small_size[0];
    for (int64_t w = 0; w < p.small_size[2]; ++w) body(n, d, h, w);
  }
}

int64_t PositionOffset(const PoolVolume& v, int64_t n, int64_t d, int64_t h,
                       int64_t w) {
  return n * v.strides[0] + d * v.strides[2] + h * v.strides[3] +
         w * v.strides[4];
}

constexpr int64_t kChannels = 64;

void MaxChannels(const PoolPlan& p, int64_t begin, int64_t end, char*) {
  ForStored(p.dtype, [&](auto stored) {
    using S = decltype(stored);
    ForPositions(
        p, begin, end, [&](int64_t n, int64_t d, int64_t h, int64_t w) {
          const Window wd = WindowOf(p, 0, d), wh = WindowOf(p, 1, h),
                       ww = WindowOf(p, 2, w);
          const S* x =
              reinterpret_cast<const S*>(p.large.data) + n * p.large.strides[0];
          S* y = reinterpret_cast<S*>(p.small.data) +
                 PositionOffset(p.small, n, d, h, w);
          int64_t* indices = reinterpret_cast<int64_t*>(p.indices.data) +
                             PositionOffset(p.indices, n, d, h, w);
          const int64_t row_size = p.large_size[2];
          const int64_t plane = p.large_size[1] * row_size;
          for (int64_t first = 0; first < p.channels; first += kChannels) {
            const int64_t count = Min(kChannels, p.channels - first);
            S best[kChannels];
            int64_t where[kChannels];
            for (int64_t c = 0; c < count; ++c) {
              best[c] = Lowest<S>();
              where[c] = wd.begin * plane + wh.begin * row_size +
                         Min(ww.begin, row_size - 1);
            }
            for (int64_t i = wd.begin; i < wd.end; i += wd.step) {
              for (int64_t j = wh.begin; j < wh.end; j += wh.step) {
                for (int64_t k = ww.begin; k < ww.end; k += ww.step) {
                  const S* from = x + i * p.large.strides[2] +
                                  j * p.large.strides[3] +
                                  k * p.large.strides[4] + first;
                  const int64_t at = i * plane + j * row_size + k;
                  for (int64_t c = 0; c < count; ++c) {
                    const bool wins = Wins(from[c], best[c]);
                    best[c] = wins ? from[c] : best[c];
                    where[c] = wins ? at : where[c];
                  }
                }
              }
            }
            for (int64_t c = 0; c < count; ++c) {
              y[(first + c) * p.small.strides[1]] = best[c];
              indices[(first + c) * p.indices.strides[1]] = where[c];
            }
          }
        });
  });
}

void AveragePlanes(const PoolPlan& p, int64_t begin, int64_t end,
                   char* scratch) {
  const Window* windows = reinterpret_cast<const Window*>(scratch);
  char* row_data = WindowsOfRow(p, scratch);
  ForAveraged(p.dtype, [&](auto stored) {
    using S = decltype(stored);
    using T = Wide<S>;
    T* sum = reinterpret_cast<T*>(row_data);
    const int64_t out = p.small_size[2], step = p.large.strides[4];
    for (int64_t plane = begin; plane < end; ++plane) {
      const S* x = reinterpret_cast<const S*>(p.large.data) +
                   PlaneOffset(p.large, plane, p.channels);
      for (int64_t row = 0; row < p.small_size[0] * p.small_size[1]; ++row) {
        const int64_t d = row / p.small_size[1], h = row % p.small_size[1];
        const Window wd = WindowOf(p, 0, d), wh = WindowOf(p, 1, h);
        for (int64_t i = 0; i < out; ++i) sum[i] = T(0);
        for (int64_t z = wd.begin; z < wd.end; ++z) {
          for (int64_t y = wh.begin; y < wh.end; ++y) {
            const S* from = x + z * p.large.strides[2] + y * p.large.strides[3];
            if (p.adaptive) {
              for (int64_t i = 0; i < out; ++i) {
                const Window& w = windows[i];
                for (int64_t j = w.begin; j < w.end; ++j) {
                  sum[i] += Widen(from[j * step]);
                }
              }
              continue;
            }
            const Range taps = TapsOf(p);
            for (int64_t k = taps.low; k < taps.high; ++k) {
              const Range outputs = OutputsOf(p, k);
              const int64_t first = k - p.padding[2], stride = p.stride[2];
              for (int64_t i = outputs.low; i < outputs.high; ++i) {
                sum[i] += Widen(from[(first + i * stride) * step]);
              }
            }
          }
        }
        S* y = reinterpret_cast<S*>(p.small.data) +
               PlaneOffset(p.small, plane, p.channels) +
               d * p.small.strides[2] + h * p.small.strides[3];
        for (int64_t i = 0; i < out; ++i) {
          const Window& w = windows[i];
          const int64_t divisor = DivisorOf(p, wd, wh, w);
          const bool empty = wd.begin >= wd.end || wh.begin >= wh.end ||
                             w.begin >= w.end || divisor == 0;
          y[i * p.small.strides[4]] =
              Narrow<S>(empty ? T(0) : sum[i] / static_cast<T>(divisor));
        }
      }
    }
  });
}

void AverageChannels(const PoolPlan& p, int64_t begin, int64_t end, char*) {
  ForAveraged(p.dtype, [&](auto stored) {
    using S = decltype(stored);
    using T = Wide<S>;
    ForPositions(
        p, begin, end, [&](int64_t n, int64_t d, int64_t h, int64_t w) {
          const Window wd = WindowOf(p, 0, d), wh = WindowOf(p, 1, h),
                       ww = WindowOf(p, 2, w);
          const S* x =
              reinterpret_cast<const S*>(p.large.data) + n * p.large.strides[0];
          S* y = reinterpret_cast<S*>(p.small.data) +
                 PositionOffset(p.small, n, d, h, w);
          const int64_t divisor = DivisorOf(p, wd, wh, ww);
          for (int64_t first = 0; first < p.channels; first += kChannels) {
            const int64_t count = Min(kChannels, p.channels - first);
            T sum[kChannels] = {};
            for (int64_t i = wd.begin; i < wd.end; ++i) {
              for (int64_t j = wh.begin; j < wh.end; ++j) {
                for (int64_t k = ww.begin; k < ww.end; ++k) {
                  const S* from = x + i * p.large.strides[2] +
                                  j * p.large.strides[3] +
                                  k * p.large.strides[4] + first;
                  for (int64_t c = 0; c < count; ++c) sum[c] += Widen(from[c]);
                }
              }
            }
            for (int64_t c = 0; c < count; ++c) {
              y[(first + c) * p.small.strides[1]] = Narrow<S>(
                  divisor == 0 ? T(0) : sum[c] / static_cast<T>(divisor));
            }
          }
        });
  });
}

// One plane of the gradient, summed in place or in `sums`.
template <typename S>
void AverageBackwardPlane(const PoolPlan& p, const S* dy, Wide<S>* sums,
                          const int64_t* strides, const Window* windows) {
  using T = Wide<S>;
  for (int64_t d = 0; d < p.small_size[0]; ++d) {
    const Window wd = WindowOf(p, 0, d);
    for (int64_t h = 0; h < p.small_size[1]; ++h) {
      const Window wh = WindowOf(p, 1, h);
      for (int64_t w = 0; w < p.small_size[2]; ++w) {
        const Window& ww = windows[w];
        const int64_t divisor = DivisorOf(p, wd, wh, ww);
        if (divisor == 0) continue;
        const T share =
            Widen(dy[d * p.small.strides[2] + h * p.small.strides[3] +
                     w * p.small.strides[4]]) /
            static_cast<T>(divisor);
        for (int64_t i = wd.begin; i < wd.end; ++i) {
          for (int64_t j = wh.begin; j < wh.end; ++j) {
            T* to = sums + i * strides[0] + j * strides[1];
            for (int64_t k = ww.begin; k < ww.end; ++k) {
              to[k * strides[2]] += share;
            }
          }
        }
      }
    }
  }
}

void AverageBackwardPlanes(const PoolPlan& p, int64_t begin, int64_t end,
                           char* scratch) {
  const Window* windows = reinterpret_cast<const Window*>(scratch);
  char* plane_data = WindowsOfRow(p, scratch);
  ForAveraged(p.dtype, [&](auto stored) {
    using S = decltype(stored);
    using T = Wide<S>;
    const int64_t size = p.large_size[2];
    for (int64_t plane = begin; plane < end; ++plane) {
      const S* dy = reinterpret_cast<const S*>(p.small.data) +
                    PlaneOffset(p.small, plane, p.channels);
      S* dx = reinterpret_cast<S*>(p.large.data) +
              PlaneOffset(p.large, plane, p.channels);
      constexpr bool kInPlace = __is_same(S, T);
      T* sums = reinterpret_cast<T*>(plane_data);
      int64_t strides[3] = {p.large_size[1] * size, size, 1};
      if constexpr (kInPlace) {
        sums = dx;
        for (int i = 0; i < 3; ++i) strides[i] = p.large.strides[2 + i];
      }
      for (int64_t i = 0; i < p.large_size[0]; ++i) {
        for (int64_t j = 0; j < p.large_size[1]; ++j) {
          T* to = sums + i * strides[0] + j * strides[1];
          for (int64_t k = 0; k < size; ++k) to[k * strides[2]] = T(0);
        }
      }
      AverageBackwardPlane<S>(p, dy, sums, strides, windows);
      if constexpr (!kInPlace) {
        for (int64_t i = 0; i < p.large_size[0]; ++i) {
          for (int64_t j = 0; j < p.large_size[1]; ++j) {
            const T* from = sums + i * strides[0] + j * strides[1];
            S* to = dx + i * p.large.strides[2] + j * p.large.strides[3];
            for (int64_t k = 0; k < size; ++k) {
              to[k * p.large.strides[4]] = Narrow<S>(from[k]);
            }
          }
        }
      }
    }
  });
}

}  // namespace

const PoolKernels kPoolKernels = {MaxPlanes, MaxChannels, AveragePlanes,
                                  AverageChannels, AverageBackwardPlanes};

}  // namespace tvarant::host::TVARANT_ISA

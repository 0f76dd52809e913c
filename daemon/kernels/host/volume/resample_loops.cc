#include "daemon/kernels/host/volume/resample_loops.h"

#include "daemon/kernels/host/half.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

constexpr int64_t kChannels = 64;

constexpr int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }

template <typename S>
struct WideOf {
  using Type = S;
};
template <>
struct WideOf<Half> {
  using Type = float;
};
template <>
struct WideOf<BFloat16> {
  using Type = float;
};
template <typename S>
using Wide = typename WideOf<S>::Type;

template <typename S>
TVARANT_INLINE Wide<S> Widen(S x) {
  if constexpr (__is_same(S, Half) || __is_same(S, BFloat16)) {
    return ToFloat(x);
  } else {
    return x;
  }
}

template <typename S>
TVARANT_INLINE S Narrow(Wide<S> x) {
  if constexpr (__is_same(S, Half) || __is_same(S, BFloat16)) {
    return FromFloat<S>(x);
  } else {
    return x;
  }
}

template <typename Body>
void ForFloats(DType dtype, Body body) {
  switch (dtype) {
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

// Copies need the size of an element alone.
template <typename Body>
void ForBits(DType dtype, Body body) {
  switch (SizeOf(dtype)) {
    case 1:
      return body(uint8_t());
    case 2:
      return body(uint16_t());
    case 4:
      return body(uint32_t());
    case 8:
      return body(uint64_t());
    default:
      return;
  }
}

bool IsCopy(const ResamplePlan& p) { return p.axes[0].weight == nullptr; }

struct Row {
  int64_t plane, d, h;
};

// d and h coordinate of each row of a plane of y.
template <typename Body>
void ForRowsOfPlanes(const ResamplePlan& p, int64_t begin, int64_t end,
                     Body body) {
  for (int64_t plane = begin; plane < end; ++plane) {
    for (int64_t d = 0; d < p.axes[0].y_size; ++d) {
      for (int64_t h = 0; h < p.axes[1].y_size; ++h) body(Row{plane, d, h});
    }
  }
}

int64_t XOffset(const ResamplePlan& p, int64_t plane) {
  return plane / p.channels * p.x_batch + plane % p.channels * p.x_channel;
}

int64_t YOffset(const ResamplePlan& p, const Row& row) {
  return row.plane / p.channels * p.y_batch +
         row.plane % p.channels * p.y_channel + row.d * p.axes[0].y_stride +
         row.h * p.axes[1].y_stride;
}

template <typename S>
void CopyPlanes(const ResamplePlan& p, int64_t begin, int64_t end) {
  const auto& [d, h, w] = p.axes;
  ForRowsOfPlanes(p, begin, end, [&](const Row& row) {
    const S* x = reinterpret_cast<const S*>(p.x) + XOffset(p, row.plane) +
                 d.at[row.d] * d.x_stride + h.at[row.h] * h.x_stride;
    S* y = reinterpret_cast<S*>(p.y) + YOffset(p, row);
    if (w.x_stride == 1 && w.y_stride == 1) {
      for (int64_t i = 0; i < w.y_size; ++i) y[i] = x[w.at[i]];
    } else {
      for (int64_t i = 0; i < w.y_size; ++i) {
        y[i * w.y_stride] = x[w.at[i] * w.x_stride];
      }
    }
  });
}

// y row = the blended x row, resampled along w.
// kTaps = 0: any number.
template <typename S, int kTaps>
void ResampleRow(const Wide<S>* x, const ResampleAxis& w,
                 const Wide<S>* weights, S* y) {
  using T = Wide<S>;
  const int taps = kTaps == 0 ? w.taps : kTaps;
  for (int64_t i = 0; i < w.y_size; ++i) {
    T sum = T(0);
    for (int k = 0; k < taps; ++k) {
      sum += weights[i * taps + k] * x[w.at[i * taps + k]];
    }
    y[i * w.y_stride] = Narrow<S>(sum);
  }
}

template <typename S>
void BlendPlanes(const ResamplePlan& p, int64_t begin, int64_t end,
                 char* scratch) {
  using T = Wide<S>;
  const auto& [d, h, w] = p.axes;
  T* line = reinterpret_cast<T*>(scratch);
  T* weights = line + w.x_size;
  for (int64_t i = 0; i < w.y_size * w.taps; ++i) {
    weights[i] = static_cast<T>(w.weight[i]);
  }
  ForRowsOfPlanes(p, begin, end, [&](const Row& row) {
    const S* x = reinterpret_cast<const S*>(p.x) + XOffset(p, row.plane);
    for (int64_t i = 0; i < w.x_size; ++i) line[i] = T(0);
    for (int i = 0; i < d.taps; ++i) {
      for (int j = 0; j < h.taps; ++j) {
        const int64_t at_d = row.d * d.taps + i, at_h = row.h * h.taps + j;
        const T weight =
            static_cast<T>(d.weight[at_d]) * static_cast<T>(h.weight[at_h]);
        const S* from = x + d.at[at_d] * d.x_stride + h.at[at_h] * h.x_stride;
        if (w.x_stride == 1) {
          for (int64_t k = 0; k < w.x_size; ++k) {
            line[k] += weight * Widen(from[k]);
          }
        } else {
          for (int64_t k = 0; k < w.x_size; ++k) {
            line[k] += weight * Widen(from[k * w.x_stride]);
          }
        }
      }
    }
    S* y = reinterpret_cast<S*>(p.y) + YOffset(p, row);
    if (w.taps == 1) {
      ResampleRow<S, 1>(line, w, weights, y);
    } else if (w.taps == 2) {
      ResampleRow<S, 2>(line, w, weights, y);
    } else if (w.taps == 4) {
      ResampleRow<S, 4>(line, w, weights, y);
    } else {
      ResampleRow<S, 0>(line, w, weights, y);
    }
  });
}

void Planes(const ResamplePlan& p, int64_t begin, int64_t end, char* scratch) {
  if (IsCopy(p)) {
    ForBits(p.dtype,
            [&](auto bits) { CopyPlanes<decltype(bits)>(p, begin, end); });
  } else {
    ForFloats(p.dtype, [&](auto stored) {
      BlendPlanes<decltype(stored)>(p, begin, end, scratch);
    });
  }
}

// Calls body(x of batch item, y, d, h, w) for positions of rows (n, d, h).
template <typename S, typename Body>
void ForPositions(const ResamplePlan& p, int64_t begin, int64_t end,
                  Body body) {
  const auto& [d, h, w] = p.axes;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at_h = row % h.y_size, at_d = row / h.y_size % d.y_size;
    const int64_t n = row / h.y_size / d.y_size;
    const S* x = reinterpret_cast<const S*>(p.x) + n * p.x_batch;
    S* y = reinterpret_cast<S*>(p.y) + n * p.y_batch + at_d * d.y_stride +
           at_h * h.y_stride;
    for (int64_t i = 0; i < w.y_size; ++i) {
      body(x, y + i * w.y_stride, at_d, at_h, i);
    }
  }
}

template <typename S>
void BlendChannels(const ResamplePlan& p, int64_t begin, int64_t end) {
  using T = Wide<S>;
  const auto& [d, h, w] = p.axes;
  ForPositions<S>(
      p, begin, end,
      [&](const S* x, S* y, int64_t at_d, int64_t at_h, int64_t at_w) {
        for (int64_t first = 0; first < p.channels; first += kChannels) {
          const int64_t count = Min(kChannels, p.channels - first);
          T sum[kChannels] = {};
          for (int i = at_d * d.taps; i < (at_d + 1) * d.taps; ++i) {
            for (int j = at_h * h.taps; j < (at_h + 1) * h.taps; ++j) {
              const T weight_dh =
                  static_cast<T>(d.weight[i]) * static_cast<T>(h.weight[j]);
              const S* from =
                  x + d.at[i] * d.x_stride + h.at[j] * h.x_stride + first;
              for (int k = at_w * w.taps; k < (at_w + 1) * w.taps; ++k) {
                const T weight = weight_dh * static_cast<T>(w.weight[k]);
                const S* pixel = from + w.at[k] * w.x_stride;
                for (int64_t c = 0; c < count; ++c) {
                  sum[c] += weight * Widen(pixel[c]);
                }
              }
            }
          }
          for (int64_t c = 0; c < count; ++c) y[first + c] = Narrow<S>(sum[c]);
        }
      });
}

void Channels(const ResamplePlan& p, int64_t begin, int64_t end, char*) {
  if (!IsCopy(p)) {
    return ForFloats(p.dtype, [&](auto stored) {
      BlendChannels<decltype(stored)>(p, begin, end);
    });
  }
  const auto& [d, h, w] = p.axes;
  ForBits(p.dtype, [&](auto bits) {
    using S = decltype(bits);
    ForPositions<S>(
        p, begin, end,
        [&](const S* x, S* y, int64_t at_d, int64_t at_h, int64_t at_w) {
          const S* from = x + d.at[at_d] * d.x_stride +
                          h.at[at_h] * h.x_stride + w.at[at_w] * w.x_stride;
          __builtin_memcpy(y, from,
                           sizeof(S) * static_cast<size_t>(p.channels));
        });
  });
}

template <typename S>
void BackwardPlanes(const ResamplePlan& p, int64_t begin, int64_t end,
                    char* scratch) {
  using T = Wide<S>;
  constexpr bool kInPlace = __is_same(S, T);
  const auto& [d, h, w] = p.axes;
  T* line = reinterpret_cast<T*>(scratch);
  const bool copy = IsCopy(p);
  for (int64_t plane = begin; plane < end; ++plane) {
    S* x = reinterpret_cast<S*>(p.x) + XOffset(p, plane);
    T* sums = line + w.x_size;
    int64_t strides[3] = {h.x_size * w.x_size, w.x_size, 1};
    if constexpr (kInPlace) {
      sums = x;
      for (int i = 0; i < 3; ++i) strides[i] = p.axes[i].x_stride;
    }
    for (int64_t i = 0; i < d.x_size; ++i) {
      for (int64_t j = 0; j < h.x_size; ++j) {
        T* to = sums + i * strides[0] + j * strides[1];
        for (int64_t k = 0; k < w.x_size; ++k) to[k * strides[2]] = T(0);
      }
    }
    ForRowsOfPlanes(p, plane, plane + 1, [&](const Row& row) {
      const S* y = reinterpret_cast<const S*>(p.y) + YOffset(p, row);
      for (int64_t k = 0; k < w.x_size; ++k) line[k] = T(0);
      for (int64_t i = 0; i < w.y_size; ++i) {
        const T value = Widen(y[i * w.y_stride]);
        for (int k = 0; k < w.taps; ++k) {
          const int64_t at = i * w.taps + k;
          line[w.at[at]] += copy ? value : value * static_cast<T>(w.weight[at]);
        }
      }
      for (int i = 0; i < d.taps; ++i) {
        for (int j = 0; j < h.taps; ++j) {
          const int64_t at_d = row.d * d.taps + i, at_h = row.h * h.taps + j;
          const T weight = copy ? T(1)
                                : static_cast<T>(d.weight[at_d]) *
                                      static_cast<T>(h.weight[at_h]);
          T* to = sums + d.at[at_d] * strides[0] + h.at[at_h] * strides[1];
          for (int64_t k = 0; k < w.x_size; ++k) {
            to[k * strides[2]] += weight * line[k];
          }
        }
      }
    });
    if constexpr (!kInPlace) {
      for (int64_t i = 0; i < d.x_size; ++i) {
        for (int64_t j = 0; j < h.x_size; ++j) {
          const T* from = sums + i * strides[0] + j * strides[1];
          S* to = x + i * d.x_stride + j * h.x_stride;
          for (int64_t k = 0; k < w.x_size; ++k) {
            to[k * w.x_stride] = Narrow<S>(from[k]);
          }
        }
      }
    }
  }
}

void Backward(const ResamplePlan& p, int64_t begin, int64_t end,
              char* scratch) {
  ForFloats(p.dtype, [&](auto stored) {
    BackwardPlanes<decltype(stored)>(p, begin, end, scratch);
  });
}

}  // namespace

const ResampleKernels kResampleKernels = {Planes, Channels, Backward};

}  // namespace tvarant::host::TVARANT_ISA

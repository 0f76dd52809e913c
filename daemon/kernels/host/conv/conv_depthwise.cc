#include "daemon/kernels/host/conv/conv_columns.h"
#include "daemon/kernels/host/conv/conv_problem.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

constexpr int kBlock = 4;  // vectors of a row at a time

// x's image with zeros around it, in the computing type. Columns with the
// same remainder by step w stand together, so that taps are whole vectors.
#if defined(__AVX512F__)
// Pad for x that is contiguous along w, and a step of 1 or 2: a vector of
// every row, then the next one. phase_size is a number of whole vectors.
template <typename T>
void PadVectors(const ConvProblem& p, const ConvPadded& padded, const T* x,
                T* dst) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  const int64_t step = p.step[2], size = padded.phase_size;
  for (int64_t i = 0; i < size; i += kLanes, dst += kLanes) {
    const int64_t at = padded.low[2] + i * step;
    const auto inside = [&](int64_t first) {
      return static_cast<uint16_t>(LanesBelow(p.x_size[2] - first, T()) &
                                   ~LanesBelow(-first, T()));
    };
    const uint16_t mask = inside(at), next_mask = inside(at + kLanes);
    T* to = dst;
    for (int64_t d = 0; d < padded.size[0]; ++d) {
      for (int64_t h = 0; h < padded.size[1]; ++h, to += step * size) {
        const int64_t x_d = d + padded.low[0], x_h = h + padded.low[1];
        const bool there =
            x_d >= 0 && x_d < p.x_size[0] && x_h >= 0 && x_h < p.x_size[1];
        const T* from =
            x + (there ? x_d * p.x.strides[0] + x_h * p.x.strides[1] : 0) + at;
        if (!there) {
          Vec<T>::All(T(0)).Store(to);
          if (step == 2) Vec<T>::All(T(0)).Store(to + size);
        } else if (step == 1) {
          LoadLanes(mask, from).Store(to);
        } else if constexpr (__is_same(T, float)) {
          const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16,
                                                 18, 20, 22, 24, 26, 28, 30);
          const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
          const __m512 low = LoadLanes(mask, from).v;
          const __m512 high = LoadLanes(next_mask, from + kLanes).v;
          _mm512_storeu_ps(to, _mm512_permutex2var_ps(low, even, high));
          _mm512_storeu_ps(to + size, _mm512_permutex2var_ps(low, odd, high));
        }
      }
    }
  }
}
#endif

template <typename T, typename S>
void Pad(const ConvProblem& p, const ConvPadded& padded, const S* x, T* dst) {
#if defined(__AVX512F__)
  if constexpr (__is_same(T, S)) {
    if (p.x.strides[2] == 1 &&
        (p.step[2] == 1 || (p.step[2] == 2 && __is_same(T, float)))) {
      return PadVectors<T>(p, padded, x, dst);
    }
  }
#endif
  const int64_t row_elements = p.step[2] * padded.phase_size;
  const int64_t step = p.step[2], size = padded.phase_size;
  for (int64_t phase = 0; phase < step; ++phase) {
    // Element i is x[first + i * step]; x ends where it ends.
    const int64_t first = padded.low[2] + phase;
    const int64_t end =
        first < p.x_size[2] ? (p.x_size[2] - 1 - first) / step + 1 : 0;
    const int64_t high = Min(end, size);
    const int64_t low = Min(first < 0 ? (step - 1 - first) / step : 0, high);
    const int64_t offset = (first + low * step) * p.x.strides[2];
    T* to = dst + phase * size;
    for (int64_t d = 0; d < padded.size[0]; ++d) {
      for (int64_t h = 0; h < padded.size[1]; ++h, to += row_elements) {
        const int64_t x_d = d + padded.low[0], x_h = h + padded.low[1];
        if (x_d < 0 || x_d >= p.x_size[0] || x_h < 0 || x_h >= p.x_size[1] ||
            low == high) {
          for (int64_t i = 0; i < size; ++i) to[i] = T(0);
          continue;
        }
        for (int64_t i = 0; i < low; ++i) to[i] = T(0);
        CopyLine<T, S>(x + x_d * p.x.strides[0] + x_h * p.x.strides[1] + offset,
                       step * p.x.strides[2], high - low, to + low);
        for (int64_t i = high; i < size; ++i) to[i] = T(0);
      }
    }
  }
}

template <typename T>
void Row(const T* x, const int64_t* offsets, const T* weights, int64_t taps,
         T bias, int64_t vectors, T* y) {
  using V = Vec<T>;
  int64_t i = 0;
  for (; i + kBlock <= vectors; i += kBlock) {
    V sum[kBlock];
    for (int v = 0; v < kBlock; ++v) sum[v] = V::All(bias);
    for (int64_t t = 0; t < taps; ++t) {
      const T* from = x + offsets[t] + i * V::kLanes;
      const V w = V::All(weights[t]);
#pragma GCC unroll 4
      for (int v = 0; v < kBlock; ++v) {
        sum[v] = Fma(w, V::Load(from + v * V::kLanes), sum[v]);
      }
    }
    for (int v = 0; v < kBlock; ++v) sum[v].Store(y + (i + v) * V::kLanes);
  }
  for (; i < vectors; ++i) {
    V sum = V::All(bias);
    for (int64_t t = 0; t < taps; ++t) {
      sum =
          Fma(V::All(weights[t]), V::Load(x + offsets[t] + i * V::kLanes), sum);
    }
    sum.Store(y + i * V::kLanes);
  }
}

// A row of results, as it is stored. Element by element this took longer than
// the convolution.
template <typename T, typename S>
void StoreLine(const T* line, int64_t n, S* y, int64_t stride) {
  using V = Vec<T>;
  int64_t i = 0;
  if (stride == 1) {
    if constexpr (__is_same(T, S)) {
      __builtin_memcpy(y, line, static_cast<size_t>(n) * sizeof(T));
      return;
    } else {
      for (; i + V::kLanes <= n; i += V::kLanes) V::Load(line + i).Store(y + i);
    }
  }
  for (; i < n; ++i) y[i * stride] = Narrow<S>(line[i]);
}

// A padded image and where each tap meets it.
template <typename T>
struct Plane {
  // Rows beyond the last are read by its last vectors, for nothing.
  static constexpr int64_t kBeyond = (kBlock + 1) * Vec<T>::kLanes;

  Plane(const ConvProblem& p, const ConvPadded& padded, char* scratch)
      : row_elements(p.step[2] * padded.phase_size),
        vectors((p.grid[2] + Vec<T>::kLanes - 1) / Vec<T>::kLanes) {
    sums = reinterpret_cast<Vec<T>*>(scratch);
    line = reinterpret_cast<T*>(sums + p.num_taps);
    weights = line + vectors * Vec<T>::kLanes;
    offsets = reinterpret_cast<int64_t*>(weights +
                                         RoundUp(p.num_taps, Vec<T>::kLanes));
    data = reinterpret_cast<T*>(offsets + RoundUp(p.num_taps, 8));
    T* beyond = data + padded.size[0] * padded.size[1] * row_elements;
    for (int64_t i = 0; i < kBeyond; ++i) beyond[i] = T(0);
    for (int64_t t = 0; t < p.num_taps; ++t) {
      const ConvTap& tap = p.taps[t];
      const int64_t w = tap.start[2] - padded.low[2];
      offsets[t] = ((tap.start[0] - padded.low[0]) * padded.size[1] +
                    tap.start[1] - padded.low[1]) *
                       row_elements +
                   w % p.step[2] * padded.phase_size + w / p.step[2];
    }
  }
  const T* Row(const ConvProblem& p, const ConvPadded& padded, int64_t d,
               int64_t h) const {
    return data +
           (d * p.step[0] * padded.size[1] + h * p.step[1]) * row_elements;
  }

  int64_t row_elements, vectors;
  Vec<T>* sums;  // of each tap
  T *line, *weights, *data;
  int64_t* offsets;
};

template <typename T, typename S>
void DepthwiseAs(const ConvProblem& p, const ConvPadded& padded, int64_t item,
                 char* scratch) {
  const Plane<T> plane(p, padded, scratch);
  Pad<T, S>(p, padded,
            reinterpret_cast<const S*>(p.x.data) + item * p.x.batch_stride,
            plane.data);
  for (int64_t t = 0; t < p.num_taps; ++t) {
    plane.weights[t] =
        Widen<T>(reinterpret_cast<const S*>(p.weight)[p.taps[t].weight]);
  }
  T bias = T(0);
  if (p.bias != nullptr) {
    ForStored<T>(p.bias_dtype, [&](auto stored) {
      bias = Widen<T>(*reinterpret_cast<const decltype(stored)*>(p.bias));
    });
  }
  for (int64_t d = 0; d < p.grid[0]; ++d) {
    for (int64_t h = 0; h < p.grid[1]; ++h) {
      Row<T>(plane.Row(p, padded, d, h), plane.offsets, plane.weights,
             p.num_taps, bias, plane.vectors, plane.line);
      S* y = reinterpret_cast<S*>(p.y.data) + item * p.y.batch_stride +
             d * p.y.strides[0] + h * p.y.strides[1];
      StoreLine<T, S>(plane.line, p.grid[2], y, p.y.strides[2]);
    }
  }
}

// The taps that one point of the grid meets.
struct MetTap {
  int64_t x, weight;  // offsets
};

// `vectors` vectors of channels at one point.
template <typename T, typename S, int vectors>
TVARANT_INLINE void PointVectors(const S* x, const T* weights, const T* bias,
                                 const MetTap* taps, int64_t num_taps, S* y) {
  using V = Vec<T>;
  V sum[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) sum[v] = V::Load(bias + v * V::kLanes);
  for (int64_t t = 0; t < num_taps; ++t) {
    const S* from = x + taps[t].x;
    const T* weight = weights + taps[t].weight;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      sum[v] = Fma(V::Load(weight + v * V::kLanes),
                   V::Load(from + v * V::kLanes), sum[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) sum[v].Store(y + v * V::kLanes);
}

// Rows (n, d, h) [begin, end) of y where channels lie side by side in x and y.
// weights: [tap][channel], then [channel] of bias.
template <typename T, typename S>
void ChannelsAs(const ConvProblem& p, int64_t channels, const T* weights,
                int64_t begin, int64_t end, char* scratch) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  const T* bias = weights + p.num_taps * channels;
  MetTap* met = reinterpret_cast<MetTap*>(scratch);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t h = row % p.grid[1], d = row / p.grid[1] % p.grid[0];
    const int64_t n = row / p.grid[1] / p.grid[0];
    const S* x = reinterpret_cast<const S*>(p.x.data) + n * p.x.batch_stride;
    S* y = reinterpret_cast<S*>(p.y.data) + n * p.y.batch_stride +
           d * p.y.strides[0] + h * p.y.strides[1];
    for (int64_t w = 0; w < p.grid[2]; ++w, y += p.y.strides[2]) {
      int64_t count = 0;
      for (int64_t t = 0; t < p.num_taps; ++t) {
        const int64_t x_d = d * p.step[0] + p.taps[t].start[0];
        const int64_t x_h = h * p.step[1] + p.taps[t].start[1];
        const int64_t x_w = w * p.step[2] + p.taps[t].start[2];
        if (x_d < 0 || x_d >= p.x_size[0] || x_h < 0 || x_h >= p.x_size[1] ||
            x_w < 0 || x_w >= p.x_size[2]) {
          continue;
        }
        met[count++] = {
            x_d * p.x.strides[0] + x_h * p.x.strides[1] + x_w * p.x.strides[2],
            t * channels};
      }
      int64_t c = 0;
      for (; c + 4 * kLanes <= channels; c += 4 * kLanes) {
        PointVectors<T, S, 4>(x + c, weights + c, bias + c, met, count, y + c);
      }
      for (; c + kLanes <= channels; c += kLanes) {
        PointVectors<T, S, 1>(x + c, weights + c, bias + c, met, count, y + c);
      }
      for (; c < channels; ++c) {
        T sum = bias[c];
        for (int64_t t = 0; t < count; ++t) {
          sum += weights[met[t].weight + c] * Widen<T>(x[met[t].x + c]);
        }
        y[c] = Narrow<S>(sum);
      }
    }
  }
}

// sums[t] += rows of dy times those of x that tap t meets. dy has whole
// vectors, or `tail` more elements a row.
template <typename T, int taps>
void DotRows(const T* x, int64_t x_step, const int64_t* offsets, const T* dy,
             int64_t dy_step, int64_t rows, int64_t vectors,
             [[maybe_unused]] int64_t tail, Vec<T>* sums) {
  using V = Vec<T>;
  V sum[taps];
#pragma GCC unroll 9
  for (int t = 0; t < taps; ++t) sum[t] = sums[t];
  for (int64_t row = 0; row < rows; ++row, x += x_step, dy += dy_step) {
    for (int64_t i = 0; i < vectors * V::kLanes; i += V::kLanes) {
      const V g = V::Load(dy + i);
#pragma GCC unroll 9
      for (int t = 0; t < taps; ++t) {
        sum[t] = Fma(g, V::Load(x + offsets[t] + i), sum[t]);
      }
    }
#if defined(__AVX512F__)
    if (tail == 0) continue;
    const int64_t i = vectors * V::kLanes;
    const V g = LoadLanes(static_cast<uint16_t>(LanesBelow(tail, T())), dy + i);
#pragma GCC unroll 9
    for (int t = 0; t < taps; ++t) {
      sum[t] = Fma(g, V::Load(x + offsets[t] + i), sum[t]);
    }
#endif
  }
#pragma GCC unroll 9
  for (int t = 0; t < taps; ++t) sums[t] = sum[t];
}

template <typename T>
void DotAllTaps(const ConvProblem& p, const Plane<T>& plane, const T* x,
                int64_t x_step, const T* dy, int64_t dy_step, int64_t rows,
                int64_t vectors, int64_t tail) {
  int64_t t = 0;
  for (; t + 9 <= p.num_taps; t += 9) {
    DotRows<T, 9>(x, x_step, plane.offsets + t, dy, dy_step, rows, vectors,
                  tail, plane.sums + t);
  }
  for (; t + 5 <= p.num_taps; t += 5) {
    DotRows<T, 5>(x, x_step, plane.offsets + t, dy, dy_step, rows, vectors,
                  tail, plane.sums + t);
  }
  for (; t < p.num_taps; ++t) {
    DotRows<T, 1>(x, x_step, plane.offsets + t, dy, dy_step, rows, vectors,
                  tail, plane.sums + t);
  }
}

// The gradient of one filter, over all images.
template <typename T, typename S>
void DepthwiseWeightAs(const ConvProblem& p, const ConvPadded& padded,
                       char* scratch) {
  using V = Vec<T>;
  const Plane<T> plane(p, padded, scratch);
  for (int64_t t = 0; t < p.num_taps; ++t) plane.sums[t] = V::All(T(0));
  for (int64_t i = 0; i < plane.vectors * V::kLanes; ++i) plane.line[i] = T(0);
  for (int64_t item = 0; item < p.batch; ++item) {
    Pad<T, S>(p, padded,
              reinterpret_cast<const S*>(p.x.data) + item * p.x.batch_stride,
              plane.data);
    for (int64_t d = 0; d < p.grid[0]; ++d) {
      const S* dy = reinterpret_cast<const S*>(p.y.data) +
                    item * p.y.batch_stride + d * p.y.strides[0];
      const int64_t x_step = p.step[1] * plane.row_elements;
#if defined(__AVX512F__)
      if constexpr (__is_same(T, S)) {
        if (p.y.strides[2] == 1) {
          DotAllTaps<T>(p, plane, plane.Row(p, padded, d, 0), x_step, dy,
                        p.y.strides[1], p.grid[1], p.grid[2] / V::kLanes,
                        p.grid[2] % V::kLanes);
          continue;
        }
      }
#endif
      for (int64_t h = 0; h < p.grid[1]; ++h) {
        CopyLine<T, S>(dy + h * p.y.strides[1], p.y.strides[2], p.grid[2],
                       plane.line);
        DotAllTaps<T>(p, plane, plane.Row(p, padded, d, h), x_step, plane.line,
                      0, 1, plane.vectors, 0);
      }
    }
  }
  S* dw = reinterpret_cast<S*>(const_cast<char*>(p.weight));
  for (int64_t t = 0; t < p.num_taps; ++t) {
    dw[p.taps[t].weight] = Narrow<S>(Sum(plane.sums[t]));
  }
}

template <typename T>
void Depthwise(const ConvProblem& p, const ConvPadded& padded, int64_t item,
               char* scratch) {
  ForStored<T>(p.dtype, [&](auto stored) {
    DepthwiseAs<T, decltype(stored)>(p, padded, item, scratch);
  });
}

template <typename T>
void DepthwiseWeight(const ConvProblem& p, const ConvPadded& padded,
                     char* scratch) {
  ForStored<T>(p.dtype, [&](auto stored) {
    DepthwiseWeightAs<T, decltype(stored)>(p, padded, scratch);
  });
}

template <typename T>
void DepthwiseChannels(const ConvProblem& p, int64_t channels,
                       const char* weights, int64_t begin, int64_t end,
                       char* scratch) {
  ForStored<T>(p.dtype, [&](auto stored) {
    ChannelsAs<T, decltype(stored)>(
        p, channels, reinterpret_cast<const T*>(weights), begin, end, scratch);
  });
}

}  // namespace

void ConvDepthwiseChannelsF32(const ConvProblem& p, int64_t channels,
                              const char* weights, int64_t begin, int64_t end,
                              char* scratch) {
  DepthwiseChannels<float>(p, channels, weights, begin, end, scratch);
}

void ConvDepthwiseChannelsF64(const ConvProblem& p, int64_t channels,
                              const char* weights, int64_t begin, int64_t end,
                              char* scratch) {
  DepthwiseChannels<double>(p, channels, weights, begin, end, scratch);
}

void ConvDepthwiseWeightF32(const ConvProblem& p, const ConvPadded& padded,
                            char* scratch) {
  DepthwiseWeight<float>(p, padded, scratch);
}

void ConvDepthwiseWeightF64(const ConvProblem& p, const ConvPadded& padded,
                            char* scratch) {
  DepthwiseWeight<double>(p, padded, scratch);
}

void ConvDepthwiseF32(const ConvProblem& p, const ConvPadded& padded,
                      int64_t item, char* scratch) {
  Depthwise<float>(p, padded, item, scratch);
}

void ConvDepthwiseF64(const ConvProblem& p, const ConvPadded& padded,
                      int64_t item, char* scratch) {
  Depthwise<double>(p, padded, item, scratch);
}

}  // namespace tvarant::host::TVARANT_ISA

#include "daemon/kernels/host/conv/conv_columns.h"
#include "daemon/kernels/host/conv/conv_problem.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

constexpr int kBlock = 4;  // vectors of a row at a time

// x's image with zeros around it, in the computing type. Columns with the
// same remainder by step w stand together, so that taps are whole vectors.
template <typename T, typename S>
void Pad(const ConvProblem& p, const ConvPadded& padded, const S* x, T* dst) {
  const int64_t row_elements = p.step[2] * padded.phase_size;
  for (int64_t d = 0; d < padded.size[0]; ++d) {
    for (int64_t h = 0; h < padded.size[1]; ++h, dst += row_elements) {
      const int64_t x_d = d + padded.low[0], x_h = h + padded.low[1];
      const bool inside =
          x_d >= 0 && x_d < p.x_size[0] && x_h >= 0 && x_h < p.x_size[1];
      const S* line = x + (inside ? x_d * p.x.strides[0] : 0) +
                      (inside ? x_h * p.x.strides[1] : 0);
      for (int64_t phase = 0; phase < p.step[2]; ++phase) {
        T* to = dst + phase * padded.phase_size;
        // Element i is x[first + i * step].
        const int64_t first = padded.low[2] + phase, step = p.step[2];
        int64_t low = first < 0 ? (step - 1 - first) / step : 0;
        int64_t high =
            first < p.x_size[2] ? (p.x_size[2] - 1 - first) / step + 1 : 0;
        high = inside ? Min(high, padded.phase_size) : 0;
        low = Min(low, high);
        for (int64_t i = 0; i < low; ++i) to[i] = T(0);
        if (low < high) {
          CopyLine<T, S>(line + (first + low * step) * p.x.strides[2],
                         step * p.x.strides[2], high - low, to + low);
        }
        for (int64_t i = high < 0 ? 0 : high; i < padded.phase_size; ++i) {
          to[i] = T(0);
        }
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

template <typename T, typename S>
void DepthwiseAs(const ConvProblem& p, const ConvPadded& padded, int64_t item,
                 char* scratch) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  const int64_t row_elements = p.step[2] * padded.phase_size;
  const int64_t vectors = (p.grid[2] + kLanes - 1) / kLanes;
  T* line = reinterpret_cast<T*>(scratch);
  T* weights = line + vectors * kLanes;
  T* plane = weights + RoundUp(p.num_taps, kLanes);
  int64_t* offsets = reinterpret_cast<int64_t*>(
      plane + padded.size[0] * padded.size[1] * row_elements +
      (kBlock + 1) * kLanes);
  Pad<T, S>(p, padded,
            reinterpret_cast<const S*>(p.x.data) + item * p.x.batch_stride,
            plane);
  // Rows beyond the last are read by its last vectors, for nothing.
  T* beyond = plane + padded.size[0] * padded.size[1] * row_elements;
  for (int64_t i = 0; i < (kBlock + 1) * kLanes; ++i) beyond[i] = T(0);
  for (int64_t t = 0; t < p.num_taps; ++t) {
    const ConvTap& tap = p.taps[t];
    const int64_t w = tap.start[2] - padded.low[2];
    offsets[t] = ((tap.start[0] - padded.low[0]) * padded.size[1] +
                  tap.start[1] - padded.low[1]) *
                     row_elements +
                 w % p.step[2] * padded.phase_size + w / p.step[2];
    weights[t] = Widen<T>(reinterpret_cast<const S*>(p.weight)[tap.weight]);
  }
  T bias = T(0);
  if (p.bias != nullptr) {
    ForStored<T>(p.bias_dtype, [&](auto stored) {
      bias = Widen<T>(*reinterpret_cast<const decltype(stored)*>(p.bias));
    });
  }
  for (int64_t d = 0; d < p.grid[0]; ++d) {
    for (int64_t h = 0; h < p.grid[1]; ++h) {
      const T* x = plane + (d * p.step[0] * padded.size[1] + h * p.step[1]) *
                               row_elements;
      Row<T>(x, offsets, weights, p.num_taps, bias, vectors, line);
      S* y = reinterpret_cast<S*>(p.y.data) + item * p.y.batch_stride +
             d * p.y.strides[0] + h * p.y.strides[1];
      for (int64_t i = 0; i < p.grid[2]; ++i) {
        y[i * p.y.strides[2]] = Narrow<S>(line[i]);
      }
    }
  }
}

template <typename T>
void Depthwise(const ConvProblem& p, const ConvPadded& padded, int64_t item,
               char* scratch) {
  ForStored<T>(p.dtype, [&](auto stored) {
    DepthwiseAs<T, decltype(stored)>(p, padded, item, scratch);
  });
}

}  // namespace

void ConvDepthwiseF32(const ConvProblem& p, const ConvPadded& padded,
                      int64_t item, char* scratch) {
  Depthwise<float>(p, padded, item, scratch);
}

void ConvDepthwiseF64(const ConvProblem& p, const ConvPadded& padded,
                      int64_t item, char* scratch) {
  Depthwise<double>(p, padded, item, scratch);
}

}  // namespace tvarant::host::TVARANT_ISA

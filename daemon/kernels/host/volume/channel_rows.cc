#include "daemon/kernels/host/volume/channel_rows.h"

#include "daemon/kernels/host/gemm/gemm_element.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

constexpr int64_t kBlock = 512;     // elements of a row at a time
constexpr int64_t kChannels = 64;   // of adjacent channels at a time
constexpr int64_t kPositions = 64;  // and of their elements

constexpr int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }

// Channels side by side, one element of each after the other.
bool IsInterleaved(const ChannelView& view) {
  return view.channel_stride == 1 && view.step != 1;
}

template <typename T, typename S>
TVARANT_INLINE const S* Elements(const ChannelView& view) {
  return reinterpret_cast<const S*>(view.data);
}

// count elements in the computing type, in place or in `buffer`.
template <typename T, typename S>
TVARANT_INLINE const T* Load(const S* src, int64_t step, int64_t count,
                             T* buffer) {
  if constexpr (__is_same(T, S)) {
    if (step == 1) return src;
  }
  if (step == 1) {
    for (int64_t i = 0; i < count; ++i) buffer[i] = Widen<T>(src[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) buffer[i] = Widen<T>(src[i * step]);
  }
  return buffer;
}

template <typename T>
struct Sums {
  Vec<T> a[4];
  Sums() {
    for (auto& x : a) x = Vec<T>::All(T(0));
  }
  T Total() const { return Sum((a[0] + a[1]) + (a[2] + a[3])); }
};

// sum over i of term(i) as a vector from i on; `rest` for single elements.
template <typename T, typename Term, typename Rest>
TVARANT_INLINE T SumOf(int64_t count, const Term& term, const Rest& rest) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  Sums<T> sums;
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int v = 0; v < 4; ++v) sums.a[v] = sums.a[v] + term(i + v * kLanes);
  }
  for (; i + kLanes <= count; i += kLanes) sums.a[0] = sums.a[0] + term(i);
  T total = sums.Total();
  for (; i < count; ++i) total += rest(i);
  return total;
}

// Joins the moments of `n` more elements to those of `have`. Chan, Golub and
// LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances" (1979).
TVARANT_INLINE void Join(double have, double n, double more_mean,
                         double more_squares, double* mean, double* squares) {
  const double delta = more_mean - *mean;
  *mean += delta * n / (have + n);
  *squares += more_squares + delta * delta * have * n / (have + n);
}

template <typename T, typename S>
void MomentsOfRow(const S* x, int64_t step, int64_t length, double* mean,
                  double* squares) {
  using V = Vec<T>;
  T buffer[kBlock];
  *mean = *squares = 0;
  for (int64_t at = 0; at < length; at += kBlock) {
    const int64_t count = Min(kBlock, length - at);
    const T* some = Load<T, S>(x + at * step, step, count, buffer);
    const T sum = SumOf<T>(
        count, [&](int64_t i) { return V::Load(some + i); },
        [&](int64_t i) { return some[i]; });
    const T center = sum / static_cast<T>(count);
    const V all = V::All(center);
    const T part = SumOf<T>(
        count,
        [&](int64_t i) {
          const V d = V::Load(some + i) - all;
          return d * d;
        },
        [&](int64_t i) { return (some[i] - center) * (some[i] - center); });
    Join(static_cast<double>(at), static_cast<double>(count), center, part,
         mean, squares);
  }
}

template <typename T, typename S>
void MomentsOfColumns(const S* x, int64_t step, int64_t channels,
                      int64_t length, double* mean, double* squares) {
  for (int64_t c = 0; c < channels; ++c) mean[c] = squares[c] = 0;
  for (int64_t at = 0; at < length; at += kPositions) {
    const int64_t count = Min(kPositions, length - at);
    T sum[kChannels] = {}, part[kChannels] = {};
    for (int64_t i = 0; i < count; ++i) {
      const S* line = x + (at + i) * step;
      for (int64_t c = 0; c < channels; ++c) sum[c] += Widen<T>(line[c]);
    }
    for (int64_t c = 0; c < channels; ++c) sum[c] /= static_cast<T>(count);
    for (int64_t i = 0; i < count; ++i) {
      const S* line = x + (at + i) * step;
      for (int64_t c = 0; c < channels; ++c) {
        const T d = Widen<T>(line[c]) - sum[c];
        part[c] += d * d;
      }
    }
    for (int64_t c = 0; c < channels; ++c) {
      Join(static_cast<double>(at), static_cast<double>(count), sum[c], part[c],
           mean + c, squares + c);
    }
  }
}

template <typename T>
void Moments(const ChannelView& x, int64_t channels, int64_t length,
             double* mean, double* squares) {
  ForStored<T>(x.dtype, [&](auto stored) {
    using S = decltype(stored);
    const S* data = Elements<T, S>(x);
    if (IsInterleaved(x)) {
      for (int64_t c = 0; c < channels; c += kChannels) {
        MomentsOfColumns<T, S>(data + c, x.step, Min(kChannels, channels - c),
                               length, mean + c, squares + c);
      }
      return;
    }
    for (int64_t c = 0; c < channels; ++c) {
      MomentsOfRow<T, S>(data + c * x.channel_stride, x.step, length, mean + c,
                         squares + c);
    }
  });
}

template <typename T>
void Affine(const ChannelView& x, const ChannelView& y, int64_t channels,
            int64_t length, const void* scales, const void* shifts) {
  using V = Vec<T>;
  const T* scale = static_cast<const T*>(scales);
  const T* shift = static_cast<const T*>(shifts);
  ForStored<T>(x.dtype, [&](auto stored) {
    using S = decltype(stored);
    const S* src = Elements<T, S>(x);
    S* dst = reinterpret_cast<S*>(y.data);
    if (IsInterleaved(x) && IsInterleaved(y)) {
      for (int64_t i = 0; i < length; ++i) {
        const S* from = src + i * x.step;
        S* to = dst + i * y.step;
        for (int64_t c = 0; c < channels; ++c) {
          to[c] = Narrow<S>(Widen<T>(from[c]) * scale[c] + shift[c]);
        }
      }
      return;
    }
    for (int64_t c = 0; c < channels; ++c) {
      const S* from = src + c * x.channel_stride;
      S* to = dst + c * y.channel_stride;
      int64_t i = 0;
      if (x.step == 1 && y.step == 1) {
        const V a = V::All(scale[c]), b = V::All(shift[c]);
        for (; i + V::kLanes <= length; i += V::kLanes) {
          Fma(V::Load(from + i), a, b).Store(to + i);
        }
      }
      for (; i < length; ++i) {
        to[i * y.step] =
            Narrow<S>(Widen<T>(from[i * x.step]) * scale[c] + shift[c]);
      }
    }
  });
}

template <typename T>
void GradientSums(const ChannelView& dy, const ChannelView& x, int64_t channels,
                  int64_t length, const void* means, double* sum,
                  double* product) {
  using V = Vec<T>;
  const T* mean = static_cast<const T*>(means);
  ForStored<T>(x.dtype, [&](auto stored) {
    using S = decltype(stored);
    const S* g = Elements<T, S>(dy);
    const S* src = Elements<T, S>(x);
    for (int64_t c = 0; c < channels; ++c) sum[c] = product[c] = 0;
    if (IsInterleaved(x) && IsInterleaved(dy)) {
      for (int64_t first = 0; first < channels; first += kChannels) {
        const int64_t some = Min(kChannels, channels - first);
        for (int64_t at = 0; at < length; at += kPositions) {
          const int64_t end = Min(at + kPositions, length);
          T a[kChannels] = {}, b[kChannels] = {};
          for (int64_t i = at; i < end; ++i) {
            const S* gs = g + i * dy.step + first;
            const S* xs = src + i * x.step + first;
            for (int64_t c = 0; c < some; ++c) {
              const T value = Widen<T>(gs[c]);
              a[c] += value;
              b[c] += value * (Widen<T>(xs[c]) - mean[first + c]);
            }
          }
          for (int64_t c = 0; c < some; ++c) {
            sum[first + c] += a[c];
            product[first + c] += b[c];
          }
        }
      }
      return;
    }
    T g_buffer[kBlock], x_buffer[kBlock];
    for (int64_t c = 0; c < channels; ++c) {
      const V center = V::All(mean[c]);
      for (int64_t at = 0; at < length; at += kBlock) {
        const int64_t count = Min(kBlock, length - at);
        const T* gs = Load<T, S>(g + c * dy.channel_stride + at * dy.step,
                                 dy.step, count, g_buffer);
        const T* xs = Load<T, S>(src + c * x.channel_stride + at * x.step,
                                 x.step, count, x_buffer);
        sum[c] += SumOf<T>(
            count, [&](int64_t i) { return V::Load(gs + i); },
            [&](int64_t i) { return gs[i]; });
        product[c] += SumOf<T>(
            count,
            [&](int64_t i) {
              return V::Load(gs + i) * (V::Load(xs + i) - center);
            },
            [&](int64_t i) { return gs[i] * (xs[i] - mean[c]); });
      }
    }
  });
}

template <typename T>
void Gradient(const ChannelView& dy, const ChannelView& x,
              const ChannelView& dx, int64_t channels, int64_t length,
              const void* means, const void* scales, const void* slopes,
              const void* shifts) {
  using V = Vec<T>;
  const T* mean = static_cast<const T*>(means);
  const T* scale = static_cast<const T*>(scales);
  const T* slope = static_cast<const T*>(slopes);
  const T* shift = static_cast<const T*>(shifts);
  ForStored<T>(x.dtype, [&](auto stored) {
    using S = decltype(stored);
    const S* g = Elements<T, S>(dy);
    const S* src = Elements<T, S>(x);
    S* dst = reinterpret_cast<S*>(dx.data);
    if (IsInterleaved(x) && IsInterleaved(dy) && IsInterleaved(dx)) {
      for (int64_t i = 0; i < length; ++i) {
        const S* gs = g + i * dy.step;
        const S* xs = src + i * x.step;
        S* to = dst + i * dx.step;
        for (int64_t c = 0; c < channels; ++c) {
          to[c] = Narrow<S>(Widen<T>(gs[c]) * scale[c] +
                            (Widen<T>(xs[c]) - mean[c]) * slope[c] + shift[c]);
        }
      }
      return;
    }
    for (int64_t c = 0; c < channels; ++c) {
      const S* gs = g + c * dy.channel_stride;
      const S* xs = src + c * x.channel_stride;
      S* to = dst + c * dx.channel_stride;
      int64_t i = 0;
      if (x.step == 1 && dy.step == 1 && dx.step == 1) {
        const V m = V::All(mean[c]), a = V::All(scale[c]), s = V::All(slope[c]),
                b = V::All(shift[c]);
        for (; i + V::kLanes <= length; i += V::kLanes) {
          Fma(V::Load(gs + i), a, Fma(V::Load(xs + i) - m, s, b)).Store(to + i);
        }
      }
      for (; i < length; ++i) {
        to[i * dx.step] = Narrow<S>(
            Widen<T>(gs[i * dy.step]) * scale[c] +
            (Widen<T>(xs[i * x.step]) - mean[c]) * slope[c] + shift[c]);
      }
    }
  });
}

}  // namespace

const ChannelKernels kChannelKernels = {
    .f32 = {Moments<float>, Affine<float>, GradientSums<float>,
            Gradient<float>},
    .f64 = {Moments<double>, Affine<double>, GradientSums<double>,
            Gradient<double>},
};

}  // namespace tvarant::host::TVARANT_ISA

#include "daemon/kernels/host/conv/conv_columns.h"
#include "daemon/kernels/host/conv/conv_problem.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

constexpr int64_t kAhead = 12;  // channels to prefetch

template <typename T>
constexpr int64_t kMaxDepth = sizeof(T) == 4 ? 256 : 128;

// Blocks of depth as equal as can be.
template <typename T>
int64_t BlockOfDepth(int64_t depth) {
  const int64_t blocks = (depth + kMaxDepth<T> - 1) / kMaxDepth<T>;
  return blocks <= 1
             ? depth
             : Min(kMaxDepth<T>, RoundUp((depth + blocks - 1) / blocks, 8));
}

// Channels whose taps are transposed at once, and their elements at most.
constexpr int64_t kTransposed = 16;
constexpr int64_t kMaxTransposed = 512;

// Whether a row of the weights lies as [channel][tap].
inline bool HasDenseRows(const ConvProblem& p) {
  for (int64_t t = 0; t < p.num_taps; ++t) {
    if (p.taps[t].weight != t) return false;
  }
  return p.weight_channel == p.num_taps &&
         p.num_taps * kTransposed <= kMaxTransposed;
}

// Whole panels with dense rows: dst[(tap * channels + c) * kRows + row].
// Returns the channels that were packed.
template <typename T, typename S>
int64_t PackDenseRows([[maybe_unused]] const ConvProblem& p,
                      [[maybe_unused]] const S* src, [[maybe_unused]] T* dst) {
  int64_t c = 0;
#if defined(__AVX512F__)
  if constexpr (__is_same(T, float)) {
    float block[kMaxTransposed * kRows + 16];
    const int64_t count = kTransposed * p.num_taps;
    for (; c + kTransposed <= p.channels; c += kTransposed) {
      TransposeLines<S, kRows>(src + c * p.num_taps, p.weight_row, count,
                               block);
      const float* from = block;
      for (int64_t i = 0; i < kTransposed; ++i) {
        for (int64_t t = 0; t < p.num_taps; ++t, from += kRows) {
          CopyLanes((1 << kRows) - 1, from,
                    dst + (t * p.channels + c + i) * kRows);
        }
      }
    }
  }
#endif
  return c;
}

template <typename T>
void PackWeight(const ConvProblem& p, int64_t begin, int64_t end,
                char* packed) {
  const bool dense = HasDenseRows(p);
  ForStored<T>(p.dtype, [&](auto stored) {
    using S = decltype(stored);
    for (int64_t panel = begin; panel < end; ++panel) {
      T* dst = reinterpret_cast<T*>(packed) + panel * kRows * p.depth();
      const int64_t live = Min(kRows, p.rows - panel * kRows);
      const S* src =
          reinterpret_cast<const S*>(p.weight) + panel * kRows * p.weight_row;
      int64_t c = 0;
      if (dense && live == kRows) c = PackDenseRows<T, S>(p, src, dst);
      for (; c < p.channels; ++c) {
        for (int64_t t = 0; t < p.num_taps; ++t) {
          const S* from = src + c * p.weight_channel + p.taps[t].weight;
          T* to = dst + (t * p.channels + c) * kRows;
          int64_t i = 0;
          for (; i < live; ++i) to[i] = Widen<T>(from[i * p.weight_row]);
          for (; i < kRows; ++i) to[i] = T(0);
        }
      }
    }
  });
}

#if defined(__AVX2__)
template <typename S, int lines>
void TransposeLive(int64_t live, const S* src, int64_t stride, float* dst) {
  if constexpr (lines > 0) {
    if (live == lines) {
      TransposeEight<S, lines, kCols<float>>(src, stride, dst);
    } else {
      TransposeLive<S, lines - 1>(live, src, stride, dst);
    }
  }
}
#endif

// dst[c * kCols + i] = src[c * channel_stride + i * step].
template <typename T, typename S>
void PackSegment(const S* src, int64_t channel_stride, int64_t step,
                 int64_t channels, int64_t count, T* dst) {
  constexpr int64_t kWidth = kCols<T>;
  int64_t first = 0;
#if defined(__AVX512F__)
  if constexpr (__is_same(T, S)) {
    constexpr int64_t kLanes = Vec<T>::kLanes;
    if (step == 1) {
      const auto low = LanesBelow(count, T()),
                 high = LanesBelow(count - kLanes, T());
      if (count <= kLanes) {
        for (int64_t c = 0; c < channels; ++c) {
          CopyLanes(low, src, dst);
          src += channel_stride;
          dst += kWidth;
        }
      } else {
        for (int64_t c = 0; c < channels; ++c) {
          Vec<T>::Load(src).Store(dst);
          CopyLanes(high, src + kLanes, dst + kLanes);
          src += channel_stride;
          dst += kWidth;
        }
      }
      return;
    }
    if constexpr (__is_same(T, float)) {
      if (step == 2 && channel_stride != 1) {
        const SecondLanes low(count), high(count - kLanes);
        for (int64_t c = 0; c < channels; ++c) {
          __builtin_prefetch(src + kAhead * channel_stride);
          __builtin_prefetch(src + kAhead * channel_stride + kLanes);
          low.Copy(src, dst);
          if (count > kLanes) high.Copy(src + 2 * kLanes, dst + kLanes);
          src += channel_stride;
          dst += kWidth;
        }
        return;
      }
    }
  }
  // Channels last: eight of them by eight columns.
  if constexpr (__is_same(T, float)) {
    if (channel_stride == 1) {
      first = channels / 8 * 8;
      for (int64_t c = 0; c < first; c += 8) {
        for (int64_t i = 0; i < count; i += 8) {
          TransposeLive<S, 8>(Min(8, count - i), src + c + i * step, step,
                              dst + c * kWidth + i);
        }
      }
    }
  }
#elif defined(__AVX2__)
  if constexpr (__is_same(T, float)) {
    if (channel_stride == 1) {
      first = channels / 8 * 8;
      const int64_t whole = count / 8 * 8;
      for (int64_t c = 0; c < first; c += 8) {
        for (int64_t i = 0; i < whole; i += 8) {
          TransposeEight<S, 8, kCols<float>>(src + c + i * step, step,
                                             dst + c * kWidth + i);
        }
      }
      for (int64_t c = 0; c < first; ++c) {
        for (int64_t i = whole; i < count; ++i) {
          dst[c * kWidth + i] = Widen<T>(src[c + i * step]);
        }
      }
    }
  }
#endif
  for (int64_t c = first; c < channels; ++c) {
    CopyLine<T, S>(src + c * channel_stride, step, count, dst + c * kWidth);
  }
}

#if defined(__AVX512F__)
// PackColumns for a step of 1 along w, where x is contiguous.
template <typename T>
void PackPieces(const ConvProblem& p, const ConvRun* runs, int64_t num_runs,
                int64_t begin, int64_t end, T* dst) {
  constexpr int64_t kWidth = kCols<T>;
  ConvPiece pieces[kCols<T>];
  const T* x = reinterpret_cast<const T*>(p.x.data);
  const int64_t columns = runs[num_runs - 1].at + runs[num_runs - 1].count;
  for (int64_t k = begin; k < end;) {
    const int64_t t = k / p.channels, c = k % p.channels;
    const int64_t channels = Min(p.channels - c, end - k);
    const int64_t count = FindPieces<T>(p, p.taps[t], runs, num_runs, pieces);
    if (columns < kWidth) {
      const Vec<T> zero = Vec<T>::All(T(0));
      for (int64_t i = 0; i < channels * kWidth; i += Vec<T>::kLanes) {
        zero.Store(dst + i);
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      const ConvPiece piece = pieces[i];
      const T* src = x + piece.offset + c * p.x.channel_stride;
      T* to = dst + piece.at;
      for (int64_t j = 0; j < channels; ++j) {
        // Channels lie too far apart for the hardware to foresee.
        __builtin_prefetch(src + (j + kAhead) * p.x.channel_stride);
        CopyPiece(piece, src + j * p.x.channel_stride, to + j * kWidth);
      }
    }
    dst += channels * kWidth;
    k += channels;
  }
}
#endif

// Depth [begin, end) of a panel's columns: dst[k - begin][column].
template <typename T, typename S>
void PackColumns(const ConvProblem& p, const ConvRun* runs, int64_t num_runs,
                 int64_t begin, int64_t end, T* dst) {
#if defined(__AVX512F__)
  if constexpr (__is_same(T, S)) {
    if (p.step[2] == 1 && p.x.strides[2] == 1) {
      return PackPieces<T>(p, runs, num_runs, begin, end, dst);
    }
  }
#endif
  constexpr int64_t kWidth = kCols<T>;
  ConvSegment segments[kCols<T>];
  const S* x = reinterpret_cast<const S*>(p.x.data);
  for (int64_t k = begin; k < end;) {
    const int64_t t = k / p.channels, c = k % p.channels;
    const int64_t channels = Min(p.channels - c, end - k);
    int64_t covered;
    const int64_t count =
        FindSegments(p, p.taps[t], runs, num_runs, segments, &covered);
    if (covered < kWidth) {
      const Vec<T> zero = Vec<T>::All(T(0));
      for (int64_t i = 0; i < channels * kWidth; i += Vec<T>::kLanes) {
        zero.Store(dst + i);
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      PackSegment<T, S>(x + segments[i].offset + c * p.x.channel_stride,
                        p.x.channel_stride, p.step[2] * p.x.strides[2],
                        channels, segments[i].count, dst + segments[i].at);
    }
    dst += channels * kWidth;
    k += channels;
  }
}

template <typename T>
T BiasAt(const ConvProblem& p, int64_t row) {
  T value = T(0);
  if (p.bias == nullptr) return value;
  ForStored<T>(p.bias_dtype, [&](auto stored) {
    value = Widen<T>(
        reinterpret_cast<const decltype(stored)*>(p.bias)[row * p.bias_stride]);
  });
  return value;
}

// Rows [row, row + live) of a panel's columns: x plus bias, to y.
template <typename T, typename S>
void Finish(const ConvProblem& p, const ConvRun* runs, int64_t num_runs,
            int64_t row, int64_t live, const T* x, int64_t stride) {
  T bias[kRows];
  for (int64_t r = 0; r < live; ++r) bias[r] = BiasAt<T>(p, row + r);
  const int64_t step = p.y.strides[2], row_step = p.y.channel_stride;
  for (int64_t i = 0; i < num_runs; ++i) {
    const ConvRun& run = runs[i];
    S* dst = reinterpret_cast<S*>(p.y.data) + run.n * p.y.batch_stride +
             row * row_step + run.a[0] * p.y.strides[0] +
             run.a[1] * p.y.strides[1] + run.a[2] * step;
    const T* src = x + run.at;
    if (step == 1) {
      for (int64_t r = 0; r < live; ++r) {
        S* line = dst + r * row_step;
        const T* from = src + r * stride;
#if defined(__AVX512F__)
        if constexpr (__is_same(S, float)) {
          const __m512 b = _mm512_set1_ps(bias[r]);
          for (int64_t j = 0; j < run.count; j += 16) {
            const __mmask16 mask = LanesBelow(run.count - j, 0.0f);
            _mm512_mask_storeu_ps(
                line + j, mask,
                _mm512_add_ps(b, _mm512_maskz_loadu_ps(mask, from + j)));
          }
          continue;
        }
#endif
        for (int64_t j = 0; j < run.count; ++j) {
          line[j] = Narrow<S>(from[j] + bias[r]);
        }
      }
      continue;
    }
    for (int64_t j = 0; j < run.count; ++j) {
      for (int64_t r = 0; r < live; ++r) {
        dst[j * step + r * row_step] = Narrow<S>(src[r * stride + j] + bias[r]);
      }
    }
  }
}

template <typename T>
size_t TileScratchBytes(const ConvProblem& p, int64_t columns) {
  const int64_t width = RoundUp(columns, kCols<T>);
  const int64_t depth = p.depth(), block = BlockOfDepth<T>(depth);
  const int64_t sums = block < depth ? RoundUp(p.rows, kRows) * width : 0;
  return sizeof(T) * (width * block + sums) +
         sizeof(ConvRun) * static_cast<size_t>(width) +
         sizeof(int64_t) * static_cast<size_t>(width / kCols<T> + 1);
}

template <typename T, typename S>
void TileAs(const ConvProblem& p, const T* packed, int64_t begin, int64_t end,
            char* scratch) {
  constexpr int64_t kWidth = kCols<T>;
  const int64_t columns = end - begin, width = RoundUp(columns, kWidth);
  const int64_t panels = width / kWidth;
  const int64_t depth = p.depth(), block = BlockOfDepth<T>(depth);
  const bool one_pass = block >= depth;
  T* packed_x = reinterpret_cast<T*>(scratch);
  T* sums = packed_x + width * block;
  ConvRun* runs = reinterpret_cast<ConvRun*>(
      sums + (one_pass ? 0 : RoundUp(p.rows, kRows) * width));
  int64_t* first = reinterpret_cast<int64_t*>(runs + width);  // run of a panel
  alignas(64) T out[kRows * kWidth];

  first[0] = 0;
  for (int64_t j = 0; j < panels; ++j) {
    first[j + 1] =
        first[j] + FindRuns(p, begin + j * kWidth,
                            Min(kWidth, columns - j * kWidth), runs + first[j]);
  }
  int64_t k = 0;
  do {  // once if there is no tap: the product is 0 then
    const int64_t kc = Min(block, depth - k);
    const bool last = k + kc >= depth;
    for (int64_t j = 0; j < panels; ++j) {
      PackColumns<T, S>(p, runs + first[j], first[j + 1] - first[j], k, k + kc,
                        packed_x + j * kWidth * kc);
    }
    for (int64_t row = 0; row < p.rows; row += kRows) {
      const int64_t live = Min(kRows, p.rows - row);
      const T* a = packed + row * depth + k * kRows;
      for (int64_t j = 0; j < panels; ++j) {
        const int64_t at = j * kWidth;
        T* sum = sums + row * width + at;
        const Target<T> target = one_pass ? Target<T>{out, kWidth, false}
                                          : Target<T>{sum, width, k > 0};
        RegisterRows<T>(live, kc, a, 1, kRows, packed_x + at * kc, kWidth,
                        target);
        if (!last) continue;
        Finish<T, S>(p, runs + first[j], first[j + 1] - first[j], row, live,
                     target.data, target.stride);
      }
    }
    k += kc;
  } while (k < depth);
}

template <typename T>
void Tile(const ConvProblem& p, const char* packed, int64_t begin, int64_t end,
          char* scratch) {
  ForStored<T>(p.dtype, [&](auto stored) {
    TileAs<T, decltype(stored)>(p, reinterpret_cast<const T*>(packed), begin,
                                end, scratch);
  });
}

}  // namespace

const ConvKernels kConvKernels = {
    .f32 = {.row_step = kRows,
            .col_step = kCols<float>,
            .block_depth = kMaxDepth<float>,
            .pack_weight = PackWeight<float>,
            .tile = Tile<float>,
            .tile_scratch_bytes = TileScratchBytes<float>,
            .depthwise = ConvDepthwiseF32,
            .depthwise_channels = ConvDepthwiseChannelsF32,
            .depthwise_weight = ConvDepthwiseWeightF32,
            .weight = ConvWeightF32,
            .weight_scratch_bytes = ConvWeightScratchF32,
            .lanes = Vec<float>::kLanes},
    .f64 = {.row_step = kRows,
            .col_step = kCols<double>,
            .block_depth = kMaxDepth<double>,
            .pack_weight = PackWeight<double>,
            .tile = Tile<double>,
            .tile_scratch_bytes = TileScratchBytes<double>,
            .depthwise = ConvDepthwiseF64,
            .depthwise_channels = ConvDepthwiseChannelsF64,
            .depthwise_weight = ConvDepthwiseWeightF64,
            .weight = ConvWeightF64,
            .weight_scratch_bytes = ConvWeightScratchF64,
            .lanes = Vec<double>::kLanes},
};

}  // namespace tvarant::host::TVARANT_ISA

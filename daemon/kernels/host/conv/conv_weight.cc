// The gradient of a convolution's weights: dot products over the columns.
// Lines of dy (one per row) and of the unrolled x (one per tap and channel)
// lie along the columns, as in memory, so that nothing is transposed.

#include "daemon/kernels/host/conv/conv_columns.h"
#include "daemon/kernels/host/conv/conv_problem.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

constexpr int64_t kColumns = 1024;  // of a block
// From line to line: lines a page apart would share their place in the cache.
constexpr int64_t kLineStride = kColumns + 16;

// Lines of dy and of x that are multiplied at once: as many sums as there are
// registers for.
#if defined(__AVX512F__)
constexpr int kLines = 4, kPositions = 6;
#elif defined(__AVX2__)
constexpr int kLines = 2, kPositions = 4;
#else
constexpr int kLines = 2, kPositions = 3;
#endif

template <typename T>
void Zero(T* dst, int64_t count) {
  for (int64_t i = 0; i < count; ++i) dst[i] = T(0);
}

#if defined(__AVX512F__)
// Of each 128 bits of x and y: elements a, b of x and the same of y.
#define TVARANT_PAIRS(x, y, a, b)                                           \
  __builtin_shufflevector(x, y, a, b, 16 + (a), 16 + (b), 4 + (a), 4 + (b), \
                          20 + (a), 20 + (b), 8 + (a), 8 + (b), 24 + (a),   \
                          24 + (b), 12 + (a), 12 + (b), 28 + (a), 28 + (b))
// 128 bits a, b of x and the same of y.
#define TVARANT_QUARTERS(x, y, a, b)                                      \
  __builtin_shufflevector(x, y, 4 * (a), 4 * (a) + 1, 4 * (a) + 2,        \
                          4 * (a) + 3, 4 * (b), 4 * (b) + 1, 4 * (b) + 2, \
                          4 * (b) + 3, 16 + 4 * (a), 17 + 4 * (a),        \
                          18 + 4 * (a), 19 + 4 * (a), 16 + 4 * (b),       \
                          17 + 4 * (b), 18 + 4 * (b), 19 + 4 * (b))

// Element i of the result: the sum of the lanes of v[i].
TVARANT_INLINE __m512 SumEach(const Vec<float>* v) {
  __m512 a[8], b[4], c[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const __m512 x = v[2 * i].v, y = v[2 * i + 1].v;
    a[i] = TVARANT_PAIRS(x, y, 0, 1) + TVARANT_PAIRS(x, y, 2, 3);
  }
  // a: in each quarter two partial sums of x, then two of y.
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 x = a[2 * i], y = a[2 * i + 1];
    b[i] = __builtin_shufflevector(x, y, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24,
                                   26, 12, 14, 28, 30) +
           __builtin_shufflevector(x, y, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25,
                                   27, 13, 15, 29, 31);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512 x = b[2 * i], y = b[2 * i + 1];
    c[i] = TVARANT_QUARTERS(x, y, 0, 2) + TVARANT_QUARTERS(x, y, 1, 3);
  }
  return TVARANT_QUARTERS(c[0], c[1], 0, 2) +
         TVARANT_QUARTERS(c[0], c[1], 1, 3);
}
#endif

template <typename T, int count>
void AddSums(const Vec<T>* v, T* sums) {
#if defined(__AVX512F__)
  if constexpr (__is_same(T, float)) {
    for (int at = 0; at < count; at += 16) {
      Vec<float> some[16];
      for (int i = 0; i < 16; ++i) {
        some[i] = at + i < count ? v[at + i] : Vec<float>::All(0);
      }
      const __mmask16 mask = LanesBelow(count - at, 0.0f);
      _mm512_mask_storeu_ps(
          sums + at, mask,
          SumEach(some) + _mm512_maskz_loadu_ps(mask, sums + at));
    }
    return;
  }
#endif
  for (int i = 0; i < count; ++i) sums[i] += Sum(v[i]);
}

// sums[line][position] += dy line . x position; lines are kColumns apart.
template <typename T, int lines>
void Dot(const T* dy, const T* x, int64_t columns, T* sums) {
  using V = Vec<T>;
  V sum[lines * kPositions];
#pragma GCC unroll 24
  for (int i = 0; i < lines * kPositions; ++i) sum[i] = V::All(T(0));
  for (int64_t i = 0; i < columns; i += V::kLanes) {
    V b[kPositions];
#pragma GCC unroll 6
    for (int q = 0; q < kPositions; ++q)
      b[q] = V::Load(x + q * kLineStride + i);
#pragma GCC unroll 4
    for (int r = 0; r < lines; ++r) {
      const V a = V::Load(dy + r * kLineStride + i);
#pragma GCC unroll 6
      for (int q = 0; q < kPositions; ++q) {
        sum[r * kPositions + q] = Fma(a, b[q], sum[r * kPositions + q]);
      }
    }
  }
  AddSums<T, lines * kPositions>(sum, sums);
}

constexpr int64_t GroupsOf(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

// Columns [begin, begin + columns) of x under one tap, for channel after
// channel.
template <typename T, typename S>
class Unroller {
 public:
  // `list` has room for twice kColumns segments.
  explicit Unroller(void* list) : list_(list) {}

  void Find(const ConvProblem& p, const ConvTap& tap, const ConvRun* runs,
            int64_t num_runs, int64_t columns) {
    columns_ = columns;
    step_ = p.step[2] * p.x.strides[2];
#if defined(__AVX512F__)
    if constexpr (__is_same(T, S)) {
      if (step_ == 1) {
        count_ = FindPieces<T>(p, tap, runs, num_runs,
                               static_cast<ConvPiece*>(list_));
        return;
      }
    }
#endif
    int64_t covered;
    count_ = FindSegments(p, tap, runs, num_runs,
                          static_cast<ConvSegment*>(list_), &covered);
    zero_ = covered < columns;
#if defined(__AVX512F__)
    if constexpr (__is_same(T, S) && __is_same(T, float)) {
      if (step_ == 2) count_ = SplitSegments();
    }
#endif
  }

  // The columns, and zeros up to a whole vector.
  void Unroll(const S* x, T* dst) const {
    Zero(dst + columns_, RoundUp(columns_, Vec<T>::kLanes) - columns_);
#if defined(__AVX512F__)
    if constexpr (__is_same(T, S)) {
      if (step_ == 1) {
        const ConvPiece* pieces = static_cast<const ConvPiece*>(list_);
        for (int64_t i = 0; i < count_; ++i) {
          CopyPiece(pieces[i], x + pieces[i].offset, dst + pieces[i].at);
        }
        return;
      }
    }
#endif
    if (zero_) Zero(dst, columns_);
#if defined(__AVX512F__)
    if constexpr (__is_same(T, S) && __is_same(T, float)) {
      if (step_ == 2) {
        const SecondPiece* pieces = seconds();
        for (int64_t i = 0; i < count_; ++i) {
          pieces[i].lanes.Copy(x + pieces[i].offset, dst + pieces[i].at);
        }
        return;
      }
    }
#endif
    const ConvSegment* segments = static_cast<const ConvSegment*>(list_);
    for (int64_t i = 0; i < count_; ++i) {
      CopyLine<T, S>(x + segments[i].offset, step_, segments[i].count,
                     dst + segments[i].at);
    }
  }

 private:
#if defined(__AVX512F__)
  struct SecondPiece {
    int64_t at, offset;
    SecondLanes lanes;
  };
  static_assert(sizeof(SecondPiece) <= sizeof(ConvSegment));
  SecondPiece* seconds() const {
    return reinterpret_cast<SecondPiece*>(static_cast<ConvSegment*>(list_) +
                                          kColumns);
  }
  // Segments to vectors of every second element; returns their number.
  int64_t SplitSegments() {
    int64_t count = 0;
    const ConvSegment* segments = static_cast<const ConvSegment*>(list_);
    for (int64_t i = 0; i < count_; ++i) {
      const ConvSegment& segment = segments[i];
      for (int64_t j = 0; j < segment.count; j += Vec<T>::kLanes) {
        seconds()[count++] = {segment.at + j, segment.offset + 2 * j,
                              SecondLanes(segment.count - j)};
      }
    }
    return count;
  }
#endif

  void* list_;
  int64_t count_ = 0, columns_ = 0, step_ = 1;
  bool zero_ = false;
};

static_assert(sizeof(ConvSegment) == 24);
#if defined(__AVX512F__)
static_assert(sizeof(ConvPiece) <= sizeof(ConvSegment));
#endif
constexpr size_t kListBytes =
    (sizeof(ConvRun) + 4 * sizeof(ConvSegment)) * kColumns;

template <typename T>
size_t WeightScratch(int64_t rows, int64_t positions) {
  const int64_t line_groups = GroupsOf(rows, kLines);
  const int64_t elements =
      (line_groups * kLines + kPositions) * kLineStride +
      line_groups * GroupsOf(positions, kPositions) * kLines * kPositions;
  return sizeof(T) * static_cast<size_t>(RoundUp(elements, 64)) + kListBytes;
}

// Rows [row_begin, row_end) of channels [c_begin, c_end); a position is a tap
// and a channel, the channels innermost.
template <typename T, typename S>
void WeightAs(const ConvProblem& p, int64_t row_begin, int64_t row_end,
              int64_t c_begin, int64_t c_end, char* scratch) {
  const int64_t rows = row_end - row_begin, channels = c_end - c_begin;
  const int64_t positions = channels * p.num_taps;
  const int64_t line_groups = GroupsOf(rows, kLines);
  const int64_t q_groups = GroupsOf(positions, kPositions);
  T* dy = reinterpret_cast<T*>(scratch);
  T* x = dy + line_groups * kLines * kLineStride;
  T* sums =
      x + kPositions * kLineStride;  // [q group][line group][line][position]
  const int64_t num_sums = q_groups * line_groups * kLines * kPositions;
  ConvRun* runs = reinterpret_cast<ConvRun*>(
      scratch + WeightScratch<T>(rows, positions) - kListBytes);
  char* lists = reinterpret_cast<char*>(runs + kColumns);
  Unroller<T, S> y_unroller(lists);
  Unroller<T, S> x_unroller(lists + 2 * sizeof(ConvSegment) * kColumns);
  // dy as an input of its own, seen through a window of one.
  ConvProblem y_problem = p;
  y_problem.x = p.y;
  for (int i = 0; i < 3; ++i) {
    y_problem.x_size[i] = p.grid[i];
    y_problem.step[i] = 1;
  }
  Zero(sums, num_sums);
  Zero(dy + rows * kLineStride, (line_groups * kLines - rows) * kLineStride);

  const int64_t all = p.columns();
  for (int64_t begin = 0; begin < all; begin += kColumns) {
    const int64_t columns = Min(kColumns, all - begin);
    const int64_t padded = RoundUp(columns, Vec<T>::kLanes);
    const int64_t num_runs = FindRuns(p, begin, columns, runs);
    y_unroller.Find(y_problem, ConvTap{}, runs, num_runs, columns);
    for (int64_t r = 0; r < rows; ++r) {
      y_unroller.Unroll(reinterpret_cast<const S*>(p.y.data) +
                            (row_begin + r) * p.y.channel_stride,
                        dy + r * kLineStride);
    }
    int64_t tap = -1;
    for (int64_t group = 0; group < q_groups; ++group) {
      const int64_t first = group * kPositions;
      for (int64_t i = 0; i < kPositions; ++i) {
        T* dst = x + i * kLineStride;
        const int64_t q = first + i;
        if (q >= positions) {
          Zero(dst, padded);
          continue;
        }
        if (q / channels != tap) {
          tap = q / channels;
          x_unroller.Find(p, p.taps[tap], runs, num_runs, columns);
        }
        x_unroller.Unroll(reinterpret_cast<const S*>(p.x.data) +
                              (c_begin + q % channels) * p.x.channel_stride,
                          dst);
      }
      T* sum = sums + group * line_groups * kLines * kPositions;
      if (rows == 1) {
        Dot<T, 1>(dy, x, padded, sum);
        continue;
      }
      for (int64_t i = 0; i < line_groups; ++i) {
        Dot<T, kLines>(dy + i * kLines * kLineStride, x, padded,
                       sum + i * kLines * kPositions);
      }
    }
  }

  // In the order of memory: a filter's taps, the next channel's.
  for (int64_t r = 0; r < rows; ++r) {
    S* dst = reinterpret_cast<S*>(const_cast<char*>(p.weight)) +
             (row_begin + r) * p.weight_row + c_begin * p.weight_channel;
    for (int64_t c = 0; c < channels; ++c, dst += p.weight_channel) {
      for (int64_t t = 0; t < p.num_taps; ++t) {
        const int64_t q = t * channels + c;
        dst[p.taps[t].weight] = Narrow<S>(
            sums[(q / kPositions * line_groups * kLines + r) * kPositions +
                 q % kPositions]);
      }
    }
  }
}

template <typename T>
void Weight(const ConvProblem& p, int64_t row_begin, int64_t row_end,
            int64_t c_begin, int64_t c_end, char* scratch) {
  ForStored<T>(p.dtype, [&](auto stored) {
    WeightAs<T, decltype(stored)>(p, row_begin, row_end, c_begin, c_end,
                                  scratch);
  });
}

}  // namespace

void ConvWeightF32(const ConvProblem& p, int64_t row_begin, int64_t row_end,
                   int64_t c_begin, int64_t c_end, char* scratch) {
  Weight<float>(p, row_begin, row_end, c_begin, c_end, scratch);
}

void ConvWeightF64(const ConvProblem& p, int64_t row_begin, int64_t row_end,
                   int64_t c_begin, int64_t c_end, char* scratch) {
  Weight<double>(p, row_begin, row_end, c_begin, c_end, scratch);
}

size_t ConvWeightScratchF32(int64_t rows, int64_t positions) {
  return WeightScratch<float>(rows, positions);
}

size_t ConvWeightScratchF64(int64_t rows, int64_t positions) {
  return WeightScratch<double>(rows, positions);
}

}  // namespace tvarant::host::TVARANT_ISA

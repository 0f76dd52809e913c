// The gradient of a convolution's weights: dot products over the columns.
// Lines of dy (one per row) and of the unrolled x (one per tap and channel)
// lie along the columns, as in memory, so that nothing is transposed.

#include "daemon/kernels/host/conv/conv_columns.h"
#include "daemon/kernels/host/conv/conv_problem.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

constexpr int64_t kColumns = 1024;  // of a block

// Lines of dy and of x that are multiplied at once: as many sums as there are
// registers for.
#if defined(__AVX512F__)
constexpr int kLines = 4, kPositions = 6;
#elif defined(__AVX2__)
constexpr int kLines = 2, kPositions = 4;
#else
constexpr int kLines = 2, kPositions = 3;
#endif

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
      alignas(64) float each[16];
      _mm512_store_ps(each, SumEach(some));
      for (int i = 0; i < 16 && at + i < count; ++i) sums[at + i] += each[i];
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
    for (int q = 0; q < kPositions; ++q) b[q] = V::Load(x + q * kColumns + i);
#pragma GCC unroll 4
    for (int r = 0; r < lines; ++r) {
      const V a = V::Load(dy + r * kColumns + i);
#pragma GCC unroll 6
      for (int q = 0; q < kPositions; ++q) {
        sum[r * kPositions + q] = Fma(a, b[q], sum[r * kPositions + q]);
      }
    }
  }
  AddSums<T, lines * kPositions>(sum, sums);
}

template <typename T>
void Zero(T* dst, int64_t count) {
  for (int64_t i = 0; i < count; ++i) dst[i] = T(0);
}

constexpr int64_t GroupsOf(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

template <typename T>
size_t WeightScratch(int64_t rows, int64_t positions) {
  const int64_t line_groups = GroupsOf(rows, kLines);
  const int64_t elements =
      (line_groups * kLines + kPositions) * kColumns +
      line_groups * GroupsOf(positions, kPositions) * kLines * kPositions;
  return sizeof(T) * static_cast<size_t>(RoundUp(elements, 64)) +
         (sizeof(ConvRun) + sizeof(ConvSegment)) * kColumns;
}

// Rows [row_begin, row_end) of positions [q_begin, q_end).
template <typename T, typename S>
void WeightAs(const ConvProblem& p, int64_t row_begin, int64_t row_end,
              int64_t q_begin, int64_t q_end, char* scratch) {
  const int64_t rows = row_end - row_begin, positions = q_end - q_begin;
  const int64_t line_groups = GroupsOf(rows, kLines);
  const int64_t q_groups = GroupsOf(positions, kPositions);
  T* dy = reinterpret_cast<T*>(scratch);
  T* x = dy + line_groups * kLines * kColumns;
  T* sums = x + kPositions * kColumns;  // [q group][line group][line][position]
  const int64_t num_sums = q_groups * line_groups * kLines * kPositions;
  ConvRun* runs = reinterpret_cast<ConvRun*>(
      scratch + WeightScratch<T>(rows, positions) -
      (sizeof(ConvRun) + sizeof(ConvSegment)) * kColumns);
  ConvSegment* segments = reinterpret_cast<ConvSegment*>(runs + kColumns);
  Zero(sums, num_sums);
  Zero(dy + rows * kColumns, (line_groups * kLines - rows) * kColumns);

  const int64_t all = p.columns();
  for (int64_t begin = 0; begin < all; begin += kColumns) {
    const int64_t columns = Min(kColumns, all - begin);
    const int64_t padded = RoundUp(columns, Vec<T>::kLanes);
    const int64_t num_runs = FindRuns(p, begin, columns, runs);
    for (int64_t r = 0; r < rows; ++r) {
      const S* src = reinterpret_cast<const S*>(p.y.data) +
                     (row_begin + r) * p.y.channel_stride;
      T* dst = dy + r * kColumns;
      for (int64_t i = 0; i < num_runs; ++i) {
        const ConvRun& run = runs[i];
        CopyLine<T, S>(
            src + run.n * p.y.batch_stride + run.a[0] * p.y.strides[0] +
                run.a[1] * p.y.strides[1] + run.a[2] * p.y.strides[2],
            p.y.strides[2], run.count, dst + run.at);
      }
      Zero(dst + columns, padded - columns);
    }
    int64_t tap = -1, num_segments = 0, covered = 0;
    for (int64_t group = 0; group < q_groups; ++group) {
      const int64_t first = q_begin + group * kPositions;
      for (int64_t i = 0; i < kPositions; ++i) {
        T* dst = x + i * kColumns;
        const int64_t q = first + i;
        if (q >= q_end) {
          Zero(dst, padded);
          continue;
        }
        if (q / p.channels != tap) {
          tap = q / p.channels;
          num_segments =
              FindSegments(p, p.taps[tap], runs, num_runs, segments, &covered);
        }
        if (covered < padded) Zero(dst, padded);
        const S* src = reinterpret_cast<const S*>(p.x.data) +
                       q % p.channels * p.x.channel_stride;
        for (int64_t s = 0; s < num_segments; ++s) {
          CopyLine<T, S>(src + segments[s].offset, p.step[2] * p.x.strides[2],
                         segments[s].count, dst + segments[s].at);
        }
      }
      T* sum = sums + group * line_groups * kLines * kPositions;
      if (rows == 1) {
        Dot<T, 1>(dy, x, padded, sum);
        continue;
      }
      for (int64_t i = 0; i < line_groups; ++i) {
        Dot<T, kLines>(dy + i * kLines * kColumns, x, padded,
                       sum + i * kLines * kPositions);
      }
    }
  }

  for (int64_t i = 0; i < positions; ++i) {
    const int64_t q = q_begin + i;
    S* dst = reinterpret_cast<S*>(const_cast<char*>(p.weight)) +
             q % p.channels * p.weight_channel + p.taps[q / p.channels].weight;
    const T* sum = sums + i / kPositions * line_groups * kLines * kPositions +
                   i % kPositions;
    for (int64_t r = 0; r < rows; ++r) {
      dst[(row_begin + r) * p.weight_row] = Narrow<S>(sum[r * kPositions]);
    }
  }
}

template <typename T>
void Weight(const ConvProblem& p, int64_t row_begin, int64_t row_end,
            int64_t q_begin, int64_t q_end, char* scratch) {
  ForStored<T>(p.dtype, [&](auto stored) {
    WeightAs<T, decltype(stored)>(p, row_begin, row_end, q_begin, q_end,
                                  scratch);
  });
}

}  // namespace

void ConvWeightF32(const ConvProblem& p, int64_t row_begin, int64_t row_end,
                   int64_t q_begin, int64_t q_end, char* scratch) {
  Weight<float>(p, row_begin, row_end, q_begin, q_end, scratch);
}

void ConvWeightF64(const ConvProblem& p, int64_t row_begin, int64_t row_end,
                   int64_t q_begin, int64_t q_end, char* scratch) {
  Weight<double>(p, row_begin, row_end, q_begin, q_end, scratch);
}

size_t ConvWeightScratchF32(int64_t rows, int64_t positions) {
  return WeightScratch<float>(rows, positions);
}

size_t ConvWeightScratchF64(int64_t rows, int64_t positions) {
  return WeightScratch<double>(rows, positions);
}

}  // namespace tvarant::host::TVARANT_ISA

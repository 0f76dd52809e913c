#include "daemon/kernels/host/gemm/gemm_tile.h"

#include "daemon/kernels/host/gemm/gemm_bfloat16.h"
#include "daemon/kernels/host/gemm/gemm_element.h"
#include "daemon/kernels/host/gemm/gemm_epilogue.h"
#include "daemon/kernels/host/gemm/gemm_few_rows.h"
#include "daemon/kernels/host/gemm/gemm_pack.h"
#include "daemon/kernels/host/gemm/gemm_register.h"
#include "daemon/kernels/host/vec.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

// How a computing type is packed and multiplied.
template <typename T>
struct Plain {
  using Sum = T;                   // what the register tile adds up
  using Packed = T;                // an element of a panel
  static constexpr int kStep = 1;  // values of k in an element

  template <int lines>
  static void PackRows(const GemmMatrix& a, int64_t row, int64_t rows,
                       int64_t p, int64_t kc, T* dst) {
    PackA<T, lines>(a, row, rows, p, kc, dst);
  }
  template <int lines>
  static void PackCols(const GemmMatrix& b, int64_t col, int64_t cols,
                       int64_t p, int64_t kc, T* dst) {
    PackB<T, lines>(b, col, cols, p, kc, dst);
  }
  static void Multiply(int64_t steps, const T* a, const T* b, int64_t b_step,
                       const Target<T>& target) {
    RegisterTile<T, kRows>(steps, a, 1, kRows, b, b_step, target);
  }
};

// kc x kCols of B stays in the first-level cache, kMc x kc of A in the
// second, kc x kNc of B in the last one.
template <typename K>
constexpr int64_t kKc = K::kStep*(sizeof(typename K::Packed) == 4 ? 256 : 192);
template <typename T>
constexpr int64_t kMc = kRows*((sizeof(T) == 4 ? 168 : 96) / kRows);
template <typename T>
constexpr int64_t kNc = kCols<T>*(4096 / sizeof(T) * 2 / kCols<T>);

// A problem below this many products reads A and B where they lie.
constexpr double kDirectProducts = 96.0 * 96.0 * 96.0;

// Sums over the k blocks before the last are kept in C itself, or beside it
// if C is narrower than the computing type or strided.
template <typename T>
bool KeepsSumsInC(const GemmProblem& g) {
  return g.c.dtype == OwnDType<T>() && g.c.col_stride == 1;
}

template <typename K>
int64_t SumElements(const GemmProblem& g, const GemmRange& r) {
  if (g.k <= kKc<K> || KeepsSumsInC<typename K::Sum>(g)) return 0;
  return (r.m_end - r.m_begin) * (r.n_end - r.n_begin);
}

// Elements of a panel that hold kc values of k.
template <typename K>
int64_t StepsOf(int64_t kc) {
  return (kc + K::kStep - 1) / K::kStep;
}

template <typename K>
size_t ScratchBytes(const GemmProblem& g, const GemmRange& r) {
  using T = typename K::Sum;
  static_assert(sizeof(typename K::Packed) == sizeof(T));
  const int64_t kc = StepsOf<K>(Min(g.k, kKc<K>));
  const int64_t packed_a =
      RoundUp(Min(r.m_end - r.m_begin, kMc<T>), kRows) * kc;
  const int64_t packed_b =
      RoundUp(Min(r.n_end - r.n_begin, kNc<T>), kCols<T>) * kc;
  return sizeof(T) *
         (RoundUp(packed_a, 16) + RoundUp(packed_b, 16) + SumElements<K>(g, r));
}

// Blocks of k as equal as can be: a last one of few steps would be all
// overhead.
template <typename K>
int64_t BlockOfK(int64_t k) {
  const int64_t blocks = (k + kKc<K> - 1) / kKc<K>;
  return blocks <= 1 ? k : Min(kKc<K>, RoundUp((k + blocks - 1) / blocks, 8));
}

// Whether a finished row is just what the register tile holds.
template <typename T>
bool IsPlain(const GemmProblem& g) {
  const bool biased = g.bias.dtype != DType::kInvalid && g.beta != 0;
  return KeepsSumsInC<T>(g) && g.alpha == 1 && !biased && g.act == Act::kNone;
}

template <typename K>
void Tile(const GemmProblem& g, const GemmRange& r, char* scratch) {
  using T = typename K::Sum;
  using Packed = typename K::Packed;
  const int64_t max_kc = BlockOfK<K>(g.k);
  const int64_t max_steps = StepsOf<K>(max_kc);
  Packed* packed_a = reinterpret_cast<Packed*>(scratch);
  Packed* packed_b =
      packed_a +
      RoundUp(RoundUp(Min(r.m_end - r.m_begin, kMc<T>), kRows) * max_steps, 16);
  T* sums = reinterpret_cast<T*>(
      packed_b +
      RoundUp(RoundUp(Min(r.n_end - r.n_begin, kNc<T>), kCols<T>) * max_steps,
              16));
  int64_t sums_stride = r.n_end - r.n_begin;
  if (KeepsSumsInC<T>(g)) {
    sums_stride = g.c.row_stride;
    sums = reinterpret_cast<T*>(g.c.data) + r.m_begin * sums_stride + r.n_begin;
  }
  const bool small = static_cast<double>(g.m) * static_cast<double>(g.n) *
                         static_cast<double>(g.k) <=
                     kDirectProducts;
  const bool direct_a = K::kStep == 1 && small && g.a.dtype == OwnDType<T>();
  const bool direct_b = K::kStep == 1 && small && g.b.dtype == OwnDType<T>() &&
                        g.b.col_stride == 1;
  const bool plain = IsPlain<T>(g);
  alignas(64) T out[kRows * kCols<T>];

  for (int64_t jc = r.n_begin; jc < r.n_end; jc += kNc<T>) {
    const int64_t nc = Min(kNc<T>, r.n_end - jc);
    int64_t pc = 0;
    do {  // once if k = 0: the product is 0 then
      const int64_t kc = Min(max_kc, g.k - pc);
      const int64_t steps = StepsOf<K>(kc);
      const bool last = pc + kc == g.k;
      // A panel of too few columns is packed in any case: no reading beyond.
      const int64_t direct_cols = direct_b ? nc / kCols<T> * kCols<T> : 0;
      K::template PackCols<kCols<T>>(g.b, jc + direct_cols, nc - direct_cols,
                                     pc, kc, packed_b + direct_cols * steps);
      for (int64_t ic = r.m_begin; ic < r.m_end; ic += kMc<T>) {
        const int64_t mc = Min(kMc<T>, r.m_end - ic);
        if (!direct_a) {
          K::template PackRows<kRows>(g.a, ic, mc, pc, kc, packed_a);
        }
        for (int64_t j = 0; j < nc; j += kCols<T>) {
          const Packed* b = packed_b + j * steps;
          int64_t b_step = kCols<T>;
          if (j < direct_cols) {
            b_step = g.b.row_stride;
            b = reinterpret_cast<const Packed*>(g.b.data) + pc * b_step + jc +
                j;
          }
          const int64_t cols = Min(kCols<T>, nc - j);
          for (int64_t i = 0; i < mc; i += kRows) {
            const int64_t rows = Min(kRows, mc - i);
            T* sum =
                sums + (ic + i - r.m_begin) * sums_stride + jc + j - r.n_begin;
            const bool whole = rows == kRows && cols == kCols<T>;
            const bool in_place = whole && (!last || plain);
            const Target<T> target = in_place
                                         ? Target<T>{sum, sums_stride, pc > 0}
                                         : Target<T>{out, kCols<T>, false};
            if (!direct_a) {
              K::Multiply(steps, packed_a + i * steps, b, b_step, target);
            } else if constexpr (K::kStep == 1) {
              const T* a = reinterpret_cast<const T*>(g.a.data) +
                           (ic + i) * g.a.row_stride + pc * g.a.col_stride;
              RegisterRows<T>(rows, kc, a, g.a.row_stride, g.a.col_stride, b,
                              b_step, target);
            }
            if (in_place) continue;
            for (int64_t row = 0; row < rows; ++row, sum += sums_stride) {
              T* x = out + row * kCols<T>;
              if (pc > 0) {
                for (int64_t col = 0; col < cols; ++col) x[col] += sum[col];
              }
              if (last) {
                FinishRow<T, kCols<T>>(g, ic + i + row, jc + j, cols, x);
              } else {
                for (int64_t col = 0; col < cols; ++col) sum[col] = x[col];
              }
            }
          }
        }
      }
      pc += kc;
    } while (pc < g.k);
  }
}

}  // namespace

const GemmKernels kGemmKernels = {
    .f32 = {Tile<Plain<float>>, FewRowsF32, ScratchBytes<Plain<float>>, kRows,
            kCols<float>},
    .f64 = {Tile<Plain<double>>, FewRowsF64, ScratchBytes<Plain<double>>, kRows,
            kCols<double>},
    .u32 = {Tile<Plain<uint32_t>>, nullptr, ScratchBytes<Plain<uint32_t>>,
            kRows, kCols<uint32_t>},
    .u64 = {Tile<Plain<uint64_t>>, nullptr, ScratchBytes<Plain<uint64_t>>,
            kRows, kCols<uint64_t>},
#if defined(__AVX512F__)
    .bf16 = {Tile<BFloat16Pairs>, FewRowsF32, ScratchBytes<BFloat16Pairs>,
             kRows, kCols<float>},
#else
    .bf16 = {},
#endif
};

}  // namespace tvarant::host::TVARANT_ISA

#include "daemon/kernels/host/gemm/gemm_tile.h"

#include "daemon/kernels/host/gemm/gemm_element.h"
#include "daemon/kernels/host/gemm/gemm_epilogue.h"
#include "daemon/kernels/host/gemm/gemm_few_rows.h"
#include "daemon/kernels/host/gemm/gemm_pack.h"
#include "daemon/kernels/host/gemm/gemm_register.h"
#include "daemon/kernels/host/vec.h"

namespace tvarant::host::TVARANT_ISA {
namespace {

// kc x kCols of B stays in the first-level cache, kMc x kc of A in the
// second, kc x kNc of B in the last one.
template <typename T>
constexpr int64_t kKc = sizeof(T) == 4 ? 256 : 192;
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

template <typename T>
int64_t SumElements(const GemmProblem& g, const GemmRange& r) {
  if (g.k <= kKc<T> || KeepsSumsInC<T>(g)) return 0;
  return (r.m_end - r.m_begin) * (r.n_end - r.n_begin);
}

template <typename T>
size_t ScratchBytes(const GemmProblem& g, const GemmRange& r) {
  const int64_t kc = Min(g.k, kKc<T>);
  const int64_t packed_a =
      RoundUp(Min(r.m_end - r.m_begin, kMc<T>), kRows) * kc;
  const int64_t packed_b =
      RoundUp(Min(r.n_end - r.n_begin, kNc<T>), kCols<T>) * kc;
  return sizeof(T) *
         (RoundUp(packed_a, 16) + RoundUp(packed_b, 16) + SumElements<T>(g, r));
}

// Blocks of k as equal as can be: a last one of few steps would be all
// overhead.
template <typename T>
int64_t BlockOfK(int64_t k) {
  const int64_t blocks = (k + kKc<T> - 1) / kKc<T>;
  return blocks <= 1 ? k : Min(kKc<T>, RoundUp((k + blocks - 1) / blocks, 8));
}

// Whether a finished row is just what the register tile holds.
template <typename T>
bool IsPlain(const GemmProblem& g) {
  const bool biased = g.bias.dtype != DType::kInvalid && g.beta != 0;
  return KeepsSumsInC<T>(g) && g.alpha == 1 && !biased && g.act == Act::kNone;
}

template <typename T>
void Tile(const GemmProblem& g, const GemmRange& r, char* scratch) {
  const int64_t max_kc = BlockOfK<T>(g.k);
  T* packed_a = reinterpret_cast<T*>(scratch);
  T* packed_b =
      packed_a +
      RoundUp(RoundUp(Min(r.m_end - r.m_begin, kMc<T>), kRows) * max_kc, 16);
  T* sums =
      packed_b +
      RoundUp(RoundUp(Min(r.n_end - r.n_begin, kNc<T>), kCols<T>) * max_kc, 16);
  int64_t sums_stride = r.n_end - r.n_begin;
  if (KeepsSumsInC<T>(g)) {
    sums_stride = g.c.row_stride;
    sums = reinterpret_cast<T*>(g.c.data) + r.m_begin * sums_stride + r.n_begin;
  }
  const bool small = static_cast<double>(g.m) * static_cast<double>(g.n) *
                         static_cast<double>(g.k) <=
                     kDirectProducts;
  const bool direct_a = small && g.a.dtype == OwnDType<T>();
  const bool direct_b =
      small && g.b.dtype == OwnDType<T>() && g.b.col_stride == 1;
  const bool plain = IsPlain<T>(g);
  alignas(64) T out[kRows * kCols<T>];

  for (int64_t jc = r.n_begin; jc < r.n_end; jc += kNc<T>) {
    const int64_t nc = Min(kNc<T>, r.n_end - jc);
    int64_t pc = 0;
    do {  // once if k = 0: the product is 0 then
      const int64_t kc = Min(max_kc, g.k - pc);
      const bool last = pc + kc == g.k;
      // A panel of too few columns is packed in any case: no reading beyond.
      const int64_t direct_cols = direct_b ? nc / kCols<T> * kCols<T> : 0;
      PackB<T, kCols<T>>(g.b, jc + direct_cols, nc - direct_cols, pc, kc,
                         packed_b + direct_cols * kc);
      for (int64_t ic = r.m_begin; ic < r.m_end; ic += kMc<T>) {
        const int64_t mc = Min(kMc<T>, r.m_end - ic);
        if (!direct_a) PackA<T, kRows>(g.a, ic, mc, pc, kc, packed_a);
        for (int64_t j = 0; j < nc; j += kCols<T>) {
          const T* b = packed_b + j * kc;
          int64_t b_step = kCols<T>;
          if (j < direct_cols) {
            b_step = g.b.row_stride;
            b = reinterpret_cast<const T*>(g.b.data) + pc * b_step + jc + j;
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
            if (direct_a) {
              const T* a = reinterpret_cast<const T*>(g.a.data) +
                           (ic + i) * g.a.row_stride + pc * g.a.col_stride;
              RegisterRows<T>(rows, kc, a, g.a.row_stride, g.a.col_stride, b,
                              b_step, target);
            } else {
              RegisterTile<T, kRows>(kc, packed_a + i * kc, 1, kRows, b, b_step,
                                     target);
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
    .f32 = {Tile<float>, FewRowsF32, ScratchBytes<float>, kRows, kCols<float>},
    .f64 = {Tile<double>, FewRowsF64, ScratchBytes<double>, kRows,
            kCols<double>},
    .u32 = {Tile<uint32_t>, nullptr, ScratchBytes<uint32_t>, kRows,
            kCols<uint32_t>},
    .u64 = {Tile<uint64_t>, nullptr, ScratchBytes<uint64_t>, kRows,
            kCols<uint64_t>},
};

}  // namespace tvarant::host::TVARANT_ISA

// The inner part of gemm_bias_act: one tile of C on one thread.
//
//   C[m, n] = act(alpha * sum_k A[m, k] * B[k, n] + beta * bias[m, n])
//
// A, B, C and bias are read and written in place through their strides. The
// blocking follows Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication" (2008): a block of B of kc x nc and one of A of mc x kc are
// packed (and converted) into cache, and a register tile of rows x columns
// runs over them. Thread-safe: a call touches its tile and its scratch.

#ifndef TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_TILE_H_
#define TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_TILE_H_

#include <cstddef>
#include <cstdint>

#include "daemon/kernels/host/isa.h"
#include "proto/base/dtype.h"
#include "proto/ops/op_ids.h"

namespace tvarant::host {

// Up to so many rows a product is bound by reading B.
inline constexpr int kFewRows = 4;

// A matrix in place; strides in elements.
struct GemmMatrix {
  char* data = nullptr;
  DType dtype = DType::kInvalid;  // kInvalid: no bias
  int64_t row_stride = 0;
  int64_t col_stride = 0;
};

struct GemmProblem {
  GemmMatrix a, b, c, bias;
  int64_t m = 0, n = 0, k = 0;
  double alpha = 1, beta = 0;
  Act act = Act::kNone;
};

struct GemmRange {
  int64_t m_begin, m_end, n_begin, n_end;
};

// The functions of one computing type and instruction set.
struct GemmKernel {
  // Computes a tile. scratch: scratch_bytes(problem, range) bytes, aligned to
  // 64.
  void (*tile)(const GemmProblem& problem, const GemmRange& range,
               char* scratch);
  // The same, for m <= kFewRows and a B with contiguous rows or columns; needs
  // kFewRowsScratchBytes. Null: there is none.
  void (*few_rows)(const GemmProblem& problem, const GemmRange& range,
                   char* scratch);
  size_t (*scratch_bytes)(const GemmProblem& problem, const GemmRange& range);
  int row_step;  // extents of the register tile
  int col_step;
};

struct GemmKernels {
  GemmKernel f32;  // float16, bfloat16 and float32 operands, in any mix
  GemmKernel f64;
  GemmKernel u32;  // integers up to 32 bits; results wrap
  GemmKernel u64;
  // bfloat16 @ bfloat16 where the CPU multiplies them itself (HasBFloat16());
  // no functions where there is none for the instruction set.
  GemmKernel bf16;
};

TVARANT_DECLARE_FOR_ISAS(extern const GemmKernels kGemmKernels);

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_TILE_H_

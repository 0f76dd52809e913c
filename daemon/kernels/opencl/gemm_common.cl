// What the kernels of gemm_bias_act share: the problem, and what happens to a
// finished sum: alpha, bias, activation, rounding.
//
// Options: TA TB TC TD (dtypes of a, b, c and bias), SUM (float, double, uint
// or ulong), ACT (the number of an Act), HAS_BIAS.

// Sums of products may be fused: kernels.md leaves their rounding open.
#pragma OPENCL FP_CONTRACT ON

// Strides are in elements. GemmArguments of gemm_problem.h.
typedef struct {
  long m, n, k;
  long a_row, a_k, a_batch;
  long b_k, b_col, b_batch;
  long c_row, c_col, c_batch;
  long d_row, d_col, d_batch;
  long batch;
  long splits;   // parts of k, each with sums of its own
  long split_k;  // extent of a part
  long tiles_m, tiles_n;
} Gemm;

#define SUM4 TV_CAT(SUM, 4)
#ifdef SUM_IS_FLOAT
#define MUL_ADD(x, y, z) fma(x, y, z)
#ifndef TV_NVIDIA
#undef MUL_ADD
#define MUL_ADD(x, y, z) ((x) * (y) + (z))
#endif
#else
#define MUL_ADD(x, y, z) ((x) * (y) + (z))
#endif

static inline SUM activate(SUM x) {
#if ACT == 1 && defined(SUM_IS_FLOAT)
  return x < 0 ? 0 : x;  // NaN stays
#elif ACT == 1
  // After the product wrapped to the stored type.
  return (MEM(TC))x < 0 ? 0 : x;
#elif ACT == 2
  return x / (1 + exp(-x));
#elif ACT == 3
  return (SUM)0.5 * x * (1 + erf(x * (SUM)0.70710678118654752440));
#elif ACT == 4
  const SUM cubic = (SUM)0.044715 * x * x * x;
  return (SUM)0.5 * x * (1 + tanh((SUM)0.79788456080286535588 * (x + cubic)));
#else
  return x;
#endif
}

// d_at: the bias element's place.
static inline SUM finished(SUM x, SUM alpha, SUM beta, gcptr d, long d_at) {
  x *= alpha;
#if HAS_BIAS
  x = MUL_ADD(beta, (SUM)LOAD(TD, d, d_at), x);
#endif
  return activate(x);
}

static inline void finish(const Gemm* g, gptr c, gcptr d, long item, long row,
                          long col, SUM x, SUM alpha, SUM beta) {
  x = finished(x, alpha, beta, d,
               item * g->d_batch + row * g->d_row + col * g->d_col);
  STORE(TC, c, item * g->c_batch + row * g->c_row + col * g->c_col, (ACC(TC))x);
}

// Where a kernel that computes one part of k leaves its sums.
static inline long partial_at(const Gemm* g, long split, long item, long row,
                              long col) {
  return ((split * g->batch + item) * g->m + row) * g->n + col;
}

#ifdef GEMM_SUM_PARTS
// Adds the parts up; an item for each element of c.
__kernel void gemm_sum_parts(gptr c, long c_offset, gcptr d, long d_offset,
                             const __global SUM* partial, Gemm g, SUM alpha,
                             SUM beta) {
  const long i = get_global_id(0);
  const long count = g.batch * g.m * g.n;
  if (i >= count) return;
  SUM x = 0;
  for (long s = 0; s < g.splits; ++s) x += partial[s * count + i];
  const long row = i / g.n;
  finish(&g, c + c_offset, d + d_offset, row / g.m, row % g.m, i % g.n, x,
         alpha, beta);
}
#endif

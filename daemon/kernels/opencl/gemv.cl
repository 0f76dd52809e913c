// Products with few rows of a (ROWS of them): each element of b is used ROWS
// times, so what counts is to read b fast.
//
// Options, besides those of gemm_common.cl: ROWS; VECTOR: how many neighbours
// are loaded at once, 16 bytes of b, or 1.

#define LANES 32
#define UNROLL _Pragma("unroll")

typedef union {
  uint4 bits;
  MEM(TB) e[16 / sizeof(MEM(TB))];
} Packed;

static inline void load_b_vector(gcptr b, long at, SUM* out) {
#if VECTOR > 1
  Packed x;
  x.bits = *(const __global uint4*)((const __global MEM(TB)*)b + at);
  UNROLL for (int e = 0; e < VECTOR; ++e) {
    out[e] = (SUM)TV_CAT(unpack_, TB)(x.e[e]);
  }
#else
  out[0] = (SUM)LOAD(TB, b, at);
#endif
}

// The parts of local memory add up in the first of LANES or of `parts`.
static inline void keep(const Gemm* g, gptr c, gcptr d, __global SUM* partial,
                        long split, long item, long row, long col, SUM x,
                        SUM alpha, SUM beta) {
  if (g->splits > 1) {
    partial[partial_at(g, split, item, row, col)] = x;
  } else {
    finish(g, c, d, item, row, col, x, alpha, beta);
  }
}

// Neighbours of b lie along k (or anyhow). LANES items take one column of b;
// a group of LANES x C items takes C columns.
__kernel void gemv_along_k(gptr c, long c_offset, gcptr a, long a_offset,
                           gcptr b, long b_offset, gcptr d, long d_offset,
                           __global SUM* partial, Gemm g, SUM alpha, SUM beta,
                           __local SUM* sums, long col_groups) {
  const int lane = get_local_id(0), mine = get_local_id(1);
  const int columns = get_local_size(1);
  const long t = get_group_id(0);
  const long part = t / col_groups;
  const long item = part / g.splits, split = part % g.splits;
  const long col = t % col_groups * columns + mine;
  a += a_offset + item * g.a_batch * (long)sizeof(MEM(TA));
  b += b_offset + item * g.b_batch * (long)sizeof(MEM(TB));
  const long k_begin = split * g.split_k;
  const long k_end = min(g.k, k_begin + g.split_k);

  SUM x[ROWS];
  UNROLL for (int r = 0; r < ROWS; ++r) x[r] = 0;
  if (col < g.n) {
    b += col * g.b_col * (long)sizeof(MEM(TB));
    long k = k_begin + lane * VECTOR;
    const long step = LANES * VECTOR;
#if VECTOR > 1
    // Four loads of b under way at once.
    for (; k + 3 * step + VECTOR <= k_end; k += 4 * step) {
      SUM y[4][VECTOR];
      UNROLL for (int u = 0; u < 4; ++u) load_b_vector(b, k + u * step, y[u]);
      UNROLL for (int u = 0; u < 4; ++u) {
        UNROLL for (int r = 0; r < ROWS; ++r) {
#if A_VECTOR
          union {
            uint4 bits[VECTOR * sizeof(MEM(TA)) / 16];
            MEM(TA) e[VECTOR];
          } v;
          UNROLL for (int w = 0; w < VECTOR * sizeof(MEM(TA)) / 16; ++w) {
            v.bits[w] =
                ((const __global uint4*)((const __global MEM(TA)*)a +
                                         r * g.a_row + k + u * step))[w];
          }
          UNROLL for (int e = 0; e < VECTOR; ++e) {
            x[r] = MUL_ADD((SUM)TV_CAT(unpack_, TA)(v.e[e]), y[u][e], x[r]);
          }
#else
          UNROLL for (int e = 0; e < VECTOR; ++e) {
            x[r] = MUL_ADD(
                (SUM)LOAD(TA, a, r * g.a_row + (k + u * step + e) * g.a_k),
                y[u][e], x[r]);
          }
#endif
        }
      }
    }
#endif
    for (; k < k_end; k += step) {
      for (long q = k; q < min(k + VECTOR, k_end); ++q) {
        const SUM y = (SUM)LOAD(TB, b, q * g.b_k);
        UNROLL for (int r = 0; r < ROWS; ++r) {
          x[r] = MUL_ADD((SUM)LOAD(TA, a, r * g.a_row + q * g.a_k), y, x[r]);
        }
      }
    }
  }
  sums += mine * LANES;
  for (int r = 0; r < ROWS; ++r) {
    sums[lane] = x[r];
    for (int half_way = LANES / 2; half_way > 0; half_way /= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      if (lane < half_way) sums[lane] += sums[lane + half_way];
    }
    if (lane == 0 && col < g.n) {
      keep(&g, c + c_offset, d + d_offset, partial, split, item, r, col,
           sums[0], alpha, beta);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

// Neighbours of b lie along its columns. An item takes VECTOR columns; a group
// of LANES x P items cuts its part of k in P.
__kernel void gemv_along_n(gptr c, long c_offset, gcptr a, long a_offset,
                           gcptr b, long b_offset, gcptr d, long d_offset,
                           __global SUM* partial, Gemm g, SUM alpha, SUM beta,
                           __local SUM* sums, long col_groups) {
  const int lane = get_local_id(0), mine = get_local_id(1);
  const int parts = get_local_size(1);
  const long t = get_group_id(0);
  const long part = t / col_groups;
  const long item = part / g.splits, split = part % g.splits;
  const long col = (t % col_groups * LANES + lane) * VECTOR;
  a += a_offset + item * g.a_batch * (long)sizeof(MEM(TA));
  b += b_offset + item * g.b_batch * (long)sizeof(MEM(TB));
  const long k_begin = split * g.split_k;
  const long k_end = min(g.k, k_begin + g.split_k);

  SUM x[ROWS][VECTOR];
  UNROLL for (int r = 0; r < ROWS; ++r) {
    UNROLL for (int e = 0; e < VECTOR; ++e) x[r][e] = 0;
  }
  if (col + VECTOR <= g.n) {
    long k = k_begin + mine;
    for (; k + 3 * parts < k_end; k += 4 * parts) {
      SUM y[4][VECTOR];
      UNROLL for (int u = 0; u < 4; ++u) {
        load_b_vector(b, (k + u * parts) * g.b_k + col, y[u]);
      }
      UNROLL for (int u = 0; u < 4; ++u) {
        UNROLL for (int r = 0; r < ROWS; ++r) {
          const SUM v = (SUM)LOAD(TA, a, r * g.a_row + (k + u * parts) * g.a_k);
          UNROLL for (int e = 0; e < VECTOR; ++e) {
            x[r][e] = MUL_ADD(v, y[u][e], x[r][e]);
          }
        }
      }
    }
    for (; k < k_end; k += parts) {
      SUM y[VECTOR];
      load_b_vector(b, k * g.b_k + col, y);
      UNROLL for (int r = 0; r < ROWS; ++r) {
        const SUM v = (SUM)LOAD(TA, a, r * g.a_row + k * g.a_k);
        UNROLL for (int e = 0; e < VECTOR; ++e) {
          x[r][e] = MUL_ADD(v, y[e], x[r][e]);
        }
      }
    }
  } else {
    UNROLL for (int e = 0; e < VECTOR; ++e) {
      for (long k = k_begin + mine; col + e < g.n && k < k_end; k += parts) {
        const SUM y = (SUM)LOAD(TB, b, k * g.b_k + (col + e) * g.b_col);
        UNROLL for (int r = 0; r < ROWS; ++r) {
          x[r][e] =
              MUL_ADD((SUM)LOAD(TA, a, r * g.a_row + k * g.a_k), y, x[r][e]);
        }
      }
    }
  }
  UNROLL for (int r = 0; r < ROWS; ++r) {
    UNROLL for (int e = 0; e < VECTOR; ++e) {
      sums[mine * LANES + lane] = x[r][e];
      barrier(CLK_LOCAL_MEM_FENCE);
      if (mine == 0 && col + e < g.n) {
        SUM sum = x[r][e];
        for (int p = 1; p < parts; ++p) sum += sums[p * LANES + lane];
        keep(&g, c + c_offset, d + d_offset, partial, split, item, r, col + e,
             sum, alpha, beta);
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
  }
}

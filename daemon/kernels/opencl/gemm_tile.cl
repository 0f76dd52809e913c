// A product by tiles: a work-group computes TILE_M x TILE_N sums, each item
// ITEM_M x ITEM_N of them in registers. Tiles of TILE_K of a and b lie in local
// memory, the next one is under way while one is used.
//
// Options, besides those of gemm_common.cl: TILE_M TILE_N TILE_K ITEM_M ITEM_N
// (ITEM_x multiples of 4), VECTOR: 4 where four neighbours are loaded at once,
// else 1; A_ALONG_K, B_ALONG_K: which way neighbours lie (where VECTOR is 4 and
// these are rows, their number is a multiple of 4); C_VECTOR: four of c are
// stored at once, k is not split.

#define ACROSS (TILE_N / ITEM_N)
#define ITEMS (ACROSS * (TILE_M / ITEM_M))
#define PITCH_A (TILE_M + 4)
#define PITCH_B (TILE_N + 4)
#define COUNT_A (TILE_M * TILE_K / ITEMS)
#define COUNT_B (TILE_N * TILE_K / ITEMS)
#ifdef TV_CPU
#define UNROLL
#else
#define UNROLL _Pragma("unroll")
#endif

// Rows are those of a or the columns of b. Rows beyond the end repeat the last
// ones, since their sums go nowhere; beyond the end of k there are zeros.
#define TILE_FUNCTIONS(X, T, TILE, COUNT, PITCH, ALONG_K)                      \
  static inline int in_row_##X(int lid, int v) {                               \
    const int i = lid + v * ITEMS;                                             \
    return ALONG_K ? i / (TILE_K / VECTOR) : i % (TILE / VECTOR) * VECTOR;     \
  }                                                                            \
  static inline int in_k_##X(int lid, int v) {                                 \
    const int i = lid + v * ITEMS;                                             \
    return ALONG_K ? i % (TILE_K / VECTOR) * VECTOR : i / (TILE / VECTOR);     \
  }                                                                            \
  static inline void start_##X(gcptr p, long row0, long rows, long k0,         \
                               long row_stride, long k_stride, int lid,        \
                               const __global MEM(T) * *from) {                \
    UNROLL for (int v = 0; v < COUNT / VECTOR; ++v) {                          \
      const long row =                                                         \
          min(row0 + in_row_##X(lid, v), rows - (ALONG_K ? 1 : VECTOR));       \
      from[v] = (const __global MEM(T)*)p + row * row_stride +                 \
                (k0 + in_k_##X(lid, v)) * k_stride;                            \
    }                                                                          \
  }                                                                            \
  static inline void fetch_##X(const __global MEM(T) * *from, long step,       \
                               SUM* out) {                                     \
    UNROLL for (int v = 0; v < COUNT / VECTOR; ++v) {                          \
      TILE_LOAD(T, from[v], out + v * VECTOR);                                 \
      from[v] += step;                                                         \
    }                                                                          \
  }                                                                            \
  static inline void fetch_last_##X(const __global MEM(T) * *from, int left,   \
                                    long k_stride, int lid, SUM* out) {        \
    UNROLL for (int v = 0; v < COUNT / VECTOR; ++v) {                          \
      UNROLL for (int e = 0; e < VECTOR; ++e) {                                \
        const int k = in_k_##X(lid, v) + (ALONG_K ? e : 0);                    \
        out[v * VECTOR + e] = k < left ? (SUM)LOAD(T, (gcptr)from[v],          \
                                                   ALONG_K ? e * k_stride : e) \
                                       : 0;                                    \
      }                                                                        \
    }                                                                          \
  }                                                                            \
  static inline void stash_##X(__local SUM* tile, int lid, const SUM* in) {    \
    UNROLL for (int v = 0; v < COUNT / VECTOR; ++v) {                          \
      if (!ALONG_K && VECTOR == 4) {                                           \
        *(__local SUM4*)(tile + in_k_##X(lid, v) * PITCH +                     \
                         in_row_##X(lid, v)) =                                 \
            (SUM4)(in[v * VECTOR], in[v * VECTOR + VECTOR / 4],                \
                   in[v * VECTOR + VECTOR / 2],                                \
                   in[v * VECTOR + VECTOR / 4 * 3]);                           \
        continue;                                                              \
      }                                                                        \
      UNROLL for (int e = 0; e < VECTOR; ++e) {                                \
        const int r = in_row_##X(lid, v) + (ALONG_K ? 0 : e);                  \
        const int k = in_k_##X(lid, v) + (ALONG_K ? e : 0);                    \
        tile[k * PITCH + r] = in[v * VECTOR + e];                              \
      }                                                                        \
    }                                                                          \
  }
#if VECTOR == 4
#define TILE_LOAD(T, p, out)                                           \
  do {                                                                 \
    const TV_CAT(vec4_, T) x = *(const __global TV_CAT(vec4_, T)*)(p); \
    (out)[0] = (SUM)TV_CAT(unpack_, T)(x.s0);                          \
    (out)[1] = (SUM)TV_CAT(unpack_, T)(x.s1);                          \
    (out)[2] = (SUM)TV_CAT(unpack_, T)(x.s2);                          \
    (out)[3] = (SUM)TV_CAT(unpack_, T)(x.s3);                          \
  } while (0)
#else
#define TILE_LOAD(T, p, out) (out)[0] = (SUM)LOAD(T, (gcptr)(p), 0)
#endif
TILE_FUNCTIONS(a, TA, TILE_M, COUNT_A, PITCH_A, A_ALONG_K)
TILE_FUNCTIONS(b, TB, TILE_N, COUNT_B, PITCH_B, B_ALONG_K)

static inline void multiply(const __local SUM* a, const __local SUM* b,
                            SUM sums[ITEM_M][ITEM_N]) {
  UNROLL for (int k = 0; k < TILE_K; ++k) {
    SUM x[ITEM_M], y[ITEM_N];
    _Pragma("unroll") for (int i = 0; i < ITEM_M / 4; ++i) {
      const SUM4 v =
          *(const __local SUM4*)(a + k * PITCH_A + i * (4 * TILE_M / ITEM_M));
      x[i * 4] = v.s0, x[i * 4 + 1] = v.s1, x[i * 4 + 2] = v.s2,
            x[i * 4 + 3] = v.s3;
    }
    _Pragma("unroll") for (int j = 0; j < ITEM_N / 4; ++j) {
      const SUM4 v = *(const __local SUM4*)(b + k * PITCH_B + j * (4 * ACROSS));
      y[j * 4] = v.s0, y[j * 4 + 1] = v.s1, y[j * 4 + 2] = v.s2,
            y[j * 4 + 3] = v.s3;
    }
    _Pragma("unroll") for (int i = 0; i < ITEM_M; ++i) {
      _Pragma("unroll") for (int j = 0; j < ITEM_N; ++j) {
        sums[i][j] = MUL_ADD(x[i], y[j], sums[i][j]);
      }
    }
  }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void gemm_tile(
    gptr c, long c_offset, gcptr a, long a_offset, gcptr b, long b_offset,
    gcptr d, long d_offset, __global SUM* partial, Gemm g, SUM alpha,
    SUM beta) {
  __local __attribute__((aligned(16))) SUM a_tile[2][TILE_K * PITCH_A];
  __local __attribute__((aligned(16))) SUM b_tile[2][TILE_K * PITCH_B];
  const int lid = get_local_id(0);

  // Tiles near each other in both directions run together: bands of 8 rows.
  const long per_item = g.tiles_m * g.tiles_n;
  long t = get_group_id(0);
  const long part = t / per_item;
  t %= per_item;
  const long item = part / g.splits, split = part % g.splits;
  const long band = t / (8 * g.tiles_n);
  const long height = min(g.tiles_m - band * 8, 8L);
  t -= band * 8 * g.tiles_n;
  const long row0 = (band * 8 + t % height) * TILE_M;
  const long col0 = t / height * TILE_N;

  a += a_offset + item * g.a_batch * (long)sizeof(MEM(TA));
  b += b_offset + item * g.b_batch * (long)sizeof(MEM(TB));
  const long k_begin = split * g.split_k;
  const long k_end = min(g.k, k_begin + g.split_k);

  SUM sums[ITEM_M][ITEM_N];
  _Pragma("unroll") for (int i = 0; i < ITEM_M; ++i) {
    _Pragma("unroll") for (int j = 0; j < ITEM_N; ++j) sums[i][j] = 0;
  }
  SUM a_next[COUNT_A], b_next[COUNT_B];
  const __global MEM(TA) * a_from[COUNT_A / VECTOR];
  const __global MEM(TB) * b_from[COUNT_B / VECTOR];
  start_a(a, row0, g.m, k_begin, g.a_row, g.a_k, lid, a_from);
  start_b(b, col0, g.n, k_begin, g.b_col, g.b_k, lid, b_from);
  const long a_step = TILE_K * g.a_k, b_step = TILE_K * g.b_k;
#if ACROSS % 8 == 0 && ITEMS / ACROSS % 4 == 0
  // Of 32 items, 8 lie across and 4 down: they read the fewest different
  // words of local memory.
  const int tx = lid / 32 % (ACROSS / 8) * 8 + lid % 8;
  const int ty = lid / 32 / (ACROSS / 8) * 4 + lid % 32 / 8;
#else
  const int tx = lid % ACROSS, ty = lid / ACROSS;
#endif
  int now = 0;
  if (k_end - k_begin >= TILE_K) {
    fetch_a(a_from, a_step, a_next);
    fetch_b(b_from, b_step, b_next);
  } else if (k_begin < k_end) {
    fetch_last_a(a_from, (int)(k_end - k_begin), g.a_k, lid, a_next);
    fetch_last_b(b_from, (int)(k_end - k_begin), g.b_k, lid, b_next);
  }
  if (k_begin < k_end) {
    stash_a(a_tile[0], lid, a_next);
    stash_b(b_tile[0], lid, b_next);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (long k = k_begin; k < k_end; k += TILE_K) {
    const long left = k_end - k - TILE_K;
    if (left >= TILE_K) {
      fetch_a(a_from, a_step, a_next);
      fetch_b(b_from, b_step, b_next);
    } else if (left > 0) {
      fetch_last_a(a_from, (int)left, g.a_k, lid, a_next);
      fetch_last_b(b_from, (int)left, g.b_k, lid, b_next);
    }
    multiply(a_tile[now] + ty * 4, b_tile[now] + tx * 4, sums);
    now ^= 1;
    if (left > 0) {
      stash_a(a_tile[now], lid, a_next);
      stash_b(b_tile[now], lid, b_next);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  UNROLL for (int i = 0; i < ITEM_M; ++i) {
    const long row = row0 + i / 4 * (4 * TILE_M / ITEM_M) + ty * 4 + i % 4;
    UNROLL for (int j = 0; j < ITEM_N; j += 4) {
      const long col = col0 + j * ACROSS + tx * 4;
#if C_VECTOR
      if (row < g.m && col < g.n) {
        TV_CAT(vec4_, TC) x;
        const long d_at = item * g.d_batch + row * g.d_row + col * g.d_col;
        gcptr bias = d + d_offset;
        x.s0 = TV_CAT(
            pack_, TC)((ACC(TC))finished(sums[i][j], alpha, beta, bias, d_at));
        x.s1 = TV_CAT(pack_, TC)((ACC(TC))finished(sums[i][j + 1], alpha, beta,
                                                   bias, d_at + g.d_col));
        x.s2 = TV_CAT(pack_, TC)((ACC(TC))finished(sums[i][j + 2], alpha, beta,
                                                   bias, d_at + 2 * g.d_col));
        x.s3 = TV_CAT(pack_, TC)((ACC(TC))finished(sums[i][j + 3], alpha, beta,
                                                   bias, d_at + 3 * g.d_col));
        *(__global TV_CAT(vec4_, TC)*)((__global MEM(TC)*)(c + c_offset) +
                                       item * g.c_batch + row * g.c_row + col) =
            x;
      }
#else
      UNROLL for (int e = 0; e < 4; ++e) {
        if (row >= g.m || col + e >= g.n) continue;
        if (g.splits > 1) {
          partial[partial_at(&g, split, item, row, col + e)] = sums[i][j + e];
        } else {
          finish(&g, c + c_offset, d + d_offset, item, row, col + e,
                 sums[i][j + e], alpha, beta);
        }
      }
#endif
    }
  }
}

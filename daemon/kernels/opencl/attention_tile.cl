// Attention for many queries: a group takes BLOCK_M of them through all keys,
// BLOCK_N at a time, and keeps running sums ("online softmax": Milakov and
// Gimelshein, 2018; Dao et al., FlashAttention, 2022).
//
// An item holds 4 x 4 scores and, for its 4 queries, every ACROSS-th four
// columns of the result.
//
// Options: BLOCK_M, BLOCK_N, VALUES (columns of the result at most, a multiple
// of BLOCK_N).

#define ACROSS (BLOCK_N / 4)
#define ITEMS (ACROSS * (BLOCK_M / 4))
#define PITCH_M (BLOCK_M + 4)
#define PITCH_N (BLOCK_N + 4)
#define DEPTH 16  // columns of q and k in local memory
#define ROWS_OF_V (2048 / VALUES)
#define KEYS (ROWS_OF_V < BLOCK_N ? ROWS_OF_V : BLOCK_N)  // rows of v there
#define COLUMNS (VALUES / ACROSS)
#define STAGE_QK (DEPTH * (PITCH_M + PITCH_N))
#define STAGE (STAGE_QK > 2048 ? STAGE_QK : 2048)
#ifdef TV_CPU
#define UNROLL  // compiles slowly there
#else
#define UNROLL _Pragma("unroll")
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void attention_tile(
    gptr y, long y_offset, gptr sums, long sums_offset, gcptr q, long q_offset,
    gcptr k, long k_offset, gcptr v, long v_offset, gcptr mask,
    long mask_offset, Attention a, float scale) {
  __local __attribute__((aligned(16))) float stage[STAGE];
  __local __attribute__((aligned(16))) float weights[BLOCK_N * PITCH_M];
  __local float lanes[BLOCK_M * (ACROSS + 1)];
  const int lid = get_local_id(0);
  const int tx = lid % ACROSS, ty = lid / ACROSS;
  __local float* q_tile = stage;
  __local float* k_tile = stage + DEPTH * PITCH_M;

  const long group = get_group_id(0);
  const long item = group / a.blocks;
  const long image = item / a.heads, head = item % a.heads;
  // Of causal ones the long blocks first.
  const long row0 = (a.blocks - 1 - group % a.blocks) * BLOCK_M;
  q += q_offset + (image * a.q[0] + head * a.q[1]) * (long)sizeof(MEM(T));
  k += k_offset +
       (image * a.k[0] + head / a.share * a.k[1]) * (long)sizeof(MEM(T));
  v += v_offset +
       (image * a.v[0] + head / a.share * a.v[1]) * (long)sizeof(MEM(T));
  mask += mask_offset;
  const long mask_at = image * a.mask[0] + head * a.mask[1];

  float best[4], total[4], out[4][COLUMNS];
  UNROLL for (int i = 0; i < 4; ++i) {
    best[i] = -INFINITY;
    total[i] = 0;
    UNROLL for (int j = 0; j < COLUMNS; ++j) out[i][j] = 0;
  }
  const long end = a.causal ? min(a.keys, row0 + BLOCK_M) : a.keys;
  for (long key0 = 0; key0 < end; key0 += BLOCK_N) {
    float s[4][4];
    UNROLL for (int i = 0; i < 4; ++i) {
      UNROLL for (int j = 0; j < 4; ++j) s[i][j] = 0;
    }
    for (long d0 = 0; d0 < a.width; d0 += DEPTH) {
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int i = lid; i < DEPTH * BLOCK_M; i += ITEMS) {
        const int d = i % DEPTH, row = i / DEPTH;
        q_tile[d * PITCH_M + row] =
            row0 + row < a.queries && d0 + d < a.width
                ? LOAD(T, q, (row0 + row) * a.q[2] + (d0 + d) * a.q[3])
                : 0;
      }
      for (int i = lid; i < DEPTH * BLOCK_N; i += ITEMS) {
        const int d = i % DEPTH, row = i / DEPTH;
        k_tile[d * PITCH_N + row] =
            key0 + row < a.keys && d0 + d < a.width
                ? LOAD(T, k, (key0 + row) * a.k[2] + (d0 + d) * a.k[3])
                : 0;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int d = 0; d < DEPTH; ++d) {
        const float4 l = *(__local float4*)(q_tile + d * PITCH_M + ty * 4);
        const float4 r = *(__local float4*)(k_tile + d * PITCH_N + tx * 4);
        const float left[4] = {l.x, l.y, l.z, l.w};
        const float right[4] = {r.x, r.y, r.z, r.w};
        UNROLL for (int i = 0; i < 4; ++i) {
          UNROLL for (int j = 0; j < 4; ++j) s[i][j] += left[i] * right[j];
        }
      }
    }

    UNROLL for (int i = 0; i < 4; ++i) {
      const long row = row0 + ty * 4 + i;
      float most = -INFINITY;
      UNROLL for (int j = 0; j < 4; ++j) {
        const long key = key0 + tx * 4 + j;
        s[i][j] = row < a.queries && key < a.keys
                      ? masked(&a, mask, mask_at + row * a.mask[2], row, key,
                               s[i][j] * scale)
                      : -INFINITY;
        most = fmax(most, s[i][j]);
      }
      lanes[(ty * 4 + i) * (ACROSS + 1) + tx] = most;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (int i = 0; i < 4; ++i) {
      float most = best[i];
      for (int x = 0; x < ACROSS; ++x) {
        most = fmax(most, lanes[(ty * 4 + i) * (ACROSS + 1) + x]);
      }
      const float base = base_of(most);
      const float shrink = exp(best[i] - base);
      best[i] = most;
      total[i] *= shrink;
      UNROLL for (int j = 0; j < 4; ++j) {
        s[i][j] = exp(s[i][j] - base);
        total[i] += s[i][j];
      }
      UNROLL for (int j = 0; j < COLUMNS; ++j) out[i][j] *= shrink;
    }
    UNROLL for (int j = 0; j < 4; ++j) {
      *(__local float4*)(weights + (tx * 4 + j) * PITCH_M + ty * 4) =
          (float4)(s[0][j], s[1][j], s[2][j], s[3][j]);
    }

    for (int from = 0; from < BLOCK_N; from += KEYS) {
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int i = lid; i < KEYS * VALUES; i += ITEMS) {
        const int column = i % VALUES;
        const long key = key0 + from + i / VALUES;
        stage[i] = key < a.keys && column < a.value_width
                       ? LOAD(T, v, key * a.v[2] + column * a.v[3])
                       : 0;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int n = 0; n < KEYS; ++n) {
        const float4 p =
            *(__local float4*)(weights + (from + n) * PITCH_M + ty * 4);
        UNROLL for (int j = 0; j < COLUMNS; j += 4) {
          const float4 x =
              *(__local float4*)(stage + n * VALUES + j * ACROSS + tx * 4);
          const float left[4] = {p.x, p.y, p.z, p.w};
          UNROLL for (int i = 0; i < 4; ++i) {
            out[i][j] += left[i] * x.x;
            out[i][j + 1] += left[i] * x.y;
            out[i][j + 2] += left[i] * x.z;
            out[i][j + 3] += left[i] * x.w;
          }
        }
      }
    }
  }

  barrier(CLK_LOCAL_MEM_FENCE);
  UNROLL for (int i = 0; i < 4; ++i) {
    lanes[(ty * 4 + i) * (ACROSS + 1) + tx] = total[i];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  UNROLL for (int i = 0; i < 4; ++i) {
    const long row = row0 + ty * 4 + i;
    if (row >= a.queries) continue;
    float sum = 0;
    for (int x = 0; x < ACROSS; ++x) {
      sum += lanes[(ty * 4 + i) * (ACROSS + 1) + x];
    }
    if (sums && tx == 0) {
      store_f32(sums + sums_offset,
                image * a.sums[0] + head * a.sums[1] + row * a.sums[2],
                best[i] + log(sum));
    }
    const float factor = sum == 0 ? 0 : 1 / sum;
    const long to = image * a.y[0] + head * a.y[1] + row * a.y[2];
    UNROLL for (int j = 0; j < COLUMNS; ++j) {
      const long column = j / 4 * (4 * ACROSS) + tx * 4 + j % 4;
      if (column < a.value_width) {
        STORE(T, y + y_offset, to + column * a.y[3], out[i][j] * factor);
      }
    }
  }
}

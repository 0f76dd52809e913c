// Attention for few queries: what takes time is to read the keys and values
// once. Keys are split among groups; the parts' results are joined by a second
// kernel ("flash decoding").
//
// The rows of a group are queries of heads that share its keys. First an item
// takes a key at a time, then VECTOR columns of some of the values.
//
// Options: ROWS, VECTOR (elements that are loaded at once: 1, 4 or 8).

#if VECTOR == 8
#define READ(p, at, out)                                         \
  {                                                              \
    const vec8_t loaded = *(const __global vec8_t*)((p) + (at)); \
    (out)[0] = UNPACK(loaded.s0), (out)[1] = UNPACK(loaded.s1);  \
    (out)[2] = UNPACK(loaded.s2), (out)[3] = UNPACK(loaded.s3);  \
    (out)[4] = UNPACK(loaded.s4), (out)[5] = UNPACK(loaded.s5);  \
    (out)[6] = UNPACK(loaded.s6), (out)[7] = UNPACK(loaded.s7);  \
  }
#elif VECTOR == 4
#define READ(p, at, out)                                         \
  {                                                              \
    const vec4_t loaded = *(const __global vec4_t*)((p) + (at)); \
    (out)[0] = UNPACK(loaded.s0), (out)[1] = UNPACK(loaded.s1);  \
    (out)[2] = UNPACK(loaded.s2), (out)[3] = UNPACK(loaded.s3);  \
  }
#else
#define READ(p, at, out) (out)[0] = UNPACK((p)[at])
#endif
#define UNPACK(x) TV_CAT(unpack_, T)(x)
#ifdef TV_CPU
#define UNROLL  // compiles slowly there
#else
#define UNROLL _Pragma("unroll")
#endif
typedef MEM(T) element_t;
#if VECTOR == 8
typedef TV_CAT(vec8_, T) vec8_t;
#elif VECTOR == 4
typedef TV_CAT(vec4_, T) vec4_t;
#endif

// Joins `value[r]` of all items; all of them have the result. Groups of a
// power of two.
#define JOIN_GROUP(lanes, value, JOIN)                                      \
  UNROLL for (int r = 0; r < ROWS; ++r) {                                   \
    lanes[r * width + lane] = value[r];                                     \
  }                                                                         \
  for (int reach = width / 2; reach > 0; reach /= 2) {                      \
    barrier(CLK_LOCAL_MEM_FENCE);                                           \
    if (lane < reach) {                                                     \
      UNROLL for (int r = 0; r < ROWS; ++r) {                               \
        lanes[r * width + lane] =                                           \
            JOIN(lanes[r * width + lane], lanes[r * width + lane + reach]); \
      }                                                                     \
    }                                                                       \
  }                                                                         \
  barrier(CLK_LOCAL_MEM_FENCE);                                             \
  UNROLL for (int r = 0; r < ROWS; ++r) value[r] = lanes[r * width];        \
  barrier(CLK_LOCAL_MEM_FENCE);

// Where the r-th row of a block lies: its head, and its number as a query.
static inline long head_of(const Attention* a, long group, long row) {
  return group * a->share + row / a->queries;
}

// across: items that take the columns of a value. Of each row `results` gets
// value_width sums and `scales` the largest score and the sum of exponentials.
// Local memory: queries [ROWS, width], scores [ROWS, split], lanes [ROWS or
// VECTOR, group].
__kernel void attention_few(__global float* results, __global float* scales,
                            gcptr q, long q_offset, gcptr k, long k_offset,
                            gcptr v, long v_offset, gcptr mask,
                            long mask_offset, Attention a, float scale,
                            int across, __local float* queries,
                            __local float* scores, __local float* lanes) {
  const int lane = get_local_id(0), width = get_local_size(0);
  const long id = get_group_id(0);
  const long split = id % a.splits;
  const long block = id / a.splits % a.blocks;
  const long pair = id / a.splits / a.blocks;
  const long groups = a.heads / a.share;
  const long image = pair / groups, group = pair % groups;
  const long first_row = block * ROWS;
  const int rows = (int)min(a.share * a.queries - first_row, (long)ROWS);
  q += q_offset;
  mask += mask_offset;
  const __global element_t* keys = (const __global element_t*)(k + k_offset) +
                                   image * a.k[0] + group * a.k[1];
  const __global element_t* values = (const __global element_t*)(v + v_offset) +
                                     image * a.v[0] + group * a.v[1];
  const long begin = split * a.split;
  const int count = (int)min(a.keys - begin, a.split);
  const int depth = (int)a.width;

  for (int i = lane; i < ROWS * depth; i += width) {
    const long row = first_row + i / depth;
    float x = 0;
    if (i / depth < rows) {
      x = LOAD(T, q,
               image * a.q[0] + head_of(&a, group, row) * a.q[1] +
                   row % a.queries * a.q[2] + i % depth * a.q[3]);
    }
    queries[i] = x * scale;
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  float best[ROWS], total[ROWS];
  UNROLL for (int r = 0; r < ROWS; ++r) best[r] = -INFINITY;
  for (int n = lane; n < count; n += width) {
    const long key = begin + n;
    float s[ROWS];
    UNROLL for (int r = 0; r < ROWS; ++r) s[r] = 0;
    const long from = key * a.k[2];
#ifndef TV_CPU
#pragma unroll 4
#endif
    for (int d = 0; d < depth; d += VECTOR) {
      float x[VECTOR];
      READ(keys, from + d * a.k[3], x);
      UNROLL for (int r = 0; r < ROWS; ++r) {
        UNROLL for (int e = 0; e < VECTOR; ++e) {
          s[r] += x[e] * queries[r * depth + d + e];
        }
      }
    }
    UNROLL for (int r = 0; r < ROWS; ++r) {
      if (r < rows) {
        const long row = first_row + r, query = row % a.queries;
        s[r] = masked(&a, mask,
                      image * a.mask[0] + head_of(&a, group, row) * a.mask[1] +
                          query * a.mask[2],
                      query, key, s[r]);
      }
      best[r] = fmax(best[r], s[r]);
      scores[r * a.split + n] = s[r];
    }
  }
  JOIN_GROUP(lanes, best, fmax)
  UNROLL for (int r = 0; r < ROWS; ++r) {
    const float base = base_of(best[r]);
    total[r] = 0;
    for (int n = lane; n < count; n += width) {
      const float p = exp(scores[r * a.split + n] - base);
      scores[r * a.split + n] = p;
      total[r] += p;
    }
  }
  JOIN_GROUP(lanes, total, TV_ADD)

  const int down = width / across;
  const int column0 = lane % across * VECTOR, step = lane / across;
  const long slot = (pair * a.blocks + block) * a.splits + split;
  if (lane < ROWS) {
    scales[(slot * ROWS + lane) * 2] = best[0];
    scales[(slot * ROWS + lane) * 2 + 1] = total[0];
    UNROLL for (int r = 1; r < ROWS; ++r) {
      if (lane == r) {
        scales[(slot * ROWS + lane) * 2] = best[r];
        scales[(slot * ROWS + lane) * 2 + 1] = total[r];
      }
    }
  }
  for (int column = 0; column < a.value_width; column += across * VECTOR) {
    const int at = column + column0;
    float out[ROWS][VECTOR];
    UNROLL for (int r = 0; r < ROWS; ++r) {
      UNROLL for (int e = 0; e < VECTOR; ++e) out[r][e] = 0;
    }
    if (at < a.value_width) {
      const long from = begin * a.v[2] + at * a.v[3];
#ifndef TV_CPU
#pragma unroll 4
#endif
      for (int n = step; n < count; n += down) {
        float x[VECTOR];
        READ(values, from + n * a.v[2], x);
        UNROLL for (int r = 0; r < ROWS; ++r) {
          const float p = scores[r * a.split + n];
          UNROLL for (int e = 0; e < VECTOR; ++e) out[r][e] += p * x[e];
        }
      }
    }
    UNROLL for (int r = 0; r < ROWS; ++r) {
      UNROLL for (int e = 0; e < VECTOR; ++e) {
        lanes[e * width + lane] = out[r][e];
      }
      for (int reach = down / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (step < reach) {
          UNROLL for (int e = 0; e < VECTOR; ++e) {
            lanes[e * width + lane] += lanes[e * width + lane + reach * across];
          }
        }
      }
      if (step == 0) {
        UNROLL for (int e = 0; e < VECTOR; ++e) {
          if (at + e < a.value_width) {
            results[(slot * ROWS + r) * a.value_width + at + e] =
                lanes[e * width + lane];
          }
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
  }
}

// Joins the splits: an item for each element of y.
__kernel void attention_join(gptr y, long y_offset, gptr sums, long sums_offset,
                             const __global float* results,
                             const __global float* scales, Attention a,
                             long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const long column = i % a.value_width;
  const long query = i / a.value_width % a.queries;
  const long head = i / a.value_width / a.queries % a.heads;
  const long image = i / a.value_width / a.queries / a.heads;
  const long row = head % a.share * a.queries + query;
  const long pair = image * (a.heads / a.share) + head / a.share;
  const long first =
      ((pair * a.blocks + row / ROWS) * a.splits) * ROWS + row % ROWS;
  float best = -INFINITY;
  for (long s = 0; s < a.splits; ++s) {
    best = fmax(best, scales[(first + s * ROWS) * 2]);
  }
  const float base = base_of(best);
  float total = 0, out = 0;
  for (long s = 0; s < a.splits; ++s) {
    const long slot = first + s * ROWS;
    // A part without keys has sums of 0, or of NaN, which stay that.
    const float largest = scales[slot * 2];
    const float factor = largest == -INFINITY ? 0 : exp(largest - base);
    total += scales[slot * 2 + 1] * factor;
    out += results[slot * a.value_width + column] * factor;
  }
  if (sums && column == 0) {
    store_f32(sums + sums_offset,
              image * a.sums[0] + head * a.sums[1] + query * a.sums[2],
              best + log(total));
  }
  STORE(T, y + y_offset,
        image * a.y[0] + head * a.y[1] + query * a.y[2] + column * a.y[3],
        total == 0 ? 0 : out / total);
}

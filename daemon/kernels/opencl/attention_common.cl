// What the kernels of attention share: the problem and its mask.
//
// Options: T, the dtype of q, k, v and y.

// Sums of products may be fused.
#pragma OPENCL FP_CONTRACT ON

// Laid out as `AttentionArguments` of attention.cc. Strides in elements.
typedef struct {
  long batch, heads, share;  // `share` heads read the same keys
  long queries, keys;
  long width, value_width;
  long q[4], k[4], v[4], y[4], mask[4];
  long sums[3];
  long mask_kind;  // 0 none, 1 bool, 2 of type T, 3 float
  long causal;
  long blocks;  // of queries
  long splits;  // of the keys
  long split;   // keys of one
} Attention;

// The score of a key under the mask; mask_at: where the query's row starts.
static inline float masked(const Attention* a, gcptr mask, long mask_at,
                           long query, long key, float score) {
  if (a->causal && key > query) return -INFINITY;
  if (a->mask_kind == 0) return score;
  const long at = mask_at + key * a->mask[3];
  if (a->mask_kind == 1) return load_bool(mask, at) ? score : -INFINITY;
  return score + (a->mask_kind == 2 ? LOAD(T, mask, at) : load_f32(mask, at));
}

// What exponentials are taken relative to: no score at all is no reason for a
// NaN.
static inline float base_of(float best) { return best == -INFINITY ? 0 : best; }

// pair_distance and its gradient. -DT=f32 or f64.

typedef ACC(T) real;

// Laid out as in distance.cc. a [B, N, K], b [B, M, K], y and dy [B, N, M] or,
// of a alone, pairs i < j row by row (`condensed`; strides at [2]).
typedef struct {
  long batches, rows, columns, width;
  long condensed;
  long a[3], b[3], y[3], dy[3], da[3];
  long norm;  // 0, 1, 2, 3 for infinity, 4 for others
} Pairs;

static inline long pair_at(const Pairs* p, const long* strides, long batch,
                           long i, long j) {
  if (!p->condensed)
    return batch * strides[0] + i * strides[1] + j * strides[2];
  const long low = min(i, j), high = max(i, j);
  return (low * (2 * p->rows - low - 1) / 2 + high - low - 1) * strides[2];
}

static inline real sign_of(real d) { return (real)((d > 0) - (d < 0)); }

__kernel void pair_distance(gptr y, long y_offset, gcptr a, long a_offset,
                            gcptr b, long b_offset, Pairs p, real power,
                            long count) {
  const long id = get_global_id(0);
  if (id >= count) return;
  const long j = id % p.columns, i = id / p.columns % p.rows;
  const long batch = id / p.columns / p.rows;
  if (p.condensed && j <= i) return;
  const long left = batch * p.a[0] + i * p.a[1];
  const long right = batch * p.b[0] + j * p.b[1];
  real sum = 0;
  for (long k = 0; k < p.width; ++k) {
    const real d = fabs(LOAD(T, a + a_offset, left + k * p.a[2]) -
                        LOAD(T, b + b_offset, right + k * p.b[2]));
    if (p.norm == 2) {
      sum += d * d;
    } else if (p.norm == 1) {
      sum += d;
    } else if (p.norm == 0) {
      sum += d != 0;
    } else if (p.norm == 3) {
      sum = sum > d | sum != sum ? sum : d;  // NaN wins
    } else {
      sum += pow(d, power);
    }
  }
  if (p.norm == 2) sum = sqrt(sum);
  if (p.norm == 4) sum = pow(sum, 1 / power);
  STORE(T, y + y_offset, pair_at(&p, p.y, batch, i, j), sum);
}

// An item for each element of da. Where two rows are equal the gradient is 0.
__kernel void pair_distance_backward(gptr da, long da_offset, gcptr dy,
                                     long dy_offset, gcptr a, long a_offset,
                                     gcptr b, long b_offset, gcptr y,
                                     long y_offset, Pairs p, real power,
                                     long count) {
  const long id = get_global_id(0);
  if (id >= count) return;
  const long k = id % p.width, i = id / p.width % p.rows;
  const long batch = id / p.width / p.rows;
  const real own =
      LOAD(T, a + a_offset, batch * p.a[0] + i * p.a[1] + k * p.a[2]);
  real sum = 0;
  for (long j = 0; j < p.columns && p.norm != 0; ++j) {
    if (p.condensed && i == j) continue;
    const real gradient =
        LOAD(T, dy + dy_offset, pair_at(&p, p.dy, batch, i, j));
    const real distance = LOAD(T, y + y_offset, pair_at(&p, p.y, batch, i, j));
    const real d =
        own - LOAD(T, b + b_offset, batch * p.b[0] + j * p.b[1] + k * p.b[2]);
    if (p.norm == 1) {
      sum += gradient * sign_of(d);
    } else if (p.norm == 3) {
      sum += fabs(d) == distance ? gradient * sign_of(d) : 0;
    } else if (distance == 0) {
      continue;
    } else if (p.norm == 2) {
      sum += gradient / distance * d;
    } else {
      const real factor = gradient / pow(distance, power - 1);
      if (power > 2) {
        sum += factor * (d * pow(fabs(d), power - 2));
      } else {
        sum += d == 0 ? 0 : factor * (sign_of(d) * pow(fabs(d), power - 1));
      }
    }
  }
  STORE(T, da + da_offset, batch * p.da[0] + i * p.da[1] + k * p.da[2], sum);
}

// resample and its gradient on [N, C, D, H, W]: each dimension of space on its
// own. -DT, or -DBYTES where elements are only moved; -DCOORDINATE: the type
// that coordinates are computed in.

#ifdef T
typedef ACC(T) real;
#else
typedef float real;
#endif

// Numbers of kernels.md.
#define NEAREST 0
#define NEAREST_EXACT 1
#define LINEAR 2
#define CUBIC 3
#define REFLECT 4

// Laid out as in resample.cc.
typedef struct {
  long mode;
  long align_corners;
  long x_size[3];
  long y_size[3];
  long pad[3];
  long x[5];  // strides
  long y[5];
  long channels;
  long channels_last;  // of the volume that items are counted over
} Resample;

typedef struct {
  COORDINATE of[3];
} Scales;

static inline long clamped(long at, long size) {
  return clamp(at, 0L, size - 1);
}

static inline long nearest_of(long at, long x_size, long y_size, float scale) {
  if (y_size == x_size) return at;
  if (y_size == 2 * x_size) return at / 2;
  return min((long)floor((float)at * scale), x_size - 1);
}

static inline long reflection_of(long at, long pad, long size) {
  at -= pad;
  if (at < 0) at = -at;
  if (at >= size) at = 2 * (size - 1) - at;
  return clamped(at, size);
}

// Keys, "Cubic convolution interpolation for digital image processing" (1981),
// with a = -0.75.
static inline COORDINATE cubic_inner(COORDINATE x) {
  const COORDINATE a = (COORDINATE)-0.75;
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
static inline COORDINATE cubic_outer(COORDINATE x) {
  const COORDINATE a = (COORDINATE)-0.75;
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

// What coordinate i of y is made of along dimension d; returns how many.
static inline int taps_of(const Resample* p, const Scales* scales, int d,
                          long i, long* at, real* weight) {
  const long x_size = p->x_size[d], y_size = p->y_size[d];
  const COORDINATE scale = scales->of[d];
  at[0] = 0;
  weight[0] = 1;
  if (x_size == 1 && y_size == 1) return 1;
  const COORDINATE source =
      p->align_corners
          ? scale * (COORDINATE)i
          : scale * ((COORDINATE)i + (COORDINATE)0.5) - (COORDINATE)0.5;
  if (p->mode == NEAREST) {
    at[0] = clamped(nearest_of(i, x_size, y_size, (float)scale), x_size);
  } else if (p->mode == NEAREST_EXACT) {
    at[0] = clamped((long)floor(((float)i + 0.5f) * (float)scale), x_size);
  } else if (p->mode == LINEAR) {
    // The identity, whatever the scale says.
    const COORDINATE place =
        x_size == y_size ? (COORDINATE)i : fmax(source, (COORDINATE)0);
    const long low = clamped((long)place, x_size);
    const COORDINATE part =
        clamp(place - (COORDINATE)low, (COORDINATE)0, (COORDINATE)1);
    at[0] = low;
    at[1] = clamped(low + 1, x_size);
    weight[0] = (real)(1 - part);
    weight[1] = (real)part;
    return 2;
  } else if (p->mode == CUBIC) {
    const COORDINATE down = floor(source);
    const long low = (long)down;
    const COORDINATE t = clamp(source - down, (COORDINATE)0, (COORDINATE)1);
    for (int k = 0; k < 4; ++k) at[k] = clamped(low - 1 + k, x_size);
    weight[0] = (real)cubic_outer(t + 1);
    weight[1] = (real)cubic_inner(t);
    weight[2] = (real)cubic_inner(1 - t);
    weight[3] = (real)cubic_outer(2 - t);
    return 4;
  } else if (p->mode == REFLECT) {
    at[0] = reflection_of(i, p->pad[d], x_size);
  } else {
    at[0] = clamped(i - p->pad[d], x_size);
  }
  return 1;
}

// Coordinates (n, c, d, h, w) of the i-th element of a volume.
#define COORDINATES(type)                    \
  {                                          \
    type rest = (type)i;                     \
    const type channels = (type)p->channels; \
    if (p->channels_last) {                  \
      at[1] = rest % channels;               \
      rest /= channels;                      \
    }                                        \
    for (int d = 2; d >= 0; --d) {           \
      at[2 + d] = rest % (type)size[d];      \
      rest /= (type)size[d];                 \
    }                                        \
    if (!p->channels_last) {                 \
      at[1] = rest % channels;               \
      rest /= channels;                      \
    }                                        \
    at[0] = rest;                            \
  }
static inline void coordinates_of(const Resample* p, const long* size,
                                  long count, long i, long* at) {
  if (count <= UINT_MAX) {
    COORDINATES(uint)
  } else {
    COORDINATES(ulong)
  }
}

static inline long offset_of(const long* strides, const long* at) {
  long offset = 0;
  for (int d = 0; d < 5; ++d) offset += at[d] * strides[d];
  return offset;
}

#ifdef BYTES
__kernel void resample_move(gptr y, long y_offset, gcptr x, long x_offset,
                            Resample p, Scales scales, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  long at[5];
  coordinates_of(&p, p.y_size, count, i, at);
  const long to = offset_of(p.y, at);
  for (int d = 0; d < 3; ++d) {
    long tap[4];
    real weight[4];
    taps_of(&p, &scales, d, at[2 + d], tap, weight);
    at[2 + d] = tap[0];
  }
  ((__global element*)(y + y_offset))[to] =
      ((const __global element*)(x + x_offset))[offset_of(p.x, at)];
}
#endif

#ifdef T
__kernel void resample(gptr y, long y_offset, gcptr x, long x_offset,
                       Resample p, Scales scales, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  long at[5], tap[3][4];
  real weight[3][4];
  int taps[3];
  coordinates_of(&p, p.y_size, count, i, at);
  for (int d = 0; d < 3; ++d) {
    taps[d] = taps_of(&p, &scales, d, at[2 + d], tap[d], weight[d]);
  }
  const long base = at[0] * p.x[0] + at[1] * p.x[1];
  real sum = 0;
  for (int a = 0; a < taps[0]; ++a) {
    for (int b = 0; b < taps[1]; ++b) {
      const long line = base + tap[0][a] * p.x[2] + tap[1][b] * p.x[3];
      real row = 0;
      for (int c = 0; c < taps[2]; ++c) {
        row += weight[2][c] * LOAD(T, x + x_offset, line + tap[2][c] * p.x[4]);
      }
      sum += weight[0][a] * weight[1][b] * row;
    }
  }
  STORE(T, y + y_offset, offset_of(p.y, at), sum);
}

// Coordinates of y [begin, end) that may be made of coordinate j of x.
static inline void outputs_of(const Resample* p, const Scales* scales, int d,
                              long j, long* begin, long* end) {
  const long x_size = p->x_size[d], y_size = p->y_size[d];
  *begin = 0;
  *end = y_size;
  // Borders stand for all that is beyond them.
  const int first = j == 0, last = j == x_size - 1;
  if (p->mode > REFLECT) {
    if (!first) *begin = min(j + p->pad[d], y_size);
    if (!last) *end = min(j + p->pad[d] + 1, y_size);
    return;
  }
  if (p->mode == REFLECT || y_size == 2 * x_size) {
    if (p->mode == NEAREST) {
      *begin = 2 * j;
      *end = 2 * j + 2;
      return;
    }
    if (p->mode == REFLECT) return;
  }
  if (x_size == y_size && (p->mode == NEAREST || p->mode == LINEAR)) {
    *begin = max(j - 1, 0L);
    *end = min(j + 1, y_size);
    return;
  }
  const COORDINATE scale = scales->of[d];
  if (!(scale > 0)) return;
  const COORDINATE shift = p->align_corners ? 0 : (COORDINATE)0.5;
  const COORDINATE reach = p->mode == CUBIC ? 3 : 2;
  const COORDINATE low = ((COORDINATE)j - reach) / scale - shift - 2;
  const COORDINATE high = ((COORDINATE)j + reach) / scale + shift + 2;
  if (!first && low > 0) *begin = low < (COORDINATE)y_size ? (long)low : y_size;
  if (!last && high < (COORDINATE)y_size) *end = max((long)high, 0L);
}

// The weight of coordinate j of x in coordinate i of y.
static inline real weight_of(const Resample* p, const Scales* scales, int d,
                             long i, long j) {
  long tap[4];
  real weight[4], sum = 0;
  const int taps = taps_of(p, scales, d, i, tap, weight);
  for (int k = 0; k < taps; ++k) sum += tap[k] == j ? weight[k] : 0;
  return sum;
}

// An item for each element of x: it collects from y.
__kernel void resample_backward(gptr dx, long dx_offset, gcptr dy,
                                long dy_offset, Resample p, Scales scales,
                                long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  long at[5], begin[3], end[3];
  coordinates_of(&p, p.x_size, count, i, at);
  for (int d = 0; d < 3; ++d) {
    outputs_of(&p, &scales, d, at[2 + d], begin + d, end + d);
  }
  const long base = at[0] * p.y[0] + at[1] * p.y[1];
  real sum = 0;
  for (long a = begin[0]; a < end[0]; ++a) {
    const real wa = weight_of(&p, &scales, 0, a, at[2]);
    if (wa == 0) continue;
    for (long b = begin[1]; b < end[1]; ++b) {
      const real wb = weight_of(&p, &scales, 1, b, at[3]);
      if (wb == 0) continue;
      const long line = base + a * p.y[2] + b * p.y[3];
      real row = 0;
      for (long c = begin[2]; c < end[2]; ++c) {
        const real wc = weight_of(&p, &scales, 2, c, at[4]);
        if (wc != 0) row += wc * LOAD(T, dy + dy_offset, line + c * p.y[4]);
      }
      sum += wa * wb * row;
    }
  }
  STORE(T, dx + dx_offset, offset_of(p.x, at), sum);
}
#endif

// random and dropout: Philox 4x32-10 (Salmon and others, 2011). Which words
// make which element, and how: proto/ops/kernels.md. Results are equal bit by
// bit on every device with IEEE arithmetic, so that each step is rounded by
// itself and no library function is used but sqrt, where it is exact.
//
// -DT: the elements. -DPAIRS: elements that take two words each.

static inline uint4 philox(ulong seed, ulong counter) {
  uint4 c = (uint4)((uint)counter, (uint)(counter >> 32), 0, 0);
  uint key0 = (uint)seed, key1 = (uint)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint high0 = mul_hi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
    const uint high1 = mul_hi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
    c = (uint4)(high1 ^ c.y ^ key0, low1, high0 ^ c.w ^ key1, low0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

#ifdef PAIRS
#define PER_COUNTER 2
typedef ulong word_t;
static inline void words_of(ulong seed, ulong counter, word_t* w) {
  const uint4 c = philox(seed, counter);
  w[0] = (ulong)c.x | (ulong)c.y << 32;
  w[1] = (ulong)c.z | (ulong)c.w << 32;
}
#else
#define PER_COUNTER 4
typedef uint word_t;
static inline void words_of(ulong seed, ulong counter, word_t* w) {
  const uint4 c = philox(seed, counter);
  w[0] = c.x;
  w[1] = c.y;
  w[2] = c.z;
  w[3] = c.w;
}
#endif

// Keeps word < limit, of 32 or 53 bits; limit 2^32 keeps all.
static inline int is_below(word_t w, ulong limit) {
#ifdef PAIRS
  return (w >> 11) < limit;
#else
  return (ulong)w < limit;
#endif
}

#ifdef FLOATS
#ifdef PAIRS
typedef double real;
static inline double unit(ulong w) { return (double)(long)(w >> 11) * 0x1p-53; }
static inline double unit_above_zero(ulong w) {
  return (double)(long)((w >> 11) + 1) * 0x1p-53;
}
static inline double unit_inside(ulong w) {
  return ((double)(long)(w >> 12) + 0.5) * 0x1p-52;
}

// The polynomials of plain_math.h in daemon/kernels/host/random.
static inline double plain_log(double x) {
  const ulong bits =
      as_ulong(x) + (0x3FF0000000000000ul - 0x3FE6A09E00000000ul);
  const double k = (double)((int)(bits >> 52) - 1023);
  const double f =
      as_double((bits & 0x000FFFFFFFFFFFFFul) + 0x3FE6A09E00000000ul) - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double w = z * z;
  const double even =
      w * (3.999999999940941908e-01 +
           w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 +
                w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half_square = 0.5 * f * f;
  return s * (half_square + (odd + even)) + k * 1.90821492927058770002e-10 -
         half_square + f + k * 6.93147180369123816490e-01;
}
static inline double sin_near_zero(double x) {
  const double z = x * x;
  const double sum = -1.66666666666666324348e-01 +
                     z * (8.33333333332248946124e-03 +
                          z * (-1.98412698298579493134e-04 +
                               z * (2.75573137070700676789e-06 +
                                    z * (-2.50507602534068634195e-08 +
                                         z * 1.58969099521155010221e-10))));
  return x + x * z * sum;
}
static inline double cos_near_zero(double x) {
  const double z = x * x;
  const double sum = 4.16666666666666019037e-02 +
                     z * (-1.38888888888741095749e-03 +
                          z * (2.48015872894767294178e-05 +
                               z * (-2.75573143513906633035e-07 +
                                    z * (2.08757232129817482790e-09 +
                                         z * -1.13596475577881948265e-11))));
  return 1.0 - (0.5 * z - z * z * sum);
}
#define QUARTER 0.25
#define HALF 0.5
#define TWO_PI 6.28318530717958647692
#else
typedef float real;
static inline float unit(uint w) { return (float)(int)(w >> 8) * 0x1p-24f; }
static inline float unit_above_zero(uint w) {
  // In two halves, each exact as a float; the sum is rounded once.
  const float high = (float)(int)(w >> 16),
              low = (float)((int)(w & 0xFFFF) + 1);
  return (high * 65536.0f + low) * 0x1p-32f;
}
static inline float unit_inside(uint w) {
  return ((float)(int)(w >> 9) + 0.5f) * 0x1p-23f;
}

static inline float plain_log(float x) {
  const uint bits = as_uint(x) + 0x004AFB0Du;
  const float k = (float)((int)(bits >> 23) - 127);
  const float f = as_float((bits & 0x007FFFFF) + 0x3F3504F3u) - 1.0f;
  const float s = f / (2.0f + f);
  const float z = s * s;
  const float w = z * z;
  const float even = w * (0x1.999c26p-2f + w * 0x1.f13c4cp-3f);
  const float odd = z * (0x1.555554p-1f + w * 0x1.23d3dcp-2f);
  const float half_square = 0.5f * f * f;
  return s * (half_square + (odd + even)) + k * 9.0580006145e-06f -
         half_square + f + k * 6.9313812256e-01f;
}
static inline float sin_near_zero(float x) {
  const float z = x * x;
  return ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) *
             z * x +
         x;
}
static inline float cos_near_zero(float x) {
  const float z = x * x;
  return ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z +
          4.166664568298827e-2f) *
             z * z -
         0.5f * z + 1.0f;
}
#define QUARTER 0.25f
#define HALF 0.5f
#define TWO_PI 6.28318530717958647692f
#endif

// cos and sin of 2 pi u: the quadrant is split off exactly.
static inline void plain_cos_sin(real u, real* cosine, real* sine) {
  const int quadrant = (int)(u * 4 + HALF);
  const real x = (u - (real)quadrant * QUARTER) * TWO_PI;
  const real s = sin_near_zero(x), c = cos_near_zero(x);
  const real swapped_c = quadrant & 1 ? s : c;
  const real swapped_s = quadrant & 1 ? c : s;
  *cosine = (quadrant + 1) & 2 ? -swapped_c : swapped_c;
  *sine = quadrant & 2 ? -swapped_s : swapped_s;
}

#define UNIFORM 1
#define NORMAL 2

__kernel void random_floats(gptr y, long y_offset, View view, int dense,
                            long count, ulong seed, ulong offset,
                            int distribution, real a, real b, real limit) {
  const long block = get_global_id(0);
  const long first = block * PER_COUNTER;
  if (first >= count) return;
  word_t w[PER_COUNTER];
  words_of(seed, offset + (ulong)block, w);
  real v[PER_COUNTER];
  if (distribution == UNIFORM) {
    const real span = b - a;
    for (int j = 0; j < PER_COUNTER; ++j) {
      const real x = a + unit(w[j]) * span;
      v[j] = x < limit ? x : limit;
    }
  } else if (distribution == NORMAL) {
    // Box and Muller: two uniform numbers give two normal ones.
    for (int j = 0; j < PER_COUNTER; j += 2) {
      const real radius = sqrt(-2 * plain_log(unit_above_zero(w[j])));
      real cosine, sine;
      plain_cos_sin(unit(w[j + 1]), &cosine, &sine);
      v[j] = a + b * (radius * cosine);
      v[j + 1] = a + b * (radius * sine);
    }
  } else {
    for (int j = 0; j < PER_COUNTER; ++j) {
      v[j] = -plain_log(unit_inside(w[j])) / a;
    }
  }
  y += y_offset;
  for (int j = 0; j < PER_COUNTER && first + j < count; ++j) {
    STORE(T, y, dense ? first + j : view_at(&view, first + j), v[j]);
  }
}
#endif  // FLOATS

#ifdef INTEGERS
#define BERNOULLI 3

// Bernoulli: limit; integers: low and range, 0 for any word.
__kernel void random_integers(gptr y, long y_offset, View view, int dense,
                              long count, ulong seed, ulong offset,
                              int distribution, ulong limit, ulong low,
                              ulong range) {
  const long block = get_global_id(0);
  const long first = block * PER_COUNTER;
  if (first >= count) return;
  word_t w[PER_COUNTER];
  words_of(seed, offset + (ulong)block, w);
  y += y_offset;
  for (int j = 0; j < PER_COUNTER && first + j < count; ++j) {
    long v;
    if (distribution == BERNOULLI) {
      v = is_below(w[j], limit);
    } else {
      v = (long)(low +
                 (range == 0 ? (ulong)w[j] : (ulong)(w[j] % (word_t)range)));
    }
    const long at = dense ? first + j : view_at(&view, first + j);
#ifdef T_BOOL
    STORE(T, y, at, v != 0);
#else
    STORE(T, y, at, (ACC(T))v);
#endif
  }
}
#endif  // INTEGERS

#ifdef DROPOUT
typedef struct {
  long rank;
  long sizes[TV_MAX_RANK];
  long y[TV_MAX_RANK];
  long mask[TV_MAX_RANK];
  long x[TV_MAX_RANK];
} Walk;

__kernel void dropout(gptr y, long y_offset, gptr mask, long mask_offset,
                      gcptr x, long x_offset, Walk walk, int dense, long count,
                      ulong seed, ulong offset, ulong limit, ACC(T) scale) {
  const long block = get_global_id(0);
  const long first = block * PER_COUNTER;
  if (first >= count) return;
  word_t w[PER_COUNTER];
  words_of(seed, offset + (ulong)block, w);
  for (int j = 0; j < PER_COUNTER && first + j < count; ++j) {
    long to = first + j, flag = to, from = to;
    if (!dense) {
      long i = to;
      to = flag = from = 0;
      for (int d = (int)walk.rank - 1; d >= 0; --d) {
        const long next = i / walk.sizes[d], index = i - next * walk.sizes[d];
        to += index * walk.y[d];
        flag += index * walk.mask[d];
        from += index * walk.x[d];
        i = next;
      }
    }
    const int keep = is_below(w[j], limit);
    const ACC(T) factor = keep ? scale : 0;
    STORE(T, y + y_offset, to, LOAD(T, x + x_offset, from) * factor);
    STORE(bool, mask + mask_offset, flag, keep);
  }
}
#endif

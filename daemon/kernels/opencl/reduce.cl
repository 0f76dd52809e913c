// Reductions.
//
// Elements are gathered into states. A group holds `width` lines of `height`
// items; each line gathers one piece of one output's elements and joins its
// items' states through local memory. Where an output has several pieces their
// states go to memory, and reduce_join joins them.
//
// -DT, -DOT: types of input and output. One of
//   GATHER_SUM      mode: 0 x, 1 x or 0 for NaN, 2 |x|, 3 x * x
//   GATHER_PRODUCT
//   GATHER_EXTREME  mode: 1 smallest, 2 of |x|; NaN wins
//   GATHER_PLACE    mode: 1 smallest; the first of equals, the first NaN
//   GATHER_COUNT    of what is not 0
//   GATHER_POWERS   sum of |x|^p
//   GATHER_MOMENTS  mean, sum of squared deviations
//   GATHER_LOG_SUM  largest x, sum of exp(x - largest)
// -DT_FLOAT: T is floating; else states hold long.

#ifdef TV_DOUBLE
typedef double wide;
#else
typedef float wide;
#endif

#if defined(GATHER_COUNT) || !defined(T_FLOAT)
typedef long value_t;
#else
typedef wide value_t;
#endif

typedef struct {
  value_t value;
#if defined(GATHER_PLACE) || defined(GATHER_MOMENTS)
  long count;  // or the place; -1: none yet
#endif
#if defined(GATHER_MOMENTS) || defined(GATHER_LOG_SUM)
  wide second;
#endif
} State;

// The kept dimensions: strides of the input and of both outputs.
typedef struct {
  long rank;
  long sizes[TV_MAX_RANK];
  long src[TV_MAX_RANK];
  long dst[TV_MAX_RANK];
  long second[TV_MAX_RANK];
} Kept;

#ifdef T_FLOAT
#define VALUE_LOWEST (-(value_t)INFINITY)
#define VALUE_HIGHEST ((value_t)INFINITY)
#else
#define VALUE_LOWEST LONG_MIN
#define VALUE_HIGHEST LONG_MAX
#endif

static inline State start_state(int mode) {
  State s;
  s.value = 0;
#ifdef GATHER_PRODUCT
  s.value = 1;
#endif
#ifdef GATHER_EXTREME
  s.value = mode & 1 ? VALUE_HIGHEST : mode & 2 ? (value_t)0 : VALUE_LOWEST;
#endif
#ifdef GATHER_PLACE
  s.count = -1;
#endif
#ifdef GATHER_MOMENTS
  s.count = 0;
  s.second = 0;
#endif
#ifdef GATHER_LOG_SUM
  s.value = VALUE_LOWEST;
  s.second = 0;
#endif
  return s;
}

#ifdef GATHER_LOG_SUM
static inline wide finite_or_zero(wide x) { return isinf(x) ? 0 : x; }
#ifdef T_F64
#define ELEMENT_EXP(x) exp(x)
#else
#define ELEMENT_EXP(x) exp((float)(x))
#endif
static inline wide larger_or_nan(wide x, wide than) {
  return (x > than) | (x != x) ? x : than;
}
#endif

// `next` is better than `value`.
static inline int is_better(value_t next, value_t value, int mode) {
  const int better = mode & 1 ? next < value : next > value;
#ifdef T_FLOAT
  return better | (next != next & value == value);
#else
  return better;
#endif
}

static inline State join_states(State a, State b, int mode) {
#if defined(GATHER_PRODUCT)
  a.value *= b.value;
#elif defined(GATHER_EXTREME)
  if (is_better(b.value, a.value, mode)) a.value = b.value;
#elif defined(GATHER_PLACE)
  if (b.count >= 0) {
    const int better = is_better(b.value, a.value, mode);
    const int worse = is_better(a.value, b.value, mode);
    if (a.count < 0 | better | (!worse & b.count < a.count)) a = b;
  }
#elif defined(GATHER_MOMENTS)
  // Chan, Golub and LeVeque (1979).
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const wide delta = b.value - a.value;
  const wide share = (wide)b.count / (wide)(a.count + b.count);
  a.second += b.second + delta * delta * (wide)a.count * share;
  a.value += delta * share;
  a.count += b.count;
#elif defined(GATHER_LOG_SUM)
  const wide largest = larger_or_nan(b.value, a.value);
  const wide base = finite_or_zero(largest);
  const wide mine =
      a.second == 0 ? 0 : a.second * exp(finite_or_zero(a.value) - base);
  const wide other =
      b.second == 0 ? 0 : b.second * exp(finite_or_zero(b.value) - base);
  a.second = mine + other;
  a.value = largest;
#else
  a.value += b.value;
#endif
  return a;
}

#ifdef GATHER_SUM
static inline value_t summand(value_t x, int mode) {
  return mode == 0   ? x
         : mode == 3 ? x * x
         : mode == 2 ? (x < 0 ? -x : x)
                     : (x == x ? x : 0);
}
#endif

#if defined(GATHER_SUM) && defined(T_FLOAT)
static inline float float_summand(float x, int mode) {
  return mode == 0 ? x : mode == 2 ? fabs(x) : (x == x ? x : 0);
}
#endif

// Element x, the k-th of its output.
static inline void take(State* s, ACC(T) x, long k, int mode, wide p) {
#if defined(GATHER_SUM)
  s->value += summand((value_t)x, mode);
#elif defined(GATHER_PRODUCT)
  s->value *= (value_t)x;
#elif defined(GATHER_EXTREME)
  const value_t v = (value_t)(mode & 2 && x < 0 ? -x : x);
  if (is_better(v, s->value, mode)) s->value = v;
#elif defined(GATHER_PLACE)
  // An item meets its elements in rising order.
  if (s->count < 0 | is_better((value_t)x, s->value, mode)) {
    s->value = (value_t)x;
    s->count = k;
  }
#elif defined(GATHER_COUNT)
  s->value += x != 0;
#elif defined(GATHER_POWERS)
  s->value += pow(fabs((wide)x), p);
#elif defined(GATHER_MOMENTS)
  // Welford (1962).
  const wide delta = (wide)x - s->value;
  s->count += 1;
  s->value += delta / (wide)s->count;
  s->second += delta * ((wide)x - s->value);
#elif defined(GATHER_LOG_SUM)
  const wide largest = larger_or_nan(x, s->value);
  const wide base = finite_or_zero(largest);
  const wide kept =
      s->second == 0 ? 0
                     : s->second * ELEMENT_EXP(finite_or_zero(s->value) - base);
  s->second = kept + ELEMENT_EXP(x - base);
  s->value = largest;
#endif
}

// Four elements at once: k, k + step, ...
static inline void take4(State* s, ACC(T) x0, ACC(T) x1, ACC(T) x2, ACC(T) x3,
                         long k, long step, int mode, wide p) {
#if defined(GATHER_SUM)
#if defined(T_FLOAT) && !defined(T_F64)
  // Two additions of floats lose little, and conversions to double take longer
  // than memory does. Squares may be too large for a float.
  if (mode != 3) {
    s->value += (value_t)((float_summand(x0, mode) + float_summand(x1, mode)) +
                          (float_summand(x2, mode) + float_summand(x3, mode)));
    return;
  }
#endif
  s->value += (summand(x0, mode) + summand(x1, mode)) +
              (summand(x2, mode) + summand(x3, mode));
#elif defined(GATHER_MOMENTS)
  State four;
  four.count = 4;
  four.value = (((wide)x0 + (wide)x1) + ((wide)x2 + (wide)x3)) / 4;
  const wide d0 = x0 - four.value, d1 = x1 - four.value, d2 = x2 - four.value,
             d3 = x3 - four.value;
  four.second = (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
  *s = join_states(*s, four, mode);
#elif defined(GATHER_LOG_SUM)
  const wide largest = larger_or_nan(
      x3, larger_or_nan(x2, larger_or_nan(x1, larger_or_nan(x0, s->value))));
  const wide base = finite_or_zero(largest);
  const wide kept =
      s->second == 0 ? 0
                     : s->second * ELEMENT_EXP(finite_or_zero(s->value) - base);
  s->second = kept + ((ELEMENT_EXP(x0 - base) + ELEMENT_EXP(x1 - base)) +
                      (ELEMENT_EXP(x2 - base) + ELEMENT_EXP(x3 - base)));
  s->value = largest;
#else
  take(s, x0, k, mode, p);
  take(s, x1, k + step, mode, p);
  take(s, x2, k + 2 * step, mode, p);
  take(s, x3, k + 3 * step, mode, p);
#endif
}

// Where element i of the dimensions but the last is.
static inline long outer_at(const View* view, long i) {
  long at = 0;
  for (int d = (int)view->rank - 2; d >= 0; --d) {
    const long next = d > 0 ? i / view->sizes[d] : 0;
    at += (i - next * view->sizes[d]) * view->strides[d];
    i = next;
  }
  return at;
}

// Elements [begin, end) of the output whose first is at `base`; this item
// takes each `height`-th from its `line` on.
static inline State gather(gcptr x, long base, const View* reduced, long begin,
                           long end, int line, int height, int by_vectors,
                           int mode, wide p) {
  State s = start_state(mode);
  const int last = (int)reduced->rank - 1;
  const long stride = reduced->strides[last];
  if (last > 0) {
    // (outer, inner) runs along; the outer place is worked out when it changes.
    const long row = reduced->sizes[last];
    long outer = (begin + line) / row, inner = (begin + line) - outer * row;
    const long outer_step = height < row ? 0 : height / row;
    const long inner_step = height - outer_step * row;
    long from = base + outer_at(reduced, outer);
    for (long k = begin + line; k < end; k += height) {
      take(&s, LOAD(T, x, from + inner * stride), k, mode, p);
      const long before = outer;
      inner += inner_step;
      outer += outer_step;
      if (inner >= row) {
        inner -= row;
        ++outer;
      }
      if (outer != before && k + height < end) {
        from = base + outer_at(reduced, outer);
      }
    }
    return s;
  }
  if (by_vectors) {
    const __global TV_CAT(vec4_, T)* vectors =
        (const __global TV_CAT(vec4_, T)*)(x + (base + begin) * sizeof(MEM(T)));
    const long count = (end - begin) / 4;
    for (long i = line; i < count; i += height) {
      const TV_CAT(vec4_, T) v = vectors[i];
      take4(&s, TV_CAT(unpack_, T)(v.x), TV_CAT(unpack_, T)(v.y),
            TV_CAT(unpack_, T)(v.z), TV_CAT(unpack_, T)(v.w), begin + 4 * i, 1,
            mode, p);
    }
    begin += 4 * count;
  }
  long k = begin + line;
  const long step = height;
  for (; k + 3 * step < end; k += 4 * step) {
    const long at = base + k * stride;
    const ACC(T) x0 = LOAD(T, x, at);
    const ACC(T) x1 = LOAD(T, x, at + step * stride);
    const ACC(T) x2 = LOAD(T, x, at + 2 * step * stride);
    const ACC(T) x3 = LOAD(T, x, at + 3 * step * stride);
    take4(&s, x0, x1, x2, x3, k, step, mode, p);
  }
  for (; k < end; k += step) {
    take(&s, LOAD(T, x, base + k * stride), k, mode, p);
  }
  return s;
}

// How a state becomes a result.
#define FINISH_VALUE 0
#define FINISH_MEAN 1
#define FINISH_ROOT 2
#define FINISH_POWER 3
#define FINISH_VARIANCE 4
#define FINISH_DEVIATION 5
#define FINISH_LOG 6
#define FINISH_ANY 7
#define FINISH_ALL 8
#define FINISH_PLACE 9

static inline void write_result(State s, long output, const Kept* kept, gptr y,
                                gptr z, int has_second, int finish, wide scalar,
                                long count) {
  long to = 0, second = 0, i = output;
  for (int d = (int)kept->rank - 1; d >= 0; --d) {
    const long next = d > 0 ? i / kept->sizes[d] : 0;
    const long index = i - next * kept->sizes[d];
    to += index * kept->dst[d];
    second += index * kept->second[d];
    i = next;
  }
  value_t value = s.value;
#ifdef GATHER_COUNT
  if (finish == FINISH_ANY) value = value > 0;
  if (finish == FINISH_ALL) value = value == count;
#elif defined(GATHER_PLACE)
  if (finish == FINISH_PLACE) {
    STORE(OT, y, to, (ACC(OT))s.count);
    return;
  }
  if (has_second) STORE(i64, z, second, s.count);
#elif defined(GATHER_MOMENTS)
  value = s.second / fmax((wide)0, (wide)count - scalar);
  if (finish == FINISH_DEVIATION) value = sqrt(value);
  if (has_second) {
    STORE(OT, z, second, (ACC(OT))(count > 0 ? s.value : (wide)NAN));
  }
#elif defined(GATHER_LOG_SUM)
  value = log(s.second) + finite_or_zero(s.value);
#elif defined(T_FLOAT)
  if (finish == FINISH_MEAN) value /= (wide)count;
  if (finish == FINISH_ROOT) value = sqrt(value);
  if (finish == FINISH_POWER) value = pow(value, 1 / scalar);
#endif
  STORE(OT, y, to, (ACC(OT))value);
}

// Joins the states of each line's items; the first item has the result.
static inline State join_line(__local State* lanes, State s, int lane, int line,
                              int height, int distance, int mode) {
  lanes[lane] = s;
  for (int reach = height / 2; reach > 0; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (line < reach) {
      s = join_states(s, lanes[lane + reach * distance], mode);
      lanes[lane] = s;
    }
  }
  return s;
}

// by_columns: neighbouring items take neighbouring outputs, else neighbouring
// elements of one. `states` may be null where there is one piece.
__kernel void reduce_gather(gptr y, long y_offset, gptr z, long z_offset,
                            gcptr x, long x_offset, Kept kept, View reduced,
                            __global State* states, long first_state,
                            __local State* lanes, long outputs, long count,
                            long piece, long pieces, int height, int by_columns,
                            int by_vectors, int has_second, int mode,
                            int finish, wide scalar) {
  const int lane = get_local_id(0);
  const int width = (int)get_local_size(0) / height;
  const int column = by_columns ? lane % width : lane / height;
  const int line = by_columns ? lane / width : lane % height;
  long block = get_group_id(0), part = 0;
  if (pieces > 1) {
    part = block % pieces;
    block /= pieces;
  }
  const long output = block * width + column;
  State s = start_state(mode);
  if (output < outputs) {
    long base = 0, i = output;
    for (int d = (int)kept.rank - 1; d >= 0; --d) {
      const long next = d > 0 ? i / kept.sizes[d] : 0;
      base += (i - next * kept.sizes[d]) * kept.src[d];
      i = next;
    }
    const long begin = part * piece;
    s = gather(x + x_offset, base, &reduced, begin, min(count, begin + piece),
               line, height, by_vectors, mode, scalar);
  }
  s = join_line(lanes, s, lane, line, height, by_columns ? width : 1, mode);
  if (line != 0 || output >= outputs) return;
  if (states != 0) {
    states[first_state + output * pieces + part] = s;
  } else {
    write_result(s, output, &kept, y + y_offset, z + z_offset, has_second,
                 finish, scalar, count);
  }
}

__kernel void reduce_join(gptr y, long y_offset, gptr z, long z_offset,
                          Kept kept, __global const State* states,
                          __local State* lanes, long outputs, long count,
                          long pieces, int height, int has_second, int mode,
                          int finish, wide scalar) {
  const int lane = get_local_id(0);
  const int width = (int)get_local_size(0) / height;
  const int column = lane / height, line = lane % height;
  const long output = (long)get_group_id(0) * width + column;
  State s = start_state(mode);
  if (output < outputs) {
    for (long k = line; k < pieces; k += height) {
      s = join_states(s, states[output * pieces + k], mode);
    }
  }
  s = join_line(lanes, s, lane, line, height, 1, mode);
  if (line != 0 || output >= outputs) return;
  write_result(s, output, &kept, y + y_offset, z + z_offset, has_second, finish,
               scalar, count);
}

// max_pool, avg_pool and its gradient on [N, C, D, H, W]. -DT: the elements.

// The pooled volume is the large one, what comes of it the small one.
typedef struct {
  long large_size[3];
  long small_size[3];
  long window[3];
  long stride[3];
  long padding[3];
  long dilation[3];
  long large[5];  // strides
  long small[5];
  long indices[5];
  long channels;
  long channels_last;  // channels lie side by side
  long adaptive;
  long count_padding;
  long divisor;  // 0: the elements counted
  long lowest;   // of integers
} Pool;

// Positions begin, begin + step, ... below end of the large volume.
typedef struct {
  long begin;
  long end;
  long step;
  long counted;  // elements of the average, padding counted or not
} Window;

static inline Window window_of(const Pool* p, int d, long at) {
  Window w;
  const long size = p->large_size[d];
  if (p->adaptive) {
    const long out = p->small_size[d];
    w.begin = at * size / out;
    w.end = ((at + 1) * size + out - 1) / out;
    w.step = 1;
    w.counted = w.end - w.begin;
    return w;
  }
  w.step = p->dilation[d];
  const long first = at * p->stride[d] - p->padding[d];
  const long last = first + (p->window[d] - 1) * w.step + 1;
  w.begin = first;
  if (first < 0) w.begin += (w.step - 1 - first) / w.step * w.step;
  w.end = min(last, size);
  const long with_padding = min(last, size + p->padding[d]) - first;
  w.counted = p->count_padding ? with_padding : max(w.end - w.begin, 0L);
  return w;
}

static inline long divisor_of(const Pool* p, long counted) {
  return p->divisor != 0 ? p->divisor : counted;
}

// Coordinates (n, c, d, h, w) of the i-th element of a volume. Division of
// 64 bits is slow where there is none in hardware.
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
static inline void coordinates_of(const Pool* p, const long* size, long count,
                                  long i, long* at) {
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

#ifdef T_FLOAT
#define LOWEST(p) (-(ACC(T))INFINITY)
#else
#define LOWEST(p) ((ACC(T))(p).lowest)
#endif

__kernel void max_pool(gptr y, long y_offset, gptr indices, long indices_offset,
                       gcptr x, long x_offset, Pool p, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  long at[5];
  coordinates_of(&p, p.small_size, count, i, at);
  const Window wd = window_of(&p, 0, at[2]), wh = window_of(&p, 1, at[3]),
               ww = window_of(&p, 2, at[4]);
  const long row = p.large_size[2], plane = p.large_size[1] * row;
  const long base = at[0] * p.large[0] + at[1] * p.large[1];
  ACC(T) best = LOWEST(p);
  long where = wd.begin * plane + wh.begin * row + min(ww.begin, row - 1);
  for (long d = wd.begin; d < wd.end; d += wd.step) {
    for (long h = wh.begin; h < wh.end; h += wh.step) {
      const long line = base + d * p.large[2] + h * p.large[3];
      for (long w = ww.begin; w < ww.end; w += ww.step) {
        const ACC(T) v = LOAD(T, x + x_offset, line + w * p.large[4]);
        if (v > best | v != v) {
          best = v;
          where = d * plane + h * row + w;
        }
      }
    }
  }
  STORE(T, y + y_offset, offset_of(p.small, at), best);
  STORE(i64, indices + indices_offset, offset_of(p.indices, at), where);
}

__kernel void avg_pool(gptr y, long y_offset, gcptr x, long x_offset, Pool p,
                       long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  long at[5];
  coordinates_of(&p, p.small_size, count, i, at);
  const Window wd = window_of(&p, 0, at[2]), wh = window_of(&p, 1, at[3]),
               ww = window_of(&p, 2, at[4]);
  const long base = at[0] * p.large[0] + at[1] * p.large[1];
  ACC(T) sum = 0;
  for (long d = wd.begin; d < wd.end; ++d) {
    for (long h = wh.begin; h < wh.end; ++h) {
      const long line = base + d * p.large[2] + h * p.large[3];
      for (long w = ww.begin; w < ww.end; ++w) {
        sum += LOAD(T, x + x_offset, line + w * p.large[4]);
      }
    }
  }
  const long divisor = divisor_of(&p, wd.counted * wh.counted * ww.counted);
  STORE(T, y + y_offset, offset_of(p.small, at),
        divisor == 0 ? 0 : sum / (ACC(T))divisor);
}

// Outputs [first, last] whose windows may hold position `at` of the large
// volume.
static inline void outputs_of(const Pool* p, int d, long at, long* first,
                              long* last) {
  const long out = p->small_size[d];
  if (p->adaptive) {
    const long size = p->large_size[d];
    *first = max(at * out / size - 1, 0L);
    *last = min(((at + 1) * out + size - 1) / size, out - 1);
    return;
  }
  const long stride = p->stride[d], padded = at + p->padding[d];
  const long over = padded - p->window[d] + 1;
  *first = over > 0 ? (over + stride - 1) / stride : 0;
  *last = min(padded / stride, out - 1);
}

static inline int holds(const Window* w, long at) {
  return at >= w->begin & at < w->end;
}

__kernel void avg_pool_backward(gptr dx, long dx_offset, gcptr dy,
                                long dy_offset, Pool p, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  long at[5], first[3], last[3];
  coordinates_of(&p, p.large_size, count, i, at);
  for (int d = 0; d < 3; ++d) outputs_of(&p, d, at[2 + d], first + d, last + d);
  const long base = at[0] * p.small[0] + at[1] * p.small[1];
  ACC(T) sum = 0;
  for (long d = first[0]; d <= last[0]; ++d) {
    const Window wd = window_of(&p, 0, d);
    if (!holds(&wd, at[2])) continue;
    for (long h = first[1]; h <= last[1]; ++h) {
      const Window wh = window_of(&p, 1, h);
      if (!holds(&wh, at[3])) continue;
      for (long w = first[2]; w <= last[2]; ++w) {
        const Window ww = window_of(&p, 2, w);
        if (!holds(&ww, at[4])) continue;
        const long divisor =
            divisor_of(&p, wd.counted * wh.counted * ww.counted);
        if (divisor == 0) continue;
        sum += LOAD(T, dy + dy_offset,
                    base + d * p.small[2] + h * p.small[3] + w * p.small[4]) /
               (ACC(T))divisor;
      }
    }
  }
  STORE(T, dx + dx_offset, offset_of(p.large, at), sum);
}

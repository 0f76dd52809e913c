// index_put, scatter, scatter_add, embedding_backward: values join what stands
// at their places, in order.
//
// With -DBYTES elements are only replaced; with -DT (and -DFLOATING) a mode
// says how two become one (PutMode; SUM starts from 0 and rounds at the end).

#define MODE_ADD 1
#define MODE_MULTIPLY 2
#define MODE_MAX 3
#define MODE_MIN 4
#define MODE_SUM 5
#define MODE_MEAN 6

#ifdef BYTES
typedef element value_type;
#define LOAD_VALUE(p, i) ((const __global element*)(p))[i]
#define STORE_VALUE(p, i, v) ((__global element*)(p))[i] = (v)
static inline value_type combine(int mode, value_type a, value_type b) {
  return b;
}
#else
typedef ACC(T) value_type;
#define LOAD_VALUE(p, i) LOAD(T, p, i)
#define STORE_VALUE(p, i, v) STORE(T, p, i, v)
// NaN wins. Integers wrap.
static inline value_type combine(int mode, value_type a, value_type b) {
  switch (mode) {
    case MODE_MULTIPLY:
#if FLOATING
      a = a * b;
#else
      a = (value_type)((ulong)a * (ulong)b);
#endif
      break;
    case MODE_MAX:
      return a != a ? a : b != b ? b : a >= b ? a : b;
    case MODE_MIN:
      return a != a ? a : b != b ? b : a <= b ? a : b;
    default:
#if FLOATING
      a = a + b;
#else
      a = (value_type)((ulong)a + (ulong)b);
#endif
      if (mode >= MODE_SUM) return a;
  }
  // As the element in memory would hold it.
  return TV_CAT(unpack_, T)(TV_CAT(pack_, T)(a));
}
#endif

static inline ulong sorted_key(gcptr keys, int wide, long i) {
  if (wide) return ((const __global ulong*)keys)[i];
  const uint key = ((const __global uint*)keys)[i];
  return key == 0xFFFFFFFFu ? ~0UL : key;
}

// Sorted places of n positions, and which positions these are; each place has
// a slice of elements. The item of a place's first position takes all.
__kernel void put_runs(gptr x, long x_offset, View x_kept, gcptr values,
                       long values_offset, View v_kept, View v_positions,
                       gcptr pairs, long order_offset, int wide_keys, long n,
                       long slice, int mode) {
  const long id = get_global_id(0);
  if (id >= n * slice) return;
  const long i = slice == 1 ? id : id / slice;
  const long s = id - i * slice;
  const ulong key = sorted_key(pairs, wide_keys, i);
  if (key == ~0UL) return;
  if (i > 0 && sorted_key(pairs, wide_keys, i - 1) == key) return;
  const __global uint* order = (const __global uint*)(pairs + order_offset);
  const long to = (long)key + view_at(&x_kept, s);
  const long from = view_at(&v_kept, s);
  long j = i;
#ifdef BYTES
  while (j + 1 < n && sorted_key(pairs, wide_keys, j + 1) == key) ++j;
  STORE_VALUE(x + x_offset, to,
              LOAD_VALUE(values + values_offset,
                         from + view_at(&v_positions, order[j])));
#else
  value_type sum = mode >= MODE_SUM ? 0 : LOAD_VALUE(x + x_offset, to);
  do {
    sum = combine(mode, sum,
                  LOAD_VALUE(values + values_offset,
                             from + view_at(&v_positions, order[j])));
    ++j;
  } while (j < n && sorted_key(pairs, wide_keys, j) == key);
  if (mode == MODE_MEAN) sum /= (value_type)(j - i);
  STORE_VALUE(x + x_offset, to, sum);
#endif
}

// One item a line: `count` indices along the line, one after the other.
__kernel void put_lines(gptr y, long y_offset, View y_lines, gcptr index,
                        long index_offset, View index_lines, gcptr values,
                        long values_offset, View v_lines, int wide_index,
                        long lines, long count, long size, long y_stride,
                        long index_stride, long v_stride, int mode,
                        __global int* faults, int launch) {
  const long line = get_global_id(0);
  if (line >= lines) return;
  const long to = view_at(&y_lines, line);
  const long which = view_at(&index_lines, line);
  const long from = view_at(&v_lines, line);
  for (long j = 0; j < count; ++j) {
    const long at =
        wide_index ? load_i64(index + index_offset, which + j * index_stride)
                   : load_i32(index + index_offset, which + j * index_stride);
    if (at < 0 || at >= size) {
      fault(faults, launch, at, line * count + j);
      continue;
    }
    const value_type added =
        LOAD_VALUE(values + values_offset, from + j * v_stride);
#ifdef BYTES
    STORE_VALUE(y + y_offset, to + at * y_stride, added);
#else
    STORE_VALUE(
        y + y_offset, to + at * y_stride,
        combine(mode, LOAD_VALUE(y + y_offset, to + at * y_stride), added));
#endif
  }
}

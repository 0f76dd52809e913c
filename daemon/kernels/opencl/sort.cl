// sort and order_statistic around sort_pairs.cl; search_sorted, histogram.
//
// -DT: the elements; -DWIDE: keys have 64 bits; -DFLOATING.

#if WIDE
typedef ulong key_type;
#define KEY_SIGN 0x8000000000000000UL
#else
typedef uint key_type;
#define KEY_SIGN 0x80000000U
#endif
#define NAN_KEY ((key_type) ~(key_type)0)

// Unsigned numbers in the order of the elements: NaN above all, all NaNs
// equal, and so are -0 and 0.
static inline key_type key_of(ACC(T) value) {
#if FLOATING
#if WIDE
  key_type bits = as_ulong(value);
#else
  key_type bits = as_uint(value);
#endif
  if (bits == KEY_SIGN) bits = 0;
  if (value != value) return NAN_KEY;
  return bits & KEY_SIGN ? ~bits : bits | KEY_SIGN;
#else
  return (key_type)value ^ KEY_SIGN;
#endif
}

// Keys of rows of n elements; turned round for descending order.
__kernel void sort_keys(__global key_type* keys, gcptr x, long x_offset,
                        Rows rows, int which, long n, long x_step,
                        int descending, long count) {
  const long id = get_global_id(0);
  if (id >= count) return;
  const long row = n == count ? 0 : id / n;
  long at[3];
  row_at(&rows, row, at);
  const key_type key =
      key_of(LOAD(T, x + x_offset, at[which] + (id - row * n) * x_step));
  keys[id] = descending ? (key_type)~key : key;
}

// The first `kept` of each row.
__kernel void sort_store(gptr values, long values_offset, gptr indices,
                         long indices_offset, gcptr x, long x_offset,
                         const __global char* pairs, long order_offset,
                         Rows rows, long n, long kept, long value_step,
                         long index_step, long x_step, long count) {
  const long id = get_global_id(0);
  if (id >= count) return;
  const long row = kept == count ? 0 : id / kept;
  const long i = id - row * kept;
  const long from = ((const __global uint*)(pairs + order_offset))[row * n + i];
  long at[3];
  row_at(&rows, row, at);
  ((__global MEM(T)*)(values + values_offset))[at[0] + i * value_step] =
      ((const __global MEM(T)*)(x + x_offset))[at[2] + from * x_step];
  store_i64(indices + indices_offset, at[1] + i * index_step, from);
}

// Rows are sorted by their last column, then by the one before, and so on:
// each sort is stable. `before` is the order that they have by then, null for
// their own.
__kernel void sort_row_keys(__global key_type* keys, gcptr x, long x_offset,
                            const __global uint* before, long row_step,
                            long column, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const long row = before ? before[i] : i;
  keys[i] = key_of(LOAD(T, x + x_offset, row * row_step + column));
}

__kernel void sort_row_order(__global uint* after, const __global uint* before,
                             const __global char* pairs, long order_offset,
                             long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const uint place = ((const __global uint*)(pairs + order_offset))[i];
  after[i] = before ? before[place] : place;
}

__kernel void sort_row_store(gptr order, long offset, long step,
                             const __global uint* rows, long count) {
  const long i = get_global_id(0);
  if (i < count) store_i64(order + offset, i * step, rows ? rows[i] : i);
}

// Numbers of OrderStatistic.
#define KTH 0
#define MEDIAN 1
#define NAN_MEDIAN 2

__kernel void order_statistic(gptr values, long values_offset, gptr indices,
                              long indices_offset, gcptr x, long x_offset,
                              const __global char* pairs, long order_offset,
                              Rows rows, long n, int what, long k, long x_step,
                              long count) {
  const long row = get_global_id(0);
  if (row >= count) return;
  const __global key_type* keys = (const __global key_type*)pairs + row * n;
  const __global uint* order =
      (const __global uint*)(pairs + order_offset) + row * n;
  // Where NaNs begin.
  long low = 0;
#if FLOATING
  long high = n;
  while (low < high) {
    const long middle = (low + high) >> 1;
    if (keys[middle] != NAN_KEY) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
#else
  low = n;
#endif
  long place = k;
  if (what == MEDIAN) {
    place = low < n ? low : (n - 1) / 2;
  } else if (what == NAN_MEDIAN) {
    place = max(low - 1, 0L) / 2;
  } else if (what != KTH) {
    // The last of the longest run of equal ones; no two NaNs are equal.
    long longest = 0;
    place = 0;
    for (long i = 0; i < n;) {
      long end = i + 1;
      while (i < low && end < low && keys[end] == keys[i]) ++end;
      if (end - i > longest) {
        longest = end - i;
        place = end - 1;
      }
      i = end;
    }
  }
  const long from = order[place];
  long at[3];
  row_at(&rows, row, at);
  ((__global MEM(T)*)(values + values_offset))[at[0]] =
      ((const __global MEM(T)*)(x + x_offset))[at[2] + from * x_step];
  store_i64(indices + indices_offset, at[1], from);
}

// side: 0 before equal elements, 1 behind them, with PyTorch's comparisons; 2
// before them, NaNs being at the end.
__kernel void search_sorted(gptr y, long y_offset, View y_view, int wide_y,
                            gcptr sequence, long sequence_offset,
                            View sequence_view, long step, gcptr values,
                            long values_offset, View values_view, gcptr sorter,
                            long sorter_offset, View sorter_view,
                            long sorter_step, long size, int side, long count,
                            __global int* faults, int launch) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const ACC(T) value =
      LOAD(T, values + values_offset, view_at(&values_view, i));
  const long from = view_at(&sequence_view, i);
  const long order = view_at(&sorter_view, i);
  long begin = 0, end = size;
  while (begin < end) {
    const long middle = begin + (end - begin) / 2;
    long at = middle;
    ACC(T) element = 0;
    if (sorter) at = load_i64(sorter + sorter_offset, order + at * sorter_step);
    if (at < 0 || at >= size) {
      fault(faults, launch, at, middle);
    } else {
      element = LOAD(T, sequence + sequence_offset, from + at * step);
    }
    const int behind = side == 0   ? !(element >= value)
                       : side == 1 ? !(element > value)
                                   : element < value;
    if (behind) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  const long to = view_at(&y_view, i);
  if (wide_y) {
    store_i64(y + y_offset, to, begin);
  } else {
    store_i32(y + y_offset, to, (int)begin);
  }
}

#if FLOATING
typedef ACC(T) bound_t;
#else
typedef float bound_t;
#endif

// Counts in `held` parts of local memory that have all bins, then in global
// memory; directly there for too many bins (held = 0).
__kernel void histogram(volatile __global uint* counts, gcptr x, long x_offset,
                        View view, long n, long bins, int equal_bins,
                        bound_t low, bound_t high, int held,
                        volatile __local uint* mine, __global int* faults,
                        int launch) {
  const long width = get_global_size(0);
  const int lane = get_local_id(0), group = get_local_size(0);
  for (int b = lane; held && b < bins; b += group) mine[b] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (long i = get_global_id(0); i < n; i += width) {
    const ACC(T) value = LOAD(T, x + x_offset, view_at(&view, i));
    long bin = -1;
#if FLOATING
    if (value >= low && value <= high) {
      bin = (long)((value - low) * (bound_t)bins / (high - low));
      bin = clamp(bin, 0L, bins - 1);
    }
#else
    bin = (long)value;
    if (bin < 0 || bin >= bins) {
      fault(faults, launch, bin, i);
      bin = -1;
    }
#endif
    if (bin < 0) continue;
    if (held) {
      atomic_inc(mine + bin);
    } else {
      atomic_inc(counts + bin);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int b = lane; held && b < bins; b += group) {
    if (mine[b] != 0) atomic_add(counts + b, mine[b]);
  }
}

#ifdef OT
__kernel void histogram_store(gptr y, long y_offset, long y_step,
                              const __global uint* counts, long bins) {
  const long b = get_global_id(0);
  if (b < bins) STORE(OT, y + y_offset, b * y_step, (ACC(OT))counts[b]);
}
#endif

// Elements that are chosen, in their order: nonzero, masked_select and
// masked_scatter. Groups count the chosen ones of their parts; one group adds
// up what comes before each part; then they are moved.
//
// -DBYTES of the elements that choose, -DMOVED of those that move.

#define PER_ITEM 4
#define PASSES 4

#if MOVED == 1
typedef uchar moved_t;
#elif MOVED == 2
typedef ushort moved_t;
#elif MOVED == 4
typedef uint moved_t;
#elif MOVED == 8
typedef ulong moved_t;
#elif MOVED == 16
typedef ulong2 moved_t;
#endif

// bits: those that make an element not 0, all but a float's sign.
static inline uint chosen(gcptr x, const View* view, long i, ulong bits) {
  return (((const __global element*)x)[view_at(view, i)] & (element)bits) != 0;
}

// Afterwards lanes[] of each item holds the sum of the items' values up to it.
#define SCAN_LANES(lanes, type, value)                           \
  lanes[lane] = value;                                           \
  for (int reach = 1; reach < width; reach *= 2) {               \
    barrier(CLK_LOCAL_MEM_FENCE);                                \
    const type before = lane >= reach ? lanes[lane - reach] : 0; \
    barrier(CLK_LOCAL_MEM_FENCE);                                \
    lanes[lane] += before;                                       \
  }                                                              \
  barrier(CLK_LOCAL_MEM_FENCE)

__kernel void compact_count(__global ulong* counts, gcptr x, long x_offset,
                            View view, long n, ulong bits,
                            __local uint* lanes) {
  const int lane = get_local_id(0), width = get_local_size(0);
  const long begin = (long)get_group_id(0) * width * (PER_ITEM * PASSES);
  uint count = 0;
  for (int k = 0; k < PER_ITEM * PASSES; ++k) {
    const long i = begin + (long)k * width + lane;
    if (i < n) count += chosen(x + x_offset, &view, i, bits);
  }
  lanes[lane] = count;
  for (int reach = width / 2; reach > 0; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < reach) lanes[lane] += lanes[lane + reach];
  }
  if (lane == 0) counts[get_group_id(0)] = lanes[0];
}

// counts[i] = how many come before part i; counts[parts] = how many there are.
__kernel void compact_sum(__global ulong* counts, long parts,
                          __local ulong* lanes) {
  const int lane = get_local_id(0), width = get_local_size(0);
  const long share = (parts + width - 1) / width;
  const long begin = min(parts, lane * share), end = min(parts, begin + share);
  ulong sum = 0;
  for (long i = begin; i < end; ++i) sum += counts[i];
  SCAN_LANES(lanes, ulong, sum);
  ulong before = lane > 0 ? lanes[lane - 1] : 0;
  for (long i = begin; i < end; ++i) {
    const ulong count = counts[i];
    counts[i] = before;
    before += count;
  }
  if (lane == width - 1) counts[parts] = before;
}

// Calls MOVE for each chosen element i, whose number among them is `number`.
#define FOR_CHOSEN(MOVE)                                                    \
  const int lane = get_local_id(0), width = get_local_size(0);              \
  const long begin = (long)get_group_id(0) * width * (PER_ITEM * PASSES);   \
  ulong before = counts[get_group_id(0)];                                   \
  for (int pass = 0; pass < PASSES; ++pass) {                               \
    const long first = begin + ((long)pass * width + lane) * PER_ITEM;      \
    uint flags[PER_ITEM], count = 0;                                        \
    for (int k = 0; k < PER_ITEM; ++k) {                                    \
      flags[k] =                                                            \
          first + k < n ? chosen(x + x_offset, &view, first + k, bits) : 0; \
      count += flags[k];                                                    \
    }                                                                       \
    SCAN_LANES(lanes, uint, count);                                         \
    ulong number = before + lanes[lane] - count;                            \
    before += lanes[width - 1];                                             \
    for (int k = 0; k < PER_ITEM; ++k) {                                    \
      const long i = first + k;                                             \
      if (flags[k]) {                                                       \
        MOVE;                                                               \
        ++number;                                                           \
      }                                                                     \
    }                                                                       \
    barrier(CLK_LOCAL_MEM_FENCE);                                           \
  }

// The view has all dimensions of x.
__kernel void nonzero(gptr y, long y_offset, long y_row, long y_step, long rows,
                      const __global ulong* counts, gcptr x, long x_offset,
                      View view, int rank, long n, ulong bits,
                      __local uint* lanes) {
  __global long* to = (__global long*)(y + y_offset);
  FOR_CHOSEN({
    if (number < (ulong)rows) {
      long rest = i;
      for (int d = rank - 1; d >= 0; --d) {
        const long next = rest / view.sizes[d];
        to[(long)number * y_row + d * y_step] = rest - next * view.sizes[d];
        rest = next;
      }
    }
  })
}

// What rows without an element hold.
__kernel void nonzero_rest(gptr y, long y_offset, long y_row, long y_step,
                           long rows, int rank, const __global ulong* total,
                           long parts, long fill) {
  const long row = get_global_id(0);
  if (row >= rows || (ulong)row < total[parts]) return;
  __global long* to = (__global long*)(y + y_offset) + row * y_row;
  for (int d = 0; d < rank; ++d) to[d * y_step] = fill;
}

#ifdef MOVED
__kernel void masked_select(gptr y, long y_offset, long y_step, long size,
                            const __global ulong* counts, long parts, gcptr x,
                            long x_offset, View view, gcptr values,
                            long values_offset, View values_view, long n,
                            ulong bits, __local uint* lanes,
                            __global int* faults, int launch) {
  if (counts[parts] != (ulong)size) {
    if (get_global_id(0) == 0) fault(faults, launch, (long)counts[parts], 0);
    return;
  }
  __global moved_t* to = (__global moved_t*)(y + y_offset);
  const __global moved_t* from =
      (const __global moved_t*)(values + values_offset);
  FOR_CHOSEN(to[(long)number * y_step] = from[view_at(&values_view, i)])
}

__kernel void masked_scatter(gptr y, long y_offset, View y_view,
                             const __global ulong* counts, long parts, gcptr x,
                             long x_offset, View view, gcptr source,
                             long source_offset, long source_step, long size,
                             long n, ulong bits, __local uint* lanes,
                             __global int* faults, int launch) {
  if (counts[parts] > (ulong)size && get_global_id(0) == 0) {
    fault(faults, launch, (long)counts[parts], 0);
  }
  __global moved_t* to = (__global moved_t*)(y + y_offset);
  const __global moved_t* from =
      (const __global moved_t*)(source + source_offset);
  FOR_CHOSEN(if (number < (ulong)size) {
    to[view_at(&y_view, i)] = from[(long)number * source_step];
  })
}
#endif

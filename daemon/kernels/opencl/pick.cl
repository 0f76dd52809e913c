// index_select, index and gather: elements of BYTES bytes picked by index.

#define PER_ITEM 4

static inline long pick_index(gcptr index, int wide, long at) {
  return wide ? load_i64(index, at) : load_i32(index, at);
}

// y[s, i] = x[s, index[i]]: s counts the `slice` elements of the dimensions
// that stay, i the `count` positions. Items lie along i if positions_inner,
// else along s. Where size is
// -1, the index is an offset, -1 for none.
__kernel void pick(gptr y, long y_offset, View y_kept, View y_positions,
                   gcptr x, long x_offset, View x_kept, gcptr index,
                   long index_offset, int wide, long index_stride, long slice,
                   long count, long size, long x_stride, int wrap,
                   int positions_inner, __global int* faults, int launch) {
  const long first =
      (long)get_group_id(0) * (get_local_size(0) * PER_ITEM) + get_local_id(0);
  __global element* to = (__global element*)(y + y_offset);
  const __global element* from = (const __global element*)(x + x_offset);
  const long n = slice * count;
  const long inner = positions_inner ? count : slice;
  for (int k = 0; k < PER_ITEM; ++k) {
    const long id = first + k * (long)get_local_size(0);
    if (id >= n) return;
    const long outer =
        n <= 0x7FFFFFFFL ? (long)((uint)id / (uint)inner) : id / inner;
    const long rest = id - outer * inner;
    const long i = positions_inner ? rest : outer;
    const long s = positions_inner ? outer : rest;
    const long value = pick_index(index + index_offset, wide, i * index_stride);
    const long at = wrap && value < 0 ? value + size : value;
    if (size < 0 ? at < 0 : (at < 0 || at >= size)) {
      if (size >= 0) fault(faults, launch, value, i);
      continue;
    }
    to[view_at(&y_kept, s) + view_at(&y_positions, i)] =
        from[view_at(&x_kept, s) + at * x_stride];
  }
}

// y[e] = x[e, with index[e] along one dimension]; x's view has a stride of 0
// there.
__kernel void gather(gptr y, long y_offset, View yv, gcptr x, long x_offset,
                     View xv, gcptr index, long index_offset, View index_view,
                     int wide, long n, long size, long x_stride,
                     __global int* faults, int launch) {
  const long first =
      (long)get_group_id(0) * (get_local_size(0) * PER_ITEM) + get_local_id(0);
  __global element* to = (__global element*)(y + y_offset);
  const __global element* from = (const __global element*)(x + x_offset);
  for (int k = 0; k < PER_ITEM; ++k) {
    const long i = first + k * (long)get_local_size(0);
    if (i >= n) return;
    const long at =
        pick_index(index + index_offset, wide, view_at(&index_view, i));
    if (at < 0 || at >= size) {
      fault(faults, launch, at, i);
      continue;
    }
    to[view_at(&yv, i)] = from[view_at(&xv, i) + at * x_stride];
  }
}

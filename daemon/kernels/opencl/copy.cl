// copy, fill, arange and zeroing.

#ifdef BYTES
#define PER_ITEM 4

__kernel void copy_dense(gptr y, long y_offset, gcptr x, long x_offset,
                         long n) {
  const long first =
      (long)get_group_id(0) * (get_local_size(0) * PER_ITEM) + get_local_id(0);
  __global element* to = (__global element*)(y + y_offset);
  const __global element* from = (const __global element*)(x + x_offset);
  for (int k = 0; k < PER_ITEM; ++k) {
    const long i = first + k * (long)get_local_size(0);
    if (i < n) to[i] = from[i];
  }
}

__kernel void copy_strided(gptr y, long y_offset, View yv, gcptr x,
                           long x_offset, View xv, long n) {
  const long first =
      (long)get_group_id(0) * (get_local_size(0) * PER_ITEM) + get_local_id(0);
  __global element* to = (__global element*)(y + y_offset);
  const __global element* from = (const __global element*)(x + x_offset);
  for (int k = 0; k < PER_ITEM; ++k) {
    const long i = first + k * (long)get_local_size(0);
    if (i < n) to[view_at(&yv, i)] = from[view_at(&xv, i)];
  }
}

// y[r][c] = x[r][c] where x walks along r in memory: by tiles of 32 x 32, read
// along r and written along c. One group of 32 x ROWS items a tile.
#define TILE 32
__kernel void copy_transposed(gptr y, long y_offset, gcptr x, long x_offset,
                              long rows, long columns, long y_row,
                              long x_column, long y_batch, long x_batch) {
  __local element tile[TILE][TILE + 1];
  const long r0 = (long)get_group_id(1) * TILE,
             c0 = (long)get_group_id(0) * TILE;
  __global element* to =
      (__global element*)(y + y_offset) + get_group_id(2) * y_batch;
  const __global element* from =
      (const __global element*)(x + x_offset) + get_group_id(2) * x_batch;
  const int lx = get_local_id(0);
  for (int k = get_local_id(1); k < TILE; k += get_local_size(1)) {
    if (r0 + lx < rows && c0 + k < columns) {
      tile[k][lx] = from[(c0 + k) * x_column + r0 + lx];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int k = get_local_id(1); k < TILE; k += get_local_size(1)) {
    if (r0 + k < rows && c0 + lx < columns) {
      to[(r0 + k) * y_row + c0 + lx] = tile[lx][k];
    }
  }
}

static inline void put_bits(__global element* to, long i, long low, long high) {
#if BYTES == 16
  ((__global long*)to)[2 * i] = low;
  ((__global long*)to)[2 * i + 1] = high;
#else
  to[i] = (element)low;
#endif
}
__kernel void fill_dense(gptr y, long y_offset, long n, long low, long high) {
  const long first =
      (long)get_group_id(0) * (get_local_size(0) * PER_ITEM) + get_local_id(0);
  __global element* to = (__global element*)(y + y_offset);
  for (int k = 0; k < PER_ITEM; ++k) {
    const long i = first + k * (long)get_local_size(0);
    if (i < n) put_bits(to, i, low, high);
  }
}

__kernel void fill_strided(gptr y, long y_offset, View yv, long n, long low,
                           long high) {
  const long i = get_global_id(0);
  __global element* to = (__global element*)(y + y_offset);
  if (i < n) put_bits(to, view_at(&yv, i), low, high);
}
#endif  // BYTES

#ifdef FROM
// Complex to complex, real or bool, and real to complex. x times (re, im) by
// its parts: re is -1 to negate, im the sign of the imaginary part.
__kernel void convert_complex(gptr y, long y_offset, View yv, gcptr x,
                              long x_offset, View xv, long n, int re, int im) {
  const long i = get_global_id(0);
  if (i >= n) return;
  const ACC(FROM) v = LOAD(FROM, x + x_offset, view_at(&xv, i));
  const long at = view_at(&yv, i);
#if FROM_COMPLEX && TO_COMPLEX
  ACC(TO) w;
  w.x = re * v.x;
  w.y = im * v.y;
  STORE(TO, y + y_offset, at, w);
#elif FROM_COMPLEX && TO_BOOL
  STORE(TO, y + y_offset, at, (v.x != 0) | (v.y != 0));
#elif FROM_COMPLEX
  STORE(TO, y + y_offset, at, (ACC(TO))(re * v.x));
#else
  ACC(TO) w;
  w.x = re * v;
  w.y = 0;
  STORE(TO, y + y_offset, at, w);
#endif
}
#endif  // FROM

#ifdef ARANGE
__kernel void arange_float(gptr y, long y_offset, long stride, long n,
                           double start, double step) {
  const long i = get_global_id(0);
  if (i < n) {
    STORE(ARANGE, y + y_offset, i * stride, (ACC(ARANGE))(start + i * step));
  }
}
__kernel void arange_int(gptr y, long y_offset, long stride, long n, long start,
                         long step) {
  const long i = get_global_id(0);
  if (i < n) {
    STORE(ARANGE, y + y_offset, i * stride, (ACC(ARANGE))(start + i * step));
  }
}
#endif

// triangle: keeps the lower or the upper triangle of matrices of BYTES-sized
// elements.

#if BYTES == 1
typedef uchar element;
#elif BYTES == 2
typedef ushort element;
#elif BYTES == 4
typedef uint element;
#elif BYTES == 8
typedef ulong element;
#else
typedef ulong2 element;
#endif

// An item takes `loops` elements of a row, a group of items apart.
__kernel void triangle(gptr y, long y_offset, gcptr x, long x_offset, Rows rows,
                       long height, long n, long y_step, long x_step,
                       long chunks, int loops, long diagonal, int upper) {
  const long row = get_group_id(0) / chunks;
  long at[3];
  row_at(&rows, row, at);
  __global element* to = (__global element*)(y + y_offset) + at[0];
  const __global element* from =
      (const __global element*)(x + x_offset) + at[1];
  // Keeps columns below (lower) or from (upper) the border on.
  const long border = row % height + diagonal + (upper ? 0 : 1);
  const long first =
      (get_group_id(0) % chunks) * loops * (long)get_local_size(0) +
      get_local_id(0);
  for (int k = 0; k < loops; ++k) {
    const long i = first + k * (long)get_local_size(0);
    if (i >= n) return;
    const int kept = upper ? i >= border : i < border;
    to[i * y_step] = kept ? from[i * x_step] : (element)(0);
  }
}

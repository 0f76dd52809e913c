// softmax, log_softmax and their gradients, row by row.
//
// -DT, -DOT (and -DYT, of y, for gradients): types in memory. With -DKEEP=n an
// item keeps up to n elements of its row (see prelude.cl), so that memory is
// read once. The kernels that end in _long take rows of any length and read
// them twice.

typedef ACC(T) real;

#ifdef KEEP
#ifndef YT
__kernel void softmax_rows(gptr y, long y_offset, gcptr x, long x_offset,
                           Rows rows, long num_rows, long n, long y_step,
                           long x_step, int height, int by_columns, int log_of,
                           __local real* lanes) {
  TV_LINES(height, by_columns);
  const long row = (long)get_group_id(0) * width + column;
  const int live = row < num_rows;
  long at[3];
  row_at(&rows, row, at);
  y += y_offset;
  x += x_offset;
  real v[KEEP];
#pragma unroll
  FOR_KEPT{LOAD_KEPT(T, v, x, at[1], x_step, -(real)INFINITY)} real largest =
      -(real)INFINITY;
#pragma unroll
  for (int j = 0; j < KEEP; ++j) largest = fmax(largest, v[j]);
  TV_JOIN_LINE(lanes, largest, height, fmax);
  real sum = 0;
  if (log_of) {
#pragma unroll
    for (int j = 0; j < KEEP; ++j) {
      v[j] -= largest;
      sum += exp(v[j]);
    }
  } else {
#pragma unroll
    for (int j = 0; j < KEEP; ++j) {
      v[j] = exp(v[j] - largest);
      sum += v[j];
    }
  }
  TV_JOIN_LINE(lanes, sum, height, TV_ADD);
  if (log_of) {
    sum = log(sum);
#pragma unroll
    for (int j = 0; j < KEEP; ++j) v[j] -= sum;
  } else {
    sum = 1 / sum;
#pragma unroll
    for (int j = 0; j < KEEP; ++j) v[j] *= sum;
  }
#pragma unroll
  FOR_KEPT { STORE_KEPT(OT, v, y, at[0], y_step) }
}
#else
__kernel void softmax_backward_rows(gptr dx, long dx_offset, gcptr dy,
                                    long dy_offset, gcptr y, long y_offset,
                                    Rows rows, long num_rows, long n,
                                    long dx_step, long dy_step, long y_step,
                                    int height, int by_columns, int log_of,
                                    __local real* lanes) {
  TV_LINES(height, by_columns);
  const long row = (long)get_group_id(0) * width + column;
  const int live = row < num_rows;
  long at[3];
  row_at(&rows, row, at);
  dx += dx_offset;
  dy += dy_offset;
  y += y_offset;
  real g[KEEP], p[KEEP];
#pragma unroll
  FOR_KEPT{LOAD_KEPT(T, g, dy, at[1], dy_step, 0)}
#pragma unroll
  FOR_KEPT{LOAD_KEPT(YT, p, y, at[2], y_step, 0)} real sum = 0;
#pragma unroll
  for (int j = 0; j < KEEP; ++j) sum += log_of ? g[j] : g[j] * p[j];
  TV_JOIN_LINE(lanes, sum, height, TV_ADD);
  if (log_of) {
#pragma unroll
    for (int j = 0; j < KEEP; ++j) g[j] -= exp(p[j]) * sum;
  } else {
#pragma unroll
    for (int j = 0; j < KEEP; ++j) g[j] = p[j] * (g[j] - sum);
  }
#pragma unroll
  FOR_KEPT { STORE_KEPT(OT, g, dx, at[0], dx_step) }
}
#endif
#endif  // KEEP

#if !defined(KEEP) && !defined(YT)
__kernel void softmax_long(gptr y, long y_offset, gcptr x, long x_offset,
                           Rows rows, long num_rows, long n, long y_step,
                           long x_step, int height, int by_columns, int log_of,
                           __local real* lanes) {
  TV_LINES(height, by_columns);
  const long row = (long)get_group_id(0) * width + column;
  const int live = row < num_rows;
  long at[3];
  row_at(&rows, row, at);
  y += y_offset;
  x += x_offset;
  // The sum counts exponentials relative to this item's largest so far.
  real mine = -(real)INFINITY, sum = 0;
  if (live) {
    long i = line;
    for (; i < n; i += 4L * height) {
      real v[4];
      real largest = mine;
      for (int j = 0; j < 4; ++j) {
        const long k = i + j * height;
        v[j] = k < n ? LOAD(T, x, at[1] + k * x_step) : -(real)INFINITY;
        largest = fmax(largest, v[j]);
      }
      const real base = isinf(largest) ? 0 : largest;
      real more = 0;
      for (int j = 0; j < 4; ++j) more += exp(v[j] - base);
      sum = sum * exp(mine - base) + more;
      mine = largest;
    }
  }
  real largest = mine;
  TV_JOIN_LINE(lanes, largest, height, fmax);
  sum = sum == 0 ? 0 : sum * exp(mine - largest);
  TV_JOIN_LINE(lanes, sum, height, TV_ADD);
  if (isinf(largest)) sum = NAN;  // inf - inf
  if (!live) return;
  const real finish = log_of ? log(sum) : 1 / sum;
  for (long i = line; i < n; i += height) {
    const real v = LOAD(T, x, at[1] + i * x_step) - largest;
    STORE(OT, y, at[0] + i * y_step, log_of ? v - finish : exp(v) * finish);
  }
}
#endif

#if !defined(KEEP) && defined(YT)
__kernel void softmax_backward_long(gptr dx, long dx_offset, gcptr dy,
                                    long dy_offset, gcptr y, long y_offset,
                                    Rows rows, long num_rows, long n,
                                    long dx_step, long dy_step, long y_step,
                                    int height, int by_columns, int log_of,
                                    __local real* lanes) {
  TV_LINES(height, by_columns);
  const long row = (long)get_group_id(0) * width + column;
  const int live = row < num_rows;
  long at[3];
  row_at(&rows, row, at);
  dx += dx_offset;
  dy += dy_offset;
  y += y_offset;
  real sum = 0;
  if (live) {
    for (long i = line; i < n; i += height) {
      const real g = LOAD(T, dy, at[1] + i * dy_step);
      sum += log_of ? g : g * LOAD(YT, y, at[2] + i * y_step);
    }
  }
  TV_JOIN_LINE(lanes, sum, height, TV_ADD);
  if (!live) return;
  for (long i = line; i < n; i += height) {
    const real g = LOAD(T, dy, at[1] + i * dy_step);
    const real p = LOAD(YT, y, at[2] + i * y_step);
    STORE(OT, dx, at[0] + i * dx_step,
          log_of ? g - exp(p) * sum : p * (g - sum));
  }
}
#endif

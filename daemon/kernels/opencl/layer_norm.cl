// layer_norm over the rows of a matrix, and its gradients.
//
// -DT: x (and dy); -DOT: y or dx; -DST: mean and rstd; -DWT: weight and bias,
// or their gradients. With -DKEEP=n an item keeps up to n elements of its row
// (see prelude.cl), so that memory is read once.

typedef ACC(T) real;

#ifdef KEEP
__kernel void layer_norm_rows(gptr y, long y_offset, gptr mean,
                              long mean_offset, gptr rstd, long rstd_offset,
                              gcptr x, long x_offset, gcptr weight,
                              long weight_offset, gcptr bias, long bias_offset,
                              long rows, long n, long y_row, long y_step,
                              long mean_step, long rstd_step, long x_row,
                              long x_step, long weight_step, long bias_step,
                              int has_weight, int has_bias, int height,
                              int by_columns, __local real* lanes, real eps) {
  TV_LINES(height, by_columns);
  const long row = (long)get_group_id(0) * width + column;
  const int live = row < rows;
  x += x_offset;
  y += y_offset;
  real v[KEEP];
#pragma unroll
  FOR_KEPT{LOAD_KEPT(T, v, x, row * x_row, x_step, 0)} real sum = 0;
#pragma unroll
  for (int j = 0; j < KEEP; ++j) sum += v[j];
  TV_JOIN_LINE(lanes, sum, height, TV_ADD);
  const real m = sum / (real)n;
  // Two passes: no cancellation between large squares.
  real squares = 0;
#pragma unroll
  for (int j = 0; j < KEEP; ++j) {
    const real d = v[j] - m;
    squares += INDEX(j) < n ? d * d : 0;
  }
  TV_JOIN_LINE(lanes, squares, height, TV_ADD);
  const real r = 1 / sqrt(squares / (real)n + eps);
  if (!live) return;
  if (line == 0) {
    STORE(ST, mean + mean_offset, row * mean_step, m);
    STORE(ST, rstd + rstd_offset, row * rstd_step, r);
  }
  weight += weight_offset;
  bias += bias_offset;
  real w[KEEP];
#pragma unroll
  for (int j = 0; j < KEEP; ++j) v[j] = (v[j] - m) * r;
  if (has_weight) {
#pragma unroll
    FOR_KEPT { LOAD_KEPT(WT, w, weight, 0L, weight_step, 0) }
#pragma unroll
    for (int j = 0; j < KEEP; ++j) v[j] *= w[j];
  }
  if (has_bias) {
#pragma unroll
    FOR_KEPT { LOAD_KEPT(BT, w, bias, 0L, bias_step, 0) }
#pragma unroll
    for (int j = 0; j < KEEP; ++j) v[j] += w[j];
  }
#pragma unroll
  FOR_KEPT { STORE_KEPT(OT, v, y, row * y_row, y_step) }
}

__kernel void layer_norm_backward_rows(
    gptr dx, long dx_offset, gcptr dy, long dy_offset, gcptr x, long x_offset,
    gcptr mean, long mean_offset, gcptr rstd, long rstd_offset, gcptr weight,
    long weight_offset, long rows, long n, long dx_row, long dx_step,
    long dy_row, long dy_step, long x_row, long x_step, long mean_step,
    long rstd_step, long weight_step, int has_weight, int height,
    int by_columns, __local real* lanes) {
  TV_LINES(height, by_columns);
  const long row = (long)get_group_id(0) * width + column;
  const int live = row < rows;
  x += x_offset;
  dy += dy_offset;
  const real m = live ? LOAD(ST, mean + mean_offset, row * mean_step) : 0;
  const real r = live ? LOAD(ST, rstd + rstd_offset, row * rstd_step) : 0;
  weight += weight_offset;
  real g[KEEP], h[KEEP];
#pragma unroll
  FOR_KEPT {
    LOAD_KEPT(T, g, dy, row * dy_row, dy_step, 0)
    LOAD_KEPT(T, h, x, row * x_row, x_step, 0)
  }
  if (has_weight) {
    real w[KEEP];
#pragma unroll
    FOR_KEPT { LOAD_KEPT(WT, w, weight, 0L, weight_step, 0) }
#pragma unroll
    for (int j = 0; j < KEEP; ++j) g[j] *= w[j];
  }
  // What is beyond the row has g 0, so that its h counts nowhere.
  real sum_g = 0, sum_gh = 0;
#pragma unroll
  for (int j = 0; j < KEEP; ++j) {
    h[j] = (h[j] - m) * r;
    sum_g += g[j];
    sum_gh += INDEX(j) < n ? g[j] * h[j] : 0;
  }
  TV_JOIN_LINE(lanes, sum_g, height, TV_ADD);
  TV_JOIN_LINE(lanes, sum_gh, height, TV_ADD);
  sum_g /= (real)n;
  sum_gh /= (real)n;
  dx += dx_offset;
#pragma unroll
  for (int j = 0; j < KEEP; ++j) g[j] = r * (g[j] - sum_g - h[j] * sum_gh);
#pragma unroll
  FOR_KEPT { STORE_KEPT(OT, g, dx, row * dx_row, dx_step) }
}
#else
__kernel void layer_norm_long(gptr y, long y_offset, gptr mean,
                              long mean_offset, gptr rstd, long rstd_offset,
                              gcptr x, long x_offset, gcptr weight,
                              long weight_offset, gcptr bias, long bias_offset,
                              long rows, long n, long y_row, long y_step,
                              long mean_step, long rstd_step, long x_row,
                              long x_step, long weight_step, long bias_step,
                              int has_weight, int has_bias, int height,
                              int by_columns, __local real* lanes, real eps) {
  TV_LINES(height, by_columns);
  const long row = (long)get_group_id(0) * width + column;
  const int live = row < rows;
  x += x_offset;
  y += y_offset;
  const long end = live ? n : 0;
  real sum = 0;
  for (long i = line; i < end; i += height) {
    sum += LOAD(T, x, row * x_row + i * x_step);
  }
  TV_JOIN_LINE(lanes, sum, height, TV_ADD);
  const real m = sum / (real)n;
  real squares = 0;
  for (long i = line; i < end; i += height) {
    const real d = LOAD(T, x, row * x_row + i * x_step) - m;
    squares += d * d;
  }
  TV_JOIN_LINE(lanes, squares, height, TV_ADD);
  const real r = 1 / sqrt(squares / (real)n + eps);
  if (live && line == 0) {
    STORE(ST, mean + mean_offset, row * mean_step, m);
    STORE(ST, rstd + rstd_offset, row * rstd_step, r);
  }
  for (long i = line; i < end; i += height) {
    real h = (LOAD(T, x, row * x_row + i * x_step) - m) * r;
    if (has_weight) h *= LOAD(WT, weight + weight_offset, i * weight_step);
    if (has_bias) h += LOAD(BT, bias + bias_offset, i * bias_step);
    STORE(OT, y, row * y_row + i * y_step, h);
  }
}

__kernel void layer_norm_backward_long(
    gptr dx, long dx_offset, gcptr dy, long dy_offset, gcptr x, long x_offset,
    gcptr mean, long mean_offset, gcptr rstd, long rstd_offset, gcptr weight,
    long weight_offset, long rows, long n, long dx_row, long dx_step,
    long dy_row, long dy_step, long x_row, long x_step, long mean_step,
    long rstd_step, long weight_step, int has_weight, int height,
    int by_columns, __local real* lanes) {
  TV_LINES(height, by_columns);
  const long row = (long)get_group_id(0) * width + column;
  const int live = row < rows;
  x += x_offset;
  dy += dy_offset;
  weight += weight_offset;
  const real m = live ? LOAD(ST, mean + mean_offset, row * mean_step) : 0;
  const real r = live ? LOAD(ST, rstd + rstd_offset, row * rstd_step) : 0;
  const long end = live ? n : 0;
  real sum_g = 0, sum_gh = 0;
  for (long i = line; i < end; i += height) {
    real g = LOAD(T, dy, row * dy_row + i * dy_step);
    if (has_weight) g *= LOAD(WT, weight, i * weight_step);
    sum_g += g;
    sum_gh += g * ((LOAD(T, x, row * x_row + i * x_step) - m) * r);
  }
  TV_JOIN_LINE(lanes, sum_g, height, TV_ADD);
  TV_JOIN_LINE(lanes, sum_gh, height, TV_ADD);
  sum_g /= (real)n;
  sum_gh /= (real)n;
  for (long i = line; i < end; i += height) {
    real g = LOAD(T, dy, row * dy_row + i * dy_step);
    if (has_weight) g *= LOAD(WT, weight, i * weight_step);
    const real h = (LOAD(T, x, row * x_row + i * x_step) - m) * r;
    STORE(OT, dx + dx_offset, row * dx_row + i * dx_step,
          r * (g - sum_g - h * sum_gh));
  }
}

// Sums over rows [piece * k, piece * (k + 1)) of each column: of dy * h to
// sums[2k * n + i], of dy to sums[(2k + 1) * n + i].
__kernel void layer_norm_backward_columns(
    __global real* sums, gcptr dy, long dy_offset, gcptr x, long x_offset,
    gcptr mean, long mean_offset, gcptr rstd, long rstd_offset, long rows,
    long n, long dy_row, long dy_step, long x_row, long x_step, long mean_step,
    long rstd_step, long piece, long pieces, int height, __local real* lanes) {
  TV_LINES(height, 1);
  const long part = get_group_id(0) % pieces;
  const long i = get_group_id(0) / pieces * width + column;
  const long end = i < n ? min(rows, (part + 1) * piece) : 0;
  real weights = 0, biases = 0;
  for (long row = part * piece + line; row < end; row += height) {
    const real g = LOAD(T, dy + dy_offset, row * dy_row + i * dy_step);
    const real m = LOAD(ST, mean + mean_offset, row * mean_step);
    const real r = LOAD(ST, rstd + rstd_offset, row * rstd_step);
    const real v = LOAD(T, x + x_offset, row * x_row + i * x_step);
    weights += g * ((v - m) * r);
    biases += g;
  }
  TV_JOIN_LINE(lanes, weights, height, TV_ADD);
  TV_JOIN_LINE(lanes, biases, height, TV_ADD);
  if (line == 0 && i < n) {
    sums[2 * part * n + i] = weights;
    sums[(2 * part + 1) * n + i] = biases;
  }
}

__kernel void layer_norm_backward_join(__global const real* sums, gptr dweight,
                                       long dweight_offset, gptr dbias,
                                       long dbias_offset, long n, long pieces,
                                       long dweight_step, long dbias_step,
                                       int has_weight, int has_bias) {
  const long i = get_global_id(0);
  if (i >= n) return;
  real weights = 0, biases = 0;
  for (long k = 0; k < pieces; ++k) {
    weights += sums[2 * k * n + i];
    biases += sums[(2 * k + 1) * n + i];
  }
  if (has_weight)
    STORE(WT, dweight + dweight_offset, i * dweight_step, weights);
  if (has_bias) STORE(BT, dbias + dbias_offset, i * dbias_step, biases);
}
#endif

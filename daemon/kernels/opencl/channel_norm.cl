// channel_norm and its gradients on [N, C, L]: the steps around the moments,
// which are reductions. Row (n, c) has the number n * C + c; statistic s is
// channel c's (groups = 0) or that of a group of channels of one n.
//
// -DT: the type of x, y and their gradients.

#ifdef TV_DOUBLE
typedef double wide;
#else
typedef float wide;
#endif
typedef ACC(T) real;

// One element of a vector whose type is known at run time: 0 float32,
// 1 float16, 2 bfloat16, 3 float64, -1 not there.
static inline wide load_any(gcptr p, long i, int type, wide other) {
  switch (type) {
    case 0:
      return load_f32(p, i);
    case 1:
      return load_f16(p, i);
    case 2:
      return load_bf16(p, i);
#ifdef TV_DOUBLE
    case 3:
      return load_f64(p, i);
#endif
    default:
      return other;
  }
}
static inline void store_any(gptr p, long i, int type, wide v) {
  switch (type) {
    case 0:
      store_f32(p, i, (float)v);
      break;
    case 1:
      store_f16(p, i, (float)v);
      break;
    case 2:
      store_bf16(p, i, (float)v);
      break;
#ifdef TV_DOUBLE
    case 3:
      store_f64(p, i, v);
      break;
#endif
  }
}

static inline long statistic_of(long row, long channels, long groups) {
  const long n = row / channels, c = row - n * channels;
  return groups == 0 ? c : n * groups + c / (channels / groups);
}

// means and variances become means and rstds; outputs are written.
__kernel void channel_norm_statistics(
    __global wide* means, __global wide* rstds, gptr mean, long mean_offset,
    gptr rstd, long rstd_offset, gptr running_mean, long running_mean_offset,
    gptr running_variance, long running_variance_offset, gcptr constant_mean,
    long constant_mean_offset, gcptr constant_variance,
    long constant_variance_offset, int mean_type, int rstd_type,
    int running_mean_type, int running_variance_type, int constant_mean_type,
    int constant_variance_type, long mean_step, long rstd_step,
    long running_mean_step, long running_variance_step, long constant_mean_step,
    long constant_variance_step, long statistics, int is_constant, wide count,
    wide eps, wide momentum) {
  const long s = get_global_id(0);
  if (s >= statistics) return;
  wide m, variance;
  if (is_constant) {
    m = load_any(constant_mean + constant_mean_offset, s * constant_mean_step,
                 constant_mean_type, 0);
    variance = load_any(constant_variance + constant_variance_offset,
                        s * constant_variance_step, constant_variance_type, 1);
  } else {
    m = means[s];
    variance = rstds[s];
    running_mean += running_mean_offset;
    running_variance += running_variance_offset;
    const wide before =
        load_any(running_mean, s * running_mean_step, running_mean_type, 0);
    store_any(running_mean, s * running_mean_step, running_mean_type,
              momentum * m + (1 - momentum) * before);
    const wide old = load_any(running_variance, s * running_variance_step,
                              running_variance_type, 0);
    const wide unbiased = variance * count / (count - 1);
    store_any(running_variance, s * running_variance_step,
              running_variance_type,
              momentum * unbiased + (1 - momentum) * old);
  }
  const wide r = 1 / sqrt(variance + eps);
  means[s] = m;
  rstds[s] = r;
  store_any(mean + mean_offset, s * mean_step, mean_type, m);
  store_any(rstd + rstd_offset, s * rstd_step, rstd_type, r);
}

// scales and shifts of rows.
__kernel void channel_norm_rows(__global const wide* means,
                                __global const wide* rstds,
                                __global real* scales, __global real* shifts,
                                gcptr weight, long weight_offset, gcptr bias,
                                long bias_offset, int weight_type,
                                int bias_type, long weight_step, long bias_step,
                                long rows, long channels, long groups) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  const long s = statistic_of(row, channels, groups), c = row % channels;
  const wide scale = rstds[s] * load_any(weight + weight_offset,
                                         c * weight_step, weight_type, 1);
  scales[row] = (real)scale;
  shifts[row] =
      (real)(load_any(bias + bias_offset, c * bias_step, bias_type, 0) -
             means[s] * scale);
}

// A walk of at most three dimensions over tensors and the numbers of rows.
typedef struct {
  long sizes[3];
  long strides[4][3];
} Walk;

static inline void place(const Walk* walk, long i, int small, long* at) {
  long index[3];
  if (small) {
    const uint n = (uint)i, last = (uint)walk->sizes[2],
               middle = (uint)walk->sizes[1];
    const uint outer = n / last, first = outer / middle;
    index[0] = first;
    index[1] = outer - first * middle;
    index[2] = n - outer * last;
  } else {
    const long outer = i / walk->sizes[2], first = outer / walk->sizes[1];
    index[0] = first;
    index[1] = outer - first * walk->sizes[1];
    index[2] = i - outer * walk->sizes[2];
  }
  for (int k = 0; k < 4; ++k) {
    at[k] = index[0] * walk->strides[k][0] + index[1] * walk->strides[k][1] +
            index[2] * walk->strides[k][2];
  }
}

// Strides of y, x and rows.
__kernel void channel_norm_affine(gptr y, long y_offset, gcptr x, long x_offset,
                                  Walk walk, __global const real* scales,
                                  __global const real* shifts, long count,
                                  int small, int loops) {
  const long first =
      (long)get_group_id(0) * loops * (long)get_local_size(0) + get_local_id(0);
  for (int k = 0; k < loops; ++k) {
    const long i = first + k * (long)get_local_size(0);
    if (i >= count) return;
    long at[4];
    place(&walk, i, small, at);
    STORE(T, y + y_offset, at[0],
          LOAD(T, x + x_offset, at[1]) * scales[at[2]] + shifts[at[2]]);
  }
}

// Sums of dy and of dy * (x - mean) over pieces of rows.
__kernel void channel_norm_gradient_sums(
    __global wide* sums, gcptr dy, long dy_offset, gcptr x, long x_offset,
    gcptr mean, long mean_offset, int mean_type, long mean_step, long rows,
    long channels, long groups, long length, long dy_n, long dy_c, long dy_l,
    long x_n, long x_c, long x_l, long piece, long pieces, int height,
    int by_columns, __local wide* lanes) {
  TV_LINES(height, by_columns);
  const long part = get_group_id(0) % pieces;
  const long row = get_group_id(0) / pieces * width + column;
  wide sum = 0, product = 0;
  if (row < rows) {
    const long n = row / channels, c = row - n * channels;
    const real m = (real)load_any(
        mean + mean_offset, statistic_of(row, channels, groups) * mean_step,
        mean_type, 0);
    const long end = min(length, (part + 1) * piece);
    for (long i = part * piece + line; i < end; i += height) {
      const real g = LOAD(T, dy + dy_offset, n * dy_n + c * dy_c + i * dy_l);
      const real v = LOAD(T, x + x_offset, n * x_n + c * x_c + i * x_l);
      sum += g;
      product += g * (v - m);
    }
  }
  TV_JOIN_LINE(lanes, sum, height, TV_ADD);
  TV_JOIN_LINE(lanes, product, height, TV_ADD);
  if (line == 0 && row < rows) {
    sums[2 * (row * pieces + part)] = sum;
    sums[2 * (row * pieces + part) + 1] = product;
  }
}

// dweight and dbias of channels.
__kernel void channel_norm_gradient_channels(
    __global const wide* sums, gcptr rstd, long rstd_offset, gptr dweight,
    long dweight_offset, gptr dbias, long dbias_offset, int rstd_type,
    int dweight_type, int dbias_type, long rstd_step, long dweight_step,
    long dbias_step, long batch, long channels, long groups, long pieces,
    int height, __local wide* lanes) {
  TV_LINES(height, 0);
  const long c = (long)get_group_id(0) * width + column;
  wide weights = 0, biases = 0;
  const long terms = c < channels ? batch * pieces : 0;
  for (long k = line; k < terms; k += height) {
    const long n = k / pieces, row = n * channels + c;
    const long at = 2 * (row * pieces + (k - n * pieces));
    weights +=
        sums[at + 1] * load_any(rstd + rstd_offset,
                                statistic_of(row, channels, groups) * rstd_step,
                                rstd_type, 1);
    biases += sums[at];
  }
  TV_JOIN_LINE(lanes, weights, height, TV_ADD);
  TV_JOIN_LINE(lanes, biases, height, TV_ADD);
  if (line == 0 && c < channels) {
    store_any(dweight + dweight_offset, c * dweight_step, dweight_type,
              weights);
    store_any(dbias + dbias_offset, c * dbias_step, dbias_type, biases);
  }
}

// averages[2s], averages[2s + 1]: of g and of g * (x - mean), g = dy * weight.
__kernel void channel_norm_gradient_averages(
    __global const wide* sums, __global wide* averages, gcptr weight,
    long weight_offset, int weight_type, long weight_step, long statistics,
    long batch, long channels, long groups, long pieces, wide count, int height,
    __local wide* lanes) {
  TV_LINES(height, 0);
  const long s = (long)get_group_id(0) * width + column;
  const long rows = groups == 0 ? batch : channels / max(groups, 1L);
  wide average = 0, slope = 0;
  const long terms = s < statistics ? rows * pieces : 0;
  for (long k = line; k < terms; k += height) {
    const long r = k / pieces;
    const long row = groups == 0 ? r * channels + s : s * rows + r;
    const long at = 2 * (row * pieces + (k - r * pieces));
    const wide w = load_any(weight + weight_offset,
                            (row % channels) * weight_step, weight_type, 1);
    average += w * sums[at];
    slope += w * sums[at + 1];
  }
  TV_JOIN_LINE(lanes, average, height, TV_ADD);
  TV_JOIN_LINE(lanes, slope, height, TV_ADD);
  if (line == 0 && s < statistics) {
    averages[2 * s] = average / count;
    averages[2 * s + 1] = slope / count;
  }
}

// Of rows: mean, scale, slope and shift, the four arrays one after the other.
__kernel void channel_norm_gradient_rows(
    __global const wide* averages, __global real* factors, gcptr mean,
    long mean_offset, gcptr rstd, long rstd_offset, gcptr weight,
    long weight_offset, int mean_type, int rstd_type, int weight_type,
    long mean_step, long rstd_step, long weight_step, long rows, long channels,
    long groups, int is_constant) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  const long s = statistic_of(row, channels, groups), c = row % channels;
  const wide r = load_any(rstd + rstd_offset, s * rstd_step, rstd_type, 1);
  factors[row] =
      (real)load_any(mean + mean_offset, s * mean_step, mean_type, 0);
  factors[rows + row] = (real)(r * load_any(weight + weight_offset,
                                            c * weight_step, weight_type, 1));
  factors[2 * rows + row] =
      is_constant ? 0 : (real)(-averages[2 * s + 1] * r * r * r);
  factors[3 * rows + row] = is_constant ? 0 : (real)(-averages[2 * s] * r);
}

// Strides of dx, dy, x and rows.
__kernel void channel_norm_gradient(gptr dx, long dx_offset, gcptr dy,
                                    long dy_offset, gcptr x, long x_offset,
                                    Walk walk, __global const real* factors,
                                    long rows, long count, int small,
                                    int loops) {
  const long first =
      (long)get_group_id(0) * loops * (long)get_local_size(0) + get_local_id(0);
  for (int k = 0; k < loops; ++k) {
    const long i = first + k * (long)get_local_size(0);
    if (i >= count) return;
    long at[4];
    place(&walk, i, small, at);
    const __global real* of_row = factors + at[3];
    const real g = LOAD(T, dy + dy_offset, at[1]);
    const real v = LOAD(T, x + x_offset, at[2]);
    STORE(T, dx + dx_offset, at[0],
          g * of_row[rows] + (v - of_row[0]) * of_row[2 * rows] +
              of_row[3 * rows]);
  }
}

// embedding_bag and embedding_renorm. -DT, the weights; -DINDEX, the indices.

typedef ACC(T) real;

#define SUM 0
#define MEAN 1
#define MAX 2

// Laid out as in embedding_bag.cc.
typedef struct {
  long bags, width, vocabulary, total;
  long offsets_size;
  long mode, padding;
  long y[2], weight[2], rows[2];
  long sizes, index, offsets, scales;
  long has_rows, has_scales;
} Bags;

static inline long bag_begin(const Bags* p, gcptr offsets, long b) {
  return b < p->offsets_size ? load_index(offsets, b * p->offsets) : p->total;
}

// An item for each bag and column; that of column 0 also counts.
__kernel void embedding_bag(gptr y, long y_offset, gptr sizes,
                            long sizes_offset, gptr rows, long rows_offset,
                            gcptr weight, long weight_offset, gcptr index,
                            long index_offset, gcptr offsets,
                            long offsets_offset, gcptr scales,
                            long scales_offset, Bags p, long count,
                            __global int* bad_offset, int offset_launch,
                            __global int* bad_index, int index_launch) {
  const long id = get_global_id(0);
  if (id >= count) return;
  // Without columns, bags are counted all the same.
  const long columns = max(p.width, 1L);
  const long b = id / columns, d = id - b * columns;
  offsets += offsets_offset;
  const long begin = bag_begin(&p, offsets, b);
  const long end = bag_begin(&p, offsets, b + 1);
  real sum = 0;
  long members = 0, best = -1;
  if (begin < 0 || begin > end || end > p.total || (b == 0 && begin != 0)) {
    fault(bad_offset, offset_launch, end > p.total ? end : begin, b);
  } else {
    for (long t = begin; t < end; ++t) {
      const long v = load_index(index + index_offset, t * p.index);
      if (v < 0 || v >= p.vocabulary) {
        fault(bad_index, index_launch, v, t);
        continue;
      }
      if (v == p.padding) continue;
      if (d < p.width) {
        const real value =
            LOAD(T, weight + weight_offset, v * p.weight[0] + d * p.weight[1]);
        if (p.mode == MAX) {
          if (members == 0 || value > sum || value != value) {
            sum = value;
            best = v;
          }
        } else if (p.has_scales) {
          sum += LOAD(T, scales + scales_offset, t * p.scales) * value;
        } else {
          sum += value;
        }
      }
      ++members;
    }
  }
  if (p.mode == MEAN && members > 0) sum /= (real)members;
  if (d < p.width) {
    STORE(T, y + y_offset, b * p.y[0] + d * p.y[1], sum);
    if (p.has_rows) {
      store_i64(rows + rows_offset, b * p.rows[0] + d * p.rows[1], best);
    }
  }
  if (d == 0) store_i64(sizes + sizes_offset, b * p.sizes, members);
}

__kernel void renorm_mark(__global uchar* named, gcptr index, long index_offset,
                          long step, long vocabulary, long count,
                          __global int* faults, int launch) {
  const long t = get_global_id(0);
  if (t >= count) return;
  const long v = load_index(index + index_offset, t * step);
  if (v < 0 || v >= vocabulary) {
    fault(faults, launch, v, t);
  } else {
    named[v] = 1;
  }
}

#ifdef TV_DOUBLE
typedef double wide;
#else
typedef float wide;
#endif

// A group for each row. kind: 0, 1, 2, 3 for infinity, 4 for others.
__kernel void renorm_rows(gptr weight, long weight_offset,
                          const __global uchar* named, long width,
                          long row_stride, long step, wide limit, int kind,
                          wide power, __local wide* lanes) {
  const long v = get_group_id(0);
  const int lane = get_local_id(0), items = get_local_size(0);
  if (!named[v]) return;
  weight += weight_offset;
  const long row = v * row_stride;
  wide sum = 0;
  for (long d = lane; d < width; d += items) {
    const wide value = fabs((wide)LOAD(T, weight, row + d * step));
    if (kind == 2) {
      sum += value * value;
    } else if (kind == 1) {
      sum += value;
    } else if (kind == 0) {
      sum += value != 0;
    } else if (kind == 3) {
      sum = value > sum | value != value ? value : sum;
    } else {
      sum += pow(value, power);
    }
  }
  lanes[lane] = sum;
  for (int reach = items / 2; reach > 0; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < reach) {
      const wide other = lanes[lane + reach];
      if (kind == 3) {
        if (other > lanes[lane] | other != other) lanes[lane] = other;
      } else {
        lanes[lane] += other;
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  wide norm = lanes[0];
  if (kind == 2) norm = sqrt(norm);
  if (kind == 4) norm = pow(norm, 1 / power);
  if (!(norm > limit)) return;
  // As PyTorch: a little more, so that 0 divides nothing.
  const wide scale = limit / (norm + (wide)1e-7);
  for (long d = lane; d < width; d += items) {
    STORE(T, weight, row + d * step,
          (real)((wide)LOAD(T, weight, row + d * step) * scale));
  }
}

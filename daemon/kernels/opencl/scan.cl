// Running values along rows: sums, products, extremes with their places, logs
// of sums of exponentials.
//
// A line of items runs over its row by tiles: each item joins four neighbouring
// elements, the line scans what its items have, and a carry goes from tile to
// tile. Long rows are cut into pieces: scan_totals joins each, then scan_rows
// starts from those in front of its piece.
//
// -DT, -DOT; one of SCAN_SUM, SCAN_PRODUCT, SCAN_EXTREME, SCAN_LOG;
// -DSCAN_FLOAT: values are floating, else long.

#define PER_ITEM 4

#if !defined(SCAN_FLOAT)
typedef long value_t;
#elif defined(TV_DOUBLE)
typedef double value_t;
#else
typedef float value_t;
#endif

typedef struct {
  value_t value;
#ifdef SCAN_EXTREME
  long place;  // -1: no element yet
#endif
} State;

static inline State nothing(void) {
  State s;
#if defined(SCAN_PRODUCT)
  s.value = 1;
#elif defined(SCAN_LOG)
  s.value = -(value_t)INFINITY;
#else
  s.value = 0;
#endif
#ifdef SCAN_EXTREME
  s.place = -1;
#endif
  return s;
}

// b comes after a.
static inline State join(State a, State b, int smallest) {
#if defined(SCAN_SUM)
  b.value = a.value + b.value;
#elif defined(SCAN_PRODUCT)
  b.value = a.value * b.value;
#elif defined(SCAN_EXTREME)
  // The last of equals; NaN wins.
  const int wins = smallest ? b.value <= a.value : b.value >= a.value;
#ifdef SCAN_FLOAT
  const int takes = b.value != b.value | (a.value == a.value & wins);
#else
  const int takes = wins;
#endif
  if (b.place < 0 | (a.place >= 0 & !takes)) return a;
#elif defined(SCAN_LOG)
  if (a.value != a.value | b.value != b.value) {
    b.value = a.value + b.value;
    return b;
  }
  const value_t high = fmax(a.value, b.value), low = fmin(a.value, b.value);
  // Two equal infinities have no difference.
  b.value = high == low & isinf(high) ? high : high + log1p(exp(low - high));
#endif
  return b;
}

static inline State element(gcptr x, long at, long i) {
  State s;
  s.value = (value_t)LOAD(T, x, at);
#ifdef SCAN_EXTREME
  s.place = i;
#endif
  return s;
}

// Afterwards lanes[] of each item holds the join of its line's items up to it.
#define SCAN_LINE(lanes, s, height)                                       \
  lanes[lane] = s;                                                        \
  for (int reach = 1; reach < (height); reach *= 2) {                     \
    barrier(CLK_LOCAL_MEM_FENCE);                                         \
    State before = nothing();                                             \
    if (line >= reach) before = lanes[lane - reach * distance];           \
    barrier(CLK_LOCAL_MEM_FENCE);                                         \
    if (line >= reach) lanes[lane] = join(before, lanes[lane], smallest); \
  }                                                                       \
  barrier(CLK_LOCAL_MEM_FENCE)

__kernel void scan_totals(gcptr x, long x_offset, Rows rows, long num_rows,
                          long n, long x_step, long piece, long pieces,
                          int height, int by_columns, int smallest, int which,
                          __global State* totals, __local State* lanes) {
  TV_LINES(height, by_columns);
  const long part = get_group_id(0) % pieces;
  const long row = get_group_id(0) / pieces * width + column;
  long at[3];
  row_at(&rows, row, at);
  x += x_offset;
  const long from = which == 1 ? at[1] : at[2];
  const long begin = part * piece;
  const long end = row < num_rows ? min(n, begin + piece) : begin;
  // Each item joins neighbours, so that their order stays.
  const long share = (piece + height - 1) / height;
  State s = nothing();
  const long last = min(end, begin + (line + 1) * share);
  for (long i = begin + line * share; i < last; ++i) {
    s = join(s, element(x, from + i * x_step, i), smallest);
  }
  SCAN_LINE(lanes, s, height);
  if (line == height - 1 && row < num_rows) {
    totals[row * pieces + part] = lanes[lane];
  }
}

// The outputs are at[0] and, for extremes, at[1]; x is at[which].
__kernel void scan_rows(gptr y, long y_offset, gptr z, long z_offset, gcptr x,
                        long x_offset, Rows rows, long num_rows, long n,
                        long y_step, long z_step, long x_step, long piece,
                        long pieces, int height, int by_columns, int smallest,
                        int which, __global const State* totals,
                        __local State* lanes) {
  TV_LINES(height, by_columns);
  const long part = get_group_id(0) % pieces;
  const long row = get_group_id(0) / pieces * width + column;
  const int live = row < num_rows;
  const int last_lane = lane + (height - 1 - line) * distance;
  long at[3];
  row_at(&rows, row, at);
  x += x_offset;
  const long from = which == 1 ? at[1] : at[2];
  y += y_offset;
  State carry = nothing();
  for (long k = 0; k < part; k += height) {
    State s = nothing();
    if (live && k + line < part) s = totals[row * pieces + k + line];
    SCAN_LINE(lanes, s, height);
    carry = join(carry, lanes[last_lane], smallest);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const long begin = part * piece, end = min(n, begin + piece);
  for (long tile = begin; tile < end; tile += PER_ITEM * height) {
    const long first = tile + PER_ITEM * line;
    State v[PER_ITEM];
    State s = nothing();
    for (int j = 0; j < PER_ITEM; ++j) {
      v[j] = nothing();
      if (live && first + j < end) {
        v[j] = element(x, from + (first + j) * x_step, first + j);
      }
      s = join(s, v[j], smallest);
    }
    State total = s;
    if (height > 1) {
      SCAN_LINE(lanes, s, height);
      s = carry;
      if (line > 0) s = join(s, lanes[lane - distance], smallest);
      total = lanes[last_lane];
      barrier(CLK_LOCAL_MEM_FENCE);
    } else {
      s = carry;
    }
    for (int j = 0; j < PER_ITEM; ++j) {
      if (live && first + j < end) {
        s = join(s, v[j], smallest);
        STORE(OT, y, at[0] + (first + j) * y_step, (ACC(OT))s.value);
#ifdef SCAN_EXTREME
        STORE(i64, z + z_offset, at[1] + (first + j) * z_step, s.place);
#endif
      }
    }
    carry = join(carry, total, smallest);
  }
}

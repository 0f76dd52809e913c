// fft: Fourier transforms of lines, by passes of one factor each that leave
// their results in order (Stockham). -DWIDE=1 for double.

#if WIDE
typedef double real;
typedef double2 number;
#define LOAD_COMPLEX load_c128
#define STORE_COMPLEX store_c128
#define LOAD_REAL load_f64
#define STORE_REAL store_f64
#else
typedef float real;
typedef float2 number;
#define LOAD_COMPLEX load_c64
#define STORE_COMPLEX store_c64
#define LOAD_REAL load_f32
#define STORE_REAL store_f32
#endif

static inline number times(number a, number b) {
  return (number)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// exp(2 pi i part / whole), 0 <= part < whole.
static inline number turned(long part, long whole) {
#ifdef TV_DOUBLE
  const double angle = 2 * (double)part / (double)whole;
#else
  const float angle = 2 * (float)part / (float)whole;
#endif
  return (number)((real)cospi(angle), (real)sinpi(angle));
}

// Lines of x as complex numbers, side by side. kind: 0 real, 1 complex, 2 the
// half of n numbers, whose other half mirrors it.
__kernel void fft_load(__global number* lines, gcptr x, long x_offset,
                       Rows rows, long n, long x_step, int kind, long count) {
  const long id = get_global_id(0);
  if (id >= count) return;
  const long line = id / n, k = id - line * n;
  long at[3];
  row_at(&rows, line, at);
  x += x_offset;
  number value;
  if (kind == 0) {
    value = (number)(LOAD_REAL(x, at[1] + k * x_step), 0);
  } else {
    const int mirrored = kind == 2 && k > n / 2;
    value = LOAD_COMPLEX(x, at[1] + (mirrored ? n - k : k) * x_step);
    if (mirrored) value.y = -value.y;
    // What has no mirror is real.
    if (kind == 2 && (k == 0 || 2 * k == n)) value.y = 0;
  }
  lines[id] = value;
}

// One factor of the length. `left` is what is left of it before this pass,
// `done` the product of the factors before. sign: -1 forward.
__kernel void fft_pass(__global number* to, const __global number* from, long n,
                       int factor, long left, long done, int sign, long count) {
  const long id = get_global_id(0);
  if (id >= count) return;
  const long line = id / n, place = id - line * n;
  const long group = place / done, q = place - group * done;
  const long p = group / factor, v = group - p * factor;
  const long apart = left / factor;
  from += line * n + q + done * p;
  number step = turned(v, factor), turn = (number)(1, 0), sum = 0;
  step.y *= sign;
  for (int u = 0; u < factor; ++u) {
    sum += times(from[done * apart * u], turn);
    turn = times(turn, step);
  }
  number twiddle = turned(p * v % left, left);
  twiddle.y *= sign;
  to[id] = times(sum, twiddle);
}

__kernel void fft_store(gptr y, long y_offset, const __global number* lines,
                        Rows rows, long n, long kept, long y_step, real scale,
                        int is_complex, long count) {
  const long id = get_global_id(0);
  if (id >= count) return;
  const long line = id / kept, k = id - line * kept;
  long at[3];
  row_at(&rows, line, at);
  const number value = lines[line * n + k] * scale;
  if (is_complex) {
    STORE_COMPLEX(y + y_offset, at[0] + k * y_step, value);
  } else {
    STORE_REAL(y + y_offset, at[0] + k * y_step, value.x);
  }
}

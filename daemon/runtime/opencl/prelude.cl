// What every kernel of this project starts with: element types, their loads
// and stores, views, faults.
//
// A dtype is named by a suffix: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64 c64
// c128 (u16 u32 u64 are only moved). For each there are
//   mem_X   the type in memory
//   acc_X       the type it is computed in: int, long, float or double
//   load_X(p, i), store_X(p, i, v): element i behind the byte pointer p
// With -DT=f32 (say), LOAD(T, p, i), STORE(T, p, i, v), ACC(T) name those of T.

#pragma OPENCL FP_CONTRACT OFF
#ifdef TV_DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define TV_CAT2(a, b) a##b
#define TV_CAT(a, b) TV_CAT2(a, b)
#define LOAD(T, p, i) TV_CAT(load_, T)(p, i)
#define STORE(T, p, i, v) TV_CAT(store_, T)(p, i, v)
#define ACC(T) TV_CAT(acc_, T)
#define MEM(T) TV_CAT(mem_, T)

typedef __global char* gptr;
typedef const __global char* gcptr;

// Four or eight elements next to each other are a vec4_X or vec8_X; unpack_X
// and pack_X convert one of them.
#define TV_PLAIN_TYPE(X, M, A)                        \
  typedef M mem_##X;                                  \
  typedef M##4 vec4_##X;                              \
  typedef M##8 vec8_##X;                              \
  typedef A acc_##X;                                  \
  static inline A unpack_##X(M v) { return (A)v; }    \
  static inline M pack_##X(A v) { return (M)v; }      \
  static inline A load_##X(gcptr p, long i) {         \
    return (A)((const __global M*)p)[i];              \
  }                                                   \
  static inline void store_##X(gptr p, long i, A v) { \
    ((__global M*)p)[i] = (M)v;                       \
  }
TV_PLAIN_TYPE(u8, uchar, int)
TV_PLAIN_TYPE(i8, char, int)
TV_PLAIN_TYPE(i16, short, int)
TV_PLAIN_TYPE(i32, int, int)
TV_PLAIN_TYPE(i64, long, long)
TV_PLAIN_TYPE(u16, ushort, uint)
TV_PLAIN_TYPE(u32, uint, uint)
TV_PLAIN_TYPE(u64, ulong, ulong)
TV_PLAIN_TYPE(f32, float, float)
#ifdef TV_DOUBLE
TV_PLAIN_TYPE(f64, double, double)
#endif

// Any byte but 0 reads as true; what is stored is 0 or 1.
typedef uchar mem_bool;
typedef uchar4 vec4_bool;
typedef uchar8 vec8_bool;
static inline int unpack_bool(uchar v) { return v != 0; }
static inline uchar pack_bool(int v) { return v != 0; }
typedef int acc_bool;
static inline int load_bool(gcptr p, long i) {
  return ((const __global uchar*)p)[i] != 0;
}
static inline void store_bool(gptr p, long i, int v) {
  ((__global uchar*)p)[i] = v != 0;
}

typedef ushort mem_f16;
typedef ushort4 vec4_f16;
typedef ushort8 vec8_f16;
static inline float unpack_f16(ushort bits) {
  return vload_half(0, (const half*)&bits);
}
static inline ushort pack_f16(float v) {
  ushort bits;
  vstore_half_rte(v, 0, (half*)&bits);
  return bits;
}
typedef float acc_f16;
static inline float load_f16(gcptr p, long i) {
  return vload_half(i, (const __global half*)p);
}
static inline void store_f16(gptr p, long i, float v) {
  vstore_half_rte(v, i, (__global half*)p);
}

typedef ushort mem_bf16;
typedef ushort4 vec4_bf16;
typedef ushort8 vec8_bf16;
typedef float acc_bf16;
static inline float bf16_to_float(ushort bits) {
  return as_float((uint)bits << 16);
}
static inline ushort float_to_bf16(float v) {
  const uint bits = as_uint(v);
  return v != v ? (ushort)0x7FC0
                : (ushort)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
static inline float unpack_bf16(ushort v) { return bf16_to_float(v); }
static inline ushort pack_bf16(float v) { return float_to_bf16(v); }
static inline float load_bf16(gcptr p, long i) {
  return bf16_to_float(((const __global ushort*)p)[i]);
}
static inline void store_bf16(gptr p, long i, float v) {
  ((__global ushort*)p)[i] = float_to_bf16(v);
}

typedef float2 mem_c64;
typedef float2 acc_c64;
static inline float2 load_c64(gcptr p, long i) {
  return ((const __global float2*)p)[i];
}
static inline void store_c64(gptr p, long i, float2 v) {
  ((__global float2*)p)[i] = v;
}
#ifdef TV_DOUBLE
typedef double2 mem_c128;
typedef double2 acc_c128;
static inline double2 load_c128(gcptr p, long i) {
  return ((const __global double2*)p)[i];
}
static inline void store_c128(gptr p, long i, double2 v) {
  ((__global double2*)p)[i] = v;
}
#endif

// An element of any type that is only moved, by -DBYTES.
#ifdef BYTES
#if BYTES == 1
typedef uchar element;
#elif BYTES == 2
typedef ushort element;
#elif BYTES == 4
typedef uint element;
#elif BYTES == 8
typedef ulong element;
#elif BYTES == 16
typedef ulong2 element;
#endif
#endif

// An index tensor's element: int32 or int64, by -DINDEX=i32 or i64.
#ifdef INDEX
static inline long load_index(gcptr p, long i) {
  return (long)LOAD(INDEX, p, i);
}
#endif

// A strided tensor, passed by value: ClView of kernel_context.h.
#define TV_MAX_RANK 16
typedef struct {
  long rank;
  long sizes[TV_MAX_RANK];
  long strides[TV_MAX_RANK];
} View;

// Element offset of the i-th element in row-major order.
static inline long view_at(const View* view, long i) {
  long at = 0;
  for (int d = (int)view->rank - 1; d > 0; --d) {
    const long next = i / view->sizes[d];
    at += (i - next * view->sizes[d]) * view->strides[d];
    i = next;
  }
  return at + i * view->strides[0];
}

// Reports that data is wrong: the first report since the host looked is kept.
// faults: {launch number or 0, unused, value, position}, words of 64 bits but
// for the first two of 32. A kernel that calls it takes
// `__global int* faults, int launch` (KernelCall::Faults).
static inline void fault(__global int* faults, int launch, long value,
                         long position) {
  if (atomic_cmpxchg((volatile __global int*)faults, 0, launch) == 0) {
    __global long* words = (__global long*)(faults + 2);
    words[0] = value;
    words[1] = position;
  }
}

// Lines: a group of items holds lines of `height` items (a power of two), each
// of which works on one row; lines.h. by_columns: neighbouring items are of
// neighbouring lines. Declares lane, line (the item's number in its line),
// column (the line's number in its group), width and distance.
#define TV_LINES(height, by_columns)                                \
  const int lane = get_local_id(0);                                 \
  const int width = (int)get_local_size(0) / (height);              \
  const int column = (by_columns) ? lane % width : lane / (height); \
  const int line = (by_columns) ? lane / width : lane % (height);   \
  const int distance = (by_columns) ? width : 1

// Joins `value` of a line's items; all of them have the result. `lanes`: local
// memory of one value an item. All items of the group come here.
#define TV_JOIN_LINE(lanes, value, height, JOIN)                         \
  if ((height) > 1) {                                                    \
    lanes[lane] = value;                                                 \
    for (int reach = (height) / 2; reach > 0; reach /= 2) {              \
      barrier(CLK_LOCAL_MEM_FENCE);                                      \
      if (line < reach) {                                                \
        lanes[lane] = JOIN(lanes[lane], lanes[lane + reach * distance]); \
      }                                                                  \
    }                                                                    \
    barrier(CLK_LOCAL_MEM_FENCE);                                        \
    value = lanes[lane - line * distance];                               \
    barrier(CLK_LOCAL_MEM_FENCE);                                        \
  }
#define TV_ADD(a, b) ((a) + (b))

// Where rows along one dimension start, in up to three tensors: the other
// dimensions. RowSet of lines.h.
typedef struct {
  long rank;
  long sizes[TV_MAX_RANK];
  long strides[3][TV_MAX_RANK];
} Rows;

static inline void row_at(const Rows* rows, long i, long* at) {
  at[0] = at[1] = at[2] = 0;
  for (int d = (int)rows->rank - 1; d >= 0; --d) {
    const long next = d > 0 ? i / rows->sizes[d] : 0;
    const long index = i - next * rows->sizes[d];
    for (int k = 0; k < 3; ++k) at[k] += index * rows->strides[k][d];
    i = next;
  }
}

// Row kernels with -DKEEP=n: an item keeps up to n elements of its row in `v`,
// one by one or, with -DVEC, in fours. INDEX is the number in the row of its
// j-th element (with VEC, of the first of its four). They use the names live
// (there is such a row), line, height and n (elements of a row).
#ifdef KEEP
#ifdef VEC
#define AT_ONCE 4
#define INDEX(j) (4L * (line + (j) / 4 * height))
#define VEC4(X) TV_CAT(vec4_, X)
#define VEC4_AT(X, p, at, j) ((p) + ((at) + INDEX(j)) * sizeof(MEM(X)))
#define LOAD_KEPT(X, v, p, at, step, other)                              \
  if (live && INDEX(j) < n) {                                            \
    const VEC4(X) four = *(const __global VEC4(X)*)VEC4_AT(X, p, at, j); \
    v[j] = TV_CAT(unpack_, X)(four.x);                                   \
    v[j + 1] = TV_CAT(unpack_, X)(four.y);                               \
    v[j + 2] = TV_CAT(unpack_, X)(four.z);                               \
    v[j + 3] = TV_CAT(unpack_, X)(four.w);                               \
  } else {                                                               \
    v[j] = v[j + 1] = v[j + 2] = v[j + 3] = other;                       \
  }
#define STORE_KEPT(X, v, p, at, step)                \
  if (live && INDEX(j) < n) {                        \
    VEC4(X) four;                                    \
    four.x = TV_CAT(pack_, X)(v[j]);                 \
    four.y = TV_CAT(pack_, X)(v[j + 1]);             \
    four.z = TV_CAT(pack_, X)(v[j + 2]);             \
    four.w = TV_CAT(pack_, X)(v[j + 3]);             \
    *(__global VEC4(X)*)VEC4_AT(X, p, at, j) = four; \
  }
#else
#define AT_ONCE 1
#define INDEX(j) ((long)line + (j)*height)
#define LOAD_KEPT(X, v, p, at, step, other) \
  v[j] = live && INDEX(j) < n ? LOAD(X, p, (at) + INDEX(j) * (step)) : other;
#define STORE_KEPT(X, v, p, at, step) \
  if (live && INDEX(j) < n) STORE(X, p, (at) + INDEX(j) * (step), v[j]);
#endif
#define FOR_KEPT for (int j = 0; j < KEEP; j += AT_ONCE)
#endif

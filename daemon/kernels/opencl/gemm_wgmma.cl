// bfloat16 and float16 products on Hopper's tensor cores: the tensor copy
// engine (TMA) brings tiles of 64 elements of k into a ring in local memory,
// two warpgroups multiply them (wgmma), each with the sums of 64 rows in
// registers. A group takes one tile after the other, so that the next tile's
// copies run while a tile is written.
//
// NVIDIA's OpenCL compiles for sm_90 without these instructions. They stand
// here as comments behind @@ (one line each), and become code when the host
// edits the driver's PTX text: gemm_wgmma.cc.
//
// Options, besides those of gemm_common.cl: BLOCK_N (128 or 256), STAGES,
// A_ALONG_K, B_ALONG_K (which way neighbours lie), IS_BF16, PAIRS (c's columns
// are neighbours, n is even, pairs are aligned).

#define BLOCK_M 128
#define BLOCK_K 64
#define A_BYTES (BLOCK_M * BLOCK_K * 2)
#define B_BYTES (BLOCK_N * BLOCK_K * 2)
#define STAGE_BYTES (A_BYTES + B_BYTES)
#define SUMS (BLOCK_N / 2)  // of an item
#define WARPGROUP 128
// A group's tensor maps: as many as copies can be under way, and more.
#define MAP_SLOTS 8

// clang-format off
#if BLOCK_N == 256
#define REGISTERS \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79," \
  "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
  "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define OPERANDS(x) \
  "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3]), "+f"(x[4]), "+f"(x[5]), "+f"(x[6]), "+f"(x[7]), \
  "+f"(x[8]), "+f"(x[9]), "+f"(x[10]), "+f"(x[11]), "+f"(x[12]), "+f"(x[13]), "+f"(x[14]), "+f"(x[15]), \
  "+f"(x[16]), "+f"(x[17]), "+f"(x[18]), "+f"(x[19]), "+f"(x[20]), "+f"(x[21]), "+f"(x[22]), "+f"(x[23]), \
  "+f"(x[24]), "+f"(x[25]), "+f"(x[26]), "+f"(x[27]), "+f"(x[28]), "+f"(x[29]), "+f"(x[30]), "+f"(x[31]), \
  "+f"(x[32]), "+f"(x[33]), "+f"(x[34]), "+f"(x[35]), "+f"(x[36]), "+f"(x[37]), "+f"(x[38]), "+f"(x[39]), \
  "+f"(x[40]), "+f"(x[41]), "+f"(x[42]), "+f"(x[43]), "+f"(x[44]), "+f"(x[45]), "+f"(x[46]), "+f"(x[47]), \
  "+f"(x[48]), "+f"(x[49]), "+f"(x[50]), "+f"(x[51]), "+f"(x[52]), "+f"(x[53]), "+f"(x[54]), "+f"(x[55]), \
  "+f"(x[56]), "+f"(x[57]), "+f"(x[58]), "+f"(x[59]), "+f"(x[60]), "+f"(x[61]), "+f"(x[62]), "+f"(x[63]), \
  "+f"(x[64]), "+f"(x[65]), "+f"(x[66]), "+f"(x[67]), "+f"(x[68]), "+f"(x[69]), "+f"(x[70]), "+f"(x[71]), \
  "+f"(x[72]), "+f"(x[73]), "+f"(x[74]), "+f"(x[75]), "+f"(x[76]), "+f"(x[77]), "+f"(x[78]), "+f"(x[79]), \
  "+f"(x[80]), "+f"(x[81]), "+f"(x[82]), "+f"(x[83]), "+f"(x[84]), "+f"(x[85]), "+f"(x[86]), "+f"(x[87]), \
  "+f"(x[88]), "+f"(x[89]), "+f"(x[90]), "+f"(x[91]), "+f"(x[92]), "+f"(x[93]), "+f"(x[94]), "+f"(x[95]), \
  "+f"(x[96]), "+f"(x[97]), "+f"(x[98]), "+f"(x[99]), "+f"(x[100]), "+f"(x[101]), "+f"(x[102]), "+f"(x[103]), \
  "+f"(x[104]), "+f"(x[105]), "+f"(x[106]), "+f"(x[107]), "+f"(x[108]), "+f"(x[109]), "+f"(x[110]), "+f"(x[111]), \
  "+f"(x[112]), "+f"(x[113]), "+f"(x[114]), "+f"(x[115]), "+f"(x[116]), "+f"(x[117]), "+f"(x[118]), "+f"(x[119]), \
  "+f"(x[120]), "+f"(x[121]), "+f"(x[122]), "+f"(x[123]), "+f"(x[124]), "+f"(x[125]), "+f"(x[126]), "+f"(x[127])
#define SHAPE "m64n256k16"
#define AFTER_SUMS "%128, %129, p, 1, 1"
#define PREDICATE "{ .reg .pred p; setp.ne.b32 p, %130, 0; "
#else
#define REGISTERS \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define OPERANDS(x) \
  "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3]), "+f"(x[4]), "+f"(x[5]), "+f"(x[6]), "+f"(x[7]), \
  "+f"(x[8]), "+f"(x[9]), "+f"(x[10]), "+f"(x[11]), "+f"(x[12]), "+f"(x[13]), "+f"(x[14]), "+f"(x[15]), \
  "+f"(x[16]), "+f"(x[17]), "+f"(x[18]), "+f"(x[19]), "+f"(x[20]), "+f"(x[21]), "+f"(x[22]), "+f"(x[23]), \
  "+f"(x[24]), "+f"(x[25]), "+f"(x[26]), "+f"(x[27]), "+f"(x[28]), "+f"(x[29]), "+f"(x[30]), "+f"(x[31]), \
  "+f"(x[32]), "+f"(x[33]), "+f"(x[34]), "+f"(x[35]), "+f"(x[36]), "+f"(x[37]), "+f"(x[38]), "+f"(x[39]), \
  "+f"(x[40]), "+f"(x[41]), "+f"(x[42]), "+f"(x[43]), "+f"(x[44]), "+f"(x[45]), "+f"(x[46]), "+f"(x[47]), \
  "+f"(x[48]), "+f"(x[49]), "+f"(x[50]), "+f"(x[51]), "+f"(x[52]), "+f"(x[53]), "+f"(x[54]), "+f"(x[55]), \
  "+f"(x[56]), "+f"(x[57]), "+f"(x[58]), "+f"(x[59]), "+f"(x[60]), "+f"(x[61]), "+f"(x[62]), "+f"(x[63])
#define SHAPE "m64n128k16"
#define AFTER_SUMS "%64, %65, p, 1, 1"
#define PREDICATE "{ .reg .pred p; setp.ne.b32 p, %66, 0; "
#endif
// clang-format on

#if IS_BF16
#define IN_TYPE "bf16"
#define MAP_TYPE 0x66510UL
#else
#define IN_TYPE "f16"
#define MAP_TYPE 0x66310UL
#endif
#if A_ALONG_K
#define A_TURNED "0"
#else
#define A_TURNED "1"
#endif
#if B_ALONG_K
#define B_TURNED "0"
#else
#define B_TURNED "1"
#endif

#define ADDRESS(p) ((uint)(ulong)(p))

static inline void barrier_init(uint at, uint count) {
  __asm__ volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at),
                   "r"(count)
                   : "memory");
}
static inline void barrier_arrive(uint at) {
  __asm__ volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at)
                   : "memory");
}
static inline void barrier_expect(uint at, uint bytes) {
  __asm__ volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at),
      "r"(bytes)
      : "memory");
}
static inline void barrier_wait(uint at, uint parity) {
  uint done;
  do {
    __asm__ volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(at), "r"(parity)
        : "memory");
  } while (!done);
}

// A 2-D map of 16-bit elements, boxes of 64 x box_rows, 128-byte swizzle. The
// layout is the driver's own, see gemm_wgmma.cc.
static inline void make_map(__global ulong* map, ulong address, long row_bytes,
                            long rows, long columns, uint box_rows) {
  for (int i = 0; i < 16; ++i) map[i] = 0;
  map[0] = address;
  map[1] = ((ulong)row_bytes / 16) << 32 | MAP_TYPE;
  map[4] = (ulong)(rows - 1) << 32 | (ulong)(uint)(columns - 1);
  map[6] = 63UL << 56;
  map[7] = box_rows - 1;
}
static inline void use_map(const __global ulong* map) {
  __asm__ volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
  __asm__ volatile(
      "fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map)
      : "memory");
}
static inline void copy_box(uint to, const __global ulong* map, int column,
                            int row, uint bar) {
  __asm__ volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(bar)
      : "memory");
}

// Where an operand of wgmma lies: 128-byte swizzle, 1024 bytes from 8 rows to
// the next 8; turned operands in blocks of 64 x 64.
static inline ulong operand_at(uint at) {
  return 1UL << 62 | 64UL << 32 | 512UL << 16 | (ulong)((at & 0x3FFFF) >> 4);
}
#define A_STEP (A_ALONG_K ? 32 : 2048)  // bytes from one 16 of k to the next
#define B_STEP (B_ALONG_K ? 32 : 2048)

static inline void multiply_16(float* x, ulong a, ulong b, uint add) {
  __asm__ volatile("//@@ " PREDICATE "wgmma.mma_async.sync.aligned." SHAPE
                   ".f32." IN_TYPE "." IN_TYPE " {" REGISTERS "}, " AFTER_SUMS
                   ", " A_TURNED ", " B_TURNED "; }"
                   : OPERANDS(x)
                   : "l"(a), "l"(b), "r"(add)
                   : "memory");
}

typedef struct {
  long item, split;
  long row0, col0;
  long k_begin, k_end;
} Place;

// Tiles near each other in both directions run together: bands of 8 rows.
static inline Place place_of(const Gemm* g, long t) {
  Place at;
  const long per_item = g->tiles_m * g->tiles_n;
  const long part = t / per_item;
  t %= per_item;
  at.item = part / g->splits;
  at.split = part % g->splits;
  const long band = t / (8 * g->tiles_n);
  const long height = min(g->tiles_m - band * 8, 8L);
  t -= band * 8 * g->tiles_n;
  at.row0 = (band * 8 + t % height) * BLOCK_M;
  at.col0 = t / height * BLOCK_N;
  at.k_begin = at.split * g->split_k;
  at.k_end = min(g->k, at.k_begin + g->split_k);
  return at;
}

static inline void store_pair(gptr c, long at, float x, float y) {
#if TC_BYTES == 4
  *(__global float2*)((__global float*)c + at) = (float2)(x, y);
#else
  uint bits;
#if TC_IS_BF16
  __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(y), "f"(x));
#else
  __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(y), "f"(x));
#endif
  *(__global uint*)((__global ushort*)c + at) = bits;
#endif
}

__kernel __attribute__((reqd_work_group_size(3 * WARPGROUP, 1, 1))) void
gemm_wgmma(gptr c, long c_offset, gcptr a, long a_offset, gcptr b,
           long b_offset, gcptr d, long d_offset, __global float* partial,
           Gemm g, float alpha, float beta, __global ulong* all_maps) {
  __local __attribute__((aligned(1024))) uchar ring[STAGES * STAGE_BYTES];
  __local __attribute__((aligned(8))) ulong full[STAGES];
  __local __attribute__((aligned(8))) ulong empty[STAGES];
  const int lid = get_local_id(0);
  const long tiles = g.tiles_m * g.tiles_n * g.batch * g.splits;
  const uint ring_at = ADDRESS(ring);
  const uint full_at = ADDRESS(full), empty_at = ADDRESS(empty);
  if (lid == 0) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(full_at + 8 * s, 1);
      barrier_init(empty_at + 8 * s, 8);  // a warp each
    }
    __asm__ volatile("fence.proxy.async;" ::: "memory");
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  int stage = 0;
  uint parity = 0;
  if (lid >= 2 * WARPGROUP) {
    __asm__ volatile("//@@ setmaxnreg.dec.sync.aligned.u32 40;" ::: "memory");
    if (lid == 2 * WARPGROUP) {
      long item = -1;
      int slot = 0;
      const __global ulong *a_map = 0, *b_map = 0;
      for (long t = get_group_id(0); t < tiles; t += get_num_groups(0)) {
        const Place at = place_of(&g, t);
        if (at.item != item) {
          item = at.item;
          __global ulong* maps =
              all_maps + ((long)get_group_id(0) * MAP_SLOTS + slot) * 32;
          slot = (slot + 1) % MAP_SLOTS;
          const ulong a_at = (ulong)a + a_offset + item * g.a_batch * 2;
          const ulong b_at = (ulong)b + b_offset + item * g.b_batch * 2;
#if A_ALONG_K
          make_map(maps, a_at, g.a_row * 2, g.m, g.k, BLOCK_M);
#else
          make_map(maps, a_at, g.a_k * 2, g.k, g.m, BLOCK_K);
#endif
#if B_ALONG_K
          make_map(maps + 16, b_at, g.b_col * 2, g.n, g.k, BLOCK_N);
#else
          make_map(maps + 16, b_at, g.b_k * 2, g.k, g.n, BLOCK_K);
#endif
          use_map(maps);
          use_map(maps + 16);
          a_map = maps;
          b_map = maps + 16;
        }
        for (long k = at.k_begin; k < at.k_end; k += BLOCK_K) {
          barrier_wait(empty_at + 8 * stage, parity ^ 1);
          const uint bar = full_at + 8 * stage;
          barrier_expect(bar, STAGE_BYTES);
          const uint a_to = ring_at + stage * STAGE_BYTES;
          const uint b_to = a_to + A_BYTES;
#if A_ALONG_K
          copy_box(a_to, a_map, (int)k, (int)at.row0, bar);
#else
          for (int i = 0; i < BLOCK_M / 64; ++i) {
            copy_box(a_to + i * 8192, a_map, (int)at.row0 + i * 64, (int)k,
                     bar);
          }
#endif
#if B_ALONG_K
          copy_box(b_to, b_map, (int)k, (int)at.col0, bar);
#else
          for (int i = 0; i < BLOCK_N / 64; ++i) {
            copy_box(b_to + i * 8192, b_map, (int)at.col0 + i * 64, (int)k,
                     bar);
          }
#endif
          if (++stage == STAGES) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    __asm__ volatile("//@@ setmaxnreg.inc.sync.aligned.u32 232;" ::: "memory");
    const int half_at = lid / WARPGROUP;
    const int lane = lid % 32, warp = lid % WARPGROUP / 32;
    float x[SUMS];
    for (long t = get_group_id(0); t < tiles; t += get_num_groups(0)) {
      const Place at = place_of(&g, t);
      uint add = 0;
      for (long k = at.k_begin; k < at.k_end; k += BLOCK_K) {
        barrier_wait(full_at + 8 * stage, parity);
        const uint a_from = ring_at + stage * STAGE_BYTES + half_at * 8192;
        const uint b_from = ring_at + stage * STAGE_BYTES + A_BYTES;
        __asm__ volatile("//@@ wgmma.fence.sync.aligned;" ::: "memory");
        _Pragma("unroll") for (int i = 0; i < BLOCK_K / 16; ++i) {
          multiply_16(x, operand_at(a_from + i * A_STEP),
                      operand_at(b_from + i * B_STEP), add);
          add = 1;
        }
        __asm__ volatile("//@@ wgmma.commit_group.sync.aligned;" ::: "memory");
        // Both warpgroups keep the tensor cores busy: waiting for the own
        // products was faster than having two steps under way.
        __asm__ volatile("//@@ wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (lane == 0) barrier_arrive(empty_at + 8 * stage);
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
      // The sums are not there before.
      __asm__ volatile("" : OPERANDS(x)::"memory");

      const long row0 = at.row0 + half_at * 64 + warp * 16 + lane / 4;
      const long first_col = at.col0 + lane % 4 * 2;
      _Pragma("unroll") for (int i = 0; i < 2; ++i) {
        const long row = row0 + 8 * i;
        if (row < g.m) {
          if (g.splits > 1) {
            __global float* to =
                partial + partial_at(&g, at.split, at.item, row, first_col);
            _Pragma("unroll") for (int j = 0; j < BLOCK_N / 8; ++j) {
              if (first_col + j * 8 < g.n) to[j * 8] = x[j * 4 + i * 2];
              if (first_col + j * 8 + 1 < g.n) {
                to[j * 8 + 1] = x[j * 4 + i * 2 + 1];
              }
            }
          } else {
            const long c_at = at.item * g.c_batch + row * g.c_row;
            const long d_at = at.item * g.d_batch + row * g.d_row;
            _Pragma("unroll") for (int j = 0; j < BLOCK_N / 8; ++j) {
              const long col = first_col + j * 8;
              if (col < g.n) {
                const float y = finished(x[j * 4 + i * 2], alpha, beta,
                                         d + d_offset, d_at + col * g.d_col);
#if PAIRS
                const float z =
                    finished(x[j * 4 + i * 2 + 1], alpha, beta, d + d_offset,
                             d_at + (col + 1) * g.d_col);
                store_pair(c + c_offset, c_at + col, y, z);
#else
                STORE(TC, c + c_offset, c_at + col * g.c_col, y);
                if (col + 1 < g.n) {
                  const float z =
                      finished(x[j * 4 + i * 2 + 1], alpha, beta, d + d_offset,
                               d_at + (col + 1) * g.d_col);
                  STORE(TC, c + c_offset, c_at + (col + 1) * g.c_col, z);
                }
#endif
              }
            }
          }
        }
      }
    }
  }
}

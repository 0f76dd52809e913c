// Pairs (key, place): keys unsigned, of WIDE ? 64 : 32 bits. A row's keys
// stand together, all orders (32 bits) behind all keys.

#if WIDE
typedef ulong key_type;
#else
typedef uint key_type;
#endif
#define TILE 1024

// Bitonic sort of each tile of a row, in place. span: a power of two, at least
// as many as a tile holds.
__kernel void sort_tiles(gptr pairs, long total, long n, long tiles, int span) {
  __local key_type keys[TILE];
  __local uint order[TILE];
  const long row = (long)get_group_id(0) / tiles;
  const long first = ((long)get_group_id(0) - row * tiles) * TILE;
  __global key_type* k = (__global key_type*)pairs + row * n;
  __global uint* o =
      (__global uint*)(pairs + total * (long)sizeof(key_type)) + row * n;
  const uint lane = get_local_id(0), lanes = get_local_size(0);
  for (uint l = lane; l < span; l += lanes) {
    const long i = first + l;
    keys[l] = i < n ? k[i] : (key_type) ~(key_type)0;
    order[l] = i < n ? (uint)i : 0xFFFFFFFFu;
  }
  for (uint size = 2; size <= span; size <<= 1) {
    for (uint apart = size >> 1; apart > 0; apart >>= 1) {
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint t = lane; t < span / 2; t += lanes) {
        const uint a = 2 * t - (t & (apart - 1));
        const uint b = a + apart;
        const key_type ka = keys[a], kb = keys[b];
        const uint oa = order[a], ob = order[b];
        const int above = ka > kb || (ka == kb && oa > ob);
        if (above == ((a & size) == 0)) {
          keys[a] = kb;
          keys[b] = ka;
          order[a] = ob;
          order[b] = oa;
        }
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint l = lane; l < span; l += lanes) {
    if (first + l < n) {
      k[first + l] = keys[l];
      o[first + l] = order[l];
    }
  }
}

// Sorted runs of `width` become runs of twice that: an element moves on by as
// many as its run's neighbour has before it.
__kernel void merge_runs(gcptr from, gptr to, long total, long n, long width) {
  const long id = get_global_id(0);
  if (id >= total) return;
  const long start = n == total ? 0 : id / n * n;
  const long e = id - start;
  const __global key_type* k = (const __global key_type*)from + start;
  const long orders = total * (long)sizeof(key_type);
  const long run = e / width;
  const long other = (run ^ 1) * width;
  const key_type own = k[e];
  long low = min(other, n), high = min(other + width, n);
  const long begin = low;
  const int is_right = run & 1;
  while (low < high) {
    const long middle = (low + high) >> 1;
    const key_type key = k[middle];
    if (is_right ? key <= own : key < own) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const long at =
      start + (run & ~1L) * width + (e - run * width) + (low - begin);
  ((__global key_type*)to)[at] = own;
  ((__global uint*)(to + orders))[at] =
      ((const __global uint*)(from + orders))[id];
}

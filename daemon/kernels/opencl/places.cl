// Where indices point: for each position the offset of its place, as keys of
// 32 or 64 bits (all ones: nowhere).

static inline ulong key_at(gcptr keys, int wide, long i) {
  if (wide) return ((const __global ulong*)keys)[i];
  const uint key = ((const __global uint*)keys)[i];
  return key == 0xFFFFFFFFu ? ~0UL : key;
}

static inline long any_index(gcptr index, int wide, long at) {
  return wide ? load_i64(index, at) : load_i32(index, at);
}

// key = base + index * stride, added to what stands there unless `first`.
// Index `skip` points nowhere.
__kernel void resolve(gptr keys, int wide_keys, int first, long n, gcptr index,
                      long index_offset, int wide_index, View index_view,
                      View base_view, long size, long stride, int wrap,
                      long skip, __global int* faults, int launch) {
  const long i = get_global_id(0);
  if (i >= n) return;
  const long value =
      any_index(index + index_offset, wide_index, view_at(&index_view, i));
  const long at = wrap && value < 0 ? value + size : value;
  const ulong old = first ? 0UL : key_at(keys, wide_keys, i);
  ulong key = ~0UL;
  if (at < 0 || at >= size) {
    fault(faults, launch, value, i);
  } else if (value != skip && old != ~0UL) {
    key = old + (ulong)(view_at(&base_view, i) + at * stride);
  }
  if (wide_keys) {
    ((__global ulong*)keys)[i] = key;
  } else {
    ((__global uint*)keys)[i] = (uint)key;
  }
}

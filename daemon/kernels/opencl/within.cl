// within: whether all elements lie between two limits.

#ifdef FLOATING
typedef ACC(T) limit;
#else
typedef long limit;
#endif

// Items take elements a whole grid apart.
__kernel void within(gcptr x, long x_offset, View view, long n, limit low,
                     limit high, __global int* faults, int launch) {
  const long step = get_global_size(0);
  for (long i = get_global_id(0); i < n; i += step) {
    const limit value = (limit)LOAD(T, x + x_offset, view_at(&view, i));
    // NaN fails both.
    if (!(value >= low && value <= high)) {
      fault(faults, launch, 0, i);
      return;
    }
  }
}

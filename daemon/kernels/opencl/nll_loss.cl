// nll_loss and its gradient over N times L distributions of C classes.
//
// -DT: logp, weight, losses; -DTARGET: i64 or u8.

#ifdef TV_DOUBLE
typedef double wide;
#else
typedef float wide;
#endif

// How [N], [N, L] or [N, C, L] lie: the steps of n and l, and of a class.
typedef struct {
  long n;
  long l;
  long c;
} Steps;

#define REDUCTION_NONE 0
#define REDUCTION_MEAN 1

// Losses of rows, and sums[2 * group], sums[2 * group + 1] of the group's
// losses and weights.
__kernel void nll_loss_rows(gptr loss, long loss_offset, gcptr logp,
                            long logp_offset, gcptr target, long target_offset,
                            gcptr weight, long weight_offset, Steps loss_steps,
                            Steps logp_steps, Steps target_steps,
                            long weight_step, int has_weight, long rows,
                            long inner, long classes, long ignore,
                            int reduction, int loops, __global wide* sums,
                            __local wide* lanes, __global int* faults,
                            int launch) {
  const int height = get_local_size(0);
  TV_LINES(height, 0);
  wide total = 0, weights = 0;
  for (int k = 0; k < loops; ++k) {
    const long i = ((long)get_group_id(0) * loops + k) * height + lane;
    if (i >= rows) break;
    const long n = i / inner, l = i - n * inner;
    // Read once: what is used is what was checked.
    const long t = LOAD(TARGET, target + target_offset,
                        n * target_steps.n + l * target_steps.l);
    wide value = 0;
    if (t != ignore) {
      if (t < 0 || t >= classes) {
        fault(faults, launch, t, i);
      } else {
        const wide w =
            has_weight ? LOAD(T, weight + weight_offset, t * weight_step) : 1;
        value =
            -w * LOAD(T, logp + logp_offset,
                      n * logp_steps.n + l * logp_steps.l + t * logp_steps.c);
        total += value;
        weights += w;
      }
    }
    if (reduction == REDUCTION_NONE) {
      STORE(T, loss + loss_offset, n * loss_steps.n + l * loss_steps.l,
            (ACC(T))value);
    }
  }
  if (reduction == REDUCTION_NONE) return;
  TV_JOIN_LINE(lanes, total, height, TV_ADD);
  TV_JOIN_LINE(lanes, weights, height, TV_ADD);
  if (lane == 0) {
    sums[2 * get_group_id(0)] = total;
    sums[2 * get_group_id(0) + 1] = weights;
  }
}

// One group.
__kernel void nll_loss_join(gptr loss, long loss_offset, gptr total_weight,
                            long weight_offset, __global const wide* sums,
                            long parts, int reduction, __local wide* lanes) {
  const int height = get_local_size(0);
  TV_LINES(height, 0);
  wide total = 0, weights = 0;
  for (long i = lane; i < parts; i += height) {
    total += sums[2 * i];
    weights += sums[2 * i + 1];
  }
  TV_JOIN_LINE(lanes, total, height, TV_ADD);
  TV_JOIN_LINE(lanes, weights, height, TV_ADD);
  if (lane != 0) return;
  if (reduction == REDUCTION_NONE) {
    STORE(T, total_weight + weight_offset, 0, 0);
    return;
  }
  // All ignored: 0 / 0, NaN as in PyTorch.
  STORE(T, loss + loss_offset, 0,
        (ACC(T))(reduction == REDUCTION_MEAN ? total / weights : total));
  STORE(T, total_weight + weight_offset, 0, (ACC(T))weights);
}

// A group writes `loops` elements an item of one n, of C * L.
__kernel void nll_loss_backward(
    gptr dlogp, long dlogp_offset, gcptr dloss, long dloss_offset, gcptr target,
    long target_offset, gcptr weight, long weight_offset, gcptr total_weight,
    long total_offset, Steps dlogp_steps, Steps dloss_steps, Steps target_steps,
    long weight_step, int has_weight, long inner, long classes, long ignore,
    int mean, int loops, long chunks, __global int* faults, int launch) {
  const long n = get_group_id(0) / chunks;
  const long first =
      (get_group_id(0) - n * chunks) * loops * (long)get_local_size(0);
  for (int k = 0; k < loops; ++k) {
    const long i = first + k * (long)get_local_size(0) + get_local_id(0);
    if (i >= classes * inner) return;
    const long c = inner == 1 ? i : i / inner, l = i - c * inner;
    const long t = LOAD(TARGET, target + target_offset,
                        n * target_steps.n + l * target_steps.l);
    wide value = 0;
    if (t == c && t != ignore) {
      const wide w =
          has_weight ? LOAD(T, weight + weight_offset, t * weight_step) : 1;
      value = -w * LOAD(T, dloss + dloss_offset,
                        n * dloss_steps.n + l * dloss_steps.l);
      if (mean) value /= LOAD(T, total_weight + total_offset, 0);
    } else if (c == 0 && t != ignore && (t < 0 || t >= classes)) {
      fault(faults, launch, t, n * inner + l);
    }
    STORE(T, dlogp + dlogp_offset,
          n * dlogp_steps.n + c * dlogp_steps.c + l * dlogp_steps.l,
          (ACC(T))value);
  }
}

// What convolutions need beside products: windows as columns and back, weights
// as matrices and back.

// Laid out as `ConvGeometry` of conv_problem.h. The input is the volume that
// windows move over, the output has one element for each of their positions.
typedef struct {
  long in_size[3];
  long out_size[3];
  long window[3];
  long stride[3];
  long padding[3];
  long dilation[3];
  long in[5];  // strides
  long out[5];
  long channels;  // of the input
  long group_channels;
  long rows;  // channels of the output
  long group_rows;
  long channels_last;  // of the volume that items are counted over
  // Of a window's element: [image, group, channel, tap, position].
  long col_image, col_group, col_channel, col_tap, col_position;
  long first_position;
  long positions;  // of the columns
  // [row, channel, d, h, w]
  long weight[5];
} Conv;

typedef struct {
  long image, channel, position;
} Place;

// The i-th of [image, channel, position], or [image, position, channel].
// Division of 64 bits is slow where there is none in hardware.
#define TV_PLACE(type)                    \
  {                                       \
    type rest = (type)i;                  \
    if (channels_last) {                  \
      at.channel = rest % (type)channels; \
      rest /= (type)channels;             \
    }                                     \
    at.position = rest % (type)positions; \
    rest /= (type)positions;              \
    if (!channels_last) {                 \
      at.channel = rest % (type)channels; \
      rest /= (type)channels;             \
    }                                     \
    at.image = rest;                      \
  }
static inline Place place_of(long i, long count, long channels, long positions,
                             int channels_last) {
  Place at;
  if (count <= UINT_MAX) {
    TV_PLACE(uint)
  } else {
    TV_PLACE(ulong)
  }
  return at;
}

// Coordinates in space.
static inline void coordinates_of(long position, const long* size, long* at) {
  if (position <= UINT_MAX) {
    uint rest = (uint)position;
    at[2] = rest % (uint)size[2];
    rest /= (uint)size[2];
    at[1] = rest % (uint)size[1];
    at[0] = rest / (uint)size[1];
  } else {
    at[2] = position % size[2];
    position /= size[2];
    at[1] = position % size[1];
    at[0] = position / size[1];
  }
}

#ifdef BYTES
// One item for each channel and position: the elements of its window. Behind
// the input's border there are zeros.
__kernel void conv_columns(__global element* columns, gcptr x, long x_offset,
                           Conv p, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const Place place =
      place_of(i, count, p.channels, p.positions, p.channels_last != 0);
  long at[3];
  coordinates_of(p.first_position + place.position, p.out_size, at);
  for (int d = 0; d < 3; ++d) at[d] = at[d] * p.stride[d] - p.padding[d];
  const long group = place.channel / p.group_channels;
  __global element* to =
      columns + place.image * p.col_image + group * p.col_group +
      (place.channel - group * p.group_channels) * p.col_channel +
      place.position * p.col_position;
  const __global element* from = (const __global element*)(x + x_offset) +
                                 place.image * p.in[0] +
                                 place.channel * p.in[1];
  for (long d = 0; d < p.window[0]; ++d) {
    const long id = at[0] + d * p.dilation[0];
    for (long h = 0; h < p.window[1]; ++h) {
      const long ih = at[1] + h * p.dilation[1];
      const int inside =
          id >= 0 & id < p.in_size[0] & ih >= 0 & ih < p.in_size[1];
      const long line = id * p.in[2] + ih * p.in[3];
      for (long w = 0; w < p.window[2]; ++w) {
        const long iw = at[2] + w * p.dilation[2];
        element value = 0;
        if (inside && iw >= 0 && iw < p.in_size[2]) {
          value = from[line + iw * p.in[4]];
        }
        *to = value;
        to += p.col_tap;
      }
    }
  }
}

// Weights as a matrix [row, k]: k counts taps within channels, or channels
// within taps.
__kernel void conv_pack_weight(__global element* matrix, gcptr weight,
                               long weight_offset, Conv p, long pitch,
                               int taps_first, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const long taps = p.window[0] * p.window[1] * p.window[2];
  const long depth = taps * p.group_channels;
  const long row = i / depth, k = i - row * depth;
  const long channel = taps_first ? k % p.group_channels : k / taps;
  const long tap = taps_first ? k / p.group_channels : k % taps;
  long at[3];
  coordinates_of(tap, p.window, at);
  matrix[row * pitch + k] = ((const __global element*)(weight + weight_offset))
      [row * p.weight[0] + channel * p.weight[1] + at[0] * p.weight[2] +
       at[1] * p.weight[3] + at[2] * p.weight[4]];
}
#endif

#ifdef T
static inline ACC(T) bias_at(gcptr bias, int kind, long i) {
  return kind == 0   ? (ACC(T))0
         : kind == 1 ? LOAD(T, bias, i)
                     : (ACC(T))LOAD(f32, bias, i);
}

// The other way: the matrix of sums (of type SUM) to weights.
__kernel void conv_unpack_weight(gptr weight, long weight_offset,
                                 const __global SUM* matrix, Conv p, long pitch,
                                 int taps_first, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const long taps = p.window[0] * p.window[1] * p.window[2];
  const long depth = taps * p.group_channels;
  const long row = i / depth, k = i - row * depth;
  const long channel = taps_first ? k % p.group_channels : k / taps;
  const long tap = taps_first ? k / p.group_channels : k % taps;
  long at[3];
  coordinates_of(tap, p.window, at);
  STORE(T, weight + weight_offset,
        row * p.weight[0] + channel * p.weight[1] + at[0] * p.weight[2] +
            at[1] * p.weight[3] + at[2] * p.weight[4],
        matrix[row * pitch + k]);
}

// Where position i of the input meets tap t along dimension d: the output's
// coordinate, -1 for nowhere.
static inline long meeting(const Conv* p, int d, long i, long t) {
  const long from = i + p->padding[d] - t * p->dilation[d];
  const long stride = p->stride[d];
  if (from < 0) return -1;
  const long at = stride == 1 ? from : from / stride;
  return at * stride == from & at < p->out_size[d] ? at : -1;
}

// Adds up what windows say of each element of the input.
__kernel void conv_images(gptr x, long x_offset, const __global SUM* columns,
                          gcptr bias, long bias_offset, long bias_stride,
                          int bias_kind, Conv p, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const long space = p.in_size[0] * p.in_size[1] * p.in_size[2];
  const Place place =
      place_of(i, count, p.channels, space, p.channels_last != 0);
  long at[3];
  coordinates_of(place.position, p.in_size, at);
  const long group = place.channel / p.group_channels;
  const __global SUM* from =
      columns + place.image * p.col_image + group * p.col_group +
      (place.channel - group * p.group_channels) * p.col_channel;
  SUM sum = bias_at(bias + bias_offset, bias_kind, place.channel * bias_stride);
  for (long d = 0; d < p.window[0]; ++d) {
    const long od = meeting(&p, 0, at[0], d);
    if (od < 0) continue;
    for (long h = 0; h < p.window[1]; ++h) {
      const long oh = meeting(&p, 1, at[1], h);
      if (oh < 0) continue;
      const long line = (od * p.out_size[1] + oh) * p.out_size[2];
      const long taps = (d * p.window[1] + h) * p.window[2];
      for (long w = 0; w < p.window[2]; ++w) {
        const long ow = meeting(&p, 2, at[2], w);
        if (ow < 0) continue;
        sum += from[(taps + w) * p.col_tap + (line + ow) * p.col_position];
      }
    }
  }
  STORE(T, x + x_offset,
        place.image * p.in[0] + place.channel * p.in[1] + at[0] * p.in[2] +
            at[1] * p.in[3] + at[2] * p.in[4],
        sum);
}

// Few channels in a group: an item for each element of the output.
__kernel void conv_direct(gptr y, long y_offset, gcptr x, long x_offset,
                          gcptr weight, long weight_offset, gcptr bias,
                          long bias_offset, long bias_stride, int bias_kind,
                          Conv p, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const long space = p.out_size[0] * p.out_size[1] * p.out_size[2];
  const Place place = place_of(i, count, p.rows, space, p.channels_last != 0);
  long at[3], start[3];
  coordinates_of(place.position, p.out_size, at);
  for (int d = 0; d < 3; ++d) start[d] = at[d] * p.stride[d] - p.padding[d];
  x += x_offset;
  weight += weight_offset;
  const long group = place.channel / p.group_rows;
  const long from = place.image * p.in[0] + group * p.group_channels * p.in[1];
  SUM sum = bias_at(bias + bias_offset, bias_kind, place.channel * bias_stride);
  for (long c = 0; c < p.group_channels; ++c) {
    const long plane = from + c * p.in[1];
    const long filter = place.channel * p.weight[0] + c * p.weight[1];
    for (long d = 0; d < p.window[0]; ++d) {
      const long id = start[0] + d * p.dilation[0];
      if (id < 0 | id >= p.in_size[0]) continue;
      for (long h = 0; h < p.window[1]; ++h) {
        const long ih = start[1] + h * p.dilation[1];
        if (ih < 0 | ih >= p.in_size[1]) continue;
        const long line = plane + id * p.in[2] + ih * p.in[3];
        const long taps = filter + d * p.weight[2] + h * p.weight[3];
        for (long w = 0; w < p.window[2]; ++w) {
          const long iw = start[2] + w * p.dilation[2];
          if (iw < 0 | iw >= p.in_size[2]) continue;
          sum += LOAD(T, x, line + iw * p.in[4]) *
                 LOAD(T, weight, taps + w * p.weight[4]);
        }
      }
    }
  }
  STORE(T, y + y_offset,
        place.image * p.out[0] + place.channel * p.out[1] + at[0] * p.out[2] +
            at[1] * p.out[3] + at[2] * p.out[4],
        sum);
}

// Its gradient with respect to the input: an item for each element of that.
__kernel void conv_direct_transpose(gptr x, long x_offset, gcptr y,
                                    long y_offset, gcptr weight,
                                    long weight_offset, gcptr bias,
                                    long bias_offset, long bias_stride,
                                    int bias_kind, Conv p, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const long space = p.in_size[0] * p.in_size[1] * p.in_size[2];
  const Place place =
      place_of(i, count, p.channels, space, p.channels_last != 0);
  long at[3];
  coordinates_of(place.position, p.in_size, at);
  y += y_offset;
  weight += weight_offset;
  const long group = place.channel / p.group_channels;
  const long c = place.channel - group * p.group_channels;
  SUM sum = bias_at(bias + bias_offset, bias_kind, place.channel * bias_stride);
  for (long r = group * p.group_rows; r < (group + 1) * p.group_rows; ++r) {
    const long plane = place.image * p.out[0] + r * p.out[1];
    const long filter = r * p.weight[0] + c * p.weight[1];
    for (long d = 0; d < p.window[0]; ++d) {
      const long od = meeting(&p, 0, at[0], d);
      if (od < 0) continue;
      for (long h = 0; h < p.window[1]; ++h) {
        const long oh = meeting(&p, 1, at[1], h);
        if (oh < 0) continue;
        const long line = plane + od * p.out[2] + oh * p.out[3];
        const long taps = filter + d * p.weight[2] + h * p.weight[3];
        for (long w = 0; w < p.window[2]; ++w) {
          const long ow = meeting(&p, 2, at[2], w);
          if (ow < 0) continue;
          sum += LOAD(T, y, line + ow * p.out[4]) *
                 LOAD(T, weight, taps + w * p.weight[4]);
        }
      }
    }
  }
  STORE(T, x + x_offset,
        place.image * p.in[0] + place.channel * p.in[1] + at[0] * p.in[2] +
            at[1] * p.in[3] + at[2] * p.in[4],
        sum);
}

// A group of items for each weight: they add up the images' positions.
__kernel void conv_direct_weight(gptr dweight, long dweight_offset, gcptr dy,
                                 long dy_offset, gcptr x, long x_offset, Conv p,
                                 long images, __local SUM* lanes) {
  const int lane = get_local_id(0), width = get_local_size(0);
  const long taps = p.window[0] * p.window[1] * p.window[2];
  const long i = get_group_id(0);
  const long c = i / taps % p.group_channels;
  const long r = i / taps / p.group_channels;
  long tap[3], at[3];
  coordinates_of(i % taps, p.window, tap);
  const long plane = r / p.group_rows * p.group_channels + c;
  const long space = p.out_size[0] * p.out_size[1] * p.out_size[2];
  x += x_offset;
  dy += dy_offset;
  SUM sum = 0;
  for (long j = lane; j < images * space; j += width) {
    const long image = j / space;
    coordinates_of(j - image * space, p.out_size, at);
    long from = image * p.in[0] + plane * p.in[1];
    long grad = image * p.out[0] + r * p.out[1];
    int inside = 1;
    for (int d = 0; d < 3; ++d) {
      const long k =
          at[d] * p.stride[d] - p.padding[d] + tap[d] * p.dilation[d];
      inside &= k >= 0 & k < p.in_size[d];
      from += k * p.in[2 + d];
      grad += at[d] * p.out[2 + d];
    }
    if (inside) sum += LOAD(T, dy, grad) * LOAD(T, x, from);
  }
  lanes[lane] = sum;
  for (int reach = width / 2; reach > 0; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < reach) lanes[lane] += lanes[lane + reach];
  }
  if (lane == 0) {
    STORE(T, dweight + dweight_offset,
          r * p.weight[0] + c * p.weight[1] + tap[0] * p.weight[2] +
              tap[1] * p.weight[3] + tap[2] * p.weight[4],
          lanes[0]);
  }
}
#endif

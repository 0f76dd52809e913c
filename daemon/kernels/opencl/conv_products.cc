// Convolutions as matrix products.
//
// Windows are copied into columns in the stream's scratch memory ("im2col"),
// as many at a time as a budget allows, and multiplied by the weights as they
// lie. Copies are paid for by products that run at their full speed, on tensor
// cores too. Windows of one element are not copied where they are a matrix
// already.

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/conv_problem.h"
#include "daemon/kernels/opencl/gemm_problem.h"
#include "daemon/kernels/opencl/scratch_operand.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/checked_math.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

// Of the stream's scratch, beside those of products.
constexpr int kColumnsSlot = 2, kWeightSlot = 3, kOutputSlot = 4, kSumsSlot = 5;
// A CPU's columns should stay in its cache.
constexpr int64_t kCpuColumnBytes = 512 << 10;
constexpr int64_t kColumnBytes = 256 << 20;
// Columns of products begin where vectors of 16 bytes may.
constexpr int64_t kPitch = 8;
constexpr int64_t kPositionGrain = 64;

int64_t RoundUp(int64_t x, int64_t grain) {
  return (x + grain - 1) / grain * grain;
}

int64_t Bytes(DType dtype) { return static_cast<int64_t>(SizeOf(dtype)); }

int64_t ColumnBudget(const DeviceTraits& traits) {
  if (traits.is_cpu) return kCpuColumnBytes;
  return std::min<int64_t>(kColumnBytes,
                           static_cast<int64_t>(traits.global_bytes / 32));
}

// What one chunk may take where it can't be smaller.
int64_t MostBytes(const DeviceTraits& traits) {
  return static_cast<int64_t>(
      std::min(traits.global_bytes / 16, traits.max_buffer_bytes / 2));
}

// Whether three dimensions step like one.
bool FlatStep(const int64_t* sizes, const int64_t* strides, int64_t* step) {
  int64_t next = 0;
  *step = 1;
  for (int d = 2; d >= 0; --d) {
    if (sizes[d] == 1) continue;
    if (next == 0) {
      *step = strides[d];
    } else if (strides[d] != next) {
      return false;
    }
    next = strides[d] * sizes[d];
  }
  return true;
}

// A matrix for each image and group.
struct Matrices {
  ResolvedOperand operand;
  int64_t row = 0, col = 0;
  int64_t image = 0, group = 0;

  Matrices& Move(int64_t elements) {
    operand.offset_bytes +=
        static_cast<uint64_t>(elements * Bytes(operand.dtype));
    return *this;
  }
};

// c = a @ b (+ bias) for each image and group.
struct MatrixProducts {
  Matrices a, b, c, bias;
  int64_t m = 0, n = 0, k = 0;
};

absl::Status RunBatch(KernelContext& context, const MatrixProducts& p,
                      int64_t batch, int64_t Matrices::*batched, int64_t offset,
                      int64_t Matrices::*stepped) {
  const auto at = [&](const Matrices& x) {
    Matrices moved = x;
    return moved.Move(offset * (x.*stepped)).operand;
  };
  GemmProblem q;
  q.a = at(p.a);
  q.b = at(p.b);
  q.c = at(p.c);
  GemmArguments& g = q.args;
  g.batch = batch;
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.a_row = p.a.row;
  g.a_k = p.a.col;
  g.a_batch = p.a.*batched;
  g.b_k = p.b.row;
  g.b_col = p.b.col;
  g.b_batch = p.b.*batched;
  g.c_row = p.c.row;
  g.c_col = p.c.col;
  g.c_batch = p.c.*batched;
  if (p.bias.operand.dtype != DType::kInvalid) {
    q.bias = at(p.bias);
    q.beta = 1;
    g.d_row = p.bias.row;
    g.d_col = p.bias.col;
    g.d_batch = p.bias.*batched;
  }
  return RunGemmProblem(context, std::move(q));
}

// One of images and groups is the batch, the other a loop.
absl::Status Run(KernelContext& context, const MatrixProducts& p,
                 int64_t images, int64_t groups) {
  if (images >= groups) {
    for (int64_t g = 0; g < groups; ++g) {
      RETURN_IF_ERROR(
          RunBatch(context, p, images, &Matrices::image, g, &Matrices::group));
    }
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < images; ++i) {
    RETURN_IF_ERROR(
        RunBatch(context, p, groups, &Matrices::group, i, &Matrices::image));
  }
  return absl::OkStatus();
}

// Images and positions that are worked on together.
struct Chunks {
  int64_t images = 1, positions = 1;
};

// False: not even the smallest chunk fits.
bool PlanChunks(const DeviceTraits& traits, const ConvProblem& p,
                int64_t position_bytes, bool whole_images, Chunks* chunks) {
  const int64_t budget = ColumnBudget(traits), most = MostBytes(traits);
  int64_t image_bytes = 0;
  const bool fits = base::CheckedMul(RoundUp(p.space(), kPitch), position_bytes,
                                     &image_bytes);
  if (fits && image_bytes <= budget) {
    *chunks = {std::min(p.images, budget / image_bytes), p.space()};
    return true;
  }
  if (whole_images) {
    *chunks = {1, p.space()};
    return fits && image_bytes <= most;
  }
  const int64_t positions =
      std::max(budget / position_bytes / kPositionGrain * kPositionGrain,
               kPositionGrain);
  *chunks = {1, std::min(positions, p.space())};
  return position_bytes <= most / kPositionGrain;
}

// Bytes of an element's columns for one position; false if that overflows.
bool PositionBytes(const ConvProblem& p, int64_t extra, DType dtype,
                   int64_t* bytes) {
  int64_t elements = 0;
  return base::CheckedMul(p.taps(), p.g.channels, &elements) &&
         elements < (int64_t{1} << 40) && extra < (int64_t{1} << 40) &&
         base::CheckedMul(elements + extra + kPitch, Bytes(dtype), bytes);
}

// Where columns stand. channels_last: [image, position, group, tap, channel];
// else [image, group, channel, tap, position], or with the images next to the
// positions.
int64_t LayOutColumns(bool channels_last, bool images_inside, int64_t images,
                      int64_t positions, int64_t taps, ConvGeometry* g) {
  g->positions = positions;
  if (channels_last) {
    g->col_channel = 1;
    g->col_tap = g->group_channels;
    g->col_group = taps * g->group_channels;
    g->col_position = RoundUp(taps * g->channels, kPitch);
    g->col_image = positions * g->col_position;
    return images * g->col_image;
  }
  g->col_position = 1;
  g->col_tap = RoundUp(images_inside ? images * positions : positions, kPitch);
  g->col_channel = taps * g->col_tap;
  g->col_group = g->group_channels * g->col_channel;
  const int64_t all = g->channels * g->col_channel;
  g->col_image = images_inside ? positions : all;
  return images_inside ? all : images * all;
}

// [position, k] of the columns.
Matrices ColumnMatrix(const ConvGeometry& g, const ResolvedOperand& operand) {
  Matrices m;
  m.operand = operand;
  m.row = g.col_position;
  m.col = g.col_channel == 1 ? 1 : g.col_tap;
  m.image = g.col_image;
  m.group = g.col_group;
  return m;
}

// Channels as units of up to 16 bytes, where they lie side by side.
int64_t Widen(const ResolvedOperand& x, int64_t images, ConvGeometry* g) {
  const int64_t bytes = Bytes(x.dtype);
  int64_t unit = 16 / bytes;
  const auto fits = [&](int64_t n) { return n % unit == 0; };
  if (g->col_channel != 1 || g->in[1] != 1) return bytes;
  for (; unit > 1; unit /= 2) {
    bool all = fits(g->group_channels) && fits(g->col_tap) &&
               fits(g->col_group) && fits(g->col_position) &&
               x.offset_bytes % static_cast<uint64_t>(unit * bytes) == 0 &&
               (images == 1 || (fits(g->in[0]) && fits(g->col_image)));
    for (int d = 0; d < 3; ++d) {
      all &= g->in_size[d] == 1 || fits(g->in[2 + d]);
    }
    if (all) break;
  }
  for (int64_t* member : {&g->channels, &g->group_channels, &g->in[0],
                          &g->in[2], &g->in[3], &g->in[4], &g->col_tap,
                          &g->col_group, &g->col_position, &g->col_image}) {
    *member /= unit;
  }
  return unit * bytes;
}

absl::Status FillColumns(KernelContext& context, ConvGeometry g,
                         const ResolvedOperand& x, int64_t first_image,
                         int64_t images, cl_mem columns) {
  ResolvedOperand from = x;
  from.offset_bytes +=
      static_cast<uint64_t>(first_image * g.in[0] * Bytes(x.dtype));
  const int64_t unit = Widen(from, images, &g);
  const int64_t count = images * g.channels * g.positions;
  return KernelCall(context, kConvCl, "conv_columns",
                    absl::StrCat("-DBYTES=", unit))
      .Memory(columns)
      .Operand(from)
      .Struct(g)
      .Long(count)
      .Run(count);
}

// The stride of k where weights are a matrix [row, k] as they lie; 0 if they
// are not. k counts taps within channels, or the other way round.
int64_t WeightStep(const ConvProblem& p, bool taps_first) {
  const ConvGeometry& g = p.g;
  int64_t tap = 1;
  if (!FlatStep(g.window, g.weight + 2, &tap)) return 0;
  const int64_t channel = g.weight[1];
  if (g.group_channels == 1) return tap;
  if (p.taps() == 1) return channel;
  if (taps_first) return tap == g.group_channels * channel ? channel : 0;
  return channel == p.taps() * tap ? tap : 0;
}

// [row, k] of the weights, copied where they are no matrix, or none that
// tensor cores take.
absl::Status WeightMatrix(KernelContext& context, const ConvProblem& p,
                          bool taps_first, ScratchOperand* scratch,
                          Matrices* matrix) {
  const int64_t step = WeightStep(p, taps_first);
  const bool aligned = p.weight.offset_bytes % 16 == 0 && step == 1 &&
                       (p.g.rows == 1 || p.g.weight[0] % kPitch == 0);
  const bool halves = context.traits().is_nvidia && Bytes(p.dtype()) == 2;
  matrix->operand = p.weight;
  matrix->row = p.g.weight[0];
  matrix->col = step;
  if (step == 0 || (halves && !aligned)) {
    const int64_t pitch = RoundUp(p.depth(), kPitch);
    const int64_t count = p.g.rows * p.depth();
    RETURN_IF_ERROR(scratch->Take(
        context, static_cast<uint64_t>(p.g.rows * pitch * Bytes(p.dtype())),
        kWeightSlot));
    RETURN_IF_ERROR(KernelCall(context, kConvCl, "conv_pack_weight",
                               absl::StrCat("-DBYTES=", Bytes(p.dtype())))
                        .Memory(scratch->memory())
                        .Operand(p.weight)
                        .Struct(p.g)
                        .Long(pitch)
                        .Int(taps_first)
                        .Long(count)
                        .Run(count));
    matrix->operand = scratch->As(p.dtype());
    matrix->row = pitch;
    matrix->col = 1;
  }
  matrix->group = p.g.group_rows * matrix->row;
  return absl::OkStatus();
}

Matrices Transposed(Matrices m) {
  std::swap(m.row, m.col);
  return m;
}

// [position, channel] of a volume whose positions step evenly.
Matrices VolumeMatrix(const ResolvedOperand& x, const int64_t* strides,
                      int64_t step, int64_t group_channels) {
  Matrices m;
  m.operand = x;
  m.row = step;
  m.col = strides[1];
  m.image = strides[0];
  m.group = group_channels * strides[1];
  return m;
}

// A bias for each column.
Matrices BiasMatrix(const ConvProblem& p, int64_t group_channels) {
  Matrices m;
  if (!p.has_bias()) return m;
  m.operand = p.bias;
  m.col = p.bias.strides[0];
  m.group = group_channels * m.col;
  return m;
}

bool IsChannelsLast(const ConvGeometry& g) {
  return g.channels > 1 && g.in[1] == 1 && g.in[4] != 1;
}

// Whether each window is one element, at the output's own place.
bool IsPointwise(const ConvProblem& p, int64_t* step) {
  for (int d = 0; d < 3; ++d) {
    if (p.g.window[d] != 1 || p.g.stride[d] != 1 || p.g.padding[d] != 0 ||
        p.g.in_size[d] != p.g.out_size[d]) {
      return false;
    }
  }
  return FlatStep(p.g.in_size, p.g.in + 2, step);
}

absl::Status NotProducts() {
  return absl::UnimplementedError("no convolution by products");
}

}  // namespace

absl::Status RunConvProducts(KernelContext& context, ConvProblem p) {
  ConvGeometry& g = p.g;
  int64_t in_step = 1, out_step = 1, position_bytes = 0;
  Chunks chunks{p.images, p.space()};
  const bool pointwise = IsPointwise(p, &in_step);
  if (!FlatStep(g.out_size, g.out + 2, &out_step) ||
      !PositionBytes(p, 0, p.dtype(), &position_bytes) ||
      (!pointwise && !PlanChunks(context.traits(), p, position_bytes,
                                 /*whole_images=*/false, &chunks))) {
    return NotProducts();
  }
  const bool channels_last = IsChannelsLast(g);
  ScratchOperand weights, columns;
  MatrixProducts q;
  RETURN_IF_ERROR(WeightMatrix(context, p, channels_last, &weights, &q.b));
  q.b = Transposed(q.b);
  q.bias = BiasMatrix(p, g.group_rows);
  q.n = g.group_rows;
  q.k = p.depth();
  if (pointwise) {
    q.a = VolumeMatrix(p.input, g.in, in_step, g.group_channels);
    q.c = VolumeMatrix(p.output, g.out, out_step, g.group_rows);
    q.m = p.space();
    return Run(context, q, p.images, p.groups);
  }
  for (int64_t image = 0; image < p.images; image += chunks.images) {
    const int64_t images = std::min(chunks.images, p.images - image);
    for (int64_t at = 0; at < p.space(); at += chunks.positions) {
      g.first_position = at;
      g.channels_last = channels_last;
      const int64_t elements = LayOutColumns(
          channels_last, /*images_inside=*/false, images,
          std::min(chunks.positions, p.space() - at), p.taps(), &g);
      RETURN_IF_ERROR(columns.Take(
          context, static_cast<uint64_t>(elements * Bytes(p.dtype())),
          kColumnsSlot));
      RETURN_IF_ERROR(
          FillColumns(context, g, p.input, image, images, columns.memory()));
      q.a = ColumnMatrix(g, columns.As(p.dtype()));
      q.c = VolumeMatrix(p.output, g.out, out_step, g.group_rows);
      q.c.Move(image * g.out[0] + at * out_step);
      q.m = g.positions;
      RETURN_IF_ERROR(Run(context, q, images, p.groups));
    }
  }
  return absl::OkStatus();
}

absl::Status RunConvTransposeProducts(KernelContext& context, ConvProblem p) {
  ConvGeometry& g = p.g;
  const DType sum = SumDType(p.dtype());
  int64_t in_step = 1, out_step = 1, position_bytes = 0;
  Chunks chunks{p.images, p.space()};
  const bool pointwise = IsPointwise(p, &in_step);
  if (!FlatStep(g.out_size, g.out + 2, &out_step) ||
      !PositionBytes(p, 0, sum, &position_bytes) ||
      (!pointwise && !PlanChunks(context.traits(), p, position_bytes,
                                 /*whole_images=*/true, &chunks))) {
    return NotProducts();
  }
  const bool channels_last = IsChannelsLast(g);
  ScratchOperand weights, columns;
  MatrixProducts q;
  RETURN_IF_ERROR(WeightMatrix(context, p, channels_last, &weights, &q.b));
  q.m = p.space();
  q.n = p.depth();
  q.k = g.group_rows;
  if (pointwise) {
    q.a = VolumeMatrix(p.output, g.out, out_step, g.group_rows);
    q.c = VolumeMatrix(p.input, g.in, in_step, g.group_channels);
    q.bias = BiasMatrix(p, g.group_channels);
    return Run(context, q, p.images, p.groups);
  }
  g.channels_last = channels_last;
  for (int64_t image = 0; image < p.images; image += chunks.images) {
    const int64_t images = std::min(chunks.images, p.images - image);
    const int64_t elements =
        LayOutColumns(channels_last, /*images_inside=*/false, images, p.space(),
                      p.taps(), &g);
    RETURN_IF_ERROR(columns.Take(
        context, static_cast<uint64_t>(elements * Bytes(sum)), kColumnsSlot));
    q.a = VolumeMatrix(p.output, g.out, out_step, g.group_rows);
    q.a.Move(image * g.out[0]);
    q.c = ColumnMatrix(g, columns.As(sum));
    RETURN_IF_ERROR(Run(context, q, images, p.groups));
    ResolvedOperand to = p.input;
    to.offset_bytes +=
        static_cast<uint64_t>(image * g.in[0] * Bytes(p.dtype()));
    const int64_t count =
        images * g.channels * g.in_size[0] * g.in_size[1] * g.in_size[2];
    KernelCall call(context, kConvCl, "conv_images", ConvOptions(p));
    call.Operand(to).Memory(columns.memory());
    AddConvBias(p, &call);
    RETURN_IF_ERROR(call.Struct(g).Long(count).Run(count));
  }
  return absl::OkStatus();
}

namespace {

// [k, row] of the output's gradient, k counting positions within images;
// copied where images and positions do not step as one.
absl::Status OutputMatrix(KernelContext& context, const ConvProblem& p,
                          int64_t first_image, int64_t images,
                          ScratchOperand* scratch, Matrices* matrix) {
  const ConvGeometry& g = p.g;
  int64_t step = 1;
  const bool flat = FlatStep(g.out_size, g.out + 2, &step);
  if (flat && (images == 1 ||
               (g.positions == p.space() && g.out[0] == p.space() * step))) {
    *matrix = VolumeMatrix(p.output, g.out, step, g.group_rows);
    matrix->Move(first_image * g.out[0] + g.first_position * step);
    return absl::OkStatus();
  }
  ConvGeometry copy;
  for (int d = 0; d < 3; ++d) {
    copy.in_size[d] = copy.out_size[d] = g.out_size[d];
    copy.window[d] = copy.stride[d] = copy.dilation[d] = 1;
  }
  std::copy_n(g.out, 5, copy.in);
  copy.channels = copy.group_channels = g.rows;
  copy.channels_last = g.rows > 1 && g.out[1] == 1;
  copy.first_position = g.first_position;
  const int64_t elements =
      LayOutColumns(/*channels_last=*/false, /*images_inside=*/true, images,
                    g.positions, /*taps=*/1, &copy);
  RETURN_IF_ERROR(
      scratch->Take(context, static_cast<uint64_t>(elements * Bytes(p.dtype())),
                    kOutputSlot));
  RETURN_IF_ERROR(FillColumns(context, copy, p.output, first_image, images,
                              scratch->memory()));
  *matrix = ColumnMatrix(copy, scratch->As(p.dtype()));
  matrix->group = g.group_rows * matrix->col;
  return absl::OkStatus();
}

}  // namespace

absl::Status RunConvWeightProducts(KernelContext& context, ConvProblem p) {
  ConvGeometry& g = p.g;
  const DType sum = SumDType(p.dtype());
  int64_t in_step = 1, position_bytes = 0;
  Chunks chunks;
  if (!PositionBytes(p, g.rows, p.dtype(), &position_bytes) ||
      !PlanChunks(context.traits(), p, position_bytes, /*whole_images=*/false,
                  &chunks)) {
    return NotProducts();
  }
  const bool channels_last = IsChannelsLast(g);
  const bool pointwise = IsPointwise(p, &in_step) &&
                         (p.images == 1 || g.in[0] == p.space() * in_step);
  const bool whole = chunks.images == p.images && chunks.positions == p.space();
  const int64_t step = WeightStep(p, channels_last);
  const bool direct = whole && step != 0;

  ScratchOperand columns, output, sums;
  MatrixProducts q;
  q.m = g.group_rows;
  q.n = p.depth();
  q.c.operand = p.weight;
  q.c.row = g.weight[0];
  q.c.col = step;
  if (!direct) {
    RETURN_IF_ERROR(sums.Take(
        context, static_cast<uint64_t>(g.rows * p.depth() * Bytes(sum)),
        kSumsSlot));
    q.c.operand = sums.As(sum);
    q.c.row = p.depth();
    q.c.col = 1;
  }
  q.c.group = g.group_rows * q.c.row;
  g.channels_last = channels_last;
  for (int64_t image = 0; image < p.images; image += chunks.images) {
    const int64_t images = std::min(chunks.images, p.images - image);
    for (int64_t at = 0; at < p.space(); at += chunks.positions) {
      g.first_position = at;
      const int64_t elements = LayOutColumns(
          channels_last, /*images_inside=*/true, images,
          std::min(chunks.positions, p.space() - at), p.taps(), &g);
      if (pointwise) {
        q.b = VolumeMatrix(p.input, g.in, in_step, g.group_channels);
        q.b.Move(image * g.in[0] + at * in_step);
      } else {
        RETURN_IF_ERROR(columns.Take(
            context, static_cast<uint64_t>(elements * Bytes(p.dtype())),
            kColumnsSlot));
        RETURN_IF_ERROR(
            FillColumns(context, g, p.input, image, images, columns.memory()));
        q.b = ColumnMatrix(g, columns.As(p.dtype()));
      }
      RETURN_IF_ERROR(OutputMatrix(context, p, image, images, &output, &q.a));
      q.a = Transposed(q.a);
      q.k = images * g.positions;
      // Later chunks add to what is there.
      if (image > 0 || at > 0) q.bias = q.c;
      RETURN_IF_ERROR(Run(context, q, /*images=*/1, p.groups));
    }
  }
  if (direct) return absl::OkStatus();
  const int64_t count = g.rows * p.depth();
  return KernelCall(context, kConvCl, "conv_unpack_weight", ConvOptions(p))
      .Operand(p.weight)
      .Memory(sums.memory())
      .Struct(g)
      .Long(p.depth())
      .Int(channels_last)
      .Long(count)
      .Run(count);
}

}  // namespace tvarant::opencl

// convolution, convolution_transpose (its gradient with respect to the input)
// and convolution_weight: makes problems (conv_problem.h) of a launch and
// plans their tiles.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/conv/conv_problem.h"
#include "daemon/kernels/host/conv/depthwise.h"
#include "daemon/kernels/host/conv/grouped_problem.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/scratch.h"

namespace tvarant::host {
namespace {

// A tile's packed columns and sums stay in the second-level cache.
constexpr int64_t kTileBytes = 768 << 10;
constexpr int64_t kMaxTileColumns = 1024;
// The gradient of the weights: rows, positions and sums of a task.
constexpr int64_t kWeightRows = 128;
constexpr int64_t kWeightPositions = 480;
constexpr int64_t kWeightSums = 1 << 16;

struct Geometry {
  const Tensor& input;   // [N, C_in, D, H, W]
  const Tensor& output;  // [N, C_out, D', H', W']
  const Tensor& weight;  // [C_out, C_in / groups, d, h, w]
  int64_t groups, stride[3], padding[3], dilation[3];
};

Geometry GeometryOf(const HostLaunch& launch, const Tensor& input,
                    const Tensor& output, const Tensor& weight) {
  Geometry g{input, output, weight, launch.ints[0], {}, {}, {}};
  for (int i = 0; i < 3; ++i) {
    g.stride[i] = launch.ints[1 + i];
    g.padding[i] = launch.ints[4 + i];
    g.dilation[i] = launch.ints[7 + i];
  }
  return g;
}

ConvVolume VolumeOf(const Tensor& t) {
  ConvVolume v;
  v.data = t.data;
  v.batch_stride = t.strides[0];
  v.channel_stride = t.strides[1];
  for (int i = 0; i < 3; ++i) v.strides[i] = t.strides[2 + i];
  return v;
}

// Whether the three dimensions of space step like one.
bool IsFlat(const ConvVolume& v, const int64_t* sizes) {
  return (sizes[1] == 1 || v.strides[1] == sizes[2] * v.strides[2]) &&
         (sizes[0] == 1 || v.strides[0] == sizes[1] * sizes[2] * v.strides[2]);
}

// A 1x1 filter sees an image as one long row.
void Flatten(ConvProblem* p) {
  if (p->num_taps > 1) return;
  for (int i = 0; i < 3; ++i) {
    if (p->step[i] != 1 || p->grid[i] != p->x_size[i]) return;
    if (p->num_taps == 1 && p->taps[0].start[i] != 0) return;
  }
  if (!IsFlat(p->x, p->x_size) || !IsFlat(p->y, p->grid)) return;
  const int64_t size = p->grid[0] * p->grid[1] * p->grid[2];
  for (int64_t* sizes : {p->x_size, p->grid}) {
    sizes[0] = sizes[1] = 1;
    sizes[2] = size;
  }
}

// In the direction of the convolution: y is its output.
GroupedProblem Forward(const Geometry& g, std::vector<ConvTap>* taps) {
  GroupedProblem all;
  ConvProblem& p = all.first;
  p.dtype = g.input.dtype;
  p.x = VolumeOf(g.input);
  p.y = VolumeOf(g.output);
  p.weight = g.weight.data;
  p.weight_row = g.weight.strides[0];
  p.weight_channel = g.weight.strides[1];
  p.batch = g.output.sizes[0];
  p.rows = g.output.sizes[1] / g.groups;
  p.channels = g.input.sizes[1] / g.groups;
  for (int i = 0; i < 3; ++i) {
    p.x_size[i] = g.input.sizes[2 + i];
    p.grid[i] = g.output.sizes[2 + i];
    p.step[i] = g.stride[i];
  }
  const int64_t* k = g.weight.sizes + 2;
  const int64_t* strides = g.weight.strides + 2;
  taps->clear();
  for (int64_t d = 0; d < k[0]; ++d) {
    for (int64_t h = 0; h < k[1]; ++h) {
      for (int64_t w = 0; w < k[2]; ++w) {
        taps->push_back({{d * g.dilation[0] - g.padding[0],
                          h * g.dilation[1] - g.padding[1],
                          w * g.dilation[2] - g.padding[2]},
                         d * strides[0] + h * strides[1] + w * strides[2]});
      }
    }
  }
  p.taps = taps->data();
  p.num_taps = static_cast<int64_t>(taps->size());
  const int64_t bytes = BytesOf(p.dtype);
  all.groups = g.groups;
  all.x_step = p.channels * p.x.channel_stride * bytes;
  all.y_step = p.rows * p.y.channel_stride * bytes;
  all.weight_step = p.rows * p.weight_row * bytes;
  return all;
}

// Against it, for input coordinates with these remainders by the stride: y is
// the convolution's input. Input coordinate i and tap k meet output coordinate
// (i + padding - k * dilation) / stride, if that is whole.
GroupedProblem Backward(const Geometry& g, const int64_t* remainder,
                        std::vector<ConvTap>* taps) {
  GroupedProblem all;
  ConvProblem& p = all.first;
  const int64_t bytes = BytesOf(g.output.dtype);
  p.dtype = g.output.dtype;
  p.x = VolumeOf(g.output);
  p.y = VolumeOf(g.input);
  p.weight = g.weight.data;
  p.weight_row = g.weight.strides[1];
  p.weight_channel = g.weight.strides[0];
  p.batch = g.input.sizes[0];
  p.rows = g.input.sizes[1] / g.groups;
  p.channels = g.output.sizes[1] / g.groups;
  all.groups = g.groups;
  all.x_step = p.channels * p.x.channel_stride * bytes;
  all.y_step = p.rows * p.y.channel_stride * bytes;
  all.weight_step = p.channels * p.weight_channel * bytes;

  struct Meeting {
    int64_t start, weight;
  };
  std::vector<Meeting> meetings[3];
  for (int i = 0; i < 3; ++i) {
    const int64_t s = g.stride[i], r = remainder[i];
    p.x_size[i] = g.output.sizes[2 + i];
    p.grid[i] = (g.input.sizes[2 + i] - r + s - 1) / s;
    p.step[i] = 1;
    p.y.data += r * p.y.strides[i] * bytes;
    p.y.strides[i] *= s;
    for (int64_t k = 0; k < g.weight.sizes[2 + i]; ++k) {
      const int64_t at = r + g.padding[i] - k * g.dilation[i];
      if (at % s == 0) {
        meetings[i].push_back({at / s, k * g.weight.strides[2 + i]});
      }
    }
  }
  taps->clear();
  for (const Meeting& d : meetings[0]) {
    for (const Meeting& h : meetings[1]) {
      for (const Meeting& w : meetings[2]) {
        taps->push_back(
            {{d.start, h.start, w.start}, d.weight + h.weight + w.weight});
      }
    }
  }
  p.taps = taps->data();
  p.num_taps = static_cast<int64_t>(taps->size());
  return all;
}

void SetBias(const HostLaunch& launch, GroupedProblem* all) {
  if (launch.src.size() < 3 || !launch.src[2].present()) return;
  const Tensor& bias = launch.src[2];
  all->first.bias = bias.data;
  all->first.bias_dtype = bias.dtype;
  all->first.bias_stride = bias.strides[0];
  all->bias_step = all->first.rows * bias.strides[0] * BytesOf(bias.dtype);
}

int64_t RoundUp(int64_t x, int64_t step) {
  return (x + step - 1) / step * step;
}

// Parts of `size`, each a multiple of step and at most max, at least `parts`.
int64_t PartSize(int64_t size, int64_t parts, int64_t step, int64_t max) {
  parts = std::max<int64_t>(parts, 1);
  const int64_t needed = (size + max - 1) / max;
  // Whole rounds over the parts that are wanted anyway.
  parts = (needed + parts - 1) / parts * parts;
  return RoundUp((size + parts - 1) / parts, step);
}

// How many tasks the work is worth.
int64_t TasksFor(double products, const ThreadPool& pool) {
  return std::max<int64_t>(
      1, static_cast<int64_t>(
             std::min(products / static_cast<double>(kProductsPerTask),
                      static_cast<double>(pool.num_threads()))));
}

double ProductsOf(const GroupedProblem& all) {
  return static_cast<double>(all.groups) * static_cast<double>(all.first.rows) *
         static_cast<double>(all.first.depth()) *
         static_cast<double>(all.first.columns());
}

absl::Status RunProblem(const HostLaunch& launch, GroupedProblem all,
                        ThreadPool& pool) {
  ConvProblem& p = all.first;
  const int64_t columns = p.columns();
  if (columns == 0 || p.rows == 0) return absl::OkStatus();
  const bool wide = p.dtype == DType::kFloat64;
  const int64_t bytes = wide ? 8 : 4;
  const ConvKernels& kernels = TVARANT_FOR_ISA(kConvKernels);
  const ConvKernel& kernel = wide ? kernels.f64 : kernels.f32;
  if (IsDepthwise(p)) {
    bool done = false;
    const absl::Status status = RunDepthwise(launch, all, kernel, pool, &done);
    if (done) return status;
  }
  Flatten(&p);

  const int64_t panels = (p.rows + kernel.row_step - 1) / kernel.row_step;
  const int64_t group_bytes = panels * kernel.row_step * p.depth() * bytes;
  double packed_bytes =
      static_cast<double>(group_bytes) * static_cast<double>(all.groups);
  char* packed =
      packed_bytes > 1e15
          ? nullptr
          : LaunchScratch(static_cast<size_t>(group_bytes * all.groups));
  if (packed == nullptr) return NoMemory(launch);
  const int64_t panel_elements = kernel.row_step * p.depth() + 1;
  pool.ParallelFor(
      all.groups * panels, std::max<int64_t>(1, (1 << 16) / panel_elements),
      [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end;) {
          const int64_t group = task / panels, panel = task % panels;
          const int64_t count = std::min(panels - panel, end - task);
          kernel.pack_weight(all.Group(group), panel, panel + count,
                             packed + group * group_bytes);
          task += count;
        }
      });

  const int64_t depth = std::min(p.depth(), kernel.block_depth);
  const int64_t max_columns = std::clamp<int64_t>(
      kTileBytes / bytes / (depth + panels * kernel.row_step) /
          kernel.col_step * kernel.col_step,
      2 * kernel.col_step, kMaxTileColumns);
  const int64_t wanted = TasksFor(ProductsOf(all), pool);
  const int64_t tile = PartSize(columns, (wanted + all.groups - 1) / all.groups,
                                kernel.col_step, max_columns);
  const int64_t tiles = (columns + tile - 1) / tile;
  const double products = static_cast<double>(p.rows) *
                          static_cast<double>(p.depth() + 1) *
                          static_cast<double>(tile);
  std::atomic<bool> out_of_memory{false};
  pool.ParallelFor(
      all.groups * tiles,
      std::max<int64_t>(1, static_cast<int64_t>(kProductsPerTask / products)),
      [&](int64_t begin, int64_t end) {
        char* scratch =
            Scratch(kernel.tile_scratch_bytes(p, std::min(tile, columns)));
        if (scratch == nullptr) {
          out_of_memory = true;
          return;
        }
        for (int64_t task = begin; task < end; ++task) {
          const int64_t group = task / tiles, at = task % tiles * tile;
          kernel.tile(all.Group(group), packed + group * group_bytes, at,
                      std::min(columns, at + tile), scratch);
        }
      });
  return out_of_memory ? NoMemory(launch) : absl::OkStatus();
}

}  // namespace

absl::Status RunConvolution(const HostLaunch& launch, ThreadPool& pool) {
  std::vector<ConvTap> taps;
  GroupedProblem all = Forward(
      GeometryOf(launch, launch.src[0], launch.dst[0], launch.src[1]), &taps);
  SetBias(launch, &all);
  return RunProblem(launch, all, pool);
}

absl::Status RunConvolutionTranspose(const HostLaunch& launch,
                                     ThreadPool& pool) {
  const Geometry g =
      GeometryOf(launch, launch.dst[0], launch.src[0], launch.src[1]);
  if (g.input.numel() == 0) return absl::OkStatus();
  int64_t phases[3];
  for (int i = 0; i < 3; ++i) {
    phases[i] = std::min(g.stride[i], g.input.sizes[2 + i]);
  }
  std::vector<ConvTap> taps;
  for (int64_t phase = 0; phase < phases[0] * phases[1] * phases[2]; ++phase) {
    const int64_t remainder[3] = {phase / phases[2] / phases[1],
                                  phase / phases[2] % phases[1],
                                  phase % phases[2]};
    GroupedProblem all = Backward(g, remainder, &taps);
    SetBias(launch, &all);
    const absl::Status status = RunProblem(launch, all, pool);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RunConvolutionWeight(const HostLaunch& launch, ThreadPool& pool) {
  std::vector<ConvTap> taps;
  GroupedProblem all = Forward(
      GeometryOf(launch, launch.src[1], launch.src[0], launch.dst[0]), &taps);
  ConvProblem& p = all.first;
  if (p.depth() == 0 || p.rows == 0) return absl::OkStatus();
  const bool wide = p.dtype == DType::kFloat64;
  const ConvKernels& kernels = TVARANT_FOR_ISA(kConvKernels);
  const ConvKernel& kernel = wide ? kernels.f64 : kernels.f32;
  if (IsDepthwise(p) && p.columns() > 0) {
    bool done = false;
    const absl::Status status =
        RunDepthwiseWeight(launch, all, kernel, pool, &done);
    if (done) return status;
  }
  Flatten(&p);

  // Sums of a task stay in the second-level cache.
  const int64_t rows = std::clamp<int64_t>(kWeightSums / p.num_taps,
                                           std::min<int64_t>(p.rows, 4),
                                           std::min(p.rows, kWeightRows));
  const int64_t row_tasks = (p.rows + rows - 1) / rows;
  const int64_t wanted = TasksFor(ProductsOf(all), pool);
  const int64_t others = all.groups * row_tasks;
  const int64_t part =
      PartSize(p.channels, (wanted + others - 1) / others, 1,
               std::max<int64_t>(1, kWeightPositions / p.num_taps));
  const int64_t parts = (p.channels + part - 1) / part;
  const double products = static_cast<double>(rows) *
                          static_cast<double>(part * p.num_taps) *
                          static_cast<double>(p.columns() + 1);
  std::atomic<bool> out_of_memory{false};
  pool.ParallelFor(
      others * parts,
      std::max<int64_t>(1, static_cast<int64_t>(kProductsPerTask / products)),
      [&](int64_t begin, int64_t end) {
        char* scratch =
            Scratch(kernel.weight_scratch_bytes(rows, part * p.num_taps));
        if (scratch == nullptr) {
          out_of_memory = true;
          return;
        }
        for (int64_t task = begin; task < end; ++task) {
          const int64_t group = task / parts / row_tasks;
          const int64_t row = task / parts % row_tasks * rows;
          const int64_t c = task % parts * part;
          kernel.weight(all.Group(group), row, std::min(p.rows, row + rows), c,
                        std::min(p.channels, c + part), scratch);
        }
      });
  return out_of_memory ? NoMemory(launch) : absl::OkStatus();
}

}  // namespace tvarant::host

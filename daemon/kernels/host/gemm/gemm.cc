// gemm_bias_act: plans tiles, hands them to the kernels in gemm_tile.h.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/gemm/gemm_few_rows.h"
#include "daemon/kernels/host/gemm/gemm_tile.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/isa.h"
#include "daemon/kernels/host/scratch.h"
#include "daemon/kernels/host/yield_scope.h"

namespace tvarant::host {
namespace {

// Products below which a second thread costs more than it brings.
constexpr int64_t kProductsPerTask = 1 << 19;
// The same where each element of B is used in few products.
constexpr int64_t kFewRowsProductsPerTask = 1 << 16;
// Scratch of a tile grows with its extents.
constexpr int64_t kMaxTileRows = 1024;
constexpr int64_t kMaxTileCols = 2048;

// While others are at the device, a tile should not keep them waiting for much
// longer than a millisecond.
constexpr int64_t kNeighbourTileRows = 256;
constexpr int64_t kNeighbourTileProducts = 1 << 26;

struct Strides {
  int64_t a = 0, b = 0, c = 0, bias = 0;  // from one batch item to the next
};

const GemmKernels& Kernels() { return TVARANT_FOR_ISA(kGemmKernels); }

GemmMatrix MatrixOf(const Tensor& t) {
  return {t.data, t.dtype, t.strides[1], t.strides[2]};
}

// C^T = B^T A^T.
void Transpose(GemmProblem* g) {
  for (GemmMatrix* x : {&g->a, &g->b, &g->c, &g->bias}) {
    std::swap(x->row_stride, x->col_stride);
  }
  std::swap(g->a, g->b);
  std::swap(g->m, g->n);
}

// Makes C's rows contiguous if its columns are, and few columns few rows. True
// if A and B changed places.
bool Orient(GemmProblem* g) {
  const bool columns = g->c.row_stride == 1 && g->c.col_stride != 1;
  const bool narrow = g->n <= kFewRows && g->m > g->n;
  const bool flat = g->m <= kFewRows && g->n > g->m;
  if (!narrow && (!columns || flat)) return false;
  Transpose(g);
  return true;
}

// One product for the whole batch where B is shared and rows follow on.
void FoldBatch(int64_t* batch, const Strides& s, GemmProblem* g) {
  if (*batch <= 1 || s.b != 0) return;
  const bool bias_follows =
      g->bias.dtype == DType::kInvalid || s.bias == g->m * g->bias.row_stride;
  if (s.a == g->m * g->a.row_stride && s.c == g->m * g->c.row_stride &&
      bias_follows) {
    g->m *= *batch;
    *batch = 1;
  }
}

bool ComputesIn(ComputeClass wanted, DType dtype) {
  return dtype != DType::kBool && ComputeClassOf(dtype) == wanted;
}

// The number of parts that [0, size) is cut into, each a multiple of step.
int64_t PartSize(int64_t size, int64_t parts, int64_t step) {
  const int64_t part = (size + parts - 1) / parts;
  return std::max<int64_t>(step, (part + step - 1) / step * step);
}

struct TileGrid {
  int64_t tile_rows, tile_cols;
  int64_t across, down;  // tiles of one batch item
};

int64_t ProductsPerTask(bool few_rows) {
  return few_rows ? kFewRowsProductsPerTask : kProductsPerTask;
}

TileGrid PlanTiles(const GemmProblem& g, const GemmKernel& kernel,
                   bool few_rows, int64_t batch, int threads) {
  TileGrid grid;
  grid.tile_rows = std::min(g.m, kMaxTileRows);
  grid.tile_cols = std::min(g.n, kMaxTileCols);
  const double products = static_cast<double>(g.m) * static_cast<double>(g.n) *
                          static_cast<double>(std::max<int64_t>(g.k, 1));
  // Enough tiles for all threads, when each is worth a thread.
  const int64_t worth = static_cast<int64_t>(std::min(
      products / ProductsPerTask(few_rows), static_cast<double>(threads)));
  const int64_t wanted = batch >= threads ? 1 : std::max<int64_t>(worth, 1);
  int64_t parts = (wanted + batch - 1) / batch;
  if (few_rows || g.n >= g.m) {
    grid.tile_cols =
        std::min(grid.tile_cols, PartSize(g.n, parts, kernel.col_step));
  } else {
    grid.tile_rows =
        std::min(grid.tile_rows, PartSize(g.m, parts, kernel.row_step));
  }
  if (!few_rows && HasNeighbours()) {
    grid.tile_rows = std::min(grid.tile_rows, kNeighbourTileRows);
    const int64_t cols =
        kNeighbourTileProducts / (grid.tile_rows * std::max<int64_t>(g.k, 1));
    grid.tile_cols =
        std::min(grid.tile_cols, std::max<int64_t>(cols, 1) / kernel.col_step *
                                         kernel.col_step +
                                     kernel.col_step);
  }
  grid.across = (g.n + grid.tile_cols - 1) / grid.tile_cols;
  grid.down = (g.m + grid.tile_rows - 1) / grid.tile_rows;
  return grid;
}

}  // namespace

absl::Status RunGemm(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& a = launch.src[0];
  const Tensor& b = launch.src[1];
  const Tensor& c = launch.dst[0];
  const bool has_bias =
      launch.src.size() > 2 && launch.src[2].present() && launch.beta != 0;
  const ComputeClass compute = ComputeClassOf(c.dtype);
  const GemmKernels& kernels = Kernels();
  const GemmKernel* kernel = nullptr;
  switch (compute) {
    case ComputeClass::kF32:
      kernel = a.dtype == DType::kBFloat16 && b.dtype == DType::kBFloat16 &&
                       kernels.bf16.tile != nullptr && HasBFloat16()
                   ? &kernels.bf16
                   : &kernels.f32;
      break;
    case ComputeClass::kF64:
      kernel = &kernels.f64;
      break;
    case ComputeClass::kI32:
      kernel = &kernels.u32;
      break;
    case ComputeClass::kI64:
      kernel = &kernels.u64;
      break;
    default:
      break;
  }
  const bool float_act = launch.act != Act::kNone && launch.act != Act::kRelu;
  if (kernel == nullptr || !ComputesIn(compute, a.dtype) ||
      !ComputesIn(compute, b.dtype) || !ComputesIn(compute, c.dtype) ||
      (has_bias && !ComputesIn(compute, launch.src[2].dtype)) ||
      (float_act && !IsFloating(c.dtype))) {
    return absl::UnimplementedError(
        absl::StrCat("gemm_bias_act: no kernel for ", NameOf(a.dtype), " @ ",
                     NameOf(b.dtype), " -> ", NameOf(c.dtype), ", act ",
                     static_cast<int>(launch.act)));
  }

  GemmProblem g;
  g.a = MatrixOf(a);
  g.b = MatrixOf(b);
  g.c = MatrixOf(c);
  Strides strides{a.strides[0], b.strides[0], c.strides[0], 0};
  if (has_bias) {
    g.bias = MatrixOf(launch.src[2]);
    strides.bias = launch.src[2].strides[0];
  }
  g.m = c.sizes[1];
  g.n = c.sizes[2];
  g.k = a.sizes[2];
  g.alpha = launch.alpha;
  g.beta = launch.beta;
  g.act = launch.act;
  int64_t batch = c.sizes[0];
  if (batch == 0 || g.m == 0 || g.n == 0) return absl::OkStatus();
  FoldBatch(&batch, strides, &g);
  if (Orient(&g)) std::swap(strides.a, strides.b);

  const bool few_rows = kernel->few_rows != nullptr && g.m <= kFewRows &&
                        (g.b.col_stride == 1 || g.b.row_stride == 1);
  const TileGrid grid =
      PlanTiles(g, *kernel, few_rows, batch, pool.num_threads());
  const int64_t tiles = grid.across * grid.down;
  const double products_per_tile =
      static_cast<double>(grid.tile_rows) *
      static_cast<double>(grid.tile_cols) *
      static_cast<double>(std::max<int64_t>(g.k, 1));
  const int64_t grain = std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(ProductsPerTask(few_rows)) /
                              products_per_tile));
  const auto run = few_rows ? kernel->few_rows : kernel->tile;
  std::atomic<bool> out_of_memory{false};
  pool.ParallelForOrCancel(
      batch * tiles, grain, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t item = task / tiles;
          const int64_t row = task % tiles / grid.across * grid.tile_rows;
          const int64_t col = task % tiles % grid.across * grid.tile_cols;
          const GemmRange range{row, std::min(g.m, row + grid.tile_rows), col,
                                std::min(g.n, col + grid.tile_cols)};
          GemmProblem part = g;
          part.a.data += item * strides.a * SizeOf(g.a.dtype);
          part.b.data += item * strides.b * SizeOf(g.b.dtype);
          part.c.data += item * strides.c * SizeOf(g.c.dtype);
          if (has_bias) {
            part.bias.data += item * strides.bias * SizeOf(g.bias.dtype);
          }
          char* scratch =
              Scratch(few_rows ? kFewRowsScratchBytes
                               : kernel->scratch_bytes(part, range));
          if (scratch == nullptr) {
            out_of_memory = true;
            return;
          }
          run(part, range, scratch);
        }
      });
  if (out_of_memory) {
    return absl::ResourceExhaustedError(
        "gemm_bias_act: no host memory for packed operands");
  }
  return absl::OkStatus();
}

}  // namespace tvarant::host

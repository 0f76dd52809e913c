// gemm_bias_act by tiles in plain OpenCL C, and few rows.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/gemm_problem.h"
#include "daemon/kernels/opencl/gemm_tuning.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

constexpr int kLanes = 32;  // of gemv.cl
// A part of k should not be shorter.
constexpr int64_t kMinSplit = 256;
constexpr int64_t kMaxSplits = 256;
// Below this many products one program does for all layouts.
constexpr double kFewProducts = 1 << 20;
constexpr int64_t kMinGroupBytes = 3 << 10;  // see pointwise.cc

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Whether `vector` neighbours can be loaded at once: those along the dimension
// of stride 1, at the same alignment in every other.
bool Aligned(const ResolvedOperand& x, int64_t other_stride, int64_t batch,
             int64_t vector) {
  return x.offset_bytes % (static_cast<uint64_t>(vector) * SizeOf(x.dtype)) ==
             0 &&
         other_stride % vector == 0 && batch % vector == 0;
}

int64_t WantedSplits(const DeviceTraits& traits, int64_t groups, int64_t k,
                     int64_t groups_per_unit) {
  const int64_t wanted = int64_t{traits.compute_units} * groups_per_unit;
  return std::clamp<int64_t>(std::min(wanted / groups, k / kMinSplit), 1,
                             kMaxSplits);
}

}  // namespace

absl::Status RunGemmTiles(KernelContext& context, GemmProblem problem) {
  GemmArguments& g = problem.args;
  const DeviceTraits& traits = context.traits();
  const int sum_bytes = SizeOf(problem.c.dtype) == 8 ? 8 : 4;
  const GemmConfig& config =
      ChooseGemmConfig(traits, {g.m, g.n, g.batch, sum_bytes});
  bool a_along_k = g.a_k == 1, b_along_k = g.b_k == 1;
  const bool few = Products(g) < kFewProducts;
  const bool vector =
      !few && (a_along_k || (g.a_row == 1 && g.m % 4 == 0)) &&
      (b_along_k || (g.b_col == 1 && g.n % 4 == 0)) &&
      Aligned(problem.a, a_along_k ? g.a_row : g.a_k, g.a_batch, 4) &&
      Aligned(problem.b, b_along_k ? g.b_col : g.b_k, g.b_batch, 4);
  if (few) a_along_k = true, b_along_k = false;

  g.tiles_m = CeilDiv(g.m, config.tile_m);
  g.tiles_n = CeilDiv(g.n, config.tile_n);
  const int64_t tiles = g.tiles_m * g.tiles_n * g.batch;
  SplitK(WantedSplits(traits, tiles, g.k, 2), config.tile_k, &g);
  const bool c_vector = vector && g.splits == 1 && g.c_col == 1 &&
                        g.n % 4 == 0 &&
                        Aligned(problem.c, g.c_row, g.c_batch, 4);
  ASSIGN_OR_RETURN(const cl_mem partial, PartialSums(context, problem));
  static const std::string* const text =
      new std::string(WithGemmCommon(kGemmTileCl));
  KernelCall call(
      context, {kGemmTileCl.name, text->c_str()}, "gemm_tile",
      absl::StrCat(GemmOptions(problem), " -DTILE_M=", config.tile_m,
                   " -DTILE_N=", config.tile_n, " -DTILE_K=", config.tile_k,
                   " -DITEM_M=", config.item_m, " -DITEM_N=", config.item_n,
                   " -DVECTOR=", vector ? 4 : 1, " -DA_ALONG_K=", a_along_k,
                   " -DB_ALONG_K=", b_along_k, " -DC_VECTOR=", c_vector));
  AddGemmArguments(problem, partial, &call);
  RETURN_IF_ERROR(
      call.RunGroups(tiles * g.splits, static_cast<uint32_t>(config.items())));
  return AddPartialSums(context, problem, partial);
}

absl::Status RunGemv(KernelContext& context, GemmProblem problem) {
  GemmArguments& g = problem.args;
  const DeviceTraits& traits = context.traits();
  const int64_t size = static_cast<int64_t>(SizeOf(problem.b.dtype));
  const int64_t wide = 16 / size;
  const bool along_n = g.b_col == 1 && g.b_k != 1 && g.n > 1;
  const bool vector =
      along_n ? Aligned(problem.b, g.b_k, g.b_batch, wide)
              : g.b_k == 1 && Aligned(problem.b, g.b_col, g.b_batch, wide);
  const int64_t width = vector ? wide : 1;
  const bool a_vector =
      vector && !along_n && g.a_k == 1 &&
      width * static_cast<int64_t>(SizeOf(problem.a.dtype)) % 16 == 0 &&
      Aligned(problem.a, g.a_row, g.a_batch, width);

  // Items of a group in its second dimension.
  const int64_t most =
      std::max<int64_t>(1, std::min<int64_t>(traits.group_size / kLanes, 8));
  int64_t second = 1, columns = 1;
  if (along_n) {
    second = most;
    columns = kLanes * width;
  } else {
    while (second < most && second * g.k * size < kMinGroupBytes) second *= 2;
    columns = second;
  }
  const int64_t col_groups = CeilDiv(g.n, columns);
  SplitK(WantedSplits(traits, col_groups * g.batch, g.k, along_n ? 8 : 16),
         kLanes * width, &g);
  ASSIGN_OR_RETURN(const cl_mem partial, PartialSums(context, problem));
  static const std::string* const text =
      new std::string(WithGemmCommon(kGemvCl));
  KernelCall call(
      context, {kGemvCl.name, text->c_str()},
      along_n ? "gemv_along_n" : "gemv_along_k",
      absl::StrCat(GemmOptions(problem), " -DROWS=", g.m, " -DVECTOR=", width,
                   " -DA_VECTOR=", a_vector ? 1 : 0));
  AddGemmArguments(problem, partial, &call);
  const size_t sum_bytes = SizeOf(problem.c.dtype) == 8 ? 8 : 4;
  call.Local(static_cast<size_t>(kLanes * second) * sum_bytes);
  call.Long(col_groups);
  const size_t groups[] = {static_cast<size_t>(col_groups * g.batch * g.splits),
                           1};
  const size_t group[] = {kLanes, static_cast<size_t>(second)};
  RETURN_IF_ERROR(call.RunGrid(2, groups, group));
  return AddPartialSums(context, problem, partial);
}

}  // namespace tvarant::opencl

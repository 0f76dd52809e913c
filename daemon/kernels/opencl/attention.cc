// attention: tiles of many queries (attention_tile.cl), or few queries of long
// keys, which are split (attention_few.cl).

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

constexpr int64_t kFewQueries = 8;
constexpr int64_t kMaxValues = 256;  // of attention_tile.cl
constexpr int64_t kMaxWidth = 1024;  // of attention_few.cl
// Scores of a group in local memory.
constexpr int64_t kMaxScores = 4096;
constexpr uint32_t kMaxGroup = 256;
constexpr int kResultsSlot = 0, kScalesSlot = 1;  // of the stream's scratch

// Laid out as `Attention` in attention_common.cl.
struct AttentionArguments {
  int64_t batch = 0, heads = 0, share = 1;
  int64_t queries = 0, keys = 0;
  int64_t width = 0, value_width = 0;
  int64_t q[4] = {}, k[4] = {}, v[4] = {}, y[4] = {}, mask[4] = {};
  int64_t sums[3] = {};
  int64_t mask_kind = 0;
  int64_t causal = 0;
  int64_t blocks = 0;
  int64_t splits = 1;
  int64_t split = 1;
};

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

AttentionArguments ArgumentsOf(const ResolvedLaunch& launch) {
  AttentionArguments a;
  const ResolvedOperand& q = launch.src[0];
  const ResolvedOperand& k = launch.src[1];
  const ResolvedOperand& v = launch.src[2];
  const ResolvedOperand& mask = launch.src[3];
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& sums = launch.dst[1];
  a.batch = q.sizes[0];
  a.heads = q.sizes[1];
  a.share = k.sizes[1] == 0 ? 1 : a.heads / k.sizes[1];
  a.queries = q.sizes[2];
  a.keys = k.sizes[2];
  a.width = q.sizes[3];
  a.value_width = v.sizes[3];
  std::copy_n(q.strides, 4, a.q);
  std::copy_n(k.strides, 4, a.k);
  std::copy_n(v.strides, 4, a.v);
  std::copy_n(y.strides, 4, a.y);
  if (mask.dtype != DType::kInvalid) {
    std::copy_n(mask.strides, 4, a.mask);
    a.mask_kind = mask.dtype == DType::kBool ? 1
                  : mask.dtype == q.dtype    ? 2
                                             : 3;
  }
  if (sums.dtype != DType::kInvalid) std::copy_n(sums.strides, 3, a.sums);
  a.causal = launch.ints[0];
  return a;
}

std::string WithCommon(const ClSource& source) {
  return absl::StrCat(kAttentionCommonCl.text, source.text);
}

struct Tile {
  int64_t queries, keys;

  uint32_t items() const { return static_cast<uint32_t>(queries * keys / 16); }
};

Tile ChooseTile(const DeviceTraits& traits) {
  if (traits.group_size >= 128 && traits.max_group_size >= 256) return {64, 64};
  if (traits.group_size >= 64) return {32, 32};
  return {16, 32};
}

absl::Status RunTiles(KernelContext& context, const ResolvedLaunch& launch,
                      AttentionArguments a) {
  const Tile tile = ChooseTile(context.traits());
  int64_t values = tile.keys;
  while (values < a.value_width) values *= 2;
  a.blocks = CeilDiv(a.queries, tile.queries);
  static const std::string* const text =
      new std::string(WithCommon(kAttentionTileCl));
  return KernelCall(
             context, {kAttentionTileCl.name, text->c_str()}, "attention_tile",
             absl::StrCat("-DT=", ClTypeName(launch.src[0].dtype),
                          " -DBLOCK_M=", tile.queries, " -DBLOCK_N=", tile.keys,
                          " -DVALUES=", values))
      .Operand(launch.dst[0])
      .Operand(launch.dst[1])
      .Operand(launch.src[0])
      .Operand(launch.src[1])
      .Operand(launch.src[2])
      .Operand(launch.src[3])
      .Struct(a)
      .Float(static_cast<float>(launch.scalar))
      .RunGroups(a.batch * a.heads * a.blocks, tile.items());
}

// Whether rows of `width` elements can be read `vector` at a time.
bool ReadsVectors(const ResolvedOperand& x, int64_t vector) {
  bool aligned =
      x.strides[3] == 1 && x.sizes[3] % vector == 0 && x.offset_bytes % 16 == 0;
  for (int d = 0; d < 3; ++d) {
    aligned &= x.sizes[d] == 1 || x.strides[d] % vector == 0;
  }
  return aligned;
}

absl::Status RunFew(KernelContext& context, const ResolvedLaunch& launch,
                    AttentionArguments a) {
  const DeviceTraits& traits = context.traits();
  const DType dtype = launch.src[0].dtype;
  const int64_t rows = a.share * a.queries;
  const int64_t block = rows == 1 ? 1 : rows <= 4 ? 4 : 8;
  a.blocks = CeilDiv(rows, block);
  const uint32_t group = std::min(PowerOfTwoGroup(traits), kMaxGroup);
  const int64_t wide = 16 / static_cast<int64_t>(SizeOf(dtype));
  const bool vectors =
      ReadsVectors(launch.src[1], wide) && ReadsVectors(launch.src[2], wide);
  const int64_t vector = vectors ? wide : 1;
  const int64_t across =
      std::min<int64_t>(PowerOfTwoFrom(CeilDiv(a.value_width, vector)), group);

  const int64_t pairs = a.batch * (a.heads / a.share);
  const int64_t wanted = EnoughGroups(traits) / (pairs * a.blocks);
  const int64_t most = kMaxScores / block;
  a.split = CeilDiv(CeilDiv(std::max<int64_t>(a.keys, 1),
                            std::max<int64_t>(wanted, 1)),
                    group) *
            group;
  a.split = std::min(a.split, most);
  a.splits = std::max<int64_t>(CeilDiv(a.keys, a.split), 1);

  const int64_t slots = pairs * a.blocks * a.splits * block;
  ASSIGN_OR_RETURN(
      const cl_mem results,
      context.Scratch(static_cast<uint64_t>(slots) *
                          static_cast<uint64_t>(a.value_width) * sizeof(float),
                      kResultsSlot));
  ASSIGN_OR_RETURN(
      const cl_mem scales,
      context.Scratch(static_cast<uint64_t>(slots) * 2 * sizeof(float),
                      kScalesSlot));
  static const std::string* const text =
      new std::string(WithCommon(kAttentionFewCl));
  const ClSource source{kAttentionFewCl.name, text->c_str()};
  const std::string options = absl::StrCat(
      "-DT=", ClTypeName(dtype), " -DROWS=", block, " -DVECTOR=", vector);
  RETURN_IF_ERROR(
      KernelCall(context, source, "attention_few", options)
          .Memory(results)
          .Memory(scales)
          .Operand(launch.src[0])
          .Operand(launch.src[1])
          .Operand(launch.src[2])
          .Operand(launch.src[3])
          .Struct(a)
          .Float(static_cast<float>(launch.scalar))
          .Int(static_cast<int32_t>(across))
          .Local(static_cast<size_t>(std::max<int64_t>(block * a.width, 1)) *
                 sizeof(float))
          .Local(static_cast<size_t>(block * a.split) * sizeof(float))
          .Local(static_cast<size_t>(std::max(block, vector)) * group *
                 sizeof(float))
          .RunGroups(pairs * a.blocks * a.splits, group));
  const int64_t count = a.batch * a.heads * a.queries * a.value_width;
  return KernelCall(context, source, "attention_join", options)
      .Operand(launch.dst[0])
      .Operand(launch.dst[1])
      .Memory(results)
      .Memory(scales)
      .Struct(a)
      .Long(count)
      .Run(count);
}

}  // namespace

absl::Status RunAttention(KernelContext& context,
                          const ResolvedLaunch& launch) {
  const AttentionArguments a = ArgumentsOf(launch);
  const DType dtype = launch.src[0].dtype;
  if (dtype == DType::kFloat64 || a.value_width > kMaxValues) {
    return absl::UnimplementedError(
        absl::StrCat("attention: no OpenCL kernel for ", NameOf(dtype), ", ",
                     a.value_width, " columns of values"));
  }
  if (a.batch == 0 || a.heads == 0 || a.queries == 0) return absl::OkStatus();
  if (a.queries <= kFewQueries && a.width <= kMaxWidth && a.value_width > 0) {
    return RunFew(context, launch, a);
  }
  return RunTiles(context, launch, a);
}

}  // namespace tvarant::opencl

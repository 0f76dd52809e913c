// gemm_bias_act: what is common to all ways, and the choice among them.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/opencl/gemm_problem.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

constexpr int kPartialSlot = 0;  // of the stream's scratch
// Below, the tiles do as well, and need no program of their own.
constexpr double kMinGemvProducts = 1 << 16;

bool ComputesIn(ComputeClass wanted, DType dtype) {
  return dtype != DType::kBool && ComputeClassOf(dtype) == wanted;
}

const char* SumType(ComputeClass compute) {
  switch (compute) {
    case ComputeClass::kF32:
      return "float";
    case ComputeClass::kF64:
      return "double";
    case ComputeClass::kI32:
      return "uint";  // wraps
    default:
      return "ulong";
  }
}

uint64_t SumBytes(ComputeClass compute) {
  return compute == ComputeClass::kF32 || compute == ComputeClass::kI32 ? 4 : 8;
}

absl::Status CheckDTypes(const DeviceTraits& traits,
                         const ResolvedLaunch& launch, bool has_bias) {
  const DType a = launch.src[0].dtype, b = launch.src[1].dtype;
  const DType c = launch.dst[0].dtype;
  const ComputeClass compute = ComputeClassOf(c);
  const bool known = compute == ComputeClass::kF32 ||
                     compute == ComputeClass::kI32 ||
                     compute == ComputeClass::kI64 ||
                     (compute == ComputeClass::kF64 && traits.has_double);
  const bool float_act = launch.act != Act::kNone && launch.act != Act::kRelu;
  if (!known || !ComputesIn(compute, a) || !ComputesIn(compute, b) ||
      !ComputesIn(compute, c) ||
      (has_bias && !ComputesIn(compute, launch.src[2].dtype)) ||
      (float_act && !IsFloating(c))) {
    return absl::UnimplementedError(absl::StrCat(
        "gemm_bias_act: no kernel for ", NameOf(a), " @ ", NameOf(b), " -> ",
        NameOf(c), ", act ", static_cast<int>(launch.act)));
  }
  return absl::OkStatus();
}

// C^T = B^T A^T.
void Transpose(GemmProblem* p) {
  GemmArguments& g = p->args;
  std::swap(p->a, p->b);
  std::swap(g.m, g.n);
  std::swap(g.a_row, g.b_col);
  std::swap(g.a_k, g.b_k);
  std::swap(g.a_batch, g.b_batch);
  std::swap(g.c_row, g.c_col);
  std::swap(g.d_row, g.d_col);
}

// Neighbours of c lie along its rows if they lie anyhow, and few columns
// become few rows.
void Orient(GemmProblem* p) {
  const GemmArguments& g = p->args;
  const bool columns = g.c_row == 1 && g.c_col != 1;
  const bool narrow = g.n <= kMaxGemvRows && g.m > g.n;
  const bool flat = g.m <= kMaxGemvRows && g.n > g.m;
  if (narrow || (columns && !flat)) Transpose(p);
}

// One product for the whole batch where b is shared and rows follow on.
void FoldBatch(GemmProblem* p) {
  GemmArguments& g = p->args;
  if (g.batch <= 1 || g.b_batch != 0) return;
  if (g.a_batch == g.m * g.a_row && g.c_batch == g.m * g.c_row &&
      (!p->has_bias() || g.d_batch == g.m * g.d_row)) {
    g.m *= g.batch;
    g.batch = 1;
    g.a_batch = g.b_batch = g.c_batch = g.d_batch = 0;
  }
}

GemmProblem ProblemOf(const ResolvedLaunch& launch, bool has_bias) {
  GemmProblem p;
  p.a = launch.src[0];
  p.b = launch.src[1];
  p.c = launch.dst[0];
  GemmArguments& g = p.args;
  g.batch = p.c.sizes[0];
  g.m = p.c.sizes[1];
  g.n = p.c.sizes[2];
  g.k = p.a.sizes[2];
  const auto read = [](const ResolvedOperand& x, int64_t* batch, int64_t* row,
                       int64_t* col) {
    *batch = x.strides[0];
    *row = x.strides[1];
    *col = x.strides[2];
  };
  read(p.a, &g.a_batch, &g.a_row, &g.a_k);
  read(p.b, &g.b_batch, &g.b_k, &g.b_col);
  read(p.c, &g.c_batch, &g.c_row, &g.c_col);
  if (has_bias) {
    p.bias = launch.src[2];
    read(p.bias, &g.d_batch, &g.d_row, &g.d_col);
  }
  p.alpha = launch.alpha;
  p.beta = launch.beta;
  p.act = launch.act;
  return p;
}

void AddFactor(ComputeClass compute, double value, KernelCall* call) {
  switch (compute) {
    case ComputeClass::kF32:
      call->Float(static_cast<float>(value));
      return;
    case ComputeClass::kF64:
      call->Double(value);
      return;
    case ComputeClass::kI32:
      call->Int(static_cast<int32_t>(static_cast<int64_t>(value)));
      return;
    default:
      call->Long(static_cast<int64_t>(value));
  }
}

}  // namespace

double Products(const GemmArguments& g) {
  return static_cast<double>(g.m) * static_cast<double>(g.n) *
         static_cast<double>(g.k) * static_cast<double>(g.batch);
}

std::string GemmOptions(const GemmProblem& p) {
  const ComputeClass compute = ComputeClassOf(p.c.dtype);
  const DType bias = p.has_bias() ? p.bias.dtype : p.c.dtype;
  return absl::StrCat(
      "-DTA=", ClTypeName(p.a.dtype), " -DTB=", ClTypeName(p.b.dtype),
      " -DTC=", ClTypeName(p.c.dtype), " -DTD=", ClTypeName(bias),
      " -DSUM=", SumType(compute),
      IsFloating(p.c.dtype) ? " -DSUM_IS_FLOAT" : "",
      " -DACT=", static_cast<int>(p.act), " -DHAS_BIAS=", p.has_bias() ? 1 : 0);
}

std::string WithGemmCommon(const ClSource& source) {
  return absl::StrCat(kGemmCommonCl.text, source.text);
}

void AddGemmArguments(const GemmProblem& p, cl_mem partial, KernelCall* call) {
  call->Operand(p.c).Operand(p.a).Operand(p.b).Operand(p.bias);
  call->Memory(partial).Struct(p.args);
  const ComputeClass compute = ComputeClassOf(p.c.dtype);
  AddFactor(compute, p.alpha, call);
  AddFactor(compute, p.beta, call);
}

void SplitK(int64_t splits, int64_t grain, GemmArguments* g) {
  splits = std::max<int64_t>(splits, 1);
  const int64_t part = (g->k + splits - 1) / splits;
  g->split_k = std::max<int64_t>((part + grain - 1) / grain * grain, grain);
  g->splits = std::max<int64_t>((g->k + g->split_k - 1) / g->split_k, 1);
}

absl::StatusOr<cl_mem> PartialSums(KernelContext& context,
                                   const GemmProblem& p) {
  if (p.args.splits <= 1) return nullptr;
  const uint64_t count = static_cast<uint64_t>(p.args.splits * p.args.batch) *
                         static_cast<uint64_t>(p.args.m * p.args.n);
  return context.Scratch(count * SumBytes(ComputeClassOf(p.c.dtype)),
                         kPartialSlot);
}

absl::Status AddPartialSums(KernelContext& context, const GemmProblem& p,
                            cl_mem partial) {
  if (p.args.splits <= 1) return absl::OkStatus();
  KernelCall call(context, kGemmCommonCl, "gemm_sum_parts",
                  absl::StrCat(GemmOptions(p), " -DGEMM_SUM_PARTS"));
  call.Operand(p.c).Operand(p.bias).Memory(partial).Struct(p.args);
  const ComputeClass compute = ComputeClassOf(p.c.dtype);
  AddFactor(compute, p.alpha, &call);
  AddFactor(compute, p.beta, &call);
  return call.Run(p.args.batch * p.args.m * p.args.n);
}

absl::Status RunGemm(KernelContext& context, const ResolvedLaunch& launch) {
  const bool has_bias = launch.src.size() > 2 && launch.beta != 0 &&
                        launch.src[2].dtype != DType::kInvalid;
  RETURN_IF_ERROR(CheckDTypes(context.traits(), launch, has_bias));
  return RunGemmProblem(context, ProblemOf(launch, has_bias));
}

absl::Status RunGemmProblem(KernelContext& context, GemmProblem problem) {
  const GemmArguments& g = problem.args;
  if (g.batch == 0 || g.m == 0 || g.n == 0) return absl::OkStatus();
  FoldBatch(&problem);
  Orient(&problem);
  if (g.m <= kMaxGemvRows && Products(g) >= kMinGemvProducts) {
    return RunGemv(context, problem);
  }
  const absl::Status status = RunGemmWgmma(context, problem);
  if (!absl::IsUnimplemented(status)) return status;
  return RunGemmTiles(context, std::move(problem));
}

}  // namespace tvarant::opencl

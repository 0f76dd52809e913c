// GemmProblem: one gemm_bias_act as the OpenCL kernels take it, and the ways
// to compute it.

#ifndef TVARANT_DAEMON_KERNELS_OPENCL_GEMM_PROBLEM_H_
#define TVARANT_DAEMON_KERNELS_OPENCL_GEMM_PROBLEM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "daemon/runtime/opencl/kernel_context.h"

namespace tvarant::opencl {

// Laid out as `Gemm` in gemm_common.cl. `d` is the bias.
struct GemmArguments {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_k = 0, a_batch = 0;
  int64_t b_k = 0, b_col = 0, b_batch = 0;
  int64_t c_row = 0, c_col = 0, c_batch = 0;
  int64_t d_row = 0, d_col = 0, d_batch = 0;
  int64_t batch = 1;
  int64_t splits = 1;
  int64_t split_k = 0;
  int64_t tiles_m = 0, tiles_n = 0;
};

// In all.
double Products(const GemmArguments& args);

struct GemmProblem {
  GemmArguments args;
  ResolvedOperand a, b, c;
  ResolvedOperand bias;  // dtype kInvalid: none
  double alpha = 1, beta = 0;
  Act act = Act::kNone;

  bool has_bias() const { return bias.dtype != DType::kInvalid; }
};

// The dtypes, the activation and what follows from them, as build options.
std::string GemmOptions(const GemmProblem& problem);

// The text of gemm_common.cl and `source`.
std::string WithGemmCommon(const ClSource& source);

// c, a, b, bias, `partial` (null unless split), the arguments, alpha and beta.
void AddGemmArguments(const GemmProblem& problem, cl_mem partial,
                      KernelCall* call);

// Cuts k in `splits` parts (at least 1) of a multiple of `grain`, as many as
// are not empty.
void SplitK(int64_t splits, int64_t grain, GemmArguments* args);

// Memory for the sums of a problem that is split; null if it is not.
absl::StatusOr<cl_mem> PartialSums(KernelContext& context,
                                   const GemmProblem& problem);

// Adds them up, where the problem is split.
absl::Status AddPartialSums(KernelContext& context, const GemmProblem& problem,
                            cl_mem partial);

// Any problem, the best way.
absl::Status RunGemmProblem(KernelContext& context, GemmProblem problem);

// Any problem, by tiles.
absl::Status RunGemmTiles(KernelContext& context, GemmProblem problem);

// At most kMaxGemvRows rows.
inline constexpr int64_t kMaxGemvRows = 4;
absl::Status RunGemv(KernelContext& context, GemmProblem problem);

// float16 and bfloat16 on the tensor cores of NVIDIA's Hopper. UNIMPLEMENTED
// where the device, its driver or the problem does not allow it: nothing has
// been queued then.
absl::Status RunGemmWgmma(KernelContext& context, GemmProblem problem);

}  // namespace tvarant::opencl

#endif  // TVARANT_DAEMON_KERNELS_OPENCL_GEMM_PROBLEM_H_

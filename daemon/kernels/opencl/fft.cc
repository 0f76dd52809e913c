// fft: Fourier transforms along one dimension, of lengths with small factors.

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/kernels/opencl/lines.h"
#include "daemon/kernels/opencl/opencl_kernels.h"
#include "daemon/kernels/opencl/part_of.h"
#include "daemon/kernels/opencl/sources.h"
#include "proto/base/checked_math.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

constexpr int64_t kMaxFactor = 31;

// Empty if a prime factor is too large.
std::vector<int> FactorsOf(int64_t n) {
  std::vector<int> factors;
  for (const int64_t factor : {int64_t{8}, int64_t{4}, int64_t{2}}) {
    for (; n % factor == 0; n /= factor) {
      factors.push_back(static_cast<int>(factor));
    }
  }
  for (int64_t factor = 3; factor <= kMaxFactor; factor += 2) {
    for (; n % factor == 0; n /= factor) {
      factors.push_back(static_cast<int>(factor));
    }
  }
  if (n > 1) return {};
  if (factors.empty()) factors.push_back(1);
  return factors;
}

}  // namespace

absl::Status RunFft(KernelContext& context, const ResolvedLaunch& launch) {
  const ResolvedOperand& y = launch.dst[0];
  const ResolvedOperand& x = launch.src[0];
  const int64_t dim = launch.ints[0];
  const bool to_real = !IsComplex(y.dtype), from_real = !IsComplex(x.dtype);
  const int64_t n = to_real ? y.sizes[dim] : x.sizes[dim];
  const bool wide = x.dtype == DType::kFloat64 || x.dtype == DType::kComplex128;
  const std::vector<int> factors = FactorsOf(n);
  if (factors.empty() || (wide && !context.traits().has_double)) {
    return absl::UnimplementedError(
        "fft: no OpenCL kernel for this length or dtype");
  }
  if (NumElements(y) == 0) return absl::OkStatus();
  const ResolvedOperand* tensors[] = {&y, &x};
  const RowSet set = SplitRows(tensors, dim);
  int64_t count = 0, bytes = 0;
  if (!base::CheckedMul(set.num_rows, n, &count) ||
      !base::CheckedMul(count, int64_t{wide ? 16 : 8}, &bytes) ||
      static_cast<uint64_t>(bytes) > context.traits().max_buffer_bytes / 4) {
    return absl::UnimplementedError("fft: too many numbers at a time");
  }
  ASSIGN_OR_RETURN(cl_mem from,
                   context.Scratch(static_cast<uint64_t>(bytes), 0));
  ASSIGN_OR_RETURN(cl_mem to, context.Scratch(static_cast<uint64_t>(bytes), 1));
  const char* options = wide ? "-DWIDE=1" : "-DWIDE=0";
  RETURN_IF_ERROR(KernelCall(context, kFftCl, "fft_load", options)
                      .Memory(from)
                      .Operand(x)
                      .Struct(set.rows)
                      .Long(n)
                      .Long(x.strides[dim])
                      .Int(from_real ? 0
                           : to_real ? 2
                                     : 1)
                      .Long(count)
                      .Run(count));
  int64_t done = 1;
  for (const int factor : factors) {
    RETURN_IF_ERROR(KernelCall(context, kFftCl, "fft_pass", options)
                        .Memory(to)
                        .Memory(from)
                        .Long(n)
                        .Int(factor)
                        .Long(n / done)
                        .Long(done)
                        .Int(launch.ints[1] != 0 ? -1 : 1)
                        .Long(count)
                        .Run(count));
    std::swap(from, to);
    done *= factor;
  }
  const int64_t kept = y.sizes[dim], stored = set.num_rows * kept;
  KernelCall call(context, kFftCl, "fft_store", options);
  call.Operand(y).Memory(from).Struct(set.rows).Long(n).Long(kept).Long(
      y.strides[dim]);
  if (wide) {
    call.Double(launch.floats[0]);
  } else {
    call.Float(static_cast<float>(launch.floats[0]));
  }
  return call.Int(!to_real).Long(stored).Run(stored);
}

}  // namespace tvarant::opencl

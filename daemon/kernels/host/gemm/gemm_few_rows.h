// Products with few rows (m <= kFewRows), bound by reading B: it is streamed
// once, in the order of memory, and converted on the way.

#ifndef TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_FEW_ROWS_H_
#define TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_FEW_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "daemon/kernels/host/gemm/gemm_tile.h"
#include "daemon/kernels/host/isa.h"

namespace tvarant::host {

inline constexpr int64_t kFewRowsCols = 1024;   // sums kept at a time
inline constexpr int64_t kFewRowsDepth = 1024;  // values of A kept at a time
inline constexpr size_t kFewRowsScratchBytes =
    kFewRows * (kFewRowsCols + kFewRowsDepth) * sizeof(double);

// As GemmKernel::tile. B has contiguous rows or columns; range has all rows.
TVARANT_DECLARE_FOR_ISAS(void FewRowsF32(const GemmProblem& problem,
                                         const GemmRange& range,
                                         char* scratch));
TVARANT_DECLARE_FOR_ISAS(void FewRowsF64(const GemmProblem& problem,
                                         const GemmRange& range,
                                         char* scratch));

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_GEMM_GEMM_FEW_ROWS_H_

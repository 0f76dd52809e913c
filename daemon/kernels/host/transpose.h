// Transposes blocks of a matrix, in pieces that suit the cache.

#ifndef TVARANT_DAEMON_KERNELS_HOST_TRANSPOSE_H_
#define TVARANT_DAEMON_KERNELS_HOST_TRANSPOSE_H_

#include <cstdint>

#include "daemon/kernels/host/isa.h"

namespace tvarant::host {

// dst[r * dst_stride + c * element_bytes] = src[r * element_bytes + c *
// src_stride] for r < rows, c < columns: the elements of a row of dst are next
// to each other, those of a column of src are. Strides in bytes;
// element_bytes is 1, 2, 4, 8 or 16. stream: lines of dst go past the caches,
// as fits results that are larger than those.
using TransposeFunction = void(char* dst, int64_t dst_stride, const char* src,
                               int64_t src_stride, int64_t rows,
                               int64_t columns, int64_t element_bytes,
                               bool stream);

TVARANT_DECLARE_FOR_ISAS(void TransposeOfIsa(
    char* dst, int64_t dst_stride, const char* src, int64_t src_stride,
    int64_t rows, int64_t columns, int64_t element_bytes, bool stream))

// The function of the instruction set in use.
inline TransposeFunction* GetTranspose() {
  return TVARANT_FOR_ISA(TransposeOfIsa);
}

}  // namespace tvarant::host

#endif  // TVARANT_DAEMON_KERNELS_HOST_TRANSPOSE_H_

#include "daemon/kernels/host/pointwise/op_loops.h"

namespace tvarant::host::TVARANT_ISA {

void FillOpsI32(OpLoop* ops, OpLoop* plain_add) {
  FillOps<int32_t>(ops, plain_add);
}

}  // namespace tvarant::host::TVARANT_ISA

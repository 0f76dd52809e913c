#include "daemon/kernels/host/pointwise/op_loops.h"

namespace tvarant::host::TVARANT_ISA {

void FillOpsI64(OpLoop* ops, OpLoop* plain_add) {
  FillOps<int64_t>(ops, plain_add);
}

}  // namespace tvarant::host::TVARANT_ISA

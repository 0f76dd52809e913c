#include "daemon/kernels/host/pointwise/op_loops.h"

namespace tvarant::host::TVARANT_ISA {

void FillOpsF32(OpLoop* ops, OpLoop* plain_add) {
  FillOps<float>(ops, plain_add);
}

}  // namespace tvarant::host::TVARANT_ISA

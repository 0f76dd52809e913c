#include "daemon/kernels/host/pointwise/op_loops.h"

namespace tvarant::host::TVARANT_ISA {

void FillOpsF64(OpLoop* ops, OpLoop* plain_add) {
  FillOps<double>(ops, plain_add);
}

}  // namespace tvarant::host::TVARANT_ISA

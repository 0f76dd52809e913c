// Ops that would reach a composite where the CPU has a kernel of its own: the
// composite would win over the fallback, and is wrong or breaks for a device.

#include <torch/library.h>

#include "torch_plugin/aten/fallback.h"

namespace tvarant::torch_plugin {
namespace {

void RunOnCpu(const c10::OperatorHandle& op, c10::DispatchKeySet,
              torch::jit::Stack* stack) {
  CpuFallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* op : {"_stack", "_stack.out", "linalg__powsum"}) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&RunOnCpu>());
  }
}

}  // namespace
}  // namespace tvarant::torch_plugin

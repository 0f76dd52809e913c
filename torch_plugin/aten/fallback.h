// The CPU fallback: ops that have no kernel here run as PyTorch's CPU ops.
//
// Every device tensor among the arguments gets a CPU tensor that stands on the
// same bytes: in place where the simulator's memory is mapped, on a fetched
// copy of the bytes it reaches else. One CPU storage per device storage, so
// views stay views. What the op wrote, resized or returned is carried back.
//
// Each use is counted by op, and warned of once. TVARANT_FALLBACK=error makes
// it an error.

#ifndef TVARANT_TORCH_PLUGIN_ATEN_FALLBACK_H_
#define TVARANT_TORCH_PLUGIN_ATEN_FALLBACK_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <string>

namespace tvarant::torch_plugin {

// Runs `op` on the CPU. The stack holds its arguments, then its results. Waits
// for all streams. Counted under `counted_as` ("aten::add.Tensor" if null:
// the op's own name).
void CpuFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack,
                 const char* counted_as = nullptr);

// Sends structured ops without a kernel here to the fallback as a whole. By
// themselves they would reach a composite that makes the results on the device
// and passes only the filling on, with an internal error for mixed devices.
// Call once, when all kernels have been registered.
void RegisterStructuredFallbacks();

// How often each op has fallen back.
std::map<std::string, uint64_t> FallbackStats();
void ResetFallbackStats();

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_FALLBACK_H_

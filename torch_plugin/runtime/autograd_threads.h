// Waiting for PyTorch's autograd threads at the end of the process.
//
// After backward() has returned, the engine's threads may still drop Python
// objects, for which they take the GIL; if Python is finalised meanwhile,
// the process aborts. An atexit hook gives them the time they need.

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_AUTOGRAD_THREADS_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_AUTOGRAD_THREADS_H_

namespace tvarant::torch_plugin {

// Waits, at most timeout_ms, until all autograd threads of this process sleep.
// Call without the GIL.
void WaitForAutogradThreads(int timeout_ms);

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_AUTOGRAD_THREADS_H_

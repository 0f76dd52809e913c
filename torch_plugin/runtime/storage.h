// Growing and shrinking the memory behind a storage.

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_STORAGE_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_STORAGE_H_

#include <c10/core/StorageImpl.h>

#include <cstddef>

namespace tvarant::torch_plugin {

// Gives the storage size_bytes; what fits of its contents is kept. Never waits
// for the device. Raises if the storage is not resizable.
void ResizeStorage(c10::StorageImpl* storage, size_t size_bytes);

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_STORAGE_H_

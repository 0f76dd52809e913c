// Programs that ops write for themselves, kept by number.
//
// Example:
//   static ProgramCache* const cache = new ProgramCache;
//   launch.params().program =
//       cache->Find(device, form.Key(), [&] { return ProgramOf(form); });

#ifndef TVARANT_TORCH_PLUGIN_ATEN_PROGRAM_CACHE_H_
#define TVARANT_TORCH_PLUGIN_ATEN_PROGRAM_CACHE_H_

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "proto/ops/program.h"
#include "torch_plugin/runtime/device.h"

namespace tvarant::torch_plugin {

// Thread-safe. Handles of a lost session are dropped.
class ProgramCache {
 public:
  uint64_t Find(Device& device, uint32_t key,
                c10::function_ref<Program()> make) {
    const std::scoped_lock lock(mutex_);
    if (epoch_ != device.epoch()) {
      handles_.clear();
      epoch_ = device.epoch();
    }
    const auto found = handles_.find(key);
    if (found != handles_.end()) return found->second;
    const uint64_t handle = device.DefineProgram(make());
    handles_.emplace(key, handle);
    return handle;
  }

 private:
  std::mutex mutex_;
  uint64_t epoch_ = 0;
  std::unordered_map<uint32_t, uint64_t> handles_;
};

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_ATEN_PROGRAM_CACHE_H_

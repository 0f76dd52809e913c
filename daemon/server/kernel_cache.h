// KernelCache: what an operator may see and do of a runtime's compiled kernels.
//
// A runtime that compiles implements it; one that does not has none.

#ifndef TVARANT_DAEMON_SERVER_KERNEL_CACHE_H_
#define TVARANT_DAEMON_SERVER_KERNEL_CACHE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tvarant {

struct KernelCacheEntry {
  std::string key;   // content hash
  std::string name;  // for people
  uint64_t size_bytes = 0;
  uint64_t uses = 0;
};

struct KernelCacheCleared {
  uint64_t entries = 0;
  uint64_t freed_bytes = 0;
};

// Thread-safe.
class KernelCache {
 public:
  virtual ~KernelCache() = default;
  virtual std::vector<KernelCacheEntry> List() = 0;
  // Forgets what no running command uses, in memory and on disk.
  virtual KernelCacheCleared Clear() = 0;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_KERNEL_CACHE_H_

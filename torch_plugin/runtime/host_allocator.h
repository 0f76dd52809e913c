// "Pinned" host memory: page-aligned memory that is known to be such.
//
// Large blocks are memory of the daemon's that this process maps, wherever the
// device's own memory is not mapped and the daemon is on this host: copies
// between them and the device take no other copy on the way. The rest is
// ordinary memory. Nothing of the device reads host memory after an upload has
// returned, so a freed block can be reused at once.

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_HOST_ALLOCATOR_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_HOST_ALLOCATOR_H_

#include <ATen/core/CachingHostAllocator.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "client/client.h"

namespace tvarant::torch_plugin {

// Thread-safe; takes no GIL.
class HostAllocator final : public at::HostAllocator {
 public:
  static HostAllocator& Get();

  c10::DataPtr allocate(size_t size_bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* dest, const void* src, size_t count) const override;

  bool record_event(void* data, void* context, c10::Stream stream) override;
  void empty_cache() override;
  at::HostStats get_stats() override;
  void reset_accumulated_stats() override;
  void reset_peak_stats() override;

  // True if an address lies in a live block.
  bool Owns(const void* address);

  // Memory that a daemon reads and writes itself.
  struct Place {
    std::shared_ptr<client::HostMemory> memory;
    uint64_t offset_bytes = 0;
  };
  // Where all of [address, address + bytes) lies in memory of this session, if
  // it does.
  std::optional<Place> Find(const client::Session& session, const void* address,
                            size_t bytes);

 private:
  struct Block {
    char* data = nullptr;
    size_t bytes = 0;
    // Both null for ordinary memory.
    std::shared_ptr<client::HostMemory> memory;
    const client::Session* session = nullptr;
  };
  using Blocks = std::vector<Block>;

  static void Delete(void* data);
  // The session whose memory a block of this size should be, or null.
  static client::Session* SessionFor(size_t bytes);
  static Block Make(size_t bytes, client::Session* session);
  static void Destroy(Block block);
  void Free(void* data);
  // The live block around an address, or null.
  const Block* FindLocked(const void* address) const;

  std::mutex mutex_;
  std::map<const char*, Block> live_;  // by address
  std::map<std::pair<size_t, const client::Session*>, Blocks> cached_;
  at::HostStats stats_;
};

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_HOST_ALLOCATOR_H_

// The address range in which all device memory of the process stands.
//
// Tensors need addresses that are unique, aligned and safe to add offsets to,
// though the memory lies in the daemon. So one large range is reserved without
// access (PROT_NONE) and cut into slots of 2 MiB; a segment of device memory
// takes a run of slots. A simulator's segment is mapped there; a card's stays
// unreadable, and touching it faults instead of reading something else.
//
// Example:
//   Arena& arena = Arena::Get();
//   void* base = arena.Reserve(bytes);           // null: no address space left
//   arena.Publish(&segment);                     // from now on Find() knows it
//   const ArenaSegment* found = arena.Find(address);
//   arena.Release(&segment);
//
// Thread-safe. Find is wait-free. Nothing here is destroyed at exit.

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_ARENA_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_ARENA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace tvarant::torch_plugin {

// A segment of device memory at its place. The owner keeps it alive while it
// is published, and as long as any address in it may still be looked up.
struct ArenaSegment {
  char* base = nullptr;
  uint64_t size_bytes = 0;
  uint64_t handle = 0;          // in the session that made it
  const void* owner = nullptr;  // the device: a handle means nothing elsewhere
};

class Arena {
 public:
  static constexpr uint64_t kSlotBytes = uint64_t{2} << 20;

  // Reserves the range at the first call. Its size is 1 TiB, or less where
  // the address space is limited.
  static Arena& Get();
  // The arena if it has been made, else null.
  static Arena* GetIfMade() noexcept;

  // Takes room for size_bytes (rounded up to slots). Null if none is left.
  char* Reserve(uint64_t size_bytes);
  // Makes a segment known to Find. segment->base comes from Reserve.
  void Publish(const ArenaSegment* segment);
  // Takes the access away again and gives the room back. Also undoes a
  // Reserve that was not published.
  void Release(char* base, uint64_t size_bytes);

  const ArenaSegment* Find(const void* address) const noexcept {
    const uint64_t offset =
        static_cast<uint64_t>(static_cast<const char*>(address) - base_);
    if (offset >= size_bytes_) return nullptr;
    return table_[offset / kSlotBytes].load(std::memory_order_acquire);
  }
  bool Contains(const void* address) const noexcept {
    return static_cast<uint64_t>(static_cast<const char*>(address) - base_) <
           size_bytes_;
  }
  uint64_t size_bytes() const noexcept { return size_bytes_; }

  // In the child of a fork: takes all access away. Async-signal-safe.
  void ForkChild() noexcept;

 private:
  Arena() = default;
  bool Make();

  char* base_ = nullptr;
  uint64_t size_bytes_ = 0;
  std::atomic<const ArenaSegment*>* table_ = nullptr;  // one entry per slot

  std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes, merged
};

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_ARENA_H_

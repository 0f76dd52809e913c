#include "torch_plugin/runtime/arena.h"

#include <sys/mman.h>

#include <new>
#include <stdexcept>

namespace tvarant::torch_plugin {
namespace {

constexpr uint64_t kLargestRange = uint64_t{1} << 40;
constexpr uint64_t kSmallestRange = uint64_t{64} << 20;

std::atomic<Arena*> g_arena{nullptr};

uint64_t RoundUp(uint64_t bytes) {
  return (bytes + Arena::kSlotBytes - 1) / Arena::kSlotBytes *
         Arena::kSlotBytes;
}

void* MapNothing(void* at, uint64_t bytes, int flags) {
  return mmap(at, bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

}  // namespace

Arena& Arena::Get() {
  Arena* arena = g_arena.load(std::memory_order_acquire);
  if (arena != nullptr) return *arena;
  static std::mutex* mutex = new std::mutex;
  std::lock_guard<std::mutex> lock(*mutex);
  arena = g_arena.load(std::memory_order_acquire);
  if (arena != nullptr) return *arena;
  arena = new Arena;
  if (!arena->Make()) {
    delete arena;
    throw std::runtime_error(
        "tvarant: no address space left to reserve for device memory (see "
        "ulimit -v)");
  }
  g_arena.store(arena, std::memory_order_release);
  return *arena;
}

Arena* Arena::GetIfMade() noexcept {
  return g_arena.load(std::memory_order_acquire);
}

bool Arena::Make() {
  for (uint64_t bytes = kLargestRange; bytes >= kSmallestRange; bytes /= 2) {
    // One slot more, so that the first one can be aligned.
    void* range = MapNothing(nullptr, bytes + kSlotBytes, 0);
    if (range == MAP_FAILED) continue;
    const uint64_t entries = bytes / kSlotBytes;
    void* table =
        mmap(nullptr, entries * sizeof(*table_), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) {
      munmap(range, bytes + kSlotBytes);
      continue;
    }
    base_ = reinterpret_cast<char*>(RoundUp(reinterpret_cast<uint64_t>(range)));
    size_bytes_ = bytes;
    // Zero pages are null pointers; nothing is touched until it is used.
    table_ = static_cast<std::atomic<const ArenaSegment*>*>(table);
    free_.emplace(0, bytes);
    return true;
  }
  return false;
}

char* Arena::Reserve(uint64_t size_bytes) {
  if (size_bytes == 0 || size_bytes > size_bytes_) return nullptr;
  const uint64_t bytes = RoundUp(size_bytes);
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < bytes) continue;
    const uint64_t offset = it->first;
    const uint64_t rest = it->second - bytes;
    free_.erase(it);
    if (rest != 0) free_.emplace(offset + bytes, rest);
    return base_ + offset;
  }
  return nullptr;
}

void Arena::Publish(const ArenaSegment* segment) {
  const uint64_t first =
      static_cast<uint64_t>(segment->base - base_) / kSlotBytes;
  const uint64_t slots = RoundUp(segment->size_bytes) / kSlotBytes;
  for (uint64_t i = 0; i < slots; ++i) {
    table_[first + i].store(segment, std::memory_order_release);
  }
}

void Arena::Release(char* base, uint64_t size_bytes) {
  const uint64_t bytes = RoundUp(size_bytes);
  uint64_t offset = static_cast<uint64_t>(base - base_);
  for (uint64_t i = 0; i < bytes / kSlotBytes; ++i) {
    table_[offset / kSlotBytes + i].store(nullptr, std::memory_order_release);
  }
  // Over whatever is mapped there, in one step: the range never has a hole
  // that another mmap could take.
  MapNothing(base, bytes, MAP_FIXED);
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t merged = bytes;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    merged += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += merged;
      return;
    }
  }
  free_.emplace(offset, merged);
}

void Arena::ForkChild() noexcept { MapNothing(base_, size_bytes_, MAP_FIXED); }

}  // namespace tvarant::torch_plugin

// What the caching allocator counts: the same numbers as PyTorch's device
// allocators, without PyTorch's headers, so that it can be tested alone.

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_MEMORY_STATS_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_MEMORY_STATS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tvarant::torch_plugin {

struct MemoryStat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;  // sum of all increases
  int64_t freed = 0;      // sum of all decreases

  void Increase(uint64_t amount) {
    current += static_cast<int64_t>(amount);
    peak = std::max(peak, current);
    allocated += static_cast<int64_t>(amount);
  }
  void Decrease(uint64_t amount) {
    current -= static_cast<int64_t>(amount);
    freed += static_cast<int64_t>(amount);
  }
  void ResetAccumulated() { allocated = freed = 0; }
  void ResetPeak() { peak = current; }
};

// One number for all memory, and for each of the two pools.
struct PooledStat {
  MemoryStat all;
  MemoryStat small_pool;
  MemoryStat large_pool;

  void Increase(bool is_small, uint64_t amount) {
    all.Increase(amount);
    (is_small ? small_pool : large_pool).Increase(amount);
  }
  void Decrease(bool is_small, uint64_t amount) {
    all.Decrease(amount);
    (is_small ? small_pool : large_pool).Decrease(amount);
  }
};

struct MemoryStats {
  PooledStat allocation;       // blocks in use
  PooledStat allocated_bytes;  // their bytes
  PooledStat requested_bytes;  // what was asked for
  PooledStat active;           // in use, or waiting for a stream
  PooledStat active_bytes;
  PooledStat inactive_split;  // free parts of segments in use
  PooledStat inactive_split_bytes;
  PooledStat segment;  // segments of the daemon
  PooledStat reserved_bytes;
  int64_t num_alloc_retries = 0;  // after giving cached memory back
  int64_t num_ooms = 0;
  int64_t num_device_alloc = 0;
  int64_t num_device_free = 0;

  template <typename F>
  void ForEach(F f) {
    for (PooledStat* stat :
         {&allocation, &allocated_bytes, &requested_bytes, &active,
          &active_bytes, &inactive_split, &inactive_split_bytes, &segment,
          &reserved_bytes}) {
      f(stat->all);
      f(stat->small_pool);
      f(stat->large_pool);
    }
  }
};

// A segment as it is cut up now.
struct SegmentSnapshot {
  struct Part {
    uint64_t size_bytes = 0;
    uint64_t requested_bytes = 0;
    bool is_allocated = false;
    bool is_active = false;
  };
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  int stream = 0;
  bool is_small = false;
  std::vector<Part> parts;
};

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_MEMORY_STATS_H_

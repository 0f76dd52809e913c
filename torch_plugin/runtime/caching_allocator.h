// Sub-allocates device memory from segments of the daemon.
//
// A segment costs a round trip, so freed memory is kept and given out again.
// Blocks are multiples of 512 bytes; small ones (up to 1 MiB) come from
// segments of 2 MiB, large ones from segments of 8 MiB and more, by best fit,
// split and merged as needed. Small blocks that were just freed wait unmerged
// in bins of their exact size, where the next allocation finds them at once.
//
// Reuse is stream-ordered: a freed block goes to the next allocation of the
// same stream at once, for what is queued later runs later. If other streams
// used it (RecordStream) it waits until these have passed the point at which
// it was freed.
//
// Example:
//   Block* block = allocator.Allocate(bytes, stream_id);
//   ... block->address ...
//   allocator.Free(block);
//
// Thread-safe; takes no GIL; no remote call happens under its lock.

#ifndef TVARANT_TORCH_PLUGIN_RUNTIME_CACHING_ALLOCATOR_H_
#define TVARANT_TORCH_PLUGIN_RUNTIME_CACHING_ALLOCATOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "client/client.h"
#include "torch_plugin/runtime/arena.h"
#include "torch_plugin/runtime/memory_stats.h"

namespace tvarant::torch_plugin {

// What the allocator asks of its device.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  // Makes a segment of size_bytes, mapped at `at` where memory is mapped.
  virtual client::Result<uint64_t> CreateSegment(uint64_t size_bytes,
                                                 void* at) = 0;
  virtual void ReleaseSegments(const std::vector<uint64_t>& handles) = 0;
  // Last sequence number queued on a stream, and last known to be done. Don't
  // wait.
  virtual uint64_t LastSequence(int stream) = 0;
  virtual uint64_t CompletedSequence(int stream) = 0;
  // Waits for all streams, without raising what is latched on them.
  virtual void WaitForStreams() = 0;
  // Raises OutOfMemoryError (asked bytes, what the daemon has free) or the
  // error of the status.
  [[noreturn]] virtual void RaiseAllocationError(uint64_t asked_bytes,
                                                 const client::Status& status,
                                                 const std::string& usage) = 0;
  virtual const void* owner() const = 0;
};

class CachingAllocator;

struct Block;

struct Segment : ArenaSegment {
  Block* first = nullptr;  // the block at its base
  bool is_small = false;
  int stream = 0;
  int live_blocks = 0;  // allocated, or waiting for a stream
};

// A run of bytes in a segment. Fields belong to the allocator, except those
// it hands out.
struct Block {
  CachingAllocator* allocator = nullptr;
  char* address = nullptr;
  uint64_t size_bytes = 0;
  int stream = 0;  // whose order governs reuse

  enum class State : uint8_t { kFree, kBinned, kAllocated, kWaiting };
  State state = State::kFree;
  Segment* segment = nullptr;
  Block* previous = nullptr;  // neighbours in the segment
  Block* next = nullptr;
  uint64_t requested_bytes = 0;
  // Work of `stream` up to here may still touch what was here before.
  uint64_t previous_use = 0;
  // LastSequence of `stream` at the time of allocation.
  uint64_t allocated_at = 0;
  std::vector<int> other_streams;  // by RecordStream
};

class CachingAllocator {
 public:
  static constexpr uint64_t kAlignment = 512;
  static constexpr uint64_t kSmallBlock = uint64_t{1} << 20;
  static constexpr uint64_t kSmallSegment = uint64_t{2} << 20;
  static constexpr uint64_t kMinLargeSegment = uint64_t{8} << 20;
  static constexpr uint64_t kMaxGrowth = uint64_t{64} << 20;
  static constexpr uint64_t kLargestBinned = uint64_t{64} << 10;

  CachingAllocator(SegmentSource& source, Arena& arena);
  ~CachingAllocator();

  // size_bytes > 0. Raises OutOfMemoryError when cached memory has been given
  // back and there is still not enough.
  Block* Allocate(uint64_t size_bytes, int stream);
  void Free(Block* block) noexcept;
  // The block is used by work of `stream`, too.
  void RecordStream(Block* block, int stream);

  // Gives unused segments back to the daemon. Waits for blocks that other
  // streams still use.
  void EmptyCache();

  // True if work queued so far can't touch the block any more, as far as
  // `stream` is concerned, so that the host may write it at once.
  bool IsIdle(const Block& block, int stream);

  // The device is gone: frees become bookkeeping, addresses of segments stay
  // reserved (and mapped ones readable) until their last block is freed.
  void Abandon() noexcept;

  MemoryStats Stats();
  void ResetAccumulatedStats();
  void ResetPeakStats();
  std::vector<SegmentSnapshot> Snapshot();
  uint64_t AllocatedBytes();
  uint64_t ReservedBytes();

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      if (a->size_bytes != b->size_bytes) return a->size_bytes < b->size_bytes;
      return a->address < b->address;
    }
  };
  using FreeSet = std::set<Block*, BySize>;
  // Free memory of one stream.
  struct Pool {
    std::array<std::vector<Block*>, kLargestBinned / kAlignment + 1> bins;
    FreeSet small;
    FreeSet large;
  };
  struct Waiting {
    Block* block;
    std::vector<std::pair<int, uint64_t>> points;  // stream, sequence
  };

  Pool& PoolOf(int stream);
  Block* NewBlock();
  void DeleteBlock(Block* block);

  Block* TakeFromPool(Pool& pool, uint64_t size);
  Block* Split(Pool& pool, Block* block, uint64_t size);
  void MarkAllocated(Block* block, uint64_t requested);
  // From kAllocated, kWaiting or kBinned into the free sets, merged.
  void Merge(Block* block);
  void FlushBins(Pool& pool);
  void ReturnPassed();
  void Retire(Block* block);  // a free of an abandoned allocator
  bool Passed(const Waiting& waiting);

  // From memory at hand; null if there is none that fits.
  Block* AllocateCached(uint64_t size, uint64_t requested, int stream);
  // From a new segment of `bytes`. Called without the lock.
  client::Status AllocateNew(uint64_t bytes, bool is_small, uint64_t size,
                             uint64_t requested, int stream, Block** out);
  void ReleaseUnused();
  uint64_t GrowthBytes();
  std::string UsageText();

  SegmentSource& source_;
  Arena& arena_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Pool>> pools_;  // by stream
  std::vector<Waiting> waiting_;
  std::set<Segment*> segments_;
  std::vector<Block*> spare_blocks_;
  uint64_t large_bytes_ = 0;  // in large segments
  bool abandoned_ = false;
  MemoryStats stats_;
};

}  // namespace tvarant::torch_plugin

#endif  // TVARANT_TORCH_PLUGIN_RUNTIME_CACHING_ALLOCATOR_H_

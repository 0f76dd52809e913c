#include "torch_plugin/runtime/caching_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

namespace tvarant::torch_plugin {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// A device of `capacity` bytes whose streams stand still until told to go on.
class FakeDevice final : public SegmentSource {
 public:
  explicit FakeDevice(uint64_t capacity) : capacity_(capacity) {}

  client::Result<uint64_t> CreateSegment(uint64_t size_bytes, void*) override {
    if (used_ + size_bytes > capacity_) {
      return client::Status(client::Code::kResourceExhausted, "full");
    }
    used_ += size_bytes;
    segments_[++last_handle_] = size_bytes;
    return uint64_t{last_handle_};
  }
  void ReleaseSegments(const std::vector<uint64_t>& handles) override {
    for (uint64_t handle : handles) {
      used_ -= segments_.at(handle);
      segments_.erase(handle);
    }
  }
  uint64_t LastSequence(int stream) override { return last_[stream]; }
  uint64_t CompletedSequence(int stream) override { return done_[stream]; }
  void WaitForStreams() override {
    ++waits;
    done_ = last_;
  }
  void RaiseAllocationError(uint64_t, const client::Status&,
                            const std::string&) override {
    throw std::bad_alloc();
  }
  const void* owner() const override { return this; }

  void Queue(int stream) { ++last_[stream]; }
  void Finish(int stream) { done_[stream] = last_[stream]; }
  uint64_t used() const { return used_; }
  size_t segments() const { return segments_.size(); }

  int waits = 0;

 private:
  const uint64_t capacity_;
  uint64_t used_ = 0;
  uint64_t last_handle_ = 0;
  std::map<uint64_t, uint64_t> segments_;
  std::map<int, uint64_t> last_, done_;
};

class CachingAllocatorTest : public ::testing::Test {
 protected:
  FakeDevice device_{256 * kMiB};
  CachingAllocator allocator_{device_, Arena::Get()};
};

TEST_F(CachingAllocatorTest, AlignsAndReusesAtOnceOnTheSameStream) {
  Block* first = allocator_.Allocate(1, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first->address) % 512, 0u);
  EXPECT_EQ(first->size_bytes, 512u);
  char* address = first->address;
  device_.Queue(0);  // still uses it, but what comes later runs later
  allocator_.Free(first);
  Block* second = allocator_.Allocate(100, 0);
  EXPECT_EQ(second->address, address);
  EXPECT_EQ(device_.segments(), 1u);
  allocator_.Free(second);
}

TEST_F(CachingAllocatorTest, StreamsDoNotShareFreeMemory) {
  Block* first = allocator_.Allocate(512, 0);
  char* address = first->address;
  allocator_.Free(first);
  Block* other = allocator_.Allocate(512, 1);
  EXPECT_NE(other->address, address);
  allocator_.Free(other);
}

TEST_F(CachingAllocatorTest, RecordedStreamsDelayReuse) {
  Block* block = allocator_.Allocate(4 * kMiB, 0);
  char* address = block->address;
  allocator_.RecordStream(block, 1);
  device_.Queue(1);
  allocator_.Free(block);
  Block* other = allocator_.Allocate(4 * kMiB, 0);
  EXPECT_NE(other->address, address);
  device_.Finish(1);
  Block* again = allocator_.Allocate(4 * kMiB, 0);
  EXPECT_EQ(again->address, address);
  allocator_.Free(other);
  allocator_.Free(again);
}

TEST_F(CachingAllocatorTest, MergesNeighbours) {
  std::vector<Block*> blocks;
  for (int i = 0; i < 2; ++i)
    blocks.push_back(allocator_.Allocate(4 * kMiB, 0));
  EXPECT_EQ(device_.segments(), 1u);  // of 8 MiB
  for (Block* block : blocks) allocator_.Free(block);
  Block* whole = allocator_.Allocate(8 * kMiB, 0);
  EXPECT_EQ(device_.segments(), 1u);
  allocator_.Free(whole);
}

TEST_F(CachingAllocatorTest, BinnedBlocksMergeWhenMemoryIsShort) {
  std::vector<Block*> blocks;
  // All of one small segment, in pieces of 64 KiB.
  for (int i = 0; i < 32; ++i) {
    blocks.push_back(allocator_.Allocate(64 << 10, 0));
  }
  EXPECT_EQ(device_.segments(), 1u);
  for (Block* block : blocks) allocator_.Free(block);
  Block* large = allocator_.Allocate(kMiB, 0);
  EXPECT_EQ(device_.segments(), 1u);
  allocator_.Free(large);
}

TEST_F(CachingAllocatorTest, GivesCachedMemoryBackBeforeItFails) {
  Block* first = allocator_.Allocate(200 * kMiB, 0);
  allocator_.Free(first);
  // A different stream can't use it, but can have it back from the daemon.
  Block* second = allocator_.Allocate(220 * kMiB, 1);
  EXPECT_GE(device_.waits, 1);
  EXPECT_THROW(allocator_.Allocate(100 * kMiB, 0), std::bad_alloc);
  EXPECT_EQ(allocator_.Stats().num_ooms, 1);
  allocator_.Free(second);
  Block* third = allocator_.Allocate(100 * kMiB, 0);
  allocator_.Free(third);
}

TEST_F(CachingAllocatorTest, FallsBackToTheExactSizeWhenThereIsNoRoomToGrow) {
  FakeDevice small(6 * kMiB);
  CachingAllocator allocator(small, Arena::Get());
  Block* block = allocator.Allocate(4 * kMiB, 0);  // a segment of 8 is refused
  EXPECT_EQ(small.used(), 4 * kMiB);
  allocator.Free(block);
}

TEST_F(CachingAllocatorTest, RefusesHugeSizes) {
  for (int shift : {47, 48, 60, 63}) {
    EXPECT_THROW(allocator_.Allocate((uint64_t{1} << shift) + 1, 0),
                 std::bad_alloc);
  }
  EXPECT_THROW(allocator_.Allocate(~uint64_t{0}, 0), std::bad_alloc);
}

TEST_F(CachingAllocatorTest, EmptyCacheKeepsWhatIsUsed) {
  Block* kept = allocator_.Allocate(2 * kMiB, 0);
  Block* small = allocator_.Allocate(512, 0);
  Block* gone = allocator_.Allocate(32 * kMiB, 0);
  char* address = gone->address;
  allocator_.Free(gone);
  allocator_.Free(small);
  allocator_.EmptyCache();
  EXPECT_EQ(device_.segments(), 1u);
  EXPECT_NE(Arena::Get().Find(kept->address), nullptr);
  EXPECT_EQ(Arena::Get().Find(address), nullptr);
  allocator_.Free(kept);
}

TEST_F(CachingAllocatorTest, KnowsWhenTheHostMayWrite) {
  Block* block = allocator_.Allocate(4 * kMiB, 0);
  EXPECT_TRUE(allocator_.IsIdle(*block, 0));
  device_.Queue(0);  // may use it
  EXPECT_FALSE(allocator_.IsIdle(*block, 0));
  allocator_.Free(block);
  Block* again = allocator_.Allocate(4 * kMiB, 0);  // the same memory
  EXPECT_FALSE(allocator_.IsIdle(*again, 0));
  device_.Finish(0);
  EXPECT_TRUE(allocator_.IsIdle(*again, 0));
  // New memory is idle though the stream is busy, until it may be used.
  device_.Queue(0);
  Block* fresh = allocator_.Allocate(16 * kMiB, 0);
  EXPECT_TRUE(allocator_.IsIdle(*fresh, 0));
  device_.Queue(0);
  EXPECT_FALSE(allocator_.IsIdle(*fresh, 0));
  allocator_.Free(again);
  allocator_.Free(fresh);
}

TEST_F(CachingAllocatorTest, AbandonedSegmentsLastAsLongAsTheirBlocks) {
  Block* block = allocator_.Allocate(4 * kMiB, 0);
  char* address = block->address;
  allocator_.Abandon();
  EXPECT_NE(Arena::Get().Find(address), nullptr);
  allocator_.Free(block);
  EXPECT_EQ(Arena::Get().Find(address), nullptr);
}

TEST_F(CachingAllocatorTest, CountsLikeCuda) {
  Block* a = allocator_.Allocate(1000, 0);
  Block* b = allocator_.Allocate(3 * kMiB, 0);
  auto stats = allocator_.Stats();
  EXPECT_EQ(stats.allocated_bytes.all.current, 1024 + 3 * int64_t{kMiB});
  EXPECT_EQ(stats.allocated_bytes.small_pool.current, 1024);
  EXPECT_EQ(stats.requested_bytes.all.current, 1000 + 3 * int64_t{kMiB});
  EXPECT_EQ(stats.reserved_bytes.all.current, 10 * int64_t{kMiB});
  EXPECT_EQ(stats.allocation.all.current, 2);
  allocator_.Free(b);
  EXPECT_EQ(allocator_.Stats().allocated_bytes.all.current, 1024);
  EXPECT_EQ(allocator_.Stats().allocated_bytes.all.peak,
            1024 + 3 * int64_t{kMiB});
  allocator_.ResetPeakStats();
  EXPECT_EQ(allocator_.Stats().allocated_bytes.all.peak, 1024);
  allocator_.Free(a);
}

// Against a plain list of live ranges: no overlap, and all comes back.
TEST_F(CachingAllocatorTest, RandomUseNeverOverlaps) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<Block*> live;
  std::map<char*, uint64_t> ranges;
  for (int i = 0; i < 20000; ++i) {
    const int stream = static_cast<int>(random() % 3);
    if (live.empty() || random() % 5 < 3) {
      const uint64_t size =
          random() % 20 == 0 ? 1 + random() % (4 * kMiB) : 1 + random() % 20000;
      Block* block;
      try {
        block = allocator_.Allocate(size, stream);
      } catch (const std::bad_alloc&) {
        for (Block* freed : live) {
          ranges.erase(freed->address);
          allocator_.Free(freed);
        }
        live.clear();
        continue;
      }
      ASSERT_GE(block->size_bytes, size);
      auto after = ranges.lower_bound(block->address);
      if (after != ranges.end()) {
        ASSERT_LE(block->address + block->size_bytes, after->first);
      }
      if (after != ranges.begin()) {
        --after;
        ASSERT_LE(after->first + after->second, block->address);
      }
      ranges[block->address] = block->size_bytes;
      if (random() % 10 == 0) {
        const int other = static_cast<int>(random() % 3);
        allocator_.RecordStream(block, other);
        device_.Queue(other);
      }
      live.push_back(block);
    } else {
      std::swap(live[random() % live.size()], live.back());
      ranges.erase(live.back()->address);
      allocator_.Free(live.back());
      live.pop_back();
    }
    if (random() % 50 == 0) device_.Finish(stream);
    if (random() % 2000 == 0) allocator_.EmptyCache();
  }
  for (Block* block : live) allocator_.Free(block);
  allocator_.EmptyCache();
  EXPECT_EQ(device_.used(), 0u);
  EXPECT_EQ(allocator_.Stats().reserved_bytes.all.current, 0);
  EXPECT_EQ(allocator_.Stats().inactive_split_bytes.all.current, 0);
}

}  // namespace
}  // namespace tvarant::torch_plugin

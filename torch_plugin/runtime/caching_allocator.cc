#include "torch_plugin/runtime/caching_allocator.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace tvarant::torch_plugin {
namespace {

uint64_t RoundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

CachingAllocator::CachingAllocator(SegmentSource& source, Arena& arena)
    : source_(source), arena_(arena) {}

CachingAllocator::~CachingAllocator() {
  // Only tests destroy an allocator; a device keeps its own for ever.
  for (Segment* segment : segments_) {
    arena_.Release(segment->base, segment->size_bytes);
    delete segment;
  }
  for (Block* block : spare_blocks_) delete block;
}

CachingAllocator::Pool& CachingAllocator::PoolOf(int stream) {
  const size_t index = static_cast<size_t>(stream);
  if (index >= pools_.size()) pools_.resize(index + 1);
  if (pools_[index] == nullptr) pools_[index] = std::make_unique<Pool>();
  return *pools_[index];
}

Block* CachingAllocator::NewBlock() {
  if (spare_blocks_.empty()) return new Block;
  Block* block = spare_blocks_.back();
  spare_blocks_.pop_back();
  *block = Block();
  return block;
}

void CachingAllocator::DeleteBlock(Block* block) {
  spare_blocks_.push_back(block);
}

Block* CachingAllocator::Allocate(uint64_t size_bytes, int stream) {
  const client::Code kFull = client::Code::kResourceExhausted;
  // Larger than any address range: no rounding overflows below.
  if (size_bytes > (uint64_t{1} << 47)) {
    std::string usage = UsageText();
    source_.RaiseAllocationError(
        size_bytes, client::Status(kFull, "more than can be addressed"), usage);
  }
  const uint64_t size = RoundUp(size_bytes, kAlignment);
  Block* block = AllocateCached(size, size_bytes, stream);
  if (block != nullptr) return block;

  const bool is_small = size <= kSmallBlock;
  const uint64_t exact =
      is_small ? kSmallSegment : RoundUp(size, Arena::kSlotBytes);
  const uint64_t grown = is_small ? exact : std::max(exact, GrowthBytes());
  client::Status status =
      AllocateNew(grown, is_small, size, size_bytes, stream, &block);
  if (status.code() == kFull && grown != exact) {
    status = AllocateNew(exact, is_small, size, size_bytes, stream, &block);
  }
  if (status.code() == kFull) {
    // Give everything unused back and ask once more.
    source_.WaitForStreams();
    ReleaseUnused();
    block = AllocateCached(size, size_bytes, stream);
    if (block != nullptr) return block;
    status = AllocateNew(exact, is_small, size, size_bytes, stream, &block);
    std::lock_guard<std::mutex> lock(mutex_);
    ++stats_.num_alloc_retries;
    if (status.code() == kFull) ++stats_.num_ooms;
  }
  if (!status.ok()) {
    source_.RaiseAllocationError(size_bytes, status, UsageText());
  }
  return block;
}

Block* CachingAllocator::AllocateCached(uint64_t size, uint64_t requested,
                                        int stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!waiting_.empty()) ReturnPassed();
  Pool& pool = PoolOf(stream);
  Block* block = TakeFromPool(pool, size);
  if (block == nullptr) {
    FlushBins(pool);
    block = TakeFromPool(pool, size);
  }
  if (block != nullptr) MarkAllocated(block, requested);
  return block;
}

Block* CachingAllocator::TakeFromPool(Pool& pool, uint64_t size) {
  if (size <= kLargestBinned) {
    std::vector<Block*>& bin = pool.bins[size / kAlignment];
    if (!bin.empty()) {
      Block* block = bin.back();
      bin.pop_back();
      return block;
    }
  }
  FreeSet& free = size <= kSmallBlock ? pool.small : pool.large;
  Block key;
  key.size_bytes = size;
  auto it = free.lower_bound(&key);
  if (it == free.end()) return nullptr;
  Block* block = *it;
  free.erase(it);
  if (block->previous != nullptr || block->next != nullptr) {
    const bool is_small = block->segment->is_small;
    stats_.inactive_split.Decrease(is_small, 1);
    stats_.inactive_split_bytes.Decrease(is_small, block->size_bytes);
  }
  return Split(pool, block, size);
}

Block* CachingAllocator::Split(Pool& pool, Block* block, uint64_t size) {
  const bool is_small = block->segment->is_small;
  const uint64_t rest = block->size_bytes - size;
  // The rest of a large block must serve large allocations.
  if (is_small ? rest < kAlignment : rest <= kSmallBlock) return block;
  Block* tail = NewBlock();
  tail->allocator = this;
  tail->segment = block->segment;
  tail->stream = block->stream;
  tail->address = block->address + size;
  tail->size_bytes = rest;
  tail->previous_use = block->previous_use;
  tail->previous = block;
  tail->next = block->next;
  if (block->next != nullptr) block->next->previous = tail;
  block->next = tail;
  block->size_bytes = size;
  (is_small ? pool.small : pool.large).insert(tail);
  stats_.inactive_split.Increase(is_small, 1);
  stats_.inactive_split_bytes.Increase(is_small, rest);
  return block;
}

void CachingAllocator::MarkAllocated(Block* block, uint64_t requested) {
  const bool is_small = block->segment->is_small;
  block->state = Block::State::kAllocated;
  block->requested_bytes = requested;
  block->allocated_at = source_.LastSequence(block->stream);
  ++block->segment->live_blocks;
  stats_.allocation.Increase(is_small, 1);
  stats_.allocated_bytes.Increase(is_small, block->size_bytes);
  stats_.active.Increase(is_small, 1);
  stats_.active_bytes.Increase(is_small, block->size_bytes);
  stats_.requested_bytes.Increase(is_small, requested);
}

void CachingAllocator::Free(Block* block) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool is_small = block->segment->is_small;
  stats_.allocation.Decrease(is_small, 1);
  stats_.allocated_bytes.Decrease(is_small, block->size_bytes);
  stats_.requested_bytes.Decrease(is_small, block->requested_bytes);
  if (abandoned_) {
    Retire(block);
    return;
  }
  block->previous_use = source_.LastSequence(block->stream);
  if (!block->other_streams.empty()) {
    Waiting waiting{block, {}};
    for (int stream : block->other_streams) {
      waiting.points.emplace_back(stream, source_.LastSequence(stream));
    }
    block->other_streams.clear();
    if (!Passed(waiting)) {
      block->state = Block::State::kWaiting;
      waiting_.push_back(std::move(waiting));
      return;
    }
  }
  stats_.active.Decrease(is_small, 1);
  stats_.active_bytes.Decrease(is_small, block->size_bytes);
  --block->segment->live_blocks;
  if (block->size_bytes <= kLargestBinned) {
    block->state = Block::State::kBinned;
    PoolOf(block->stream).bins[block->size_bytes / kAlignment].push_back(block);
    return;
  }
  Merge(block);
}

void CachingAllocator::RecordStream(Block* block, int stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stream == block->stream) return;
  std::vector<int>& streams = block->other_streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
    streams.push_back(stream);
  }
}

bool CachingAllocator::Passed(const Waiting& waiting) {
  return std::all_of(waiting.points.begin(), waiting.points.end(),
                     [this](const std::pair<int, uint64_t>& point) {
                       return source_.CompletedSequence(point.first) >=
                              point.second;
                     });
}

void CachingAllocator::ReturnPassed() {
  auto kept = waiting_.begin();
  for (Waiting& waiting : waiting_) {
    if (!Passed(waiting)) {
      if (&*kept != &waiting) *kept = std::move(waiting);
      ++kept;
      continue;
    }
    Block* block = waiting.block;
    const bool is_small = block->segment->is_small;
    stats_.active.Decrease(is_small, 1);
    stats_.active_bytes.Decrease(is_small, block->size_bytes);
    --block->segment->live_blocks;
    Merge(block);
  }
  waiting_.erase(kept, waiting_.end());
}

void CachingAllocator::Merge(Block* block) {
  Pool& pool = PoolOf(block->stream);
  const bool is_small = block->segment->is_small;
  FreeSet& free = is_small ? pool.small : pool.large;
  auto absorb = [&](Block* gone) {
    free.erase(gone);
    stats_.inactive_split.Decrease(is_small, 1);
    stats_.inactive_split_bytes.Decrease(is_small, gone->size_bytes);
    block->size_bytes += gone->size_bytes;
    block->previous_use = std::max(block->previous_use, gone->previous_use);
  };
  block->state = Block::State::kFree;
  Block* before = block->previous;
  if (before != nullptr && before->state == Block::State::kFree) {
    absorb(before);
    block->address = before->address;
    block->previous = before->previous;
    if (block->previous != nullptr) block->previous->next = block;
    DeleteBlock(before);
  }
  Block* after = block->next;
  if (after != nullptr && after->state == Block::State::kFree) {
    absorb(after);
    block->next = after->next;
    if (block->next != nullptr) block->next->previous = block;
    DeleteBlock(after);
  }
  if (block->previous == nullptr) block->segment->first = block;
  free.insert(block);
  if (block->previous != nullptr || block->next != nullptr) {
    stats_.inactive_split.Increase(is_small, 1);
    stats_.inactive_split_bytes.Increase(is_small, block->size_bytes);
  }
}

void CachingAllocator::FlushBins(Pool& pool) {
  for (std::vector<Block*>& bin : pool.bins) {
    while (!bin.empty()) {
      Block* block = bin.back();
      bin.pop_back();
      Merge(block);
    }
  }
}

client::Status CachingAllocator::AllocateNew(uint64_t bytes, bool is_small,
                                             uint64_t size, uint64_t requested,
                                             int stream, Block** out) {
  char* base = arena_.Reserve(bytes);
  if (base == nullptr) {
    return client::Status(client::Code::kResourceExhausted,
                          "the address range for device memory is full");
  }
  client::Result<uint64_t> handle = source_.CreateSegment(bytes, base);
  if (!handle.ok()) {
    arena_.Release(base, bytes);
    return handle.status();
  }
  auto* segment = new Segment;
  segment->base = base;
  segment->size_bytes = bytes;
  segment->handle = handle.value();
  segment->owner = source_.owner();
  segment->is_small = is_small;
  segment->stream = stream;
  arena_.Publish(segment);

  std::lock_guard<std::mutex> lock(mutex_);
  segments_.insert(segment);
  ++stats_.num_device_alloc;
  stats_.segment.Increase(is_small, 1);
  stats_.reserved_bytes.Increase(is_small, bytes);
  if (!is_small) large_bytes_ += bytes;
  Block* block = NewBlock();
  block->allocator = this;
  block->segment = segment;
  block->stream = stream;
  block->address = base;
  block->size_bytes = bytes;
  segment->first = block;
  *out = Split(PoolOf(stream), block, size);
  MarkAllocated(*out, requested);
  return client::Status();
}

uint64_t CachingAllocator::GrowthBytes() {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::clamp(RoundUp(large_bytes_ / 4, Arena::kSlotBytes),
                    kMinLargeSegment, kMaxGrowth);
}

void CachingAllocator::ReleaseUnused() {
  std::vector<Segment*> unused;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ReturnPassed();
    for (std::unique_ptr<Pool>& pool : pools_) {
      if (pool == nullptr) continue;
      FlushBins(*pool);
      for (FreeSet* free : {&pool->small, &pool->large}) {
        for (auto it = free->begin(); it != free->end();) {
          Block* block = *it;
          if (block->previous != nullptr || block->next != nullptr) {
            ++it;
            continue;
          }
          it = free->erase(it);
          unused.push_back(block->segment);
          segments_.erase(block->segment);
          DeleteBlock(block);
        }
      }
    }
    for (Segment* segment : unused) {
      ++stats_.num_device_free;
      stats_.segment.Decrease(segment->is_small, 1);
      stats_.reserved_bytes.Decrease(segment->is_small, segment->size_bytes);
      if (!segment->is_small) large_bytes_ -= segment->size_bytes;
    }
  }
  if (unused.empty()) return;
  std::vector<uint64_t> handles;
  for (Segment* segment : unused) handles.push_back(segment->handle);
  source_.ReleaseSegments(handles);
  for (Segment* segment : unused) {
    arena_.Release(segment->base, segment->size_bytes);
    delete segment;
  }
}

void CachingAllocator::EmptyCache() {
  bool must_wait;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (abandoned_) return;
    ReturnPassed();
    must_wait = !waiting_.empty();
  }
  if (must_wait) source_.WaitForStreams();
  ReleaseUnused();
}

bool CachingAllocator::IsIdle(const Block& block, int stream) {
  const uint64_t last = source_.LastSequence(stream);
  const uint64_t completed = source_.CompletedSequence(stream);
  if (completed >= last) return true;
  // Nothing has been queued since it was allocated, and what used the memory
  // before has passed.
  return block.stream == stream && block.allocated_at == last &&
         completed >= block.previous_use;
}

void CachingAllocator::Retire(Block* block) {
  Segment* segment = block->segment;
  block->state = Block::State::kFree;
  if (--segment->live_blocks > 0) return;
  arena_.Release(segment->base, segment->size_bytes);
  segments_.erase(segment);
  // Its blocks are few and the device is gone: they are not worth finding.
  delete segment;
}

void CachingAllocator::Abandon() noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  if (abandoned_) return;
  abandoned_ = true;
  for (Waiting& waiting : waiting_) --waiting.block->segment->live_blocks;
  waiting_.clear();
  pools_.clear();
  for (auto it = segments_.begin(); it != segments_.end();) {
    Segment* segment = *it;
    if (segment->live_blocks > 0) {
      ++it;
      continue;
    }
    it = segments_.erase(it);
    arena_.Release(segment->base, segment->size_bytes);
    delete segment;
  }
}

MemoryStats CachingAllocator::Stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

void CachingAllocator::ResetAccumulatedStats() {
  std::lock_guard<std::mutex> lock(mutex_);
  stats_.ForEach([](MemoryStat& stat) { stat.ResetAccumulated(); });
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
  stats_.num_device_alloc = 0;
  stats_.num_device_free = 0;
}

void CachingAllocator::ResetPeakStats() {
  std::lock_guard<std::mutex> lock(mutex_);
  stats_.ForEach([](MemoryStat& stat) { stat.ResetPeak(); });
}

std::vector<SegmentSnapshot> CachingAllocator::Snapshot() {
  std::vector<SegmentSnapshot> snapshots;
  std::lock_guard<std::mutex> lock(mutex_);
  if (abandoned_) return snapshots;
  for (const Segment* segment : segments_) {
    SegmentSnapshot& snapshot = snapshots.emplace_back();
    snapshot.address = reinterpret_cast<uint64_t>(segment->base);
    snapshot.size_bytes = segment->size_bytes;
    snapshot.stream = segment->stream;
    snapshot.is_small = segment->is_small;
    for (const Block* block = segment->first; block != nullptr;
         block = block->next) {
      SegmentSnapshot::Part& part = snapshot.parts.emplace_back();
      part.size_bytes = block->size_bytes;
      part.is_allocated = block->state == Block::State::kAllocated;
      part.is_active =
          part.is_allocated || block->state == Block::State::kWaiting;
      part.requested_bytes = part.is_active ? block->requested_bytes : 0;
    }
  }
  return snapshots;
}

uint64_t CachingAllocator::AllocatedBytes() {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<uint64_t>(stats_.allocated_bytes.all.current);
}

uint64_t CachingAllocator::ReservedBytes() {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<uint64_t>(stats_.reserved_bytes.all.current);
}

std::string CachingAllocator::UsageText() {
  const uint64_t allocated = AllocatedBytes();
  const uint64_t reserved = ReservedBytes();
  auto mib = [](uint64_t bytes) {
    char text[64];
    snprintf(text, sizeof(text), "%.2f MiB",
             static_cast<double>(bytes) / (1 << 20));
    return std::string(text);
  };
  return "Of the memory reserved by this process, " + mib(allocated) +
         " is allocated by PyTorch, and " +
         mib(reserved > allocated ? reserved - allocated : 0) +
         " is reserved by PyTorch but unallocated.";
}

}  // namespace tvarant::torch_plugin

#include "client/staging_ring.h"

#include <utility>

#include "client/status_macros.h"

namespace tvarant::client {
namespace {

constexpr uint64_t kAlignment = 64;

}  // namespace

void StagingRing::ReclaimLocked() {
  while (!entries_.empty()) {
    const Entry& oldest = entries_.front();
    if (oldest.held) return;
    if (oldest.stream != nullptr && !oldest.stream->finished() &&
        oldest.stream->completed() < oldest.sequence) {
      return;
    }
    begin_ = oldest.end;
    entries_.pop_front();
    ++first_ticket_;
  }
  begin_ = end_;
}

std::optional<StagingRing::Chunk> StagingRing::TryAllocateLocked(
    uint64_t bytes) {
  ReclaimLocked();
  const uint64_t size = memory_.size_bytes();
  const uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  uint64_t start = end_;
  // A chunk does not wrap around: it starts over at the front.
  if (start % size + rounded > size) start += size - start % size;
  if (start + rounded - begin_ > size) return std::nullopt;
  end_ = start + rounded;
  Entry entry;
  entry.end = end_;
  entries_.push_back(std::move(entry));
  return Chunk{first_ticket_ + entries_.size() - 1, start % size,
               static_cast<char*>(memory_.data()) + start % size};
}

std::optional<StagingRing::Chunk> StagingRing::TryAllocate(uint64_t bytes) {
  base::MutexLock lock(mutex_);
  return TryAllocateLocked(bytes);
}

Result<StagingRing::Chunk> StagingRing::Allocate(uint64_t bytes,
                                                 SessionContext& context) {
  bool waited = false;
  while (true) {
    std::shared_ptr<StreamCore> stream;
    uint64_t sequence = 0;
    {
      base::MutexLock lock(mutex_);
      std::optional<Chunk> chunk = TryAllocateLocked(bytes);
      if (chunk.has_value()) return *chunk;
      if (!context.life.alive()) return context.life.death();
      if (entries_.front().held) {
        freed_.WaitFor(mutex_, kWaitSlice);
        continue;
      }
      stream = entries_.front().stream;
      sequence = entries_.front().sequence;
    }
    if (stream == nullptr) continue;
    if (!waited) Count(context.counters.round_trips);
    waited = true;
    const Status status = stream->WaitDone(sequence, /*count=*/false);
    // A broken stream gives its chunks up; a lost session ends all.
    if (!status.ok() && !context.life.alive()) return status;
  }
}

void StagingRing::FreeAfter(const Chunk& chunk,
                            std::shared_ptr<StreamCore> stream,
                            uint64_t sequence) {
  base::MutexLock lock(mutex_);
  Entry& entry = entries_[chunk.ticket - first_ticket_];
  entry.held = false;
  entry.stream = std::move(stream);
  entry.sequence = sequence;
  freed_.NotifyAll();
}

void StagingRing::Free(const Chunk& chunk) { FreeAfter(chunk, nullptr, 0); }

}  // namespace tvarant::client

// StagingRing: shared memory through which bytes go to and from segments.
//
// A ring of one memfd that client and daemon both map. Chunks are handed out
// in order and come back in order: one that a command reads or writes when the
// command's stream has passed it, one that a caller holds when it lets go.
//
// Example (upload):
//   auto chunk = ring.Allocate(bytes, context);
//   memcpy(chunk.value().data, source, bytes);
//   auto sequence = stream->Transfer(kUploadStaged, ...chunk offset...);
//   ring.FreeAfter(chunk.value(), stream, sequence);

#ifndef TVARANT_CLIENT_STAGING_RING_H_
#define TVARANT_CLIENT_STAGING_RING_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "client/client.h"
#include "client/shared_mapping.h"
#include "client/stream_core.h"
#include "proto/base/mutex.h"

namespace tvarant::client {

// Thread-safe.
class StagingRing {
 public:
  struct Chunk {
    uint64_t ticket = 0;
    uint64_t offset_bytes = 0;  // in the staging memory
    char* data = nullptr;
  };

  // `handle` is the staging memory's name for the daemon.
  StagingRing(uint64_t handle, SharedMapping memory)
      : handle_(handle), memory_(std::move(memory)) {}

  uint64_t handle() const { return handle_; }
  // Largest chunk; several fit in the ring, so that copies overlap.
  uint64_t max_chunk_bytes() const { return memory_.size_bytes() / 4; }

  // bytes <= max_chunk_bytes(). Empty when there is no room now.
  std::optional<Chunk> TryAllocate(uint64_t bytes);
  // Waits for room. The caller must hold no other chunk.
  Result<Chunk> Allocate(uint64_t bytes, SessionContext& context);

  // The chunk is free when the stream has passed the sequence number.
  void FreeAfter(const Chunk& chunk, std::shared_ptr<StreamCore> stream,
                 uint64_t sequence);
  void Free(const Chunk& chunk);

 private:
  struct Entry {
    uint64_t end;  // position behind the chunk
    bool held = true;
    std::shared_ptr<StreamCore> stream;  // null: free when not held
    uint64_t sequence = 0;
  };

  void ReclaimLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Chunk> TryAllocateLocked(uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t handle_;
  SharedMapping memory_;
  base::Mutex mutex_;
  base::CondVar freed_;
  // Positions count bytes for ever; position % size is the place.
  uint64_t begin_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t end_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t first_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_STAGING_RING_H_

// Host memory that the daemon reads and writes in place.
//
// A memfd as of a staging ring, but the caller's to fill: a copy between it and
// a segment needs no other copy on the way. In the child of a fork it turns
// into a copy of its own at the same address.

#ifndef TVARANT_CLIENT_HOST_MEMORY_H_
#define TVARANT_CLIENT_HOST_MEMORY_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "client/client.h"
#include "client/shared_mapping.h"
#include "proto/base/unique_fd.h"

namespace tvarant::client {

class SessionState;
class HostBlock;

// The living blocks of a session, for the child of a fork. Thread-safe.
class HostBlockList {
 public:
  // False when it is full.
  bool Add(const HostBlock* block);
  void Remove(const HostBlock* block);
  // Async-signal-safe.
  void MakePrivate() const;

 private:
  // Fewer than the daemon allows: the rings are of the same kind.
  std::array<std::atomic<const HostBlock*>, 240> blocks_{};
};

class HostBlock final : public HostMemory {
 public:
  // `fd` is the daemon's memory `handle`, which the block releases at its end.
  // RESOURCE_EXHAUSTED without address space.
  static Result<std::shared_ptr<HostBlock>> Map(
      const std::shared_ptr<SessionState>& session, uint64_t handle,
      base::UniqueFd fd, uint64_t size_bytes);
  ~HostBlock() override;

  void* data() const override { return memory_.data(); }
  uint64_t size_bytes() const override { return memory_.size_bytes(); }
  bool usable() const override;

  uint64_t handle() const { return handle_; }
  // True for memory of this very session.
  bool IsOf(const SessionState& session) const;
  void MakePrivate() const;

 private:
  HostBlock(const std::shared_ptr<SessionState>& session, uint64_t handle,
            base::UniqueFd fd, SharedMapping memory);

  const std::weak_ptr<SessionState> session_;
  const uint64_t handle_;
  const base::UniqueFd fd_;
  SharedMapping memory_;
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_HOST_MEMORY_H_

#include "client/host_memory.h"

#include <sys/mman.h>

#include <utility>

#include "client/session_state.h"

namespace tvarant::client {

bool HostBlockList::Add(const HostBlock* block) {
  for (auto& place : blocks_) {
    const HostBlock* free = nullptr;
    if (place.compare_exchange_strong(free, block)) return true;
  }
  return false;
}

void HostBlockList::Remove(const HostBlock* block) {
  for (auto& place : blocks_) {
    const HostBlock* found = block;
    if (place.compare_exchange_strong(found, nullptr)) return;
  }
}

void HostBlockList::MakePrivate() const {
  for (const auto& place : blocks_) {
    if (const HostBlock* block = place.load()) block->MakePrivate();
  }
}

HostBlock::HostBlock(const std::shared_ptr<SessionState>& session,
                     uint64_t handle, base::UniqueFd fd, SharedMapping memory)
    : session_(session),
      handle_(handle),
      fd_(std::move(fd)),
      memory_(std::move(memory)) {}

Result<std::shared_ptr<HostBlock>> HostBlock::Map(
    const std::shared_ptr<SessionState>& session, uint64_t handle,
    base::UniqueFd fd, uint64_t size_bytes) {
  Result<void*> mapped = MapSealed(fd.get(), size_bytes, nullptr);
  if (!mapped.ok()) return mapped.status();
  // A child keeps the addresses, until MakePrivate gives it bytes of its own.
  ::madvise(mapped.value(), size_bytes, MADV_DOFORK);
  return std::shared_ptr<HostBlock>(
      new HostBlock(session, handle, std::move(fd),
                    SharedMapping(mapped.value(), size_bytes)));
}

HostBlock::~HostBlock() {
  const std::shared_ptr<SessionState> session = session_.lock();
  if (session == nullptr) return;
  session->host_blocks().Remove(this);
  if (session->context().fork.in_child() || !session->context().life.alive()) {
    return;
  }
  // The daemon lets go when the work queued so far has passed.
  (void)session->ReleaseSegments(&handle_, 1);
}

bool HostBlock::usable() const {
  const std::shared_ptr<SessionState> session = session_.lock();
  return session != nullptr && !session->context().fork.in_child() &&
         session->context().life.alive();
}

bool HostBlock::IsOf(const SessionState& session) const {
  return session_.lock().get() == &session;
}

void HostBlock::MakePrivate() const {
  ::mmap(memory_.data(), memory_.size_bytes(), PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_FIXED, fd_.get(), 0);
}

}  // namespace tvarant::client

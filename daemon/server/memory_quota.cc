#include "daemon/server/memory_quota.h"

namespace tvarant {

std::shared_ptr<MemoryQuota::Charge> MemoryQuota::Take(
    const std::shared_ptr<MemoryQuota>& quota, uint64_t size_bytes) {
  base::MutexLock lock(quota->mutex_);
  if (size_bytes > quota->limit_bytes_ ||
      quota->used_bytes_ > quota->limit_bytes_ - size_bytes) {
    return nullptr;
  }
  quota->used_bytes_ += size_bytes;
  return std::shared_ptr<Charge>(new Charge(quota, size_bytes));
}

MemoryQuota::Charge::~Charge() {
  base::MutexLock lock(quota_->mutex_);
  quota_->used_bytes_ -= size_bytes_;
  if (!released_) return;
  --quota_->releasing_;
  ++quota_->returns_;
  quota_->returned_.NotifyAll();
}

void MemoryQuota::Charge::MarkReleased() {
  base::MutexLock lock(quota_->mutex_);
  if (released_) return;
  released_ = true;
  ++quota_->releasing_;
}

uint64_t MemoryQuota::returns() {
  base::MutexLock lock(mutex_);
  return returns_;
}

bool MemoryQuota::WaitForReturn(uint64_t seen, TimePoint deadline) {
  base::MutexLock lock(mutex_);
  while (returns_ <= seen) {
    if (releasing_ == 0) return false;
    if (!returned_.WaitUntil(mutex_, deadline)) return returns_ > seen;
  }
  return true;
}

uint64_t MemoryQuota::used_bytes() {
  base::MutexLock lock(mutex_);
  return used_bytes_;
}

}  // namespace tvarant

#include "daemon/server/bulk_exchange.h"

#include <chrono>
#include <utility>

#include "proto/wire/bulk.h"

namespace tvarant {
namespace {

// Credit is told in parts of this, so that the messages are few.
constexpr uint64_t kTellBytes = BulkExchange::kCreditBytes / 8;

// A client opens its stream with the first transfer. One that died between the
// two would be waited for without end: its command streams are not read
// meanwhile, so nobody would notice.
constexpr std::chrono::seconds kOpenLimit{10};

absl::Status Gone() {
  return absl::CancelledError("the stream for large transfers has ended");
}

}  // namespace

absl::Status BulkExchange::Open(Send send) {
  base::MutexLock write(write_mutex_);
  base::MutexLock lock(mutex_);
  if (is_over_) return Gone();
  if (is_open_) {
    return absl::FailedPreconditionError(
        "the session has a stream for large transfers already");
  }
  send_ = std::move(send);
  is_open_ = true;
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status BulkExchange::Receive(v1::BulkToDaemon* message) {
  const uint64_t bytes = message->data().size();
  if (bytes == 0 || bytes > kMaxBulkChunkBytes) {
    return absl::InvalidArgumentError("a chunk has 1 byte to 1 MiB");
  }
  base::MutexLock lock(mutex_);
  if (held_bytes_ + bytes > kCreditBytes || chunk_count_ >= kMaxChunks) {
    return absl::InvalidArgumentError("more was sent than there is credit for");
  }
  held_bytes_ += bytes;
  ++chunk_count_;
  transfers_[message->transfer()].push_back(
      std::move(*message->mutable_data()));
  changed_.NotifyAll();
  return absl::OkStatus();
}

void BulkExchange::Close() {
  // A write that another thread is in ends with gRPC's call.
  base::MutexLock write(write_mutex_);
  send_ = nullptr;
  base::MutexLock lock(mutex_);
  is_over_ = true;
  changed_.NotifyAll();
}

void BulkExchange::End() {
  base::MutexLock lock(mutex_);
  is_over_ = true;
  transfers_.clear();
  changed_.NotifyAll();
}

bool BulkExchange::HasChunk(uint64_t transfer) {
  base::MutexLock lock(mutex_);
  return transfers_.contains(transfer);
}

absl::StatusOr<std::string> BulkExchange::Take(uint64_t transfer) {
  base::MutexLock lock(mutex_);
  auto found = transfers_.find(transfer);
  const auto deadline = std::chrono::steady_clock::now() + kOpenLimit;
  while (found == transfers_.end()) {
    if (is_over_) return Gone();
    if (is_open_) {
      changed_.Wait(mutex_);
    } else if (!changed_.WaitUntil(mutex_, deadline) && !is_open_) {
      return Gone();
    }
    found = transfers_.find(transfer);
  }
  std::string bytes = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) transfers_.erase(found);
  --chunk_count_;
  return bytes;
}

void BulkExchange::GiveBack(uint64_t bytes) {
  v1::BulkToClient message;
  {
    base::MutexLock lock(mutex_);
    owed_bytes_ += bytes;
    if (owed_bytes_ < kTellBytes) return;
    message.set_credit_bytes(owed_bytes_);
    // From now on the client may send them again.
    held_bytes_ -= owed_bytes_;
    owed_bytes_ = 0;
  }
  Write(message);
}

absl::Status BulkExchange::Put(uint64_t transfer, std::string bytes) {
  v1::BulkToClient message;
  message.set_transfer(transfer);
  *message.mutable_data() = std::move(bytes);
  return Write(message) ? absl::OkStatus() : Gone();
}

absl::Status BulkExchange::PutFailure(uint64_t transfer) {
  v1::BulkToClient message;
  message.set_transfer(transfer);
  message.set_failed(true);
  return Write(message) ? absl::OkStatus() : Gone();
}

bool BulkExchange::Write(const v1::BulkToClient& message) {
  {
    // A download's record may be here before the stream for its bytes.
    base::MutexLock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + kOpenLimit;
    while (!is_open_ && !is_over_ && changed_.WaitUntil(mutex_, deadline)) {
    }
  }
  base::MutexLock write(write_mutex_);
  return send_ != nullptr && send_(message);
}

}  // namespace tvarant

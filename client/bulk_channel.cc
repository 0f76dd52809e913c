#include "client/bulk_channel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "client/status_macros.h"
#include "proto/wire/bulk.h"

namespace tvarant::client {
namespace {

// A call that is over tells its reason soon.
constexpr std::chrono::seconds kGoneTimeout{2};

}  // namespace

Result<std::unique_ptr<BulkChannel>> BulkChannel::Open(
    Rpc& rpc, const Lifeline& life, uint64_t credit_bytes, Deadline deadline,
    std::function<void(Status)> on_end) {
  std::unique_ptr<BulkChannel> channel(
      new BulkChannel(life, credit_bytes, std::move(on_end)));
  Result<std::unique_ptr<Rpc::Stub>> stub = rpc.MakeBulkStub(deadline);
  if (!stub.ok()) return stub.status();
  channel->stub_ = std::move(stub.value());
  rpc.AddToken(&channel->context_);
  channel->stream_ = channel->stub_->RunBulk(&channel->context_);
  BulkChannel* const raw = channel.get();
  TVARANT_RETURN_IF_ERROR(
      channel->reader_.Start("tvarant-bulk", [raw] { raw->ReadLoop(); }));
  return channel;
}

BulkChannel::~BulkChannel() {
  closing_.store(true, std::memory_order_release);
  Cancel();
  reader_.Join();
}

void BulkChannel::ReadLoop() {
  v1::BulkToClient message;
  while (stream_->Read(&message)) Deliver(message);
  grpc::Status status;
  {
    // The call is over, so that a write in progress ends.
    base::MutexLock write(write_mutex_);
    writes_closed_ = true;
    status = stream_->Finish();
  }
  if (!closing_.load(std::memory_order_acquire)) on_end_(FromGrpc(status));
  base::MutexLock lock(mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

void BulkChannel::Deliver(const v1::BulkToClient& message) {
  base::MutexLock lock(mutex_);
  credit_bytes_ += message.credit_bytes();
  const auto found = downloads_.find(message.transfer());
  if (found != downloads_.end()) {
    Download& download = found->second;
    const std::string& bytes = message.data();
    if (message.failed() || bytes.size() > download.bytes - download.done) {
      download.failed = true;
    } else {
      std::memcpy(download.data + download.done, bytes.data(), bytes.size());
      download.done += bytes.size();
    }
  }
  changed_.NotifyAll();
}

uint64_t BulkChannel::TakeCredit(uint64_t bytes) {
  base::MutexLock lock(mutex_);
  while (credit_bytes_ < bytes) {
    if (closed_ || !life_.alive()) return 0;
    changed_.WaitFor(mutex_, kWaitSlice);
  }
  credit_bytes_ -= bytes;
  return bytes;
}

Status BulkChannel::Send(uint64_t transfer, const char* data, uint64_t bytes) {
  v1::BulkToDaemon message;
  message.set_transfer(transfer);
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t size =
        TakeCredit(std::min(bytes - done, kMaxBulkChunkBytes));
    if (size > 0) {
      message.set_data(data + done, size);
      base::MutexLock write(write_mutex_);
      if (!writes_closed_ && stream_->Write(message)) {
        done += size;
        continue;
      }
    }
    return Gone();
  }
  return Status();
}

Status BulkChannel::Gone() {
  const auto deadline = std::chrono::steady_clock::now() + kGoneTimeout;
  {
    base::MutexLock lock(mutex_);
    while (!closed_ && life_.alive() &&
           std::chrono::steady_clock::now() < deadline) {
      changed_.WaitFor(mutex_, kWaitSlice);
    }
  }
  if (!life_.alive()) return life_.death();
  return Status(Code::kUnavailable, "the stream for large transfers has ended");
}

void BulkChannel::Expect(uint64_t transfer, char* data, uint64_t bytes) {
  base::MutexLock lock(mutex_);
  downloads_[transfer] = Download{data, bytes};
}

Result<bool> BulkChannel::Wait(uint64_t transfer) {
  bool is_whole;
  bool has_failed;
  {
    base::MutexLock lock(mutex_);
    const auto found = downloads_.find(transfer);
    if (found == downloads_.end()) return false;
    Download& download = found->second;
    while (download.done < download.bytes && !download.failed) {
      if (closed_ || !life_.alive()) break;
      changed_.WaitFor(mutex_, kWaitSlice);
    }
    has_failed = download.failed;
    is_whole = !has_failed && download.done == download.bytes;
    downloads_.erase(found);
  }
  if (!is_whole && !has_failed) return Gone();
  return is_whole;
}

void BulkChannel::Forget(uint64_t transfer) {
  base::MutexLock lock(mutex_);
  downloads_.erase(transfer);
}

}  // namespace tvarant::client

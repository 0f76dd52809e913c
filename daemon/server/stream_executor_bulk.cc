// The executor's records whose bytes travel on the bulk stream.

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/server/stream_executor.h"
#include "proto/base/status_macros.h"
#include "proto/wire/bulk.h"

namespace tvarant {

absl::Status StreamExecutor::UploadBulk(const TransferBody& transfer) {
  const auto dst = Segment(transfer.handle);
  absl::Status status = dst.status();
  uint64_t done = 0;
  while (done < transfer.bytes) {
    if (!session_.bulk().HasChunk(transfer.handle2)) {
      // The network is slower than the device: others run meanwhile.
      FinishDeviceWork();
      pass_.Leave();
      ReturnBulkCredit();
    }
    ASSIGN_OR_RETURN(std::string taken, session_.bulk().Take(transfer.handle2));
    const std::string& bytes = bulk_chunks_.emplace_back(std::move(taken));
    const uint64_t size = bytes.size();
    const bool is_too_much = size > transfer.bytes - done;
    // What comes is taken, whatever is wrong.
    if (status.ok() && !is_too_much) {
      EnterGate();
      status = device_stream_->Write(**dst, transfer.offset_bytes + done,
                                     absl::MakeConstSpan(bytes));
      context_.counters.Add(Counter::kUploadedBytes, size);
    }
    if (synchronous_ || !status.ok() || is_too_much) {
      bulk_chunks_.pop_back();
      bulk_owed_ += size;
    }
    if (bulk_owed_ >= kMaxBulkChunkBytes) {
      pass_.Leave();
      ReturnBulkCredit();
    }
    if (is_too_much) {
      return absl::InvalidArgumentError("more bytes came than were announced");
    }
    done += size;
  }
  return status;
}

absl::Status StreamExecutor::DownloadBulk(const TransferBody& transfer) {
  const auto src = Segment(transfer.handle);
  absl::Status status = src.status();
  for (uint64_t done = 0; status.ok() && done < transfer.bytes;) {
    std::string bytes(std::min(transfer.bytes - done, kMaxBulkChunkBytes),
                      '\0');
    EnterGate();
    status = device_stream_->Read(**src, transfer.offset_bytes + done,
                                  absl::MakeSpan(bytes));
    if (!status.ok()) break;
    FinishDeviceWork();
    // Sending may wait for the network.
    pass_.Leave();
    done += bytes.size();
    context_.counters.Add(Counter::kDownloadedBytes, bytes.size());
    RETURN_IF_ERROR(session_.bulk().Put(transfer.handle2, std::move(bytes)));
  }
  if (!status.ok()) {
    pass_.Leave();
    RETURN_IF_ERROR(session_.bulk().PutFailure(transfer.handle2));
  }
  return status;
}

void StreamExecutor::ReturnBulkCredit() {
  if (bulk_owed_ == 0) return;
  session_.bulk().GiveBack(bulk_owed_);
  bulk_owed_ = 0;
}

}  // namespace tvarant

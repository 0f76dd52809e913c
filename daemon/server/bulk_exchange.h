// BulkExchange: bytes of large transfers, between a session's bulk stream and
// the executors of its command streams.
//
// A record (kUploadBulk, kDownloadBulk) says when and where, on its command
// stream; the bytes travel on a connection of their own, so that commands never
// stand behind them. Up, they come before they are wanted, as many as the
// daemon has given credit for, and wait here until the executor that comes to
// the record takes them; what it has taken is given back as credit. Down, the
// executor sends, and the client always takes.
//
// The client begins transfers in the order of their records across all of its
// streams, so what waits here is always what some executor will want first, and
// credit comes back.
//
// Example:
//   RETURN_IF_ERROR(bulk.Open(send));             // the bulk stream's thread
//   while (io.Read(&message)) RETURN_IF_ERROR(bulk.Receive(&message));
//   bulk.Close();
//
//   ASSIGN_OR_RETURN(std::string bytes, bulk.Take(transfer));  // an executor's
//   bulk.GiveBack(bytes.size());

#ifndef TVARANT_DAEMON_SERVER_BULK_EXCHANGE_H_
#define TVARANT_DAEMON_SERVER_BULK_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/mutex.h"
#include "proto/tvarant/v1/device.pb.h"

namespace tvarant {

// Thread-safe.
class BulkExchange {
 public:
  // What a client may have sent that no executor has taken.
  static constexpr uint64_t kCreditBytes = uint64_t{16} << 20;
  static constexpr size_t kMaxChunks = 1024;

  // Sends a message on the bulk stream; false if the client is gone.
  using Send = std::function<bool(const v1::BulkToClient&)>;

  // A session has one bulk stream at a time. FAILED_PRECONDITION for another.
  absl::Status Open(Send send);
  // Takes the message's bytes. INVALID_ARGUMENT for a chunk that is empty or
  // too large, and beyond the credit.
  absl::Status Receive(v1::BulkToDaemon* message);
  // `send` is not called any more.
  void Close();

  // True when Take would not wait.
  bool HasChunk(uint64_t transfer);
  // The transfer's next bytes; waits for them. CANCELLED when they can't come
  // any more.
  absl::StatusOr<std::string> Take(uint64_t transfer);
  // The bytes of Take are not held any more. Tells the client now and then.
  void GiveBack(uint64_t bytes);
  // Bytes of a download, or that there are none. May wait for the network.
  // CANCELLED when the client is gone.
  absl::Status Put(uint64_t transfer, std::string bytes);
  absl::Status PutFailure(uint64_t transfer);

  // The session is over: every wait ends.
  void End();

 private:
  bool Write(const v1::BulkToClient& message);

  // Held while gRPC writes. Taken before mutex_.
  base::Mutex write_mutex_;
  Send send_ ABSL_GUARDED_BY(write_mutex_);

  base::Mutex mutex_;
  base::CondVar changed_;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;     // closed after it was open
  uint64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // sent on credit
  uint64_t owed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // credit not yet told
  size_t chunk_count_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, std::deque<std::string>> transfers_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_BULK_EXCHANGE_H_

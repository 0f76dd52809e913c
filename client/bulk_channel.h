// BulkChannel: the bytes of large transfers, on a connection of their own.
//
// The client's end of RunBulk (proto/tvarant/v1/device.proto). A record on a
// command stream says when and where; the bytes go in chunks, upwards as far as
// the daemon has given credit, downwards straight to where they are wanted.
//
// Example:
//   {
//     auto turn = bulk.BeginUpload();             // in the order of records
//     stream.Transfer(RecordKind::kUploadBulk, {..., .handle2 = transfer});
//     bulk.Send(transfer, data, bytes);
//   }
//   bulk.Expect(transfer, data, bytes);
//   stream.Transfer(RecordKind::kDownloadBulk, ...);
//   bulk.Wait(transfer);

#ifndef TVARANT_CLIENT_BULK_CHANNEL_H_
#define TVARANT_CLIENT_BULK_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "client/client.h"
#include "client/lifeline.h"
#include "client/rpc.h"
#include "client/thread.h"
#include "proto/base/mutex.h"
#include "proto/tvarant/v1/device.grpc.pb.h"

namespace tvarant::client {

// Thread-safe.
class BulkChannel {
 public:
  // Opens the stream, without waiting for the daemon. `credit_bytes` is what
  // may be under way. `on_end` is called at most once, on the channel's thread,
  // when the daemon or the connection ends it.
  static Result<std::unique_ptr<BulkChannel>> Open(
      Rpc& rpc, const Lifeline& life, uint64_t credit_bytes, Deadline deadline,
      std::function<void(Status)> on_end);
  ~BulkChannel();

  // Held from before a record of an upload is made until its bytes are sent:
  // the daemon gives credit back in the order of the records.
  base::Mutex& upload_order() { return upload_order_; }

  // Sends the bytes of an upload; they have been taken when it returns. Waits
  // for credit, and for the network.
  Status Send(uint64_t transfer, const char* data, uint64_t bytes);

  // Bytes of a download will be put at `data`. Forget it, or Wait for it,
  // before `data` ends its life.
  void Expect(uint64_t transfer, char* data, uint64_t bytes);
  // True when all bytes have come, false if the daemon says that there are
  // none. UNAVAILABLE when nothing will come any more.
  Result<bool> Wait(uint64_t transfer);
  void Forget(uint64_t transfer);

  // Ends every call on it.
  void Cancel() { context_.TryCancel(); }

 private:
  using GrpcStream =
      grpc::ClientReaderWriter<v1::BulkToDaemon, v1::BulkToClient>;

  BulkChannel(const Lifeline& life, uint64_t credit_bytes,
              std::function<void(Status)> on_end)
      : life_(life), on_end_(std::move(on_end)), credit_bytes_(credit_bytes) {}
  void ReadLoop();
  void Deliver(const v1::BulkToClient& message);
  // Why there is no going on. Waits for the reading thread to learn it.
  Status Gone();
  // Takes up to `bytes` of credit, at least 1; 0 when nothing will come.
  uint64_t TakeCredit(uint64_t bytes);

  struct Download {
    char* data;
    uint64_t bytes;
    uint64_t done = 0;
    bool failed = false;
  };

  const Lifeline& life_;
  const std::function<void(Status)> on_end_;
  std::unique_ptr<Rpc::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<GrpcStream> stream_;
  Thread reader_;
  std::atomic<bool> closing_{false};

  base::Mutex upload_order_;
  // Held while gRPC writes.
  base::Mutex write_mutex_;
  bool writes_closed_ ABSL_GUARDED_BY(write_mutex_) = false;

  base::Mutex mutex_;
  base::CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t credit_bytes_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Download> downloads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_BULK_CHANNEL_H_

// StreamCore: the command stream of one device stream.
//
// Application threads append records; batches of them go out (when full, when
// somebody waits, or by the flusher); a thread reads completions. It outlives
// the Stream that the application holds until the daemon has worked off what
// was sent.

#ifndef TVARANT_CLIENT_STREAM_CORE_H_
#define TVARANT_CLIENT_STREAM_CORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/flusher.h"
#include "client/inbox.h"
#include "client/progress.h"
#include "client/session_context.h"
#include "client/thread.h"
#include "proto/base/mutex.h"
#include "proto/wire/record.h"

namespace tvarant::client {

// Thread-safe.
class StreamCore : public Flushable {
 public:
  // Opens stream `id` and waits for the daemon's answer. `context` outlives
  // the stream.
  static Result<std::shared_ptr<StreamCore>> Open(SessionContext& context,
                                                  int id, bool high_priority);
  ~StreamCore() override;

  int id() const { return id_; }
  uint64_t last_sequence() const {
    return last_sequence_.load(std::memory_order_acquire);
  }
  uint64_t sent_sequence() const {
    return sent_sequence_.load(std::memory_order_acquire);
  }
  uint64_t completed() const { return progress_.completed(); }
  Inbox& inbox() { return inbox_; }

  // Append a record; the result is its sequence number.
  Result<uint64_t> Launch(const LaunchParams& params);
  Result<uint64_t> Upload(uint64_t segment, uint64_t offset_bytes,
                          const void* data, uint64_t bytes);
  Result<uint64_t> Transfer(RecordKind kind, const TransferBody& body);
  // Announced to the inbox before it can be answered.
  Result<uint64_t> Read(uint64_t segment, uint64_t offset_bytes, void* data,
                        uint64_t bytes);
  Result<uint64_t> Marker();

  // Sends what is pending. May block on flow control.
  Status Send();

  // Sends, then waits until `sequence` is done. Leaves failures of commands
  // alone. Counts a round trip if it had to wait and `count` says so.
  Status WaitDone(uint64_t sequence, bool count = true);

  // Not OK when this stream can do nothing any more.
  Status fault() const;
  bool finished() const { return broken_.load(std::memory_order_acquire); }

  // The application lets go: sends the rest and tells the daemon that no more
  // comes. The reading thread ends when the daemon is done.
  void Retire();
  bool retired() const { return retired_.load(std::memory_order_acquire); }
  // Ends the gRPC stream at once; every call on it ends.
  void Cancel() {
    cancelled_.store(true, std::memory_order_release);
    grpc_context_.TryCancel();
  }

  bool HasPending() const override {
    return has_pending_.load(std::memory_order_seq_cst);
  }
  bool Visit() override;

 private:
  using GrpcStream = grpc::ClientReaderWriter<v1::CommandBatch, v1::Completion>;

  StreamCore(SessionContext& context, int id);
  Status Start(bool high_priority);
  void ReadLoop();
  void Break(Status status);

  template <typename Encode>
  Result<uint64_t> Append(Encode&& encode);
  // Puts the program's definition before its first use on this stream.
  bool DefineLocked(uint64_t program) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t CountLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status SendLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Writes batch_, in parts if it is larger than the daemon takes.
  bool WriteLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);

  SessionContext& context_;
  const int id_;
  const uint64_t max_batch_bytes_;
  Progress progress_;
  Inbox inbox_;

  grpc::ClientContext grpc_context_;
  std::unique_ptr<GrpcStream> grpc_stream_;
  Thread reader_;

  std::atomic<uint64_t> last_sequence_{0};
  std::atomic<uint64_t> sent_sequence_{0};
  std::atomic<bool> has_pending_{false};
  std::atomic<bool> broken_{false};
  std::atomic<bool> retired_{false};
  std::atomic<bool> cancelled_{false};
  uint64_t seen_by_flusher_ = 0;  // flusher's thread only

  // Taken before mutex_. Held while gRPC writes: batches leave in order.
  base::Mutex write_mutex_;
  v1::CommandBatch batch_ ABSL_GUARDED_BY(write_mutex_);
  bool writes_closed_ ABSL_GUARDED_BY(write_mutex_) = false;

  mutable base::Mutex mutex_;
  std::string pending_ ABSL_GUARDED_BY(mutex_);
  RecordWriter writer_ ABSL_GUARDED_BY(mutex_);
  uint64_t pending_first_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t pending_launches_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<bool> defined_ ABSL_GUARDED_BY(mutex_);
  Status fault_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvarant::client

#endif  // TVARANT_CLIENT_STREAM_CORE_H_

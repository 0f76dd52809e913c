#include "client/stream_core.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "client/status_macros.h"

namespace tvarant::client {
namespace {

// A batch that is sent by the thread that fills it.
constexpr uint64_t kFullRecords = 64;
constexpr uint64_t kFullBytes = 32 << 10;
// Beyond this an append waits until the batch before it is out.
constexpr uint64_t kHardLimitBytes = 256 << 10;
// The daemon is about to run dry when it has fewer commands left than this.
constexpr uint64_t kLowWater = 16;

constexpr std::chrono::milliseconds kOpenTimeout{30000};

}  // namespace

Result<std::shared_ptr<StreamCore>> StreamCore::Open(SessionContext& context,
                                                     int id,
                                                     bool high_priority) {
  std::shared_ptr<StreamCore> core(new StreamCore(context, id));
  const Status status = core->Start(high_priority);
  if (!status.ok()) return status;
  context.flusher.Add(core);
  return core;
}

StreamCore::StreamCore(SessionContext& context, int id)
    : context_(context),
      id_(id),
      max_batch_bytes_(context.max_batch_bytes == 0 ? kMaxRecordBytes
                                                    : context.max_batch_bytes),
      progress_(context.page, id),
      inbox_(context.life, progress_),
      writer_(&pending_) {}

StreamCore::~StreamCore() {
  if (grpc_stream_ != nullptr) Cancel();
  reader_.Join();
}

Status StreamCore::Start(bool high_priority) {
  context_.rpc->AddToken(&grpc_context_);
  grpc_stream_ = context_.rpc->stub().RunStream(&grpc_context_);
  v1::CommandBatch open;
  open.mutable_open()->set_stream(id_);
  if (high_priority) {
    open.mutable_open()->set_priority(v1::OpenStream::PRIORITY_HIGH);
  }
  // A refused write shows as the stream's status, which the thread reads.
  grpc_stream_->Write(open);
  TVARANT_RETURN_IF_ERROR(
      reader_.Start("tvarant-stream", [this] { ReadLoop(); }));
  Count(context_.counters.round_trips);
  if (inbox_.WaitOpened(kOpenTimeout)) return Status();
  const Status status = fault();
  if (!status.ok()) return status;
  return Status(Code::kDeadlineExceeded, "the daemon did not open a stream");
}

void StreamCore::ReadLoop() {
  v1::Completion completion;
  while (grpc_stream_->Read(&completion)) {
    inbox_.Deliver(completion);
    progress_.Advance(completion.completed_sequence());
  }
  grpc::Status status;
  {
    // The call is over, so that a write in progress ends.
    base::MutexLock write(write_mutex_);
    writes_closed_ = true;
    status = grpc_stream_->Finish();
  }
  Break(FromGrpc(status));
}

void StreamCore::Break(Status status) {
  // The daemon cancels the streams of a session that it ends.
  if (status.code() == Code::kUnavailable ||
      status.code() == Code::kPermissionDenied ||
      (status.code() == Code::kCancelled &&
       !cancelled_.load(std::memory_order_acquire))) {
    context_.life.Die(context_.rpc->Lost(status.message()));
  }
  {
    base::MutexLock lock(mutex_);
    if (!context_.life.alive()) {
      fault_ = context_.life.death();
    } else if (status.ok() || status.code() == Code::kCancelled) {
      fault_ = Status(Code::kUnavailable, "the stream has ended");
    } else {
      fault_ = Status(status.code(),
                      "the daemon ended the stream: " + status.message());
    }
  }
  broken_.store(true, std::memory_order_release);
  inbox_.Close();
  progress_.Wake();
}

Status StreamCore::fault() const {
  if (!context_.life.alive()) return context_.life.death();
  if (!broken_.load(std::memory_order_acquire)) return Status();
  base::MutexLock lock(mutex_);
  return fault_;
}

uint64_t StreamCore::CountLocked() {
  const uint64_t sequence = last_sequence_.load(std::memory_order_relaxed) + 1;
  last_sequence_.store(sequence, std::memory_order_release);
  return sequence;
}

template <typename Encode>
Result<uint64_t> StreamCore::Append(Encode&& encode) {
  if (broken_.load(std::memory_order_acquire) || !context_.life.alive()) {
    return fault();
  }
  uint64_t sequence = 0;
  bool encoded;
  bool wakes;
  bool full;
  bool over;
  {
    base::MutexLock lock(mutex_);
    const bool was_empty = pending_.empty();
    encoded = encode();
    if (encoded) sequence = CountLocked();
    // A refused launch may still have left the definition of its program.
    wakes = was_empty && !pending_.empty();
    if (wakes) has_pending_.store(true, std::memory_order_seq_cst);
    full =
        pending_.size() >= kFullBytes ||
        last_sequence_.load(std::memory_order_relaxed) - pending_first_ + 1 >=
            kFullRecords;
    over = pending_.size() >= kHardLimitBytes;
  }
  if (over) {
    TVARANT_RETURN_IF_ERROR(Send());
  } else if (full && write_mutex_.TryLock()) {
    // Another thread in the middle of a write is no reason to wait: the
    // flusher looks again.
    const Status status = SendLocked();
    write_mutex_.Unlock();
    if (!status.ok()) return status;
  }
  if (wakes) context_.flusher.Notify();
  if (!encoded) {
    return Status(Code::kInvalidArgument,
                  "the launch has too many operands, parameters or "
                  "dimensions, or an unknown program");
  }
  return sequence;
}

bool StreamCore::DefineLocked(uint64_t program) {
  const uint64_t number = program & ~kProgramHandleBit;
  if (number < defined_.size() && defined_[number]) {
    return (program & kProgramHandleBit) != 0;
  }
  const int64_t index = context_.programs.IndexOf(program);
  if (index < 0) return false;
  writer_.DefineProgram(program, context_.programs.Serialized(index));
  CountLocked();
  if (number >= defined_.size()) defined_.resize(number + 1);
  defined_[number] = true;
  return true;
}

Result<uint64_t> StreamCore::Launch(const LaunchParams& params) {
  if ((params.num_ints | params.num_floats | params.num_dst | params.num_src) <
      0) {
    return Status(Code::kInvalidArgument, "the launch has a negative count");
  }
  return Append([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (params.program != 0 && !DefineLocked(params.program)) return false;
    const size_t before = pending_.size();
    if (!writer_.Launch(params)) return false;
    if (pending_.size() - before > max_batch_bytes_) {
      pending_.resize(before);
      return false;
    }
    ++pending_launches_;
    return true;
  });
}

Result<uint64_t> StreamCore::Upload(uint64_t segment, uint64_t offset_bytes,
                                    const void* data, uint64_t bytes) {
  return Append([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    writer_.Upload(segment, offset_bytes, data, bytes);
    return true;
  });
}

Result<uint64_t> StreamCore::Transfer(RecordKind kind,
                                      const TransferBody& body) {
  return Append([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    writer_.Transfer(kind, body);
    return true;
  });
}

Result<uint64_t> StreamCore::Read(uint64_t segment, uint64_t offset_bytes,
                                  void* data, uint64_t bytes) {
  return Append([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    inbox_.ExpectRead(last_sequence() + 1, data, bytes);
    writer_.Transfer(RecordKind::kRead, {.handle = segment,
                                         .offset_bytes = offset_bytes,
                                         .handle2 = 0,
                                         .offset2_bytes = 0,
                                         .bytes = bytes});
    return true;
  });
}

Result<uint64_t> StreamCore::Marker() {
  return Append([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    inbox_.ExpectMarker(last_sequence() + 1);
    writer_.Transfer(RecordKind::kMarker, {});
    return true;
  });
}

Status StreamCore::Send() {
  base::MutexLock write(write_mutex_);
  return SendLocked();
}

Status StreamCore::SendLocked() {
  uint64_t first;
  uint64_t last;
  uint64_t launches;
  {
    base::MutexLock lock(mutex_);
    if (pending_.empty()) return Status();
    first = pending_first_;
    // The two buffers take turns; neither is allocated again.
    batch_.mutable_records()->swap(pending_);
    pending_.clear();
    batch_.set_first_sequence(first);
    last = last_sequence_.load(std::memory_order_relaxed);
    pending_first_ = last + 1;
    launches = std::exchange(pending_launches_, 0);
    has_pending_.store(false, std::memory_order_seq_cst);
  }
  // Before the write: who sees the work done must see it counted.
  Count(context_.counters.records, last - first + 1);
  Count(context_.counters.launches, launches);
  if (writes_closed_ || !WriteLocked()) {
    const Status status = fault();
    // The reading thread learns why in a moment.
    return status.ok() ? context_.rpc->Lost("") : status;
  }
  sent_sequence_.store(last, std::memory_order_release);
  return Status();
}

bool StreamCore::WriteLocked() {
  // The clock that a daemon on this machine has, too.
  batch_.set_sent_ns(static_cast<uint64_t>(
      std::chrono::nanoseconds(
          std::chrono::steady_clock::now().time_since_epoch())
          .count()));
  if (batch_.records().size() <= max_batch_bytes_) {
    Count(context_.counters.batches);
    return grpc_stream_->Write(batch_);
  }
  const std::string records = std::move(*batch_.mutable_records());
  uint64_t sequence = batch_.first_sequence();
  size_t begin = 0;
  while (begin < records.size()) {
    size_t end = begin;
    uint64_t count = 0;
    while (end < records.size()) {
      RecordHead head;
      std::memcpy(&head, records.data() + end, sizeof(head));
      if (count > 0 && end + head.size_bytes - begin > max_batch_bytes_) break;
      end += head.size_bytes;
      ++count;
    }
    batch_.set_first_sequence(sequence);
    batch_.set_records(records.data() + begin, end - begin);
    Count(context_.counters.batches);
    if (!grpc_stream_->Write(batch_)) return false;
    begin = end;
    sequence += count;
  }
  return true;
}

bool StreamCore::Visit() {
  if (!HasPending()) return false;
  const uint64_t last = last_sequence();
  const bool dry = sent_sequence() <= completed() + kLowWater;
  const bool quiet = last == seen_by_flusher_;
  seen_by_flusher_ = last;
  if ((dry || quiet) && write_mutex_.TryLock()) {
    // A fault is the next caller's to hear.
    (void)SendLocked();
    write_mutex_.Unlock();
  }
  return true;
}

Status StreamCore::WaitDone(uint64_t sequence, bool count) {
  if (completed() >= sequence) return Status();
  TVARANT_RETURN_IF_ERROR(Send());
  bool waited = false;
  while (completed() < sequence) {
    const Status status = fault();
    if (!status.ok()) {
      // A stream that ended in order has done everything.
      return completed() >= sequence ? Status() : status;
    }
    if (!waited && count) Count(context_.counters.round_trips);
    progress_.WaitSlice(sequence, !waited);
    waited = true;
  }
  return Status();
}

void StreamCore::Retire() {
  {
    base::MutexLock write(write_mutex_);
    (void)SendLocked();
    if (!writes_closed_) grpc_stream_->WritesDone();
    writes_closed_ = true;
  }
  retired_.store(true, std::memory_order_release);
  context_.flusher.Remove(this);
}

}  // namespace tvarant::client

// The public Session and Stream: each call asks first whether this is a forked
// child, then goes to the state behind it.

#include <cstdint>
#include <memory>
#include <utility>

#include "client/client.h"
#include "client/remote_options.h"
#include "client/session_state.h"
#include "client/status_macros.h"
#include "client/transfer.h"

namespace tvarant::client {
namespace {

// Keeps what it holds from being destroyed, for good.
template <typename T>
void Leak(std::shared_ptr<T>&& pointer) {
  (void)new std::shared_ptr<T>(std::move(pointer));
}

#define TVARANT_REFUSE_IN_CHILD()                                 \
  do {                                                            \
    if (state_->context().fork.in_child()) return ForkedStatus(); \
  } while (false)

class StreamImpl : public Stream {
 public:
  StreamImpl(std::shared_ptr<SessionState> state,
             std::shared_ptr<StreamCore> core)
      : state_(std::move(state)), core_(std::move(core)) {}

  ~StreamImpl() override {
    if (state_->context().fork.in_child()) {
      Leak(std::move(core_));
      Leak(std::move(state_));
      return;
    }
    core_->Retire();
    core_.reset();
  }

  int id() const override { return core_->id(); }

  Result<uint64_t> Launch(const LaunchParams& params) override {
    TVARANT_REFUSE_IN_CHILD();
    return core_->Launch(params);
  }

  Result<uint64_t> Upload(uint64_t segment, uint64_t offset_bytes,
                          const void* data, uint64_t bytes) override {
    TVARANT_REFUSE_IN_CHILD();
    return client::Upload(*state_, core_, segment, offset_bytes, data, bytes);
  }

  Status Download(uint64_t segment, uint64_t offset_bytes, void* data,
                  uint64_t bytes) override {
    TVARANT_REFUSE_IN_CHILD();
    const Status status =
        client::Download(*state_, core_, segment, offset_bytes, data, bytes);
    if (status.code() == Code::kInvalidArgument) return status;
    // A failure on the stream says more than what came of it.
    TVARANT_RETURN_IF_ERROR(core_->inbox().TakeFailure());
    return status;
  }

  Result<uint64_t> UploadFrom(uint64_t segment, uint64_t offset_bytes,
                              const HostMemory& memory,
                              uint64_t memory_offset_bytes,
                              uint64_t bytes) override {
    TVARANT_REFUSE_IN_CHILD();
    return client::UploadFrom(*state_, *core_, segment, offset_bytes, memory,
                              memory_offset_bytes, bytes);
  }

  Status DownloadTo(uint64_t segment, uint64_t offset_bytes, HostMemory& memory,
                    uint64_t memory_offset_bytes, uint64_t bytes) override {
    TVARANT_REFUSE_IN_CHILD();
    const Status status =
        client::DownloadTo(*state_, *core_, segment, offset_bytes, memory,
                           memory_offset_bytes, bytes);
    if (status.code() == Code::kInvalidArgument) return status;
    TVARANT_RETURN_IF_ERROR(core_->inbox().TakeFailure());
    return status;
  }

  Result<uint64_t> CopyBytes(uint64_t dst_segment, uint64_t dst_offset_bytes,
                             uint64_t src_segment, uint64_t src_offset_bytes,
                             uint64_t bytes) override {
    TVARANT_REFUSE_IN_CHILD();
    if (bytes == 0) return core_->last_sequence();
    return core_->Transfer(RecordKind::kCopyBytes,
                           {.handle = dst_segment,
                            .offset_bytes = dst_offset_bytes,
                            .handle2 = src_segment,
                            .offset2_bytes = src_offset_bytes,
                            .bytes = bytes});
  }

  Result<uint64_t> RecordEvent(uint64_t event) override {
    TVARANT_REFUSE_IN_CHILD();
    const Result<uint64_t> sequence =
        core_->Transfer(RecordKind::kRecordEvent, {.handle = event,
                                                   .offset_bytes = 0,
                                                   .handle2 = 0,
                                                   .offset2_bytes = 0,
                                                   .bytes = 0});
    if (sequence.ok()) state_->NoteEvent(event, core_, sequence.value());
    return sequence;
  }

  Result<uint64_t> WaitEvent(uint64_t event) override {
    TVARANT_REFUSE_IN_CHILD();
    const SessionState::EventPoint point = state_->FindEvent(event);
    // Nothing to wait for: not recorded, this very stream, or long passed.
    if (point.stream == nullptr || point.stream == core_ ||
        point.stream->finished() ||
        point.stream->completed() >= point.sequence) {
      return core_->last_sequence();
    }
    // The daemon must come to the point, whatever else happens here.
    if (point.stream->sent_sequence() < point.sequence) {
      TVARANT_RETURN_IF_ERROR(point.stream->Send());
    }
    return core_->Transfer(
        RecordKind::kWaitEvent,
        {.handle = event,
         .offset_bytes = 0,
         .handle2 = static_cast<uint64_t>(point.stream->id()) + 1,
         .offset2_bytes = point.sequence,
         .bytes = 0});
  }

  Result<uint64_t> Marker() override {
    TVARANT_REFUSE_IN_CHILD();
    return core_->Marker();
  }

  Result<uint64_t> MarkerTimeNs(uint64_t sequence) override {
    TVARANT_REFUSE_IN_CHILD();
    TVARANT_RETURN_IF_ERROR(core_->Send());
    return core_->inbox().WaitMarker(sequence);
  }

  uint64_t last_sequence() const override { return core_->last_sequence(); }
  uint64_t completed_sequence() const override { return core_->completed(); }

  bool IsDone(uint64_t sequence) override {
    if (state_->context().fork.in_child()) return false;
    if (core_->completed() >= sequence) return true;
    if (core_->HasPending()) (void)core_->Send();
    return core_->completed() >= sequence;
  }

  Status Flush() override {
    TVARANT_REFUSE_IN_CHILD();
    TVARANT_RETURN_IF_ERROR(core_->fault());
    return core_->Send();
  }

  Status Wait(uint64_t sequence) override {
    TVARANT_REFUSE_IN_CHILD();
    if (sequence > core_->last_sequence()) {
      return Status(Code::kInvalidArgument,
                    "the stream has not come to sequence number " +
                        std::to_string(sequence));
    }
    const Status status = core_->WaitDone(sequence);
    // After the session's end nothing that was computed may count as done.
    if (!state_->context().life.alive()) {
      return state_->context().life.death();
    }
    TVARANT_RETURN_IF_ERROR(core_->inbox().TakeFailure());
    return status;
  }

 private:
  std::shared_ptr<SessionState> state_;
  std::shared_ptr<StreamCore> core_;
};

class SessionImpl : public Session {
 public:
  explicit SessionImpl(std::shared_ptr<SessionState> state)
      : state_(std::move(state)) {}

  ~SessionImpl() override {
    if (state_->context().fork.in_child()) Leak(std::move(state_));
  }

  const DeviceProperties& properties() const override {
    return state_->properties();
  }
  bool memory_is_mapped() const override { return state_->memory_is_mapped(); }

  bool alive() const override {
    return !state_->context().fork.in_child() && state_->context().life.alive();
  }
  Status death() const override {
    TVARANT_REFUSE_IN_CHILD();
    return state_->context().life.death();
  }

  Result<uint64_t> CreateSegment(uint64_t size_bytes, void* map_at) override {
    TVARANT_REFUSE_IN_CHILD();
    return state_->CreateSegment(size_bytes, map_at);
  }

  Status ReleaseSegments(const uint64_t* segments, int count) override {
    TVARANT_REFUSE_IN_CHILD();
    return state_->ReleaseSegments(segments, count);
  }

  Result<std::shared_ptr<HostMemory>> CreateHostMemory(
      uint64_t size_bytes) override {
    TVARANT_REFUSE_IN_CHILD();
    Result<std::shared_ptr<HostBlock>> block =
        state_->CreateHostMemory(size_bytes);
    if (!block.ok()) return block.status();
    return std::shared_ptr<HostMemory>(std::move(block.value()));
  }

  Result<std::shared_ptr<Stream>> CreateStream(bool high_priority) override {
    TVARANT_REFUSE_IN_CHILD();
    Result<std::shared_ptr<StreamCore>> core =
        state_->CreateStream(high_priority);
    if (!core.ok()) return core.status();
    return std::shared_ptr<Stream>(
        std::make_shared<StreamImpl>(state_, std::move(core.value())));
  }

  Result<uint64_t> DefineProgram(const Program& program) override {
    TVARANT_REFUSE_IN_CHILD();
    return state_->context().programs.Define(program);
  }

  uint64_t NewHandle() override { return state_->NewHandle(); }

  Result<MemoryInfo> GetMemoryInfo() override {
    TVARANT_REFUSE_IN_CHILD();
    v1::GetMemoryInfoResponse response;
    TVARANT_RETURN_IF_ERROR(state_->Call(
        &Rpc::Stub::GetMemoryInfo, v1::GetMemoryInfoRequest(), &response));
    MemoryInfo info;
    info.free_bytes = response.free_bytes();
    info.total_bytes = response.total_bytes();
    info.session_bytes = response.session_bytes();
    return info;
  }

  Counters counters() const override {
    const AtomicCounters& from = state_->context().counters;
    Counters to;
    to.launches = from.launches.load(std::memory_order_relaxed);
    to.records = from.records.load(std::memory_order_relaxed);
    to.batches = from.batches.load(std::memory_order_relaxed);
    to.round_trips = from.round_trips.load(std::memory_order_relaxed);
    to.uploaded_bytes = from.uploaded_bytes.load(std::memory_order_relaxed);
    to.downloaded_bytes = from.downloaded_bytes.load(std::memory_order_relaxed);
    return to;
  }

  void ForkChild() override {
    state_->context().fork.MarkChild();
    state_->host_blocks().MakePrivate();
  }

 private:
  std::shared_ptr<SessionState> state_;
};

#undef TVARANT_REFUSE_IN_CHILD

}  // namespace

Result<std::shared_ptr<Session>> Session::Connect(
    const ConnectOptions& options) {
  return ConnectRemote(options, RemoteOptions());
}

Result<std::shared_ptr<Session>> ConnectRemote(const ConnectOptions& options,
                                               const RemoteOptions& remote) {
  Result<std::shared_ptr<SessionState>> state =
      SessionState::Connect(options, remote);
  if (!state.ok()) return state.status();
  return std::shared_ptr<Session>(
      std::make_shared<SessionImpl>(std::move(state.value())));
}

}  // namespace tvarant::client

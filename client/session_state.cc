#include "client/session_state.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "client/status_macros.h"
#include "proto/ops/op_table_hash.h"
#include "proto/ops/op_table_rows.h"
#include "proto/wire/channel.h"
#include "tvarant_version.h"

namespace tvarant::client {
namespace {

// The daemon fills a ring in when it is made (1 us/KiB), so a session that
// moves only little pays only little. The large one keeps both sides copying.
constexpr uint64_t kSmallStagingBytes = uint64_t{1} << 20;
constexpr uint64_t kLargeStagingBytes = uint64_t{16} << 20;

constexpr std::chrono::milliseconds kBulkConnectTimeout{10000};

std::string ProcessName() {
  std::string name;
  std::ifstream("/proc/self/comm") >> name;
  return name;
}

DeviceProperties ToProperties(const v1::OpenSessionResponse& response) {
  const v1::DeviceProperties& from = response.properties();
  DeviceProperties to;
  to.name = from.name();
  to.runtime = from.runtime();
  to.vendor = from.vendor();
  to.driver_version = from.driver_version();
  to.instruction_set = from.instruction_set();
  to.daemon_version = response.daemon_version();
  to.total_memory_bytes = from.total_memory_bytes();
  to.max_segment_bytes = from.max_segment_bytes();
  to.compute_units = from.compute_units();
  to.simt_width = from.simt_width();
  to.device_count = from.device_count();
  return to;
}

}  // namespace

Result<std::shared_ptr<SessionState>> SessionState::Connect(
    const ConnectOptions& options, const RemoteOptions& remote) {
  Result<Endpoint> endpoint = Endpoint::Parse(options.endpoint);
  if (!endpoint.ok()) return endpoint.status();
  const Deadline deadline =
      std::chrono::steady_clock::now() +
      std::chrono::milliseconds(std::max(options.connect_timeout_ms, 1));
  Result<std::unique_ptr<Rpc>> rpc =
      Rpc::Connect(endpoint.value(), remote, deadline);
  if (!rpc.ok()) return rpc.status();

  v1::OpenSessionRequest request;
  request.set_min_protocol(kMinProtocol);
  request.set_max_protocol(kMaxProtocol);
  request.set_device_index(options.device_index);
  request.set_client_name(
      (options.client_name.empty() ? ProcessName() : options.client_name)
          .substr(0, 256));
  request.set_client_version(kVersion);
  request.set_map_memory(options.map_memory && options.shared_memory &&
                         !endpoint.value().is_tcp());
  request.set_op_table_hash(kOpTableHash);
  for (const OpTableRow& row : OpTableRows()) {
    request.add_op_rows(row.Packed());
  }
  v1::OpenSessionResponse response;
  TVARANT_RETURN_IF_ERROR(
      rpc.value()->OpenSession(request, &response, deadline));

  std::shared_ptr<SessionState> state(new SessionState(
      std::move(rpc.value()), response.limits().max_programs()));
  TVARANT_RETURN_IF_ERROR(
      state->Start(options, endpoint.value(), response, deadline));
  return state;
}

Status SessionState::Start(const ConnectOptions& options,
                           const Endpoint& endpoint,
                           const v1::OpenSessionResponse& response,
                           Deadline deadline) {
  properties_ = ToProperties(response);
  context_.max_batch_bytes = response.limits().max_batch_bytes();
  bulk_credit_bytes_ = response.bulk_credit_bytes();
  max_streams_ = static_cast<int>(std::min<uint64_t>(
      response.limits().max_streams(), kMaxStreamsPerSession));
  if (options.shared_memory && !endpoint.is_tcp()) {
    Result<std::unique_ptr<SideConnection>> side =
        SideConnection::Attach(endpoint, context_.rpc->token(), deadline);
    if (!side.ok()) return side.status();
    side_ = std::move(side.value());
    context_.page = side_->page();
    memory_is_mapped_ = options.map_memory && response.memory_is_mappable();
    TVARANT_RETURN_IF_ERROR(side_->Watch([this] { OnDaemonEnd(); }));
  }
  return context_.flusher.Start();
}

SessionState::~SessionState() {
  const bool was_alive = context_.life.alive();
  context_.life.Die(Status(Code::kCancelled, "the session was closed"));
  CancelStreams();  // ends writes that a daemon in trouble does not take
  context_.flusher.Stop();
  // The daemon ends a session with its side connection; without one it has to
  // be told.
  if (side_ == nullptr && was_alive && !context_.rpc->token().empty()) {
    v1::CloseSessionResponse response;
    (void)context_.rpc->Call(&Rpc::Stub::CloseSession,
                             v1::CloseSessionRequest(), &response,
                             std::chrono::milliseconds(1000));
  }
  {
    base::MutexLock lock(staging_mutex_);
    small_staging_.reset();
    large_staging_.reset();
  }
  {
    base::MutexLock lock(events_mutex_);
    events_.clear();
  }
  std::vector<std::shared_ptr<StreamCore>> streams;
  {
    base::MutexLock lock(mutex_);
    streams.swap(streams_);
  }
  std::unique_ptr<BulkChannel> bulk;
  {
    base::MutexLock lock(bulk_mutex_);
    bulk.swap(bulk_);
  }
  bulk.reset();     // joins its thread, which may ask for the lock
  streams.clear();  // joins their threads, which use the page
  side_.reset();
}

Status SessionState::AfterCall(Status status) {
  if (!context_.life.alive()) return context_.life.death();
  // A session that the daemon does not know any more is refused.
  if (status.code() == Code::kUnavailable ||
      status.code() == Code::kPermissionDenied) {
    context_.life.Die(context_.rpc->Lost(status.message()));
    return context_.life.death();
  }
  return status;
}

void SessionState::OnDaemonEnd() {
  context_.life.Die(context_.rpc->Lost(""));
  CancelStreams();
}

void SessionState::CancelStreams() {
  std::vector<std::shared_ptr<StreamCore>> streams;
  {
    base::MutexLock lock(mutex_);
    streams = streams_;
  }
  // Their reading threads then end and wake those who wait.
  for (const auto& stream : streams) stream->Cancel();
  base::MutexLock lock(bulk_mutex_);
  if (bulk_ != nullptr) bulk_->Cancel();
}

Result<std::shared_ptr<StreamCore>> SessionState::CreateStream(
    bool high_priority) {
  base::MutexLock open(open_mutex_);
  if (!context_.life.alive()) return context_.life.death();
  std::vector<std::shared_ptr<StreamCore>> gone;  // joined without the lock
  std::vector<bool> used(max_streams_);
  {
    base::MutexLock lock(mutex_);
    for (auto& stream : streams_) {
      if (stream->retired() && stream->finished()) {
        gone.push_back(std::move(stream));
      } else if (stream->id() < max_streams_) {
        used[stream->id()] = true;
      }
    }
    std::erase(streams_, nullptr);
  }
  gone.clear();
  const auto free = std::find(used.begin(), used.end(), false);
  if (free == used.end()) {
    return Status(Code::kResourceExhausted, "the session has all of its " +
                                                std::to_string(max_streams_) +
                                                " streams");
  }
  Result<std::shared_ptr<StreamCore>> core = StreamCore::Open(
      context_, static_cast<int>(free - used.begin()), high_priority);
  if (!core.ok()) return core.status();
  base::MutexLock lock(mutex_);
  streams_.push_back(core.value());
  // The daemon may have ended while the stream was on no list.
  if (!context_.life.alive()) core.value()->Cancel();
  return core;
}

Result<uint64_t> SessionState::CreateSegment(uint64_t size_bytes,
                                             void* map_at) {
  const uint64_t segment = NewHandle();
  const bool map = map_at != nullptr && memory_is_mapped_;
  v1::CreateSegmentRequest request;
  request.set_segment(segment);
  request.set_size_bytes(size_bytes);
  request.set_map_memory(map);
  v1::CreateSegmentResponse response;
  if (map) side_->Expect(segment);
  Status status = Call(&Rpc::Stub::CreateSegment, request, &response);
  if (!status.ok()) {
    if (map) side_->Forget(segment);
    return status;
  }
  if (!map) return segment;
  Result<base::UniqueFd> fd = side_->Take(segment, context_.life);
  status = fd.status();
  if (status.ok()) {
    status = MapSealed(fd.value().get(), size_bytes, map_at).status();
  }
  if (status.ok()) return segment;
  // Nobody will use it.
  (void)ReleaseSegments(&segment, 1);
  return status;
}

Status SessionState::ReleaseSegments(const uint64_t* segments, int count) {
  if (count <= 0) return Status();
  std::vector<std::shared_ptr<StreamCore>> streams;
  {
    base::MutexLock lock(mutex_);
    streams = streams_;
  }
  v1::ReleaseSegmentsRequest request;
  for (int i = 0; i < count; ++i) request.add_segments(segments[i]);
  for (const auto& stream : streams) {
    const uint64_t last = stream->last_sequence();
    if (stream->finished() || stream->completed() >= last) continue;
    // The point must be one that the daemon will come to.
    TVARANT_RETURN_IF_ERROR(stream->Send());
    v1::StreamPoint* point = request.add_after();
    point->set_stream(stream->id());
    point->set_sequence(last);
  }
  v1::ReleaseSegmentsResponse response;
  return Call(&Rpc::Stub::ReleaseSegments, request, &response);
}

Result<StagingRing*> SessionState::Staging(uint64_t bytes) {
  if (side_ == nullptr) return static_cast<StagingRing*>(nullptr);
  base::MutexLock lock(staging_mutex_);
  // A full device must not keep anybody from reading what is on it: where there
  // is no room for a ring, a smaller one serves, or messages.
  if (bytes > kSmallStagingBytes / 4) {
    const Status status = MakeRing(kLargeStagingBytes, &large_staging_);
    if (status.ok()) return large_staging_.get();
    if (status.code() != Code::kResourceExhausted) return status;
  }
  const Status status = MakeRing(kSmallStagingBytes, &small_staging_);
  if (status.ok()) return small_staging_.get();
  if (status.code() != Code::kResourceExhausted) return status;
  return static_cast<StagingRing*>(nullptr);
}

Status SessionState::MakeRing(uint64_t size_bytes,
                              std::unique_ptr<StagingRing>* ring) {
  if (*ring != nullptr) return Status();
  Result<std::unique_ptr<StagingRing>> made = MakeStaging(size_bytes);
  if (made.ok()) *ring = std::move(made.value());
  return made.status();
}

Result<base::UniqueFd> SessionState::ReceiveStaging(uint64_t handle,
                                                    uint64_t size_bytes) {
  v1::CreateStagingRequest request;
  request.set_staging(handle);
  request.set_size_bytes(size_bytes);
  v1::CreateStagingResponse response;
  side_->Expect(handle);
  const Status status = Call(&Rpc::Stub::CreateStaging, request, &response);
  if (!status.ok()) {
    side_->Forget(handle);
    return status;
  }
  return side_->Take(handle, context_.life);
}

Result<std::shared_ptr<HostBlock>> SessionState::CreateHostMemory(
    uint64_t size_bytes) {
  if (side_ == nullptr) {
    return Status(Code::kFailedPrecondition,
                  "there is no shared memory with this daemon");
  }
  const uint64_t handle = NewHandle();
  Result<base::UniqueFd> fd = ReceiveStaging(handle, size_bytes);
  if (!fd.ok()) return fd.status();
  Result<std::shared_ptr<HostBlock>> block = HostBlock::Map(
      shared_from_this(), handle, std::move(fd.value()), size_bytes);
  if (!block.ok()) {
    (void)ReleaseSegments(&handle, 1);
  } else if (!host_blocks_.Add(block.value().get())) {
    return Status(Code::kResourceExhausted,
                  "the session has as many blocks of host memory as it may");
  }
  return block;
}

Result<std::unique_ptr<StagingRing>> SessionState::MakeStaging(
    uint64_t size_bytes) {
  const uint64_t handle = NewHandle();
  Result<base::UniqueFd> fd = ReceiveStaging(handle, size_bytes);
  if (!fd.ok()) return fd.status();
  Result<void*> mapped = MapSealed(fd.value().get(), size_bytes, nullptr);
  if (!mapped.ok()) return mapped.status();
  return std::make_unique<StagingRing>(
      handle, SharedMapping(mapped.value(), size_bytes));
}

Result<BulkChannel*> SessionState::Bulk() {
  if (side_ != nullptr || bulk_credit_bytes_ == 0) {
    return static_cast<BulkChannel*>(nullptr);
  }
  base::MutexLock lock(bulk_mutex_);
  if (!context_.life.alive()) return context_.life.death();
  if (bulk_ == nullptr) {
    Result<std::unique_ptr<BulkChannel>> made = BulkChannel::Open(
        *context_.rpc, context_.life, bulk_credit_bytes_,
        std::chrono::steady_clock::now() + kBulkConnectTimeout,
        [this](const Status& why) {
          // What was under way can't be made good.
          context_.life.Die(context_.rpc->Lost(why.message()));
          CancelStreams();
        });
    if (!made.ok()) return made.status();
    bulk_ = std::move(made.value());
  }
  return bulk_.get();
}

void SessionState::NoteEvent(uint64_t event, std::shared_ptr<StreamCore> stream,
                             uint64_t sequence) {
  base::MutexLock lock(events_mutex_);
  if (events_.size() >= prune_events_at_) {
    // A point that has been passed holds nobody up.
    std::erase_if(events_, [](const auto& entry) {
      const EventPoint& point = entry.second;
      return point.stream->finished() ||
             point.stream->completed() >= point.sequence;
    });
    prune_events_at_ = std::max<size_t>(1024, 2 * events_.size());
  }
  events_[event] = EventPoint{std::move(stream), sequence};
}

SessionState::EventPoint SessionState::FindEvent(uint64_t event) {
  base::MutexLock lock(events_mutex_);
  const auto found = events_.find(event);
  return found == events_.end() ? EventPoint() : found->second;
}

}  // namespace tvarant::client

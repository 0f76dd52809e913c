#include "daemon/server/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

absl::Status Ended() { return absl::UnavailableError("the session has ended"); }

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Create(
    SessionOptions options, TvarantRuntime& runtime, BusyTracker& busy) {
  ASSIGN_OR_RETURN(auto board, ProgressBoard::Create());
  return std::unique_ptr<Session>(
      new Session(std::move(options), runtime, busy, std::move(board)));
}

Session::Session(SessionOptions options, TvarantRuntime& runtime,
                 BusyTracker& busy, std::unique_ptr<ProgressBoard> board)
    : options_(std::move(options)),
      busy_(busy),
      board_(std::move(board)),
      resources_(runtime, options_.device, options_.limits, options_.user),
      gate_member_(options_.user == nullptr ? nullptr
                                            : &options_.user->gate_user()),
      busy_member_(board_->busy_hint()) {
  busy_.Add(&busy_member_);
}

Session::~Session() {
  busy_.Remove(&busy_member_);
  resources_.Clear();
}

absl::Status Session::Attach(std::shared_ptr<SideChannel> side) {
  {
    base::MutexLock lock(mutex_);
    if (ended()) return Ended();
    if (side_ != nullptr) {
      return absl::FailedPreconditionError(
          "the session has a side connection already");
    }
    side_ = side;
  }
  const absl::Status sent =
      side->Send(SideKind::kAttached, 0, kSharedPageBytes, board_->page_fd());
  if (!sent.ok()) {
    // The client died before it was attached: nothing will tell of its end, so
    // the session must not count as attached.
    base::MutexLock lock(mutex_);
    side_ = nullptr;
  }
  return sent;
}

bool Session::attached() { return side() != nullptr; }

std::shared_ptr<SideChannel> Session::side() {
  base::MutexLock lock(mutex_);
  return side_;
}

absl::Status Session::CreateSegment(uint64_t handle, uint64_t size_bytes,
                                    bool map) {
  const std::shared_ptr<SideChannel> channel = map ? side() : nullptr;
  if (map && channel == nullptr) {
    return absl::FailedPreconditionError(
        "mapped memory was asked for without a side connection");
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<DeviceBuffer> buffer,
                   resources_.CreateSegment(handle, size_bytes));
  if (!map) return absl::OkStatus();
  absl::Status sent =
      buffer->shareable_fd() < 0
          ? absl::FailedPreconditionError(
                "this device's memory can't be mapped by a client")
          : channel->Send(SideKind::kMemory, handle, size_bytes,
                          buffer->shareable_fd());
  if (!sent.ok()) resources_.Drop({handle});
  return sent;
}

absl::Status Session::CreateStaging(uint64_t handle, uint64_t size_bytes) {
  const std::shared_ptr<SideChannel> channel = side();
  if (channel == nullptr) {
    return absl::FailedPreconditionError(
        "staging memory was asked for without a side connection");
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<StagingBuffer> buffer,
                   resources_.CreateStaging(handle, size_bytes));
  absl::Status sent = channel->Send(SideKind::kMemory, handle, size_bytes,
                                    buffer->shareable_fd());
  if (!sent.ok()) resources_.Drop({handle});
  return sent;
}

absl::Status Session::ReleaseSegments(std::vector<uint64_t> handles,
                                      std::vector<ProgressPoint> after) {
  for (const ProgressPoint& point : after) {
    if (point.stream >= kMaxStreamsPerSession) {
      return absl::InvalidArgumentError(absl::StrCat(
          "stream ", point.stream, " is not below ", kMaxStreamsPerSession));
    }
  }
  RETURN_IF_ERROR(resources_.MarkReleased(handles));
  board_->WhenPassed(std::move(after), [this, handles = std::move(handles)] {
    resources_.Drop(handles);
  });
  return absl::OkStatus();
}

absl::StatusOr<Session::StreamCall> Session::BeginStreamCall(
    std::function<void()> cancel, std::function<bool()> is_cancelled) {
  base::MutexLock lock(mutex_);
  if (ended()) return Ended();
  if (calls_.size() >= options_.limits.max_streams) {
    return absl::ResourceExhaustedError(OverLimit(
        "the session", Limit::kSessionStreams, options_.limits.max_streams));
  }
  StreamCall call;
  ASSIGN_OR_RETURN(call.claim_,
                   UserClaim::Take(options_.user, Limit::kUserStreams, 1));
  call.session_ = this;
  call.call_ = ++last_call_;
  calls_.push_back({call.call_, std::move(cancel), std::move(is_cancelled)});
  return call;
}

absl::Status Session::StreamCall::Open(uint32_t stream) {
  if (stream >= kMaxStreamsPerSession) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stream ", stream, " is not below ", kMaxStreamsPerSession));
  }
  if (!session_->board_->Open(stream)) {
    if (session_->ended()) return Ended();
    return absl::FailedPreconditionError(
        absl::StrCat("stream ", stream, " is in use"));
  }
  stream_ = static_cast<int>(stream);
  base::MutexLock lock(session_->mutex_);
  session_->opened_streams_ = true;
  return absl::OkStatus();
}

Session::StreamCall::StreamCall(StreamCall&& other) noexcept
    : session_(std::exchange(other.session_, nullptr)),
      claim_(std::move(other.claim_)),
      call_(other.call_),
      stream_(other.stream_) {}

Session::StreamCall& Session::StreamCall::operator=(
    StreamCall&& other) noexcept {
  std::swap(session_, other.session_);
  std::swap(claim_, other.claim_);
  std::swap(call_, other.call_);
  std::swap(stream_, other.stream_);
  return *this;
}

Session::StreamCall::~StreamCall() {
  if (session_ != nullptr) session_->EndStreamCall(call_, stream_);
}

void Session::EndStreamCall(uint64_t call, int stream) {
  if (stream >= 0) board_->Close(static_cast<uint32_t>(stream));
  bool last_of_ended = false;
  {
    base::MutexLock lock(mutex_);
    const auto found =
        std::find_if(calls_.begin(), calls_.end(),
                     [call](const Call& entry) { return entry.id == call; });
    if (found != calls_.end()) calls_.erase(found);
    last_of_ended = ended() && calls_.empty();
  }
  if (last_of_ended) resources_.Clear();
}

bool Session::End() {
  bool idle;
  std::shared_ptr<SideChannel> side;
  {
    base::MutexLock lock(mutex_);
    if (ended_.exchange(true, std::memory_order_acq_rel)) return false;
    // Under the lock, which keeps the calls from ending: a cancel function
    // may not be used once its call is over. gRPC's only marks the call.
    for (const Call& call : calls_) call.cancel();
    idle = calls_.empty();
    side = std::move(side_);
    side_ = nullptr;
  }
  board_->End();
  bulk_.End();
  if (side != nullptr) side->Shutdown();
  busy_.Remove(&busy_member_);
  if (idle) resources_.Clear();
  return true;
}

bool Session::IsAbandoned(Clock::time_point now, Clock::duration grace) {
  base::MutexLock lock(mutex_);
  if (ended() || side_ != nullptr) return false;
  // A stream that works learns only at the end of its batch that nobody waits.
  for (const Call& call : calls_) {
    if (call.is_cancelled == nullptr || !call.is_cancelled()) return false;
  }
  return opened_streams_ || now - opened_at_ > grace;
}

bool Session::opened_streams() {
  base::MutexLock lock(mutex_);
  return opened_streams_;
}

void Session::AddRecorder(const std::shared_ptr<FlightRecorder>& recorder) {
  base::MutexLock lock(mutex_);
  recorders_.erase(
      std::remove_if(recorders_.begin(), recorders_.end(),
                     [](const auto& old) { return old.expired(); }),
      recorders_.end());
  recorders_.push_back(recorder);
}

std::vector<std::shared_ptr<FlightRecorder>> Session::recorders() {
  base::MutexLock lock(mutex_);
  std::vector<std::shared_ptr<FlightRecorder>> alive;
  for (const auto& entry : recorders_) {
    if (auto recorder = entry.lock()) alive.push_back(std::move(recorder));
  }
  return alive;
}

int Session::stream_count() {
  base::MutexLock lock(mutex_);
  return static_cast<int>(calls_.size());
}

}  // namespace tvarant

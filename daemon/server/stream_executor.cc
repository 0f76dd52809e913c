#include "daemon/server/stream_executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "proto/base/logging.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

// A completion is sent when it has grown to this, so that a batch of reads
// never collects much memory.
constexpr size_t kCompletionBytes = 256 << 10;
// Failures beyond these are counted only; failed reads are always reported,
// since somebody waits for them.
constexpr int kMaxFailuresPerBatch = 16;
constexpr size_t kMaxFailureText = 1024;
// Of the log after a fault.
constexpr size_t kLoggedEvents = 16;
// A shorter wait for the device is none.
constexpr int64_t kWaitWorthTellingNs = 10000;

int64_t NowNs() {
  return std::chrono::nanoseconds(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Faults of the daemon or the device, not of the client.
bool IsOurFault(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal ||
         code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

// Whether a record of this kind uses the device.
bool NeedsDevice(RecordKind kind) {
  return kind != RecordKind::kDefineProgram &&
         kind != RecordKind::kRecordEvent && kind != RecordKind::kWaitEvent;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamExecutor>> StreamExecutor::Create(
    const ExecutorContext& context, Session& session, uint32_t stream) {
  ASSIGN_OR_RETURN(auto device_stream,
                   context.runtime.CreateStream(session.device()));
  device_stream->set_cancelled(&session.ended_flag());
  return std::unique_ptr<StreamExecutor>(
      new StreamExecutor(context, session, stream, std::move(device_stream)));
}

StreamExecutor::StreamExecutor(const ExecutorContext& context, Session& session,
                               uint32_t stream,
                               std::unique_ptr<DeviceStream> device_stream)
    : context_(context),
      session_(session),
      stream_(stream),
      device_stream_(std::move(device_stream)),
      synchronous_(device_stream_->is_synchronous()),
      pass_(context.gate, session.gate_member()),
      recorder_(std::make_shared<FlightRecorder>(session.id(), stream)) {
  // Of an asynchronous runtime, what is queued is waited for first (Settle).
  if (synchronous_) device_stream_->set_yield_point(&yield_point_);
  session.AddRecorder(recorder_);
}

bool StreamExecutor::LaunchYieldPoint::ShouldYield() const {
  return executor_.pass_.ShouldYield();
}

void StreamExecutor::LaunchYieldPoint::Yield() { executor_.pass_.Yield(); }

int StreamExecutor::LaunchYieldPoint::ProcessorShare(int processors) const {
  const auto running = static_cast<int>(executor_.context_.gate.running());
  return std::max(1, processors / std::max(1, running));
}

bool StreamExecutor::LaunchYieldPoint::HasNeighbours() const {
  return executor_.session_.busy_member().others() > 0;
}

void StreamExecutor::NoteArrival(uint64_t first_sequence, uint64_t sent_ns) {
  recorder_->Add(
      {.what = FlightEvent::kBatch,
       .sequence = first_sequence,
       // A clock of another machine tells nothing here.
       .start_ns = session_.attached() ? static_cast<int64_t>(sent_ns) : 0,
       .end_ns = NowNs()});
}

void StreamExecutor::LogFault(const char* reason) const {
  recorder_->Log(reason, kLoggedEvents);
}

absl::Status StreamExecutor::RunBatch(uint64_t first_sequence,
                                      std::string_view records, Send send) {
  if (first_sequence != next_sequence_) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch starts with sequence number ", first_sequence,
                     ", want ", next_sequence_));
  }
  failures_in_batch_ = 0;
  // Too much under way: the batch is answered, each record with the reason.
  auto claim =
      UserClaim::Take(session_.user(), Limit::kUserQueuedBytes, records.size());
  admitted_ = claim.status();
  session_.queued_bytes().fetch_add(records.size(), std::memory_order_relaxed);
  absl::Cleanup executed = [this, bytes = records.size()] {
    session_.queued_bytes().fetch_sub(bytes, std::memory_order_relaxed);
  };
  const uint64_t before = next_sequence_;
  absl::Status status;
  if (reinterpret_cast<uintptr_t>(records.data()) % 8 == 0) {
    status = RunRecords(records.data(), records.size(), send);
  } else {
    // Records are read in place and want alignment.
    std::vector<uint64_t> aligned((records.size() + 7) / 8);
    std::memcpy(aligned.data(), records.data(), records.size());
    status = RunRecords(reinterpret_cast<const char*>(aligned.data()),
                        records.size(), send);
  }
  Settle();
  pass_.Leave();
  DropReferences();
  ReturnBulkCredit();
  const uint64_t count = next_sequence_ - before;
  session_.command_count().fetch_add(count, std::memory_order_relaxed);
  context_.counters.Add(Counter::kRecords, count);
  context_.counters.Add(Counter::kBatches);
  // Without a shared page the client learns of progress only this way.
  if (!session_.attached()) completion_bytes_ += 1;
  if (!Flush(send) && status.ok()) {
    return absl::CancelledError("the client is gone");
  }
  return status;
}

absl::Status StreamExecutor::RunRecords(const char* at, size_t left,
                                        Send send) {
  uint64_t launches = 0;
  absl::Status status;
  while (left > 0) {
    if (session_.ended()) {
      status = absl::CancelledError("the session has ended");
      break;
    }
    ParsedRecord record;
    if (const char* fault = ParseRecord(at, left, &record)) {
      context_.counters.Add(Counter::kStreamsBroken);
      status = absl::InvalidArgumentError(
          absl::StrCat(fault, " (sequence number ", next_sequence_, ")"));
      break;
    }
    at += record.size_bytes;
    left -= record.size_bytes;
    current_sequence_ = next_sequence_++;
    if (NeedsDevice(record.kind)) EnterGate();
    launches += record.kind == RecordKind::kLaunch;
    recorder_->Begin({.what = static_cast<uint16_t>(record.kind),
                      .kernel = record.kind == RecordKind::kLaunch
                                    ? record.launch.head.kernel
                                    : uint16_t{0},
                      .sequence = current_sequence_,
                      .start_ns = NowNs()});
    const absl::Status result = admitted_.ok() ? Execute(record) : admitted_;
    recorder_->End(NowNs(), result.code());
    if (!result.ok()) AddFailure(record, result);
    if (synchronous_) {
      // Before the last progress is seen: who then releases memory finds it
      // free when the call returns.
      if (left == 0) DropReferences();
      session_.board().Publish(stream_, current_sequence_);
      published_sequence_ = current_sequence_;
    }
    if (completion_bytes_ >= kCompletionBytes) {
      Settle();
      pass_.Leave();
      if (!Flush(send)) {
        status = absl::CancelledError("the client is gone");
        break;
      }
    } else if (pass_.ShouldYield()) {
      Settle();
      pass_.Yield();
    }
  }
  context_.counters.Add(Counter::kLaunches, launches);
  return status;
}

absl::Status StreamExecutor::Execute(const ParsedRecord& record) {
  const TransferBody& transfer = record.transfer;
  switch (record.kind) {
    case RecordKind::kLaunch:
      return Launch(record.launch);
    case RecordKind::kUpload: {
      ASSIGN_OR_RETURN(DeviceBuffer * dst, Segment(transfer.handle));
      context_.counters.Add(Counter::kUploadedBytes, transfer.bytes);
      return device_stream_->Write(
          *dst, transfer.offset_bytes,
          absl::MakeConstSpan(record.payload, transfer.bytes));
    }
    case RecordKind::kRead:
      return Read(transfer);
    case RecordKind::kUploadStaged: {
      ASSIGN_OR_RETURN(DeviceBuffer * dst, Segment(transfer.handle));
      ASSIGN_OR_RETURN(StagingBuffer * src, Staging(transfer.handle2));
      context_.counters.Add(Counter::kUploadedBytes, transfer.bytes);
      return device_stream_->CopyFromStaging(*dst, transfer.offset_bytes, *src,
                                             transfer.offset2_bytes,
                                             transfer.bytes);
    }
    case RecordKind::kDownloadStaged: {
      ASSIGN_OR_RETURN(DeviceBuffer * src, Segment(transfer.handle));
      ASSIGN_OR_RETURN(StagingBuffer * dst, Staging(transfer.handle2));
      context_.counters.Add(Counter::kDownloadedBytes, transfer.bytes);
      return device_stream_->CopyToStaging(*dst, transfer.offset2_bytes, *src,
                                           transfer.offset_bytes,
                                           transfer.bytes);
    }
    case RecordKind::kUploadBulk:
      return UploadBulk(transfer);
    case RecordKind::kDownloadBulk:
      return DownloadBulk(transfer);
    case RecordKind::kCopyBytes: {
      ASSIGN_OR_RETURN(DeviceBuffer * dst, Segment(transfer.handle));
      ASSIGN_OR_RETURN(DeviceBuffer * src, Segment(transfer.handle2));
      return device_stream_->CopyBytes(*dst, transfer.offset_bytes, *src,
                                       transfer.offset2_bytes, transfer.bytes);
    }
    case RecordKind::kDefineProgram:
      return DefineProgram(record);
    case RecordKind::kRecordEvent:
      return session_.resources().RecordEvent(
          transfer.handle, ProgressPoint{stream_, current_sequence_},
          session_.board());
    case RecordKind::kWaitEvent:
      return WaitEvent(transfer);
    case RecordKind::kMarker: {
      v1::MarkerTime* marker = completion_.add_marker_times();
      marker->set_sequence(current_sequence_);
      marker->set_time_ns(device_stream_->SynchronizeAndGetTimeNs());
      completion_bytes_ += 24;
      return absl::OkStatus();
    }
  }
  return absl::InternalError("a record kind that nobody executes");
}

absl::Status StreamExecutor::Launch(const LaunchRecord& record) {
  ASSIGN_OR_RETURN(
      const ResolvedLaunch launch,
      resolver_.Resolve(
          record,
          [this](uint64_t handle) -> DeviceBuffer* {
            auto segment = Segment(handle);
            return segment.ok() ? *segment : nullptr;
          },
          [this](uint64_t handle) { return FindProgram(handle); }));
  if (!synchronous_) {
    queued_launches_.push_back({record.head.kernel, record.head.program});
  }
  return device_stream_->Launch(launch);
}

absl::Status StreamExecutor::Read(const TransferBody& transfer) {
  ASSIGN_OR_RETURN(DeviceBuffer * src, Segment(transfer.handle));
  v1::ReadResult* result = completion_.add_reads();
  result->set_sequence(current_sequence_);
  std::string* data = result->mutable_data();
  data->resize(transfer.bytes);  // at most kMaxInlineBytes
  const absl::Status status =
      device_stream_->Read(*src, transfer.offset_bytes, absl::MakeSpan(*data));
  if (!status.ok()) {
    completion_.mutable_reads()->RemoveLast();
    return status;
  }
  completion_bytes_ += 24 + transfer.bytes;
  context_.counters.Add(Counter::kDownloadedBytes, transfer.bytes);
  return status;
}

absl::Status StreamExecutor::DefineProgram(const ParsedRecord& record) {
  const TransferBody& transfer = record.transfer;
  ASSIGN_OR_RETURN(
      std::shared_ptr<const CachedProgram> program,
      context_.programs.Intern(std::string(record.payload, transfer.bytes)));
  RETURN_IF_ERROR(session_.resources().DefineProgram(transfer.handle, program));
  if (programs_.emplace(transfer.handle, std::move(program)).second) {
    context_.counters.Add(Counter::kPrograms);
  }
  return absl::OkStatus();
}

absl::Status StreamExecutor::WaitEvent(const TransferBody& transfer) {
  ProgressPoint point;
  if (transfer.handle2 != 0) {
    if (transfer.handle2 > kMaxStreamsPerSession) {
      return absl::InvalidArgumentError(
          absl::StrCat("stream ", transfer.handle2 - 1, " is not below ",
                       kMaxStreamsPerSession));
    }
    point.stream = static_cast<uint32_t>(transfer.handle2 - 1);
    point.sequence = transfer.offset2_bytes;
  } else {
    const std::optional<ProgressPoint> known =
        session_.resources().FindEvent(transfer.handle);
    if (!known.has_value()) return absl::OkStatus();
    point = *known;
  }
  if (point.stream == stream_) {
    if (point.sequence < current_sequence_) return absl::OkStatus();
    return absl::InvalidArgumentError("a stream can't wait for its own future");
  }
  if (session_.board().IsPassed(point)) return absl::OkStatus();
  // Others run meanwhile, and what came before may be waited for in turn.
  Settle();
  pass_.Leave();
  session_.board().Wait(point);
  return absl::OkStatus();
}

absl::StatusOr<DeviceBuffer*> StreamExecutor::Segment(uint64_t handle) {
  const auto found = segments_.find(handle);
  if (found != segments_.end()) return found->second.get();
  std::shared_ptr<DeviceBuffer> segment =
      session_.resources().FindSegment(handle);
  if (segment == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("segment ", handle, " is not known"));
  }
  return segments_.emplace(handle, std::move(segment)).first->second.get();
}

absl::StatusOr<StagingBuffer*> StreamExecutor::Staging(uint64_t handle) {
  const auto found = staging_.find(handle);
  if (found != staging_.end()) return found->second.get();
  std::shared_ptr<StagingBuffer> staging =
      session_.resources().FindStaging(handle);
  if (staging == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("staging ", handle, " is not known"));
  }
  return staging_.emplace(handle, std::move(staging)).first->second.get();
}

LaunchResolver::ProgramRef StreamExecutor::FindProgram(uint64_t handle) {
  auto found = programs_.find(handle);
  if (found == programs_.end()) {
    auto program = session_.resources().FindProgram(handle);
    if (program == nullptr) return {};
    found = programs_.emplace(handle, std::move(program)).first;
  }
  return {&found->second->program, found->second->key};
}

void StreamExecutor::DropReferences() {
  segments_.clear();
  staging_.clear();
}

void StreamExecutor::EnterGate() {
  if (pass_.inside()) return;
  const int64_t before_ns = NowNs();
  pass_.Enter();
  if (pass_.entered_ns() - before_ns > kWaitWorthTellingNs) {
    recorder_->Add({.what = FlightEvent::kWait,
                    .sequence = current_sequence_,
                    .start_ns = before_ns,
                    .end_ns = pass_.entered_ns()});
  }
  context_.busy.Touch(&session_.busy_member(), pass_.entered_ns());
}

void StreamExecutor::AddFailure(const ParsedRecord& record,
                                const absl::Status& status) {
  context_.counters.Add(Counter::kFailures);
  if (IsOurFault(status.code())) {
    static base::LogLimiter limiter(3, 0.1);
    if (limiter.Allow()) LogFault("internal_error");
  }
  const bool somebody_waits = record.kind == RecordKind::kRead ||
                              record.kind == RecordKind::kDownloadStaged ||
                              record.kind == RecordKind::kDownloadBulk ||
                              record.kind == RecordKind::kMarker;
  if (!somebody_waits && failures_in_batch_ >= kMaxFailuresPerBatch) return;
  ++failures_in_batch_;
  const char* op = NameOf(record.kind);
  if (record.kind == RecordKind::kLaunch) {
    op = tvarant::NameOf(static_cast<Kernel>(record.launch.head.kernel));
    const auto found = programs_.find(record.launch.head.program);
    if (found != programs_.end() && found->second->only_op != nullptr) {
      op = found->second->only_op;
    }
  }
  v1::Failure* failure = completion_.add_failures();
  failure->set_sequence(current_sequence_);
  failure->set_code(static_cast<int>(status.code()));
  failure->set_op(op);
  const auto text = status.message().substr(0, kMaxFailureText);
  failure->set_message(text.data(), text.size());
  completion_bytes_ += 64 + text.size();
  session_.board().AddError(stream_);
}

// The launch that the runtime names, or, where it does not know, none in
// particular: the last record bounds it.
ParsedRecord StreamExecutor::FailedLaunch(const absl::Status& status) const {
  ParsedRecord record{};
  record.kind = RecordKind::kLaunch;
  const auto payload = status.GetPayload(kFailedLaunch);
  size_t number = 0;
  if (payload.has_value() && absl::SimpleAtoi(std::string(*payload), &number) &&
      number >= 1 && number <= queued_launches_.size()) {
    const QueuedLaunch& launch = queued_launches_[number - 1];
    record.launch.head.kernel = launch.kernel;
    record.launch.head.program = launch.program;
  }
  return record;
}

void StreamExecutor::FinishDeviceWork() {
  if (synchronous_) return;
  absl::Status status;
  absl::Notification done;
  device_stream_->WhenDone([&](absl::Status result) {
    status = std::move(result);
    done.Notify();
  });
  done.WaitForNotification();
  if (!status.ok()) {
    AddFailure(FailedLaunch(status), status);
  }
  queued_launches_.clear();
  for (const std::string& chunk : bulk_chunks_) bulk_owed_ += chunk.size();
  bulk_chunks_.clear();
}

void StreamExecutor::Settle() {
  if (synchronous_ || published_sequence_ == current_sequence_) return;
  FinishDeviceWork();
  DropReferences();
  session_.board().Publish(stream_, current_sequence_);
  published_sequence_ = current_sequence_;
}

bool StreamExecutor::Flush(Send send) {
  if (completion_bytes_ == 0) return true;
  completion_.set_completed_sequence(published_sequence_);
  completion_.set_device_time_ns(device_stream_->SynchronizeAndGetTimeNs());
  const bool sent = send(completion_);
  completion_.Clear();
  completion_bytes_ = 0;
  return sent;
}

}  // namespace tvarant

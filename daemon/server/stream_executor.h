// StreamExecutor: runs the records of one command stream, in order.
//
// It belongs to the thread that reads the stream: read a batch, run it, answer.
// So nothing queues here; a client that is ahead is held back by HTTP/2 flow
// control, and no hand-off between threads stands between a command's arrival
// and its execution.

#ifndef TVARANT_DAEMON_SERVER_STREAM_EXECUTOR_H_
#define TVARANT_DAEMON_SERVER_STREAM_EXECUTOR_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/yield_point.h"
#include "daemon/metrics/counters.h"
#include "daemon/runtime/runtime.h"
#include "daemon/scheduler/busy_tracker.h"
#include "daemon/scheduler/device_gate.h"
#include "daemon/server/flight_recorder.h"
#include "daemon/server/launch_resolver.h"
#include "daemon/server/program_cache.h"
#include "daemon/server/session.h"
#include "proto/tvarant/v1/device.pb.h"
#include "proto/wire/record.h"

namespace tvarant {

// What all executors of the daemon share. Must outlive them.
struct ExecutorContext {
  TvarantRuntime& runtime;
  DeviceGate& gate;
  BusyTracker& busy;
  ProgramCache& programs;
  Counters& counters;
};

// Thread-compatible.
class StreamExecutor {
 public:
  // Sends a completion to the client; false if it is gone.
  using Send = absl::FunctionRef<bool(const v1::Completion&)>;

  // `stream` has been opened on the session, which must outlive the executor.
  static absl::StatusOr<std::unique_ptr<StreamExecutor>> Create(
      const ExecutorContext& context, Session& session, uint32_t stream);

  // A batch has arrived that the client sent at sent_ns (0: not told); RunBatch
  // comes next.
  void NoteArrival(uint64_t first_sequence, uint64_t sent_ns);

  // Logs what the stream did last.
  void LogFault(const char* reason) const;

  // Runs the records of a batch, which must be those after the last. Records
  // that fail are reported and the rest runs on. An error ends the stream:
  // INVALID_ARGUMENT for bytes that are no records or a wrong sequence number,
  // CANCELLED when the session has ended or the client is gone.
  absl::Status RunBatch(uint64_t first_sequence, std::string_view records,
                        Send send);

 private:
  StreamExecutor(const ExecutorContext& context, Session& session,
                 uint32_t stream, std::unique_ptr<DeviceStream> device_stream);

  absl::Status RunRecords(const char* at, size_t left, Send send);
  absl::Status Execute(const ParsedRecord& record);
  absl::Status Launch(const LaunchRecord& record);
  absl::Status DefineProgram(const ParsedRecord& record);
  absl::Status WaitEvent(const TransferBody& transfer);
  absl::Status Read(const TransferBody& transfer);
  // In stream_executor_bulk.cc.
  absl::Status UploadBulk(const TransferBody& transfer);
  absl::Status DownloadBulk(const TransferBody& transfer);
  void ReturnBulkCredit();
  absl::StatusOr<DeviceBuffer*> Segment(uint64_t handle);
  absl::StatusOr<StagingBuffer*> Staging(uint64_t handle);
  LaunchResolver::ProgramRef FindProgram(uint64_t handle);

  // Lets go of the memory that the batch has used so far. Not while the device
  // may still use it.
  void DropReferences();
  void EnterGate();
  void AddFailure(const ParsedRecord& record, const absl::Status& status);
  ParsedRecord FailedLaunch(const absl::Status& status) const;
  // Waits for the runtime; reports what failed.
  void FinishDeviceWork();
  // Waits for the runtime and publishes what is done.
  void Settle();
  // Sends what has been collected, if anything.
  bool Flush(Send send);

  // What long launches ask; of a synchronous runtime.
  class LaunchYieldPoint final : public YieldPoint {
   public:
    explicit LaunchYieldPoint(StreamExecutor& executor) : executor_(executor) {}
    bool ShouldYield() const override;
    void Yield() override;
    int ProcessorShare(int processors) const override;
    bool HasNeighbours() const override;

   private:
    StreamExecutor& executor_;
  };

  const ExecutorContext context_;
  Session& session_;
  const uint32_t stream_;
  const std::unique_ptr<DeviceStream> device_stream_;
  const bool synchronous_;
  DeviceGate::Pass pass_;
  LaunchYieldPoint yield_point_{*this};
  LaunchResolver resolver_;
  const std::shared_ptr<FlightRecorder> recorder_;  // the session reads it

  uint64_t next_sequence_ = 1;
  uint64_t current_sequence_ = 0;  // of the record that runs
  // Launches that the device has not finished, to name the one that fails.
  struct QueuedLaunch {
    decltype(LaunchRecord::head.kernel) kernel;
    decltype(LaunchRecord::head.program) program;
  };
  std::vector<QueuedLaunch> queued_launches_;
  uint64_t published_sequence_ = 0;
  // Of uploads that the device has not finished, each at its place.
  std::deque<std::string> bulk_chunks_;
  uint64_t bulk_owed_ = 0;  // credit to give back, outside of the gate

  v1::Completion completion_;  // being collected
  size_t completion_bytes_ = 0;
  int failures_in_batch_ = 0;
  absl::Status admitted_;  // why the batch is not executed
  // Kept while a batch runs, so that what another call releases stays alive.
  absl::flat_hash_map<uint64_t, std::shared_ptr<DeviceBuffer>> segments_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<StagingBuffer>> staging_;
  // Programs stay as long as the session.
  absl::flat_hash_map<uint64_t, std::shared_ptr<const CachedProgram>> programs_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_STREAM_EXECUTOR_H_

// FlightRecorder: the last commands of one stream, for the log after a fault
// and for traces.
//
// Recording is a few relaxed stores into a ring, always on. Others read while
// the stream goes on; what is overwritten meanwhile they count as lost. All
// recorders of the process can be written out from a signal handler, so that a
// crash, or the watchdog's SIGABRT, leaves in the log what each stream was
// doing.
//
// Example:
//   FlightRecorder recorder(session.id(), stream);
//   recorder.Begin({.what = 1, .kernel = 7, .sequence = 12, .start_ns = now});
//   ...
//   recorder.End(now_ns, absl::StatusCode::kOk);

#ifndef TVARANT_DAEMON_SERVER_FLIGHT_RECORDER_H_
#define TVARANT_DAEMON_SERVER_FLIGHT_RECORDER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/wire/record.h"

namespace tvarant {

// Name of a record for errors, logs and traces. Of static storage, as all names
// here.
const char* NameOf(RecordKind kind);

struct FlightEvent {
  // A record's kind (proto/wire/record.h), or one of these.
  static constexpr uint16_t kBatch = 0x100;
  static constexpr uint16_t kWait = 0x101;

  uint16_t what = 0;
  uint16_t kernel = 0;  // of a launch
  uint64_t sequence = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // 0: goes on
  absl::StatusCode code = absl::StatusCode::kOk;

  // "gemm_bias_act", "upload", "batch".
  const char* Name() const;
};

// One thread records, any may read.
class FlightRecorder {
 public:
  static constexpr size_t kEvents = 1024;

  FlightRecorder(uint64_t session, uint32_t stream);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  void Begin(const FlightEvent& event);
  // Ends the event that was begun last.
  void End(int64_t end_ns, absl::StatusCode code);
  void Add(const FlightEvent& event) { Begin(event); }

  // Appends finished events from number *next on and moves it; returns how
  // many were overwritten before.
  uint64_t ReadSince(uint64_t* next, std::vector<FlightEvent>* events) const;
  // Number of the event that comes next.
  uint64_t next() const { return next_.load(std::memory_order_acquire); }

  // Logs the last `count` events, one a line, oldest first. `reason` is a word.
  void Log(const char* reason, size_t count) const;

  uint64_t session() const { return session_; }
  uint32_t stream() const { return stream_; }

  // Writes the last events of every recorder of the process to a descriptor.
  // Async-signal-safe.
  static void WriteAll(int fd);

 private:
  struct Slot {
    std::atomic<uint64_t> sequence{0};
    std::atomic<int64_t> start_ns{0};
    std::atomic<int64_t> end_ns{0};
    std::atomic<uint64_t> packed{0};  // what, kernel, code
  };

  FlightEvent Load(uint64_t number) const;
  void WriteLast(int fd, size_t count) const;

  const uint64_t session_;
  const uint32_t stream_;
  std::atomic<uint64_t> next_{0};
  std::array<Slot, kEvents> slots_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_FLIGHT_RECORDER_H_

// TraceReader: collects what the streams of a daemon record, from now on.
//
// Example:
//   TraceReader reader(sessions, everybody);
//   for (;;) { v1::TraceResponse response; reader.Read(&response); ... }

#ifndef TVARANT_DAEMON_SERVER_TRACE_READER_H_
#define TVARANT_DAEMON_SERVER_TRACE_READER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "daemon/server/flight_recorder.h"
#include "daemon/server/session_registry.h"
#include "proto/tvarant/v1/admin.pb.h"

namespace tvarant {

// Thread-compatible. The streams go on while it reads.
class TraceReader {
 public:
  // Streams of sessions of `only_user` alone, if given. What they did before is
  // left out.
  TraceReader(SessionRegistry& sessions, std::optional<uid_t> only_user);

  // Adds what has finished since the last call, 8192 events at most or as many
  // as one recorder holds more.
  void Read(v1::TraceResponse* response);

 private:
  static constexpr int kMaxEvents = 8192;
  struct Source {
    std::shared_ptr<FlightRecorder> recorder;
    uint64_t next = 0;
  };

  void FindSources(bool from_the_start);

  SessionRegistry& sessions_;
  const std::optional<uid_t> only_user_;
  absl::flat_hash_map<const FlightRecorder*, Source> sources_;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_SERVER_TRACE_READER_H_

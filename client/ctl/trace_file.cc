#include "client/ctl/trace_file.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "client/ctl/output.h"

namespace tvarant::client {
namespace {

// Processes of the picture beside the clients, which have their own pids.
constexpr int64_t kDevicePid = 1 << 30;

using StreamKey = std::pair<uint64_t, uint32_t>;  // session, stream

class Writer {
 public:
  explicit Writer(int64_t zero_ns) : zero_ns_(zero_ns) {}

  void Name(const char* what, int64_t pid, uint64_t tid,
            const std::string& name) {
    Begin(what, "M", pid, tid);
    text_ += ", \"args\": {\"name\": " + JsonString(name) + "}}";
  }
  void Span(const std::string& name, int64_t pid, uint64_t tid,
            const v1::TraceEvent& event, int64_t start_ns, int64_t end_ns) {
    Begin(name, "X", pid, tid);
    text_ += ", \"ts\": " + Us(start_ns) + ", \"dur\": " +
             Number(static_cast<double>(end_ns - start_ns) / 1e3, 3) +
             ", \"args\": {\"sequence\": " + std::to_string(event.sequence());
    if (event.code() != 0) {
      text_ += ", \"code\": " + std::to_string(event.code());
    }
    text_ += "}}";
  }
  // One end of an arrow: phase "s" start, "t" step, "f" finish.
  void Arrow(const char* phase, int64_t pid, uint64_t tid, uint64_t id,
             int64_t at_ns) {
    Begin("batch", phase, pid, tid);
    text_ += ", \"cat\": \"flow\", \"id\": " + std::to_string(id) +
             ", \"ts\": " + Us(at_ns) +
             (*phase == 'f' ? ", \"bp\": \"e\"}" : "}");
  }
  std::string Finish() && {
    return "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [" + text_ +
           "\n]}\n";
  }

 private:
  void Begin(const std::string& name, const char* phase, int64_t pid,
             uint64_t tid) {
    text_ += text_.empty() ? "\n" : ",\n";
    text_ += "{\"name\": " + JsonString(name) + ", \"ph\": \"" + phase +
             "\", \"pid\": " + std::to_string(pid) +
             ", \"tid\": " + std::to_string(tid);
  }
  std::string Us(int64_t ns) const {
    return Number(static_cast<double>(ns - zero_ns_) / 1e3, 3);
  }

  const int64_t zero_ns_;
  std::string text_;
};

int64_t Start(const v1::TraceEvent& event) {
  return event.start_ns() != 0 ? event.start_ns() : event.end_ns();
}

class Drawing {
 public:
  Drawing(const v1::ListSessionsResponse& sessions, int64_t daemon_pid,
          int64_t zero_ns)
      : daemon_pid_(daemon_pid), writer_(zero_ns) {
    for (const auto& session : sessions.sessions()) {
      clients_[session.id()] = {session.pid(), session.client_name()};
    }
  }

  // The events of one stream, in order.
  void Stream(const StreamKey& key,
              const std::vector<const v1::TraceEvent*>& events) {
    const uint64_t track = ++last_track_;
    const auto known = clients_.find(key.first);
    const std::string label = "session " + std::to_string(key.first) +
                              " stream " + std::to_string(key.second);
    const bool has_client = known != clients_.end();
    const int64_t client_pid = has_client ? known->second.first : 0;
    writer_.Name("thread_name", daemon_pid_, track, label);
    writer_.Name("thread_name", kDevicePid, track, label);
    if (has_client) {
      writer_.Name("thread_name", client_pid, track, label);
      if (named_.insert(client_pid).second) {
        writer_.Name("process_name", client_pid, 0,
                     "client " + known->second.second);
      }
    }
    for (size_t i = 0; i < events.size(); ++i) {
      const v1::TraceEvent& event = *events[i];
      if (event.kind() == v1::TraceEvent::KIND_BATCH) {
        const size_t end = EndOfBatch(events, i);
        Batch(events, i, end, has_client ? client_pid : -1, track);
      } else if (event.kind() == v1::TraceEvent::KIND_WAIT) {
        writer_.Span(event.name(), daemon_pid_, track, event, event.start_ns(),
                     event.end_ns());
      } else {
        writer_.Span(event.name(), kDevicePid, track, event, event.start_ns(),
                     event.end_ns());
      }
    }
  }

  std::string Finish(const std::string& device) && {
    writer_.Name("process_name", daemon_pid_, 0, "tvarantd");
    writer_.Name("process_name", kDevicePid, 0, "device " + device);
    return std::move(writer_).Finish();
  }

 private:
  static size_t EndOfBatch(const std::vector<const v1::TraceEvent*>& events,
                           size_t begin) {
    size_t end = begin + 1;
    while (end < events.size() &&
           events[end]->kind() != v1::TraceEvent::KIND_BATCH) {
      ++end;
    }
    return end;
  }

  // Events (begin, end) belong to the batch events[begin].
  void Batch(const std::vector<const v1::TraceEvent*>& events, size_t begin,
             size_t end, int64_t client_pid, uint64_t track) {
    const v1::TraceEvent& batch = *events[begin];
    const int64_t arrived_ns = batch.end_ns();
    const bool sent = batch.start_ns() != 0 && client_pid >= 0 &&
                      batch.start_ns() <= arrived_ns;
    int64_t done_ns = arrived_ns;
    const v1::TraceEvent* first = nullptr;
    for (size_t i = begin + 1; i < end; ++i) {
      done_ns = std::max(done_ns, events[i]->end_ns());
      if (first == nullptr &&
          events[i]->kind() == v1::TraceEvent::KIND_COMMAND) {
        first = events[i];
      }
    }
    const uint64_t arrow = ++last_arrow_;
    if (sent) {
      writer_.Span("send", client_pid, track, batch, batch.start_ns(),
                   arrived_ns);
      writer_.Arrow("s", client_pid, track, arrow, batch.start_ns());
    }
    writer_.Span("batch", daemon_pid_, track, batch, arrived_ns, done_ns);
    writer_.Arrow(sent ? "t" : "s", daemon_pid_, track, arrow, arrived_ns);
    if (first != nullptr) {
      writer_.Arrow("f", kDevicePid, track, arrow, first->start_ns());
    }
  }

  const int64_t daemon_pid_;
  std::map<uint64_t, std::pair<int64_t, std::string>> clients_;
  std::set<int64_t> named_;
  uint64_t last_track_ = 0;
  uint64_t last_arrow_ = 0;
  Writer writer_;
};

}  // namespace

std::string ChromeTrace(const v1::TraceResponse& trace,
                        const v1::ListSessionsResponse& sessions,
                        const v1::GetStatusResponse& daemon) {
  std::map<StreamKey, std::vector<const v1::TraceEvent*>> streams;
  int64_t zero_ns = INT64_MAX;
  for (const v1::TraceEvent& event : trace.events()) {
    streams[{event.session(), event.stream()}].push_back(&event);
    zero_ns = std::min(zero_ns, Start(event));
  }
  Drawing drawing(sessions, daemon.pid(), zero_ns);
  for (const auto& [key, events] : streams) drawing.Stream(key, events);
  return std::move(drawing).Finish(daemon.device_name());
}

}  // namespace tvarant::client

#include "daemon/server/trace_reader.h"

#include <vector>

namespace tvarant {
namespace {

v1::TraceEvent::Kind KindOf(const FlightEvent& event) {
  if (event.what == FlightEvent::kBatch) return v1::TraceEvent::KIND_BATCH;
  if (event.what == FlightEvent::kWait) return v1::TraceEvent::KIND_WAIT;
  return v1::TraceEvent::KIND_COMMAND;
}

}  // namespace

TraceReader::TraceReader(SessionRegistry& sessions,
                         std::optional<uid_t> only_user)
    : sessions_(sessions), only_user_(only_user) {
  FindSources(/*from_the_start=*/false);
}

void TraceReader::FindSources(bool from_the_start) {
  for (const auto& session : sessions_.List()) {
    if (only_user_.has_value() && session->peer().uid != *only_user_) continue;
    for (auto& recorder : session->recorders()) {
      const FlightRecorder* const key = recorder.get();
      if (sources_.contains(key)) continue;
      const uint64_t next = from_the_start ? 0 : recorder->next();
      sources_.emplace(key, Source{std::move(recorder), next});
    }
  }
}

void TraceReader::Read(v1::TraceResponse* response) {
  FindSources(/*from_the_start=*/true);
  std::vector<FlightEvent> events;
  for (auto it = sources_.begin(); it != sources_.end();) {
    Source& source = it->second;
    // Looked at before the read: nothing comes after its stream has ended.
    const bool ended = source.recorder.use_count() == 1;
    events.clear();
    const uint64_t lost = source.recorder->ReadSince(&source.next, &events);
    response->set_lost(response->lost() + lost);
    for (const FlightEvent& event : events) {
      v1::TraceEvent* out = response->add_events();
      out->set_kind(KindOf(event));
      out->set_session(source.recorder->session());
      out->set_stream(source.recorder->stream());
      out->set_sequence(event.sequence);
      out->set_start_ns(event.start_ns);
      out->set_end_ns(event.end_ns);
      out->set_name(event.Name());
      out->set_code(static_cast<int>(event.code));
    }
    if (ended) {
      sources_.erase(it++);
    } else {
      ++it;
    }
    if (response->events_size() >= kMaxEvents) return;
  }
}

}  // namespace tvarant

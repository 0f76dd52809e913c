#include "client/ctl/commands.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "client/ctl/admin_client.h"
#include "client/ctl/client_list.h"
#include "client/ctl/doctor.h"
#include "client/ctl/output.h"
#include "client/ctl/trace_file.h"

namespace tvarant::client {
namespace {

using Stub = AdminClient::Stub;

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

void Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

int Fail(const Status& status) {
  std::fprintf(stderr, "tvarantctl: %s\n", Printable(status.message()).c_str());
  switch (status.code()) {
    case Code::kPermissionDenied:
      return kExitNotAllowed;
    case Code::kInvalidArgument:
      return kExitUsage;
    case Code::kNotFound:
      return kExitInPart;
    default:
      return kExitUnavailable;
  }
}

// The commands that ask a daemon. Each returns the exit status.
class Commands {
 public:
  Commands(const Settings& settings, AdminClient& client)
      : settings_(settings), client_(client) {}

  int Status() {
    const auto got = client_.Call(&Stub::GetStatus, v1::GetStatusRequest());
    if (!got.ok()) return Fail(got.status());
    const v1::GetStatusResponse& status = got.value();
    if (settings_.json) return Json(status);
    const auto row = [](const char* name, const std::string& value) {
      Print(std::string(name) +
            std::string(12 - std::string_view(name).size(), ' ') +
            Printable(value) + "\n");
    };
    row("daemon", "tvarantd " + status.daemon_version() + ", process " +
                      std::to_string(status.pid()));
    row("up", Duration(status.uptime_seconds()));
    row("device", status.device_name() + " (" + status.runtime() + ")");
    row("memory",
        Bytes(static_cast<double>(status.total_bytes() - status.free_bytes())) +
            " of " + Bytes(static_cast<double>(status.total_bytes())) +
            " in use");
    row("sessions", std::to_string(status.sessions()));
    row("state",
        status.draining() ? "draining: takes no new sessions" : "serving");
    row("protocol", std::to_string(status.min_protocol()) + " to " +
                        std::to_string(status.max_protocol()) + ", op tables " +
                        status.op_tables());
    return 0;
  }

  int Devices() {
    const auto got = client_.Call(&Stub::ListDevices, v1::ListDevicesRequest());
    if (!got.ok()) return Fail(got.status());
    if (settings_.json) return Json(got.value());
    Print(DeviceTable(got.value()));
    return 0;
  }

  int Clients() {
    const Result<ClientList> list =
        ReadClients(client_, Milliseconds(settings_.interval_seconds), nullptr);
    if (!list.ok()) return Fail(list.status());
    Print(settings_.json ? list.value().Json() + "\n" : list.value().Text());
    return 0;
  }

  int Top() {
    const bool clears = ::isatty(STDOUT_FILENO) != 0 && !settings_.json;
    ClientList before;
    for (uint64_t i = 0; settings_.count == 0 || i < settings_.count; ++i) {
      Result<ClientList> list =
          ReadClients(client_, Milliseconds(settings_.interval_seconds),
                      i == 0 ? nullptr : &before);
      if (!list.ok()) return Fail(list.status());
      const auto devices =
          client_.Call(&Stub::ListDevices, v1::ListDevicesRequest());
      if (!devices.ok()) return Fail(devices.status());
      if (settings_.json) {
        Print("{\"devices\": " + ToJson(devices.value()) +
              ", \"clients\": " + list.value().Json() + "}\n");
      } else {
        Print((clears ? "\033[H\033[2J" : "") + DeviceTable(devices.value()) +
              "\n" + list.value().Text() + (clears ? "" : "\n"));
      }
      before = std::move(list.value());
    }
    return 0;
  }

  int Kill() {
    std::vector<uint64_t> ids = settings_.sessions;
    if (settings_.pid != 0) {
      const auto got =
          client_.Call(&Stub::ListSessions, v1::ListSessionsRequest());
      if (!got.ok()) return Fail(got.status());
      for (const auto& session : got.value().sessions()) {
        if (session.pid() == settings_.pid) ids.push_back(session.id());
      }
      if (ids.empty()) {
        return Fail(
            {Code::kNotFound,
             "process " + std::to_string(settings_.pid) + " has no session"});
      }
    }
    if (ids.empty()) {
      return Fail({Code::kInvalidArgument,
                   "kill needs the numbers of sessions, or --pid"});
    }
    int result = 0;
    std::string ended;
    for (const uint64_t id : ids) {
      v1::EndSessionRequest request;
      request.set_id(id);
      const auto got = client_.Call(&Stub::EndSession, request);
      if (!got.ok()) {
        result = std::max(result, Fail(got.status()));
        continue;
      }
      if (settings_.json) {
        ended += (ended.empty() ? "" : ", ") + std::to_string(id);
      } else {
        Print("session " + std::to_string(id) + " ended\n");
      }
    }
    if (settings_.json) Print("{\"ended\": [" + ended + "]}\n");
    return result;
  }

  int Drain() {
    v1::SetDrainingRequest request;
    request.set_draining(!settings_.cancel);
    const auto deadline =
        std::chrono::steady_clock::now() + Milliseconds(settings_.wait_seconds);
    auto got = client_.Call(&Stub::SetDraining, request);
    if (!got.ok()) return Fail(got.status());
    uint32_t left = got.value().sessions();
    while (!settings_.cancel && left > 0 &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const auto status =
          client_.Call(&Stub::GetStatus, v1::GetStatusRequest());
      if (!status.ok()) return Fail(status.status());
      left = status.value().sessions();
    }
    if (settings_.json) {
      Print(std::string("{\"draining\": ") +
            (settings_.cancel ? "false" : "true") +
            ", \"sessions\": " + std::to_string(left) + "}\n");
    } else {
      Print(std::string(settings_.cancel ? "takes new sessions"
                                         : "takes no new sessions") +
            "; " + std::to_string(left) + " there\n");
    }
    return settings_.wait_seconds > 0 && left > 0 ? kExitInPart : 0;
  }

  int CacheList() {
    const auto got = client_.Call(&Stub::ListCache, v1::ListCacheRequest());
    if (!got.ok()) return Fail(got.status());
    if (settings_.json) return Json(got.value());
    std::vector<std::vector<std::string>> rows = {
        {"NAME", "SIZE", "USED", "KEY"}};
    for (const auto& entry : got.value().entries()) {
      rows.push_back({entry.name(),
                      Bytes(static_cast<double>(entry.size_bytes())),
                      Duration(static_cast<double>(std::max<int64_t>(
                          0, std::time(nullptr) - entry.last_used_s()))) +
                          " ago",
                      entry.key()});
    }
    Print(rows.size() > 1 ? Table(rows) : "no compiled kernels\n");
    return 0;
  }

  int CacheClear() {
    const auto got = client_.Call(&Stub::ClearCache, v1::ClearCacheRequest());
    if (!got.ok()) return Fail(got.status());
    if (settings_.json) return Json(got.value());
    Print(std::to_string(got.value().entries()) + " kernels forgotten, " +
          Bytes(static_cast<double>(got.value().freed_bytes())) + "\n");
    return 0;
  }

  int Counters() {
    const auto got = client_.Call(&Stub::GetCounters, v1::GetCountersRequest());
    if (!got.ok()) return Fail(got.status());
    if (settings_.json) return Json(got.value());
    std::vector<std::vector<std::string>> rows = {
        {"COUNTER", "VALUE", "UNIT", "WHAT"}};
    for (const auto& counter : got.value().counters()) {
      rows.push_back({counter.name(), Number(counter.value(), 0),
                      counter.unit(), counter.doc()});
    }
    Print(Table(rows));
    return 0;
  }

  int Trace() {
    std::ofstream file(settings_.output, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "tvarantctl: can't write %s\n",
                   settings_.output.c_str());
      return kExitCantWrite;
    }
    const auto daemon = client_.Call(&Stub::GetStatus, v1::GetStatusRequest());
    if (!daemon.ok()) return Fail(daemon.status());
    v1::TraceResponse all;
    std::map<uint64_t, v1::SessionInfo> known;
    const auto note_sessions = [&] {
      const auto got =
          client_.Call(&Stub::ListSessions, v1::ListSessionsRequest());
      if (!got.ok()) return;
      for (const auto& session : got.value().sessions()) {
        known[session.id()] = session;
      }
    };
    const client::Status status =
        client_.Trace(Milliseconds(settings_.trace_seconds),
                      [&](const v1::TraceResponse& part) {
                        // Sessions that come and go meanwhile have names, too.
                        for (const auto& event : part.events()) {
                          if (known.count(event.session()) == 0) {
                            note_sessions();
                            known.emplace(event.session(), v1::SessionInfo());
                          }
                        }
                        all.mutable_events()->MergeFrom(part.events());
                        all.set_lost(all.lost() + part.lost());
                      });
    if (!status.ok()) return Fail(status);
    v1::ListSessionsResponse sessions;
    for (const auto& [id, session] : known) {
      if (session.id() != 0) *sessions.add_sessions() = session;
    }
    file << ChromeTrace(all, sessions, daemon.value());
    if (!file.flush()) {
      std::fprintf(stderr, "tvarantctl: can't write %s\n",
                   settings_.output.c_str());
      return kExitCantWrite;
    }
    const std::string events = std::to_string(all.events_size());
    const std::string lost = std::to_string(all.lost());
    if (settings_.json) {
      Print("{\"file\": " + JsonString(settings_.output) +
            ", \"events\": " + events + ", \"lost\": " + lost + "}\n");
    } else {
      Print(settings_.output + ": " + events + " events, " + lost +
            " lost; open it at https://ui.perfetto.dev\n");
    }
    return 0;
  }

 private:
  int Json(const google::protobuf::Message& message) {
    Print(ToJson(message) + "\n");
    return 0;
  }

  const Settings& settings_;
  AdminClient& client_;
};

int RunDoctor(const Settings& settings) {
  const std::vector<Finding> findings =
      Diagnose(settings.endpoint, Milliseconds(settings.timeout_seconds));
  bool bad = false;
  std::string json, text;
  for (const Finding& finding : findings) {
    bad = bad || finding.state == Finding::State::kBad;
    json += std::string(json.empty() ? "" : ", ") +
            "{\"check\": " + JsonString(finding.check) +
            ", \"state\": " + JsonString(NameOf(finding.state)) +
            ", \"detail\": " + JsonString(finding.detail) +
            ", \"fix\": " + JsonString(finding.fix) + "}";
    std::string label = NameOf(finding.state);
    label.resize(8, ' ');
    std::string check = finding.check;
    check.resize(std::max<size_t>(check.size(), 11), ' ');
    text += label + check + " " + Printable(finding.detail) + "\n";
    if (!finding.fix.empty()) {
      text += "        fix:        " + Printable(finding.fix) + "\n";
    }
  }
  Print(settings.json ? "{\"findings\": [" + json + "]}\n" : text);
  return bad ? kExitInPart : 0;
}

}  // namespace

int RunCommand(const Settings& settings, const CLI::App& app) {
  if (settings.command == "man") {
    Print(ManualPage(app));
    return 0;
  }
  if (settings.command == "completion") {
    Print(Completion(app, settings.shell));
    return 0;
  }
  if (settings.command == "doctor") return RunDoctor(settings);
  static const std::map<std::string, int (Commands::*)()> kCommands = {
      {"status", &Commands::Status},
      {"devices", &Commands::Devices},
      {"clients", &Commands::Clients},
      {"top", &Commands::Top},
      {"kill", &Commands::Kill},
      {"drain", &Commands::Drain},
      {"cache list", &Commands::CacheList},
      {"cache clear", &Commands::CacheClear},
      {"counters", &Commands::Counters},
      {"trace", &Commands::Trace},
  };
  Result<std::unique_ptr<AdminClient>> client = AdminClient::Connect(
      settings.endpoint, Milliseconds(settings.timeout_seconds));
  if (!client.ok()) return Fail(client.status());
  Commands commands(settings, *client.value());
  return (commands.*kCommands.at(settings.command))();
}

}  // namespace tvarant::client

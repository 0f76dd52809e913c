#include "client/ctl/client_list.h"

#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "client/ctl/output.h"

namespace tvarant::client {
namespace {

constexpr size_t kMaxCommandBytes = 4096;
constexpr size_t kShownCommandBytes = 48;

std::string UserOf(const v1::SessionInfo& session) {
  if (!session.remote_user().empty()) return session.remote_user() + "@tcp";
  const passwd* entry = ::getpwuid(static_cast<uid_t>(session.uid()));
  return entry != nullptr ? entry->pw_name : std::to_string(session.uid());
}

// Of its user, among users: "4", "1 high".
std::string WeightOf(const v1::SessionInfo& session) {
  return std::to_string(session.weight()) +
         (session.high_priority() ? " high" : "");
}

// What it may hold, if the user's other sessions hold nothing.
uint64_t MemoryLimitOf(const v1::SessionInfo& session) {
  const uint64_t user = session.user_memory_limit_bytes();
  return user == 0 ? session.memory_limit_bytes()
                   : std::min(user, session.memory_limit_bytes());
}

// The command line where it can be seen and is still that of the session's
// user; else what the client calls itself.
std::string CommandOf(const v1::SessionInfo& session) {
  const std::string folder = "/proc/" + std::to_string(session.pid());
  struct stat info;
  if (session.local() && ::stat(folder.c_str(), &info) == 0 &&
      info.st_uid == static_cast<uid_t>(session.uid())) {
    std::ifstream file(folder + "/cmdline", std::ios::binary);
    std::string text(kMaxCommandBytes, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    while (!text.empty() && text.back() == '\0') text.pop_back();
    std::replace(text.begin(), text.end(), '\0', ' ');
    if (!text.empty()) return text;
  }
  return session.client_name();
}

// The part that fits a table, without the folder of the program.
std::string Shorten(std::string command) {
  const size_t slash = command.rfind('/', command.find(' '));
  if (slash != std::string::npos) command.erase(0, slash + 1);
  return command.substr(0, kShownCommandBytes);
}

}  // namespace

Result<ClientList> ReadClients(AdminClient& client,
                               std::chrono::milliseconds interval,
                               const ClientList* before) {
  const auto read = [&client]() -> Result<ClientList> {
    auto got = client.Call(&AdminClient::Stub::ListSessions,
                           v1::ListSessionsRequest());
    if (!got.ok()) return got.status();
    ClientList list;
    list.sessions_ = std::move(got.value());
    list.read_at_ = std::chrono::steady_clock::now();
    return list;
  };
  ClientList first;
  if (before == nullptr) {
    Result<ClientList> got = read();
    if (!got.ok()) return got.status();
    first = std::move(got.value());
    before = &first;
  }
  std::this_thread::sleep_until(before->read_at_ + interval);
  Result<ClientList> second = read();
  if (!second.ok()) return second.status();
  ClientList& list = second.value();
  std::map<uint64_t, double> busy_before;
  for (const auto& session : before->sessions_.sessions()) {
    busy_before[session.id()] = session.busy_seconds();
  }
  const double elapsed =
      std::chrono::duration<double>(list.read_at_ - before->read_at_).count();
  for (const auto& session : list.sessions_.sessions()) {
    const double busy = session.busy_seconds() - busy_before[session.id()];
    list.percent_[session.id()] = elapsed > 0 ? 100 * busy / elapsed : 0;
  }
  return second;
}

std::string ClientList::Text() const {
  if (sessions_.sessions().empty()) return "no clients\n";
  std::vector<std::vector<std::string>> rows = {
      {"SESSION", "PID", "USER", "WEIGHT", "MEMORY", "OF", "DEVICE%", "QUEUE",
       "STREAMS", "COMMANDS", "AGE", "COMMAND"}};
  for (const auto& session : sessions_.sessions()) {
    rows.push_back(
        {std::to_string(session.id()), std::to_string(session.pid()),
         UserOf(session), WeightOf(session),
         Bytes(static_cast<double>(session.memory_bytes())),
         Bytes(static_cast<double>(MemoryLimitOf(session))),
         Number(percent_.at(session.id()), 1),
         Bytes(static_cast<double>(session.queued_bytes())),
         std::to_string(session.streams()), std::to_string(session.commands()),
         Duration(session.age_seconds()), Shorten(CommandOf(session))});
  }
  return Table(rows);
}

std::string ClientList::Json() const {
  std::string out;
  for (const auto& session : sessions_.sessions()) {
    std::string object = ToJson(session);
    object.pop_back();
    out += (out.empty() ? "" : ", ") + object +
           ", \"user\": " + JsonString(UserOf(session)) +
           ", \"command\": " + JsonString(CommandOf(session)) +
           ", \"device_percent\": " + Number(percent_.at(session.id()), 3) +
           "}";
  }
  return "{\"sessions\": [" + out + "]}";
}

std::string DeviceTable(const v1::ListDevicesResponse& devices) {
  std::vector<std::vector<std::string>> rows = {{"DEVICE", "NAME", "DRIVER",
                                                 "MEMORY USED", "OF", "RUNNING",
                                                 "WAITING", "BUSY"}};
  for (const auto& device : devices.devices()) {
    rows.push_back(
        {std::to_string(device.index()), device.name(), device.driver_version(),
         Bytes(static_cast<double>(device.total_bytes() - device.free_bytes())),
         Bytes(static_cast<double>(device.total_bytes())),
         std::to_string(device.streams_running()) + " of " +
             std::to_string(device.streams_at_a_time()),
         std::to_string(device.streams_waiting()),
         Duration(device.busy_seconds())});
  }
  return Table(rows);
}

}  // namespace tvarant::client

#include "torch_plugin/runtime/connection.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

namespace tvarant::torch_plugin {
namespace {

using client::Code;
using client::Result;
using client::Status;

struct Config {
  std::mutex mutex;
  std::string daemon_path;
};
// Never destroyed: it may be read while the process exits.
Config& GetConfig() {
  static Config* config = new Config;
  return *config;
}

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool IsExecutable(const std::string& path) {
  struct stat info;
  return !path.empty() && stat(path.c_str(), &info) == 0 &&
         S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// Path of tvarantd, or empty.
std::string FindDaemon() {
  const std::string given = Env("TVARANT_DAEMON");
  if (!given.empty()) return IsExecutable(given) ? given : std::string();
  {
    Config& config = GetConfig();
    std::lock_guard<std::mutex> lock(config.mutex);
    if (IsExecutable(config.daemon_path)) return config.daemon_path;
  }
  const std::string path = Env("PATH");
  size_t begin = 0;
  while (begin < path.size()) {
    size_t end = path.find(':', begin);
    if (end == std::string::npos) end = path.size();
    std::string candidate = path.substr(begin, end - begin) + "/tvarantd";
    // Relative folders of $PATH are not searched.
    if (candidate[0] == '/' && IsExecutable(candidate)) return candidate;
    begin = end + 1;
  }
  return std::string();
}

// True if somebody listens on the system socket and lets us in.
bool SystemSocketAnswers() {
  sockaddr_un address{};
  static_assert(sizeof(kSystemSocket) <= sizeof(address.sun_path));
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, kSystemSocket, sizeof(kSystemSocket));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const bool answers = connect(fd, reinterpret_cast<const sockaddr*>(&address),
                               sizeof(address)) == 0;
  close(fd);
  return answers;
}

// OK if a private daemon can have this runtime.
Status CheckBackend(const std::string& backend) {
  if (backend == "sim" || backend == "opencl" || backend == "fpga") {
    return Status();
  }
  return Status(
      Code::kInvalidArgument,
      "TVARANT_BACKEND=" + backend + " is unknown: use sim, opencl or fpga");
}

Status CheckEndpoint(const std::string& endpoint) {
  if (endpoint.rfind("unix:", 0) == 0) {
    if (endpoint.size() == 5) {
      return Status(Code::kInvalidArgument,
                    "TVARANT_ENDPOINT=unix: names no socket: give the path "
                    "after the colon");
    }
    return Status();
  }
  if (endpoint.rfind("tcp://", 0) == 0) {
    if (endpoint.find(':', 6) == std::string::npos) {
      return Status(
          Code::kInvalidArgument,
          "TVARANT_ENDPOINT=" + endpoint + " has no port: use tcp://HOST:PORT");
    }
    return Status();
  }
  return Status(Code::kInvalidArgument,
                "TVARANT_ENDPOINT='" + endpoint +
                    "' is no endpoint: use unix:PATH or tcp://HOST:PORT");
}

// The parts of TVARANT_ENDPOINT; none if it is not set.
std::vector<std::string> Endpoints() {
  std::vector<std::string> endpoints;
  const std::string text = Env("TVARANT_ENDPOINT");
  if (text.empty()) return endpoints;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    endpoints.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return endpoints;
}

Status CheckEndpoints(const std::vector<std::string>& endpoints) {
  if (endpoints.size() > static_cast<size_t>(kMaxEndpoints)) {
    return Status(Code::kInvalidArgument,
                  "TVARANT_ENDPOINT names " + std::to_string(endpoints.size()) +
                      " endpoints, at most " + std::to_string(kMaxEndpoints));
  }
  for (const std::string& endpoint : endpoints) {
    Status checked = CheckEndpoint(endpoint);
    if (!checked.ok()) return checked;
  }
  return Status();
}

Result<Connection> Open(std::string endpoint,
                        std::unique_ptr<client::PrivateDaemon> daemon) {
  client::ConnectOptions options;
  options.endpoint = endpoint;
  options.map_memory = Env("TVARANT_SIM_MAP") != "0";
  Result<std::shared_ptr<client::Session>> session =
      client::Session::Connect(options);
  if (!session.ok()) return session.status();
  Connection connection;
  connection.session = std::move(session.value());
  connection.daemon = std::move(daemon);
  connection.endpoint = std::move(endpoint);
  return connection;
}

Result<Connection> StartPrivate() {
  client::PrivateDaemonOptions options;
  options.runtime = BackendName();
  Status backend = CheckBackend(options.runtime);
  if (!backend.ok()) return backend;
  options.binary = FindDaemon();
  if (options.binary.empty()) {
    const std::string given = Env("TVARANT_DAEMON");
    return Status(
        Code::kUnavailable,
        given.empty()
            ? "no tvarantd found to start: install it beside torch_tvarant or "
              "in PATH, or set TVARANT_DAEMON to its path or TVARANT_ENDPOINT "
              "to a running one"
            : "TVARANT_DAEMON=" + given + " is no executable file");
  }
  const std::string memory = Env("TVARANT_MEMORY");
  if (!memory.empty()) {
    options.memory_bytes = ParseBytes(memory);
    if (options.memory_bytes == 0) {
      return Status(Code::kInvalidArgument,
                    "TVARANT_MEMORY='" + memory +
                        "' is no size: use a number of bytes, or 512M, 8G");
    }
  }
  Result<std::unique_ptr<client::PrivateDaemon>> daemon =
      client::PrivateDaemon::Start(options);
  if (!daemon.ok()) return daemon.status();
  std::string endpoint = daemon.value()->endpoint();
  return Open(std::move(endpoint), std::move(daemon.value()));
}

}  // namespace

void SetDaemonPath(std::string path) {
  Config& config = GetConfig();
  std::lock_guard<std::mutex> lock(config.mutex);
  config.daemon_path = std::move(path);
}

std::string BackendName() {
  const std::string backend = Env("TVARANT_BACKEND");
  return backend.empty() ? "sim" : backend;
}

bool MayConnect() noexcept {
  try {
    const std::vector<std::string> endpoints = Endpoints();
    if (!endpoints.empty()) return CheckEndpoints(endpoints).ok();
    if (access(kSystemSocket, R_OK | W_OK) == 0) return true;
    return CheckBackend(BackendName()).ok() && !FindDaemon().empty();
  } catch (...) {
    return false;
  }
}

int EndpointCount() {
  const size_t count = Endpoints().size();
  return static_cast<int>(std::clamp<size_t>(count, 1, kMaxEndpoints));
}

Result<Connection> Connect(int device) {
  const std::vector<std::string> endpoints = Endpoints();
  if (!endpoints.empty()) {
    Status checked = CheckEndpoints(endpoints);
    if (!checked.ok()) return checked;
    return Open(endpoints[static_cast<size_t>(device) % endpoints.size()],
                nullptr);
  }
  // A wrong name is an error even where no daemon need be started.
  Status backend = CheckBackend(BackendName());
  if (backend.code() == Code::kInvalidArgument) return backend;
  if (SystemSocketAnswers()) {
    return Open(std::string("unix:") + kSystemSocket, nullptr);
  }
  return StartPrivate();
}

uint64_t ParseBytes(const std::string& text) {
  uint64_t value = 0;
  size_t i = 0;
  const uint64_t kMax = std::numeric_limits<uint64_t>::max();
  for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]));
       ++i) {
    const uint64_t digit = static_cast<uint64_t>(text[i] - '0');
    if (value > (kMax - digit) / 10) return 0;
    value = value * 10 + digit;
  }
  if (i == 0) return 0;
  std::string unit = text.substr(i);
  int shift = 0;
  if (!unit.empty()) {
    switch (std::toupper(static_cast<unsigned char>(unit[0]))) {
      case 'K':
        shift = 10;
        break;
      case 'M':
        shift = 20;
        break;
      case 'G':
        shift = 30;
        break;
      case 'T':
        shift = 40;
        break;
      default:
        return 0;
    }
    const std::string rest = unit.substr(1);
    if (!rest.empty() && rest != "B" && rest != "iB") return 0;
  }
  return value > (kMax >> shift) ? 0 : value << shift;
}

}  // namespace tvarant::torch_plugin

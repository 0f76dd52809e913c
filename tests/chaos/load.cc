// load: 64 clients that only are there, and 16 that work.
//
//   load [--seconds S] [--check]
//
// Prints the daemon's memory per idle client and what 16 busy clients get
// together, of what one alone gets. With --check the exit status says whether
// the goals are met: 2 MiB, and 0.85.

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "client/client.h"
#include "tests/benchmarks/noisy_neighbour/client_process.h"
#include "tests/chaos/daemon_usage.h"

ABSL_FLAG(std::string, daemon, "daemon/tvarantd", "path of tvarantd");
ABSL_FLAG(double, seconds, 3, "time of each measurement");
ABSL_FLAG(bool, check, false, "fail unless the goals are met");
ABSL_FLAG(std::string, role, "", "be one of the clients");
ABSL_FLAG(std::string, endpoint, "", "of a client");

namespace tvarant {
namespace {

using benchmarks::ClientProcess;

constexpr int kIdle = 64;
constexpr int kBusy = 16;

std::optional<double> Rate(int clients, const std::string& endpoint,
                           double seconds) {
  std::vector<std::unique_ptr<ClientProcess>> processes;
  for (int i = 0; i < clients; ++i) {
    processes.push_back(ClientProcess::Start("medium", endpoint, seconds));
    if (processes.back() == nullptr || !processes.back()->WaitReady()) {
      return std::nullopt;
    }
  }
  for (const auto& process : processes) process->Go();
  double sum = 0;
  for (const auto& process : processes) {
    const auto result = process->Wait();
    if (!result.has_value()) return std::nullopt;
    sum += result->per_second;
  }
  return sum;
}

int Main() {
  const double seconds = absl::GetFlag(FLAGS_seconds);
  if (const std::string role = absl::GetFlag(FLAGS_role); !role.empty()) {
    return benchmarks::RunClient(role, absl::GetFlag(FLAGS_endpoint), seconds);
  }
  auto daemon = client::PrivateDaemon::Start(
      {.binary = absl::GetFlag(FLAGS_daemon), .memory_bytes = 1 << 30});
  if (!daemon.ok()) {
    std::fprintf(stderr, "%s\n", daemon.status().message().c_str());
    return 1;
  }
  const std::string endpoint = daemon.value()->endpoint();
  const pid_t pid = daemon.value()->pid();
  // Once warm, so that what the first client costs is not counted.
  const std::optional<double> warm = Rate(1, endpoint, seconds / 4);
  const int64_t before = DaemonUsage::Of(pid).resident_bytes;
  std::vector<std::shared_ptr<client::Session>> sessions;
  std::vector<std::shared_ptr<client::Stream>> streams;
  for (int i = 0; i < kIdle; ++i) {
    client::ConnectOptions options;
    options.endpoint = endpoint;
    auto session = client::Session::Connect(options);
    if (!session.ok()) return 1;
    auto stream = session.value()->CreateStream();
    if (!stream.ok() || !stream.value()->Synchronize().ok()) return 1;
    sessions.push_back(std::move(session.value()));
    streams.push_back(std::move(stream.value()));
  }
  const double idle_mib =
      static_cast<double>(DaemonUsage::Of(pid).resident_bytes - before) /
      kIdle / (1 << 20);
  std::printf("%d idle clients: %.2f MiB of the daemon each\n", kIdle,
              idle_mib);
  const std::optional<double> one = Rate(1, endpoint, seconds);
  const std::optional<double> all = Rate(kBusy, endpoint, seconds);
  if (!warm.has_value() || !one.has_value() || !all.has_value()) return 1;
  std::printf(
      "beside them, launches a second: 1 busy client %.0f, %d busy "
      "clients %.0f, together %.2f of one\n",
      *one, kBusy, *all, *all / *one);
  const bool met = idle_mib <= 2 && *all >= 0.85 * *one;
  std::printf("goals %s\n", met ? "met" : "missed");
  return absl::GetFlag(FLAGS_check) && !met ? 2 : 0;
}

}  // namespace
}  // namespace tvarant

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return tvarant::Main();
}

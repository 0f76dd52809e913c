// noisy_neighbour: what a client that floods a daemon does to the others.
//
//   noisy_neighbour [--daemon PATH | --endpoint unix:PATH] [--seconds N]
//                   [--check]
//
// Prints the latency of a small client alone and beside floods, what each flood
// keeps of its own speed, and how two equal clients share. With --check the
// exit status says whether the goals are met; on a machine that does other
// things, too, they may not be.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "tests/benchmarks/noisy_neighbour/client_process.h"

ABSL_FLAG(std::string, daemon, "daemon/tvarantd", "path of tvarantd");
ABSL_FLAG(std::string, endpoint, "", "daemon to use instead of a private one");
ABSL_FLAG(double, seconds, 3, "time of each measurement");
ABSL_FLAG(bool, check, false, "fail unless the goals are met");
ABSL_FLAG(std::string, role, "", "be one of the clients");

namespace tvarant::benchmarks {
namespace {

// One result for each role, all at work at the same time.
std::optional<std::vector<RoleResult>> RunTogether(
    const std::vector<std::string>& roles, const std::string& endpoint,
    double seconds) {
  std::vector<std::unique_ptr<ClientProcess>> clients;
  for (const std::string& role : roles) {
    clients.push_back(ClientProcess::Start(role, endpoint, seconds));
    if (clients.back() == nullptr || !clients.back()->WaitReady()) {
      return std::nullopt;
    }
  }
  for (const auto& client : clients) client->Go();
  std::vector<RoleResult> results;
  for (const auto& client : clients) {
    const auto result = client->Wait();
    if (!result.has_value()) return std::nullopt;
    results.push_back(*result);
  }
  return results;
}

// Prints and judges. False: a goal is missed.
class Report {
 public:
  explicit Report(RoleResult alone) : alone_(alone) {
    std::printf("%-28s %10s %10s %10s %12s %10s\n", "", "p50 us", "p99 us",
                "max us", "p99 / alone", "flood");
    Row("small client alone", alone, "", "");
  }

  bool Flooded(const std::string& flood, const RoleResult& small,
               double flood_share) {
    char ratio[32], share[32];
    std::snprintf(ratio, sizeof(ratio), "%.2f", small.p99_us / alone_.p99_us);
    std::snprintf(share, sizeof(share), "%.2f", flood_share);
    Row("beside " + flood, small, ratio, share);
    const double limit_us =
        flood == "gemm" ? std::max(3 * alone_.p99_us, alone_.p99_us + 1000)
                        : 3 * alone_.p99_us;
    return small.p99_us <= limit_us && flood_share >= 0.75;
  }

  bool Equal(const std::string& role, double first, double second) {
    const double percent = 100 * first / (first + second);
    std::printf("two clients, %-16s %.1f %% and %.1f %%\n", role.c_str(),
                percent, 100 - percent);
    return percent >= 45 && percent <= 55;
  }

 private:
  static void Row(const std::string& name, const RoleResult& r,
                  const char* ratio, const char* share) {
    std::printf("%-28s %10.1f %10.1f %10.1f %12s %10s\n", name.c_str(),
                r.p50_us, r.p99_us, r.max_us, ratio, share);
    std::fflush(stdout);
  }

  const RoleResult alone_;
};

int Run(const std::string& endpoint, double seconds, bool check) {
  bool met = true;
  const auto alone = RunTogether({"small"}, endpoint, seconds);
  if (!alone.has_value()) return 1;
  Report report(alone->front());
  for (const char* flood : {"pointwise", "gemm", "streams"}) {
    const auto own = RunTogether({flood}, endpoint, seconds);
    const auto both = RunTogether({flood, "small"}, endpoint, seconds);
    if (!own.has_value() || !both.has_value()) return 1;
    met &= report.Flooded(flood, (*both)[1],
                          (*both)[0].per_second / own->front().per_second);
  }
  for (const char* role : {"pointwise", "gemm"}) {
    const auto both = RunTogether({role, role}, endpoint, seconds);
    if (!both.has_value()) return 1;
    met &= report.Equal(role, (*both)[0].per_second, (*both)[1].per_second);
  }
  std::printf("goals %s\n", met ? "met" : "missed");
  return check && !met ? 2 : 0;
}

int Main() {
  const std::string role = absl::GetFlag(FLAGS_role);
  std::string endpoint = absl::GetFlag(FLAGS_endpoint);
  const double seconds = absl::GetFlag(FLAGS_seconds);
  if (!role.empty()) return RunClient(role, endpoint, seconds);
  std::unique_ptr<client::PrivateDaemon> daemon;
  if (endpoint.empty()) {
    auto started = client::PrivateDaemon::Start(
        {.binary = absl::GetFlag(FLAGS_daemon), .memory_bytes = 2ull << 30});
    if (!started.ok()) {
      std::fprintf(stderr, "%s\n", started.status().message().c_str());
      return 1;
    }
    daemon = std::move(started.value());
    endpoint = daemon->endpoint();
  }
  return Run(endpoint, seconds, absl::GetFlag(FLAGS_check));
}

}  // namespace
}  // namespace tvarant::benchmarks

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "What a client that floods a daemon does to the others.");
  absl::ParseCommandLine(argc, argv);
  return tvarant::benchmarks::Main();
}

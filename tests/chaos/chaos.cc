// chaos: clients come, work and are killed at random points; afterwards the
// daemon holds what it held before.
//
//   chaos [--clients N] [--seconds S] [--seed N]
//
// Half of the clients are killed after a random time, in whatever they do; the
// others check every result and end by themselves. Fails if one of those got a
// wrong result or an error, if the daemon has ended, if descriptors, threads or
// device memory are not what they were before, or if resident memory is more
// after the last round than after the first.

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "client/client.h"
#include "daemon/daemon_process.h"
#include "tests/chaos/daemon_usage.h"

ABSL_FLAG(int, clients, 16, "clients at a time");
ABSL_FLAG(double, seconds, 10, "time of all rounds");
ABSL_FLAG(int, rounds, 4, "times that all clients go");
ABSL_FLAG(uint32_t, seed, 0, "0: a new one");

namespace tvarant {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr char kClient[] = "tests/chaos/client";
// What a round may add to the memory that the daemon's allocator keeps.
constexpr int64_t kSlackBytes = 8 << 20;
// gRPC's pool of idle threads breathes, with a descriptor for each.
constexpr int kSlackThreads = 8;
// A session that its client never used ends after 30 seconds.
constexpr std::chrono::seconds kRestLimit{45};

class Chaos {
 public:
  Chaos(std::string endpoint, uint32_t seed)
      : endpoint_(std::move(endpoint)), random_(seed) {}

  // Keeps `count` clients at work for some time, then waits for or kills them.
  // False if one that was left alone failed.
  bool Round(int count, std::chrono::duration<double> time) {
    const auto end =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
    while (Clock::now() < end) {
      while (static_cast<int>(alive_.size()) < count) Start();
      KillTheDue();
      Reap();
      std::this_thread::sleep_for(milliseconds(2));
    }
    const auto patience = Clock::now() + std::chrono::seconds(60);
    while (!alive_.empty()) {
      KillTheDue();
      Reap();
      if (Clock::now() > patience) {
        std::fprintf(stderr, "%zu clients hang\n", alive_.size());
        for (const auto& [pid, due] : alive_) ::kill(pid, SIGKILL);
        failed_ = true;
      }
      std::this_thread::sleep_for(milliseconds(2));
    }
    return !failed_;
  }

  int started() const { return started_; }
  int killed() const { return killed_; }
  int finished() const { return finished_; }

 private:
  void Start() {
    const bool doomed = random_() % 2 == 0;
    const std::string seed = std::to_string(random_() % 1000000);
    const char* rounds = doomed ? "1000000" : "20";
    const auto due = doomed ? Clock::now() + milliseconds(random_() % 400)
                            : Clock::time_point::max();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::execl(kClient, kClient, endpoint_.c_str(), seed.c_str(), rounds,
              static_cast<char*>(nullptr));
      ::_exit(127);
    }
    if (pid < 0) return;
    ++started_;
    alive_[pid] = due;
  }

  void KillTheDue() {
    for (auto& [pid, due] : alive_) {
      if (due > Clock::now()) continue;
      ::kill(pid, SIGKILL);
      due = Clock::time_point::max();
    }
  }

  void Reap() {
    int status;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (alive_.erase(pid) == 0) {
        std::fprintf(stderr, "the daemon has ended: status %d\n", status);
        failed_ = true;
      } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        ++killed_;
      } else if (status == 0) {
        ++finished_;
      } else {
        std::fprintf(stderr, "a client ended with status %d\n", status);
        failed_ = true;
      }
    }
  }

  const std::string endpoint_;
  std::mt19937 random_;
  std::map<pid_t, Clock::time_point> alive_;  // and when to kill it
  int started_ = 0, killed_ = 0, finished_ = 0;
  bool failed_ = false;
};

struct Held {
  DaemonUsage usage;
  uint64_t free_bytes = 0;
};

Held Read(pid_t daemon, client::Session& observer) {
  Held held{DaemonUsage::Of(daemon), 0};
  const auto info = observer.GetMemoryInfo();
  if (info.ok()) held.free_bytes = info.value().free_bytes;
  return held;
}

bool IsBack(const Held& held, const Held& before) {
  return held.usage.descriptors <= before.usage.descriptors + kSlackThreads &&
         held.usage.threads <= before.usage.threads + kSlackThreads &&
         held.free_bytes == before.free_bytes;
}

// What the daemon holds once it is back at what it held before, or not in time.
Held AtRest(pid_t daemon, client::Session& observer, const Held& before) {
  const auto end = Clock::now() + kRestLimit;
  Held held = Read(daemon, observer);
  while (!IsBack(held, before) && Clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(100));
    held = Read(daemon, observer);
  }
  return held;
}

void Print(const char* when, const Held& held) {
  std::printf(
      "%-14s descriptors %4d threads %4d resident %6.1f MiB free "
      "%8.1f MiB\n",
      when, held.usage.descriptors, held.usage.threads,
      static_cast<double>(held.usage.resident_bytes) / (1 << 20),
      static_cast<double>(held.free_bytes) / (1 << 20));
  std::fflush(stdout);
}

int Main() {
  const uint32_t given = absl::GetFlag(FLAGS_seed);
  const uint32_t seed = given != 0 ? given : std::random_device()();
  std::printf("seed %u\n", seed);
  char folder[] = "/tmp/tvchaosXXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  const std::string endpoint = std::string("unix:") + folder + "/s";
  bool good = true;
  {
    Daemon daemon({"--listen", endpoint, "--max-sessions=1024",
                   "--max-sessions-per-user=1024", "--max-connections=4096",
                   "--max-connections-per-user=4096", "--max-streams=4096",
                   "--max-streams-per-user=4096"});
    if (daemon.ReadyText() != "ready\n") return 1;
    {
      client::ConnectOptions options;
      options.endpoint = endpoint;
      auto observer = client::Session::Connect(options);
      if (!observer.ok()) return 1;
      const int clients = absl::GetFlag(FLAGS_clients);
      const int rounds = std::max(absl::GetFlag(FLAGS_rounds), 2);
      const std::chrono::duration<double> time(absl::GetFlag(FLAGS_seconds) /
                                               rounds);
      Chaos chaos(endpoint, seed);
      const Held before = Read(daemon.pid(), *observer.value());
      Print("before", before);
      Held first;
      for (int i = 1; i <= rounds && good; ++i) {
        good = chaos.Round(clients, time);
        const Held held = AtRest(daemon.pid(), *observer.value(), before);
        Print(("round " + std::to_string(i)).c_str(), held);
        if (i == 1) first = held;
        good &= IsBack(held, before) &&
                held.usage.resident_bytes <=
                    first.usage.resident_bytes + kSlackBytes;
      }
      std::printf("%d clients: %d killed, %d finished, all others failed\n",
                  chaos.started(), chaos.killed(), chaos.finished());
    }
    daemon.Signal(SIGTERM);
    good &= daemon.Wait() == 0;
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  std::printf("%s\n", good ? "good" : "FAILED");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace tvarant

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return tvarant::Main();
}

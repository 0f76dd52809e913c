// tvarant-bench: how fast a device is, through the client library.
//
//   tvarant-bench --endpoint unix:/run/tvarant/tvarant.sock
//   tvarant-bench --runtime opencl --torch python3 --json bench.json
//   tvarant-bench --only gemm,softmax --seconds 30
//
// GB/s count the bytes that the work must read and write; "copy" is the share
// of what the device's own copies reach; "speed" is how many times as fast as
// PyTorch (--torch) the device is. Exit status 1 if a row failed.

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "tests/benchmarks/device/device.h"
#include "tests/benchmarks/device/report.h"
#include "tests/benchmarks/device/runner.h"
#include "tests/benchmarks/device/torch_peer.h"

ABSL_FLAG(std::string, endpoint, "",
          "daemon to use; else $TVARANT_ENDPOINT, else a private one");
ABSL_FLAG(std::string, daemon, "",
          "tvarantd to start; else $TVARANT_DAEMON, else beside this program");
ABSL_FLAG(std::string, runtime, "",
          "runtime of the private daemon; else $TVARANT_BACKEND, else sim");
ABSL_FLAG(int64_t, memory_mib, 0, "memory of the private daemon; 0: its own");
ABSL_FLAG(std::vector<std::string>, only, {},
          "parts of the names of the rows to measure, e.g. gemm,softmax");
ABSL_FLAG(double, seconds, 0,
          "time for all rows together; 0: 180, and 60 with --quick");
ABSL_FLAG(bool, quick, false, "small sizes and few samples: does it all work");
ABSL_FLAG(std::string, torch, "",
          "Python whose PyTorch does the same rows, e.g. python3");
ABSL_FLAG(std::string, json, "", "file for the figures, - for the output");
ABSL_FLAG(bool, list, false, "only name the rows");

namespace tvarant::benchmarks {
namespace {

constexpr double kSeconds = 180;
constexpr double kQuickSeconds = 60;

int Fail(const std::string& message) {
  std::fprintf(stderr, "tvarant-bench: %s\n", message.c_str());
  return 1;
}

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string FirstOf(std::initializer_list<std::string> candidates) {
  for (const std::string& candidate : candidates) {
    if (!candidate.empty()) return candidate;
  }
  return std::string();
}

std::string BesideThisProgram(const std::string& name) {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0 || length == static_cast<ssize_t>(sizeof(path))) return name;
  const std::string program(path, static_cast<size_t>(length));
  return program.substr(0, program.rfind('/') + 1) + name;
}

DeviceOptions OptionsFromFlags() {
  DeviceOptions options;
  options.endpoint =
      FirstOf({absl::GetFlag(FLAGS_endpoint),
               // A runtime or daemon asked for by name means a private one.
               absl::GetFlag(FLAGS_runtime).empty() &&
                       absl::GetFlag(FLAGS_daemon).empty()
                   ? Env("TVARANT_ENDPOINT")
                   : ""});
  options.daemon = FirstOf({absl::GetFlag(FLAGS_daemon), Env("TVARANT_DAEMON"),
                            BesideThisProgram("tvarantd")});
  options.runtime =
      FirstOf({absl::GetFlag(FLAGS_runtime), Env("TVARANT_BACKEND"), "sim"});
  options.memory_bytes = static_cast<uint64_t>(absl::GetFlag(FLAGS_memory_mib))
                         << 20;
  return options;
}

// One line that is written over, where somebody watches.
void ShowProgress(const Row* row, size_t number, size_t of,
                  const Runner& runner) {
  if (isatty(STDERR_FILENO) == 0) return;
  if (row == nullptr) {
    std::fprintf(stderr, "\r\033[K");
  } else {
    std::fprintf(stderr, "\r\033[K[%zu/%zu] %s %s %s, %.0f s", number, of,
                 row->family.c_str(), row->name.c_str(), ShapeOf(*row).c_str(),
                 runner.seconds_used());
  }
  std::fflush(stderr);
}

int WriteJson(const std::string& path, const std::string& json) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  if (file == nullptr) return Fail("can't write " + path);
  const bool written =
      std::fwrite(json.data(), 1, json.size(), file) == json.size();
  const bool closed =
      path == "-" ? std::fflush(file) == 0 : std::fclose(file) == 0;
  return written && closed ? 0 : Fail("can't write " + path);
}

int Main() {
  auto opened = Device::Open(OptionsFromFlags());
  if (!opened.ok()) return Fail(opened.status().message());
  Device& device = *opened.value();
  const client::DeviceProperties& properties = device.session().properties();
  const bool quick = absl::GetFlag(FLAGS_quick);
  auto scale = ChooseScale(device, quick);
  if (!scale.ok()) return Fail(scale.status().message());
  const std::vector<Row> rows =
      ChooseRows(scale.value(), absl::GetFlag(FLAGS_only));
  if (absl::GetFlag(FLAGS_list)) {
    for (const Row& row : rows) {
      std::printf("%s %s %s %s\n", row.family.c_str(), row.name.c_str(),
                  NameOf(row.dtype), ShapeOf(row).c_str());
    }
    return 0;
  }

  const std::string python = absl::GetFlag(FLAGS_torch);
  std::unique_ptr<TorchPeer> torch;
  if (!python.empty()) {
    auto started = TorchPeer::Start(python);
    if (!started.ok()) return Fail(started.status().message());
    torch = std::move(started.value());
  }
  const std::string json = absl::GetFlag(FLAGS_json);
  std::FILE* table = json == "-" ? stderr : stdout;
  std::fprintf(table, "%s (%s), %.1f GiB, tvarant %s%s%s\n",
               properties.name.c_str(), properties.runtime.c_str(),
               static_cast<double>(properties.total_memory_bytes) / (1 << 30),
               properties.daemon_version.c_str(),
               torch == nullptr ? "" : ", against ",
               torch == nullptr ? "" : torch->description().c_str());
  PrintHead(table, torch != nullptr);

  double seconds = absl::GetFlag(FLAGS_seconds);
  if (!(seconds > 0)) seconds = quick ? kQuickSeconds : kSeconds;
  Runner runner(device, torch.get(), seconds,
                quick ? 10000 : static_cast<int>(rows.size()));
  std::vector<Outcome> outcomes;
  int failed = 0, skipped = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    ShowProgress(&rows[i], i + 1, rows.size(), runner);
    outcomes.push_back(runner.Run(rows[i]));
    ShowProgress(nullptr, 0, 0, runner);
    PrintLine(outcomes.back(), torch != nullptr, table);
    std::fflush(table);
    failed += outcomes.back().failed;
    skipped += !outcomes.back().failed && !outcomes.back().problem.empty();
    if (!device.session().alive()) {
      return Fail(device.session().death().message());
    }
  }
  std::fprintf(table, "%zu rows in %.0f s, %d skipped, %d failed\n",
               rows.size(), runner.seconds_used(), skipped, failed);
  if (!json.empty()) {
    const std::string text = ToJson(
        properties, torch == nullptr ? "" : torch->description(), outcomes);
    if (const int status = WriteJson(json, text); status != 0) return status;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tvarant::benchmarks

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "measures a device of tvarantd; --help shows the flags");
  if (absl::ParseCommandLine(argc, argv).size() > 1) {
    std::fprintf(stderr, "tvarant-bench: takes flags only, see --help\n");
    return 64;
  }
  return tvarant::benchmarks::Main();
}

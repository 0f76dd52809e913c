// tvarantd: serves one device to many processes. See daemon/README.md.

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/debugging/failure_signal_handler.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/config/options.h"
#include "daemon/process/ready_notifier.h"
#include "daemon/process/stop_watch.h"
#include "daemon/process/systemd.h"
#include "daemon/process/watchdog.h"
#include "daemon/reload.h"
#include "daemon/runtime/cpu_sim_runtime.h"
#include "daemon/runtime/host_memory.h"
#include "daemon/runtime/opencl/opencl_runtime.h"
#include "daemon/runtime/self_check.h"
#include "daemon/server/flight_recorder.h"
#include "daemon/server/listening_socket.h"
#include "daemon/server/server.h"
#include "proto/base/logging.h"
#include "proto/base/status_macros.h"
#include "proto/base/unique_fd.h"
#include "tvarant_version.h"

namespace tvarant {
namespace {

// From sysexits.h.
constexpr int kExitUsage = 64;
constexpr int kExitUnavailable = 69;
constexpr int kExitInternal = 70;

// What the end takes beyond the drain, at most.
constexpr std::chrono::seconds kEndLimit{15};

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return kExitUsage;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return kExitInternal;
    default:
      return kExitUnavailable;
  }
}

std::string OrEnvironment(const std::string& value, const char* variable) {
  if (!value.empty()) return value;
  const char* text = ::getenv(variable);
  return text == nullptr ? "" : text;
}

// Where compiled kernels are kept; empty: nowhere.
std::string KernelCacheFolder(const std::string& option) {
  const std::string chosen = OrEnvironment(option, "TVARANT_KERNEL_CACHE_DIR");
  if (chosen == "off") return "";
  if (!chosen.empty()) return chosen;
  // systemd's CacheDirectory=, then the user's.
  const std::string service = OrEnvironment("", "CACHE_DIRECTORY");
  if (!service.empty()) return absl::StrCat(service, "/kernels");
  const std::string user = OrEnvironment("", "XDG_CACHE_HOME");
  if (!user.empty()) return absl::StrCat(user, "/tvarant/kernels");
  const std::string home = OrEnvironment("", "HOME");
  return home.empty() ? "" : absl::StrCat(home, "/.cache/tvarant/kernels");
}

absl::StatusOr<std::unique_ptr<TvarantRuntime>> MakeRuntime(
    const Options& options) {
  if (options.runtime == "sim") {
    return MakeCpuSimRuntime(
        {.memory_bytes = options.memory_bytes,
         .num_threads = static_cast<int>(options.threads)});
  }
  if (options.runtime == "opencl" || options.runtime == "fpga") {
    OpenClOptions opencl;
    opencl.choice = {
        .platform =
            OrEnvironment(options.opencl_platform, "TVARANT_OPENCL_PLATFORM"),
        .device = OrEnvironment(options.opencl_device, "TVARANT_OPENCL_DEVICE"),
        .group_size = static_cast<uint32_t>(options.opencl_group_size)};
    opencl.memory_bytes = options.memory_bytes;
    opencl.cache_folder = KernelCacheFolder(options.kernel_cache);
    opencl.cache_bytes = options.kernel_cache_bytes;
    opencl.num_threads = static_cast<int>(options.threads);
    return MakeOpenClRuntime(opencl);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown runtime \"", options.runtime, "\"; there is: sim, opencl"));
}

ServerOptions ToServerOptions(const Options& options) {
  ServerOptions server;
  server.listen = options.listen;
  server.socket_mode = static_cast<mode_t>(options.socket_mode);
  server.socket_group = options.socket_group;
  server.admin_group = options.admin_group;
  server.metrics = options.metrics;
  server.tcp = {.listen = options.listen_tcp,
                .cert_file = options.tls_cert,
                .key_file = options.tls_key,
                .client_ca_file = options.tls_client_ca,
                .token_file = options.token_file,
                .allow_plain = options.allow_plain_tcp};
  server.connections.max_connections = options.limits[Limit::kConnections];
  server.sessions.max_sessions = options.limits[Limit::kSessions];
  server.max_streams = options.limits[Limit::kStreams];
  server.users = ToUserPolicies(options);
  server.device_width = UsableProcessors();
  return server;
}

// Each segment and connection has a descriptor; take what the system allows.
void RaiseDescriptorLimit() {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// A private daemon's socket stands in a folder made for it, which nobody else
// removes when its client was killed. Fails, rightly, unless it is empty.
void RemoveSocketFolders(const Options& options) {
  for (const std::string& endpoint : options.listen) {
    const auto path = ListeningSocket::ParsePath(endpoint);
    if (!path.ok() || path->find('/') == std::string::npos) continue;
    ::rmdir(path->substr(0, path->rfind('/')).c_str());
  }
}

// What a runtime that compiles did, for whoever wonders where time went.
void LogKernels(const TvarantRuntime& runtime) {
  const KernelCacheInfo info = runtime.kernel_cache();
  if (info.compiled + info.loaded + info.failed > 0) {
    spdlog::info(
        "event=kernels compiled={} loaded={} hits={} failed={} compile_ms={}",
        info.compiled, info.loaded, info.hits, info.failed,
        info.compile_ns / 1000000);
  }
  for (const HostRun& run : runtime.host_runs()) {
    spdlog::info("event=ran_on_host kernel={} launches={}", NameOf(run.kernel),
                 run.count);
  }
}

absl::Status Serve(const Options& options, const std::vector<std::string>& args,
                   std::vector<base::UniqueFd> activated,
                   ReadyNotifier& notifier) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<StopWatch> stop,
      StopWatch::Create(static_cast<pid_t>(options.exit_with_parent)));
  ASSIGN_OR_RETURN(const std::unique_ptr<TvarantRuntime> runtime,
                   MakeRuntime(options));
  // Its parent waits for a private daemon, and a runtime that compiles would
  // first compile a kernel of each family: half a minute on PoCL.
  const bool is_quick = options.runtime == "sim";
  if (is_quick || options.exit_with_parent == 0) {
    for (int device = 0; device < runtime->device_count(); ++device) {
      RETURN_IF_ERROR(SelfCheck(*runtime, device));
    }
  }
  ServerOptions server_options = ToServerOptions(options);
  std::vector<std::string> endpoints = options.listen;
  for (base::UniqueFd& socket : activated) {
    ASSIGN_OR_RETURN(ListeningSocket adopted,
                     ListeningSocket::Adopt(std::move(socket)));
    const std::string endpoint = "unix:" + adopted.path();
    if (std::count(endpoints.begin(), endpoints.end(), endpoint) == 0) {
      endpoints.push_back(endpoint);
    }
    server_options.adopted.push_back(std::move(adopted));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                   Server::Start(std::move(server_options), *runtime));
  ASSIGN_OR_RETURN(const RuntimeDeviceProperties device,
                   runtime->GetProperties(0));
  for (const std::string& endpoint : server->tcp_endpoints()) {
    endpoints.push_back(endpoint);
  }
  for (const std::string& endpoint : endpoints) {
    spdlog::info(
        "event=serving version={} endpoint={} runtime={} memory_bytes={} "
        "instruction_set={}",
        kVersion, base::LogValue(endpoint), runtime->name(),
        device.total_memory_bytes, device.instruction_set);
  }
  const Watchdog watchdog(WatchdogTimeout(), [&server] { server->PassGate(); });
  notifier.Ready();

  const std::string reason =
      stop->Wait([&server] { return server->attached_clients(); },
                 [&] { Reload(args, options, *server); });
  spdlog::info("event=stopping reason={}", reason);
  const std::chrono::seconds drain_limit(options.drain_seconds);
  notifier.Stopping(drain_limit + kEndLimit);
  server->Drain(drain_limit);
  if (options.exit_with_parent != 0) RemoveSocketFolders(options);
  LogKernels(*runtime);
  spdlog::info("event=stopped");
  return absl::OkStatus();
}

// With the sockets that systemd passes, if any; else those of the options.
absl::Status ServeActivated(Options options,
                            const std::vector<std::string>& args,
                            ReadyNotifier& notifier) {
  ASSIGN_OR_RETURN(std::vector<base::UniqueFd> activated,
                   TakeActivatedSockets());
  if (options.listen.empty() && activated.empty() &&
      options.listen_tcp.empty()) {
    options.listen.push_back(kDefaultListen);
  }
  return Serve(options, args, std::move(activated), notifier);
}

// The descriptor of --ready-fd where the command line as a whole is wrong; -1
// if it does not say.
int ReadyFdOf(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].rfind("--ready-fd", 0) != 0) continue;
    std::vector<std::string> alone = {args[i]};
    if (args[i].size() == 10 && i + 1 < args.size()) {
      alone.push_back(args[i + 1]);
    }
    const auto options = ParseArguments(alone);
    if (options.ok()) return static_cast<int>(options->ready_fd);
  }
  return -1;
}

// A crash, or the watchdog's SIGABRT, logs where it was and what the streams
// did last. Called with null when the first is written.
void OnCrashText(const char* text) {
  if (text == nullptr) FlightRecorder::WriteAll(STDERR_FILENO);
}

int Main(int argc, char** argv) {
  base::InitLogging();
  absl::FailureSignalHandlerOptions crash_options;
  crash_options.writerfn = OnCrashText;
  absl::InstallFailureSignalHandler(crash_options);
  ::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
  const absl::StatusOr<Options> options = ParseArguments(args);
  if (!options.ok()) {
    const std::string text(options.status().message());
    ::fprintf(stderr, "tvarantd: %s\n", text.c_str());
    ReadyNotifier(ReadyFdOf(args)).Failed(text);
    return kExitUsage;
  }
  if (options->show_help) {
    ::fputs(HelpText().c_str(), stdout);
    return 0;
  }
  if (options->show_version) {
    ::printf("tvarantd %s\n", kVersion);
    return 0;
  }
  // Before anything else is opened under that number.
  const int ready_fd = static_cast<int>(options->ready_fd);
  if (ready_fd >= 0 && ::fcntl(ready_fd, F_GETFD) < 0) {
    ::fprintf(stderr, "tvarantd: --ready-fd: descriptor %d is not open\n",
              ready_fd);
    return kExitUsage;
  }
  RaiseDescriptorLimit();
  ReadyNotifier notifier(ready_fd);
  const absl::Status status = ServeActivated(*options, args, notifier);
  if (status.ok()) return 0;
  const std::string text(status.message());
  spdlog::error("event=failed error={}", base::LogValue(text));
  notifier.Failed(text);
  return ExitCode(status);
}

}  // namespace
}  // namespace tvarant

int main(int argc, char** argv) { return tvarant::Main(argc, argv); }

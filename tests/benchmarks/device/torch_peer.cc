#include "tests/benchmarks/device/torch_peer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "tests/benchmarks/device/torch_rows.h"

extern char** environ;

namespace tvarant::benchmarks {
namespace {

constexpr double kStartSeconds = 180;
constexpr double kRowSeconds = 180;
constexpr size_t kLongestAnswer = 64 << 10;

}  // namespace

Result<std::unique_ptr<TorchPeer>> TorchPeer::Start(const std::string& python) {
  // A socket, since writing to it can be told not to raise SIGPIPE.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Status(Code::kUnavailable,
                  std::string("socketpair: ") + std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  // Our plugin, where it is installed too, has no part in this.
  setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", /*overwrite=*/0);
  std::string program = python, flag = "-c", script = kTorchRows;
  char* const argv[] = {program.data(), flag.data(), script.data(), nullptr};
  pid_t pid = -1;
  const int failed =
      posix_spawnp(&pid, program.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed != 0) {
    close(ends[0]);
    return Status(
        Code::kUnavailable,
        "--torch=" + python + " can't be started: " + std::strerror(failed));
  }
  std::unique_ptr<TorchPeer> peer(new TorchPeer(pid, ends[0]));
  auto hello = peer->ReadAnswer(kStartSeconds);
  if (!hello.ok()) return hello.status();
  peer->description_ = hello.value();
  return peer;
}

TorchPeer::~TorchPeer() {
  close(socket_);
  // It ends by itself when its input does, unless it hangs.
  for (int i = 0; i < 50; ++i) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) return;
    usleep(20000);
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

Status TorchPeer::Stopped(const std::string& why) {
  return Status(Code::kUnavailable, "the process of --torch " + why);
}

Result<std::string> TorchPeer::ReadAnswer(double timeout_seconds) {
  const double end = Now() + timeout_seconds;
  size_t newline;
  while ((newline = pending_.find('\n')) == std::string::npos) {
    if (pending_.size() > kLongestAnswer) {
      return Stopped("gave no answer but " + std::to_string(pending_.size()) +
                     " bytes");
    }
    pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
    const double left = end - Now();
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left * 1e3) + 1) == 0) {
      return Stopped("is silent");
    }
    char buffer[4096];
    const ssize_t got = read(socket_, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Stopped("ended");
    pending_.append(buffer, static_cast<size_t>(got));
  }
  std::string line = pending_.substr(0, newline);
  pending_.erase(0, newline + 1);
  if (line.rfind("ok ", 0) == 0) return line.substr(3);
  return Status(Code::kInternal, "torch: " + line);
}

Status TorchPeer::Time(const Row& row, double seconds, Timing* timing) {
  std::string line =
      row.peer + " " + NameOf(row.dtype) + " " + std::to_string(seconds);
  for (const int64_t size : row.sizes) line += " " + std::to_string(size);
  line += "\n";
  if (send(socket_, line.data(), line.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(line.size())) {
    return Stopped("ended");
  }
  auto answer = ReadAnswer(kRowSeconds);
  if (!answer.ok()) return answer.status();
  if (std::sscanf(answer.value().c_str(), "%lf %lf", &timing->median_seconds,
                  &timing->min_seconds) != 2 ||
      timing->median_seconds <= 0) {
    return Status(Code::kInternal, "torch: no times in " + answer.value());
  }
  return Status();
}

}  // namespace tvarant::benchmarks

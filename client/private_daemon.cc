// PrivateDaemon: a tvarantd of this process's own.

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/endpoint.h"
#include "client/fork_guard.h"
#include "client/status_macros.h"
#include "proto/base/unique_fd.h"

extern char** environ;

namespace tvarant::client {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kStopTimeout{2000};
// Room for the socket's name in a path that a socket can have.
constexpr size_t kMaxFolderBytes = 80;
constexpr size_t kMaxReadyText = 4096;
// The number of the descriptor that the daemon reports on.
constexpr int kReadyFd = 3;

Status StartError(const std::string& what) {
  return Status(Code::kUnavailable, "can't start a private tvarantd: " + what);
}

std::string Errno(const std::string& what, int error) {
  return what + ": " + std::strerror(error);
}

// A fresh folder of mode 0700, in the first place that takes one.
Result<std::string> MakeFolder() {
  std::vector<std::string> places;
  for (const char* variable : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && value[0] == '/') places.emplace_back(value);
  }
  places.emplace_back("/tmp");
  int error = ENOENT;
  for (const std::string& place : places) {
    std::string folder = place + "/tvarant-XXXXXX";
    if (folder.size() > kMaxFolderBytes) continue;
    if (::mkdtemp(folder.data()) != nullptr) return folder;
    error = errno;
  }
  return StartError(
      Errno("no temporary folder can be made, " + places.back(), error));
}

// The folder holds a socket and what the daemon puts beside it; no folders.
void RemoveFolder(const std::string& folder) {
  if (DIR* entries = ::opendir(folder.c_str())) {
    while (const dirent* entry = ::readdir(entries)) {
      ::unlinkat(::dirfd(entries), entry->d_name, 0);
    }
    ::closedir(entries);
  }
  ::rmdir(folder.c_str());
}

int PollFor(int fd, std::chrono::milliseconds timeout) {
  pollfd entry{fd, POLLIN, 0};
  const auto deadline = steady_clock::now() + timeout;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - steady_clock::now());
    const int result =
        ::poll(&entry, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (result >= 0 || errno != EINTR) return result;
  }
}

// posix_spawn's actions and attributes. glibc starts the child without fork():
// no handlers run in it and nothing of a large address space is copied.
class Spawner {
 public:
  Spawner() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK |
                                                 POSIX_SPAWN_SETSIGDEF |
                                                 POSIX_SPAWN_SETSID);
  }
  ~Spawner() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  // 0 or an errno.
  int Spawn(const std::vector<std::string>& words, const std::string& folder,
            int ready_fd, pid_t* pid) {
    const char* log = std::getenv("TVARANT_DAEMON_LOG");
    const bool has_log = log != nullptr && log[0] != '\0';
    ::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(
        &actions_, 1, has_log ? log : "/dev/null",
        O_WRONLY | (has_log ? O_CREAT | O_APPEND : 0), 0600);
    ::posix_spawn_file_actions_adddup2(&actions_, 1, 2);
    ::posix_spawn_file_actions_adddup2(&actions_, ready_fd, kReadyFd);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kReadyFd + 1);
    ::posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
    std::vector<char*> argv;
    for (const std::string& word : words) {
      argv.push_back(const_cast<char*>(word.c_str()));
    }
    argv.push_back(nullptr);
    return ::posix_spawn(pid, words[0].c_str(), &actions_, &attributes_,
                         argv.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

class PrivateDaemonImpl : public PrivateDaemon {
 public:
  static Result<std::unique_ptr<PrivateDaemon>> Start(
      const PrivateDaemonOptions& options);

  ~PrivateDaemonImpl() override {
    if (fork_.in_child()) return;
    Stop();
    if (!folder_.empty()) RemoveFolder(folder_);
  }

  const std::string& endpoint() const override { return endpoint_; }
  int pid() const override { return pid_; }
  bool running() override {
    return !fork_.in_child() && pid_ > 0 && !WaitEnded(std::chrono::seconds(0));
  }
  void ForkChild() override { fork_.MarkChild(); }

 private:
  PrivateDaemonImpl() = default;
  Status WaitReady(int ready_fd, std::chrono::milliseconds timeout);

  void Signal(int signal) {
    if (pidfd_.ok()) {
      ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
    } else {
      ::kill(pid_, signal);
    }
  }

  // True when the daemon has ended; collects its exit status, unless the
  // application has.
  bool WaitEnded(std::chrono::milliseconds timeout) {
    const auto deadline = steady_clock::now() + timeout;
    while (!ended_.load()) {
      const pid_t result = ::waitpid(pid_, &exit_status_, WNOHANG);
      if (result == pid_ || (result < 0 && errno == ECHILD)) {
        if (result < 0) exit_status_ = 0;
        ended_.store(true);
        break;
      }
      if (steady_clock::now() >= deadline) return false;
      if (pidfd_.ok()) {
        PollFor(pidfd_.get(),
                std::chrono::duration_cast<std::chrono::milliseconds>(
                    deadline - steady_clock::now()));
      } else {
        ::poll(nullptr, 0, 5);
      }
    }
    return true;
  }

  void Stop() {
    if (pid_ <= 0 || ended_.load()) return;
    Signal(SIGTERM);
    if (WaitEnded(kStopTimeout)) return;
    Signal(SIGKILL);
    WaitEnded(kStopTimeout);
  }

  ForkGuard fork_;
  std::string folder_;
  std::string endpoint_;
  pid_t pid_ = -1;
  base::UniqueFd pidfd_;
  std::atomic<bool> ended_{false};
  int exit_status_ = 0;
};

Result<std::unique_ptr<PrivateDaemon>> PrivateDaemonImpl::Start(
    const PrivateDaemonOptions& options) {
  char binary[PATH_MAX];
  // The daemon runs in its own folder, so a relative path would go astray.
  if (::realpath(options.binary.c_str(), binary) == nullptr) {
    return StartError(
        Errno(options.binary.empty() ? "no binary" : options.binary, errno));
  }
  if (::access(binary, X_OK) != 0) {
    return StartError(Errno(binary, errno));
  }
  std::unique_ptr<PrivateDaemonImpl> daemon(new PrivateDaemonImpl);
  Result<std::string> folder = MakeFolder();
  if (!folder.ok()) return folder.status();
  daemon->folder_ = std::move(folder.value());
  daemon->endpoint_ = "unix:" + daemon->folder_ + "/s";

  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return StartError(Errno("pipe", errno));
  base::UniqueFd ready_read(ends[0]);
  base::UniqueFd ready_write(ends[1]);

  std::vector<std::string> words = {binary,
                                    "--listen",
                                    daemon->endpoint_,
                                    "--runtime",
                                    options.runtime,
                                    "--exit-with-parent",
                                    std::to_string(::getpid()),
                                    "--ready-fd",
                                    std::to_string(kReadyFd)};
  if (options.memory_bytes > 0) {
    words.push_back("--memory");
    words.push_back(std::to_string(options.memory_bytes));
  }
  const int error =
      Spawner().Spawn(words, daemon->folder_, ready_write.get(), &daemon->pid_);
  if (error != 0) {
    daemon->pid_ = -1;
    return StartError(Errno(binary, error));
  }
  daemon->pidfd_ = base::UniqueFd(
      static_cast<int>(::syscall(SYS_pidfd_open, daemon->pid_, 0)));
  ready_write.reset();
  TVARANT_RETURN_IF_ERROR(daemon->WaitReady(
      ready_read.get(), std::chrono::milliseconds(options.start_timeout_ms)));
  return std::unique_ptr<PrivateDaemon>(std::move(daemon));
}

Status PrivateDaemonImpl::WaitReady(int ready_fd,
                                    std::chrono::milliseconds timeout) {
  // "ready\n", or "error: " and one sentence.
  const auto deadline = steady_clock::now() + timeout;
  std::string text;
  while (text.find('\n') == std::string::npos && text.size() < kMaxReadyText) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - steady_clock::now());
    if (PollFor(ready_fd, std::max(left, std::chrono::milliseconds(0))) <= 0) {
      return StartError("it did not come up within " +
                        std::to_string(timeout.count()) + " ms");
    }
    char buffer[512];
    const ssize_t got = ::read(ready_fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  if (text == "ready\n") return Status();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.rfind("error: ", 0) == 0) text.erase(0, 7);
  if (!text.empty()) return StartError(text);
  if (!WaitEnded(std::chrono::seconds(1))) {
    return StartError("it reported nothing");
  }
  if (WIFSIGNALED(exit_status_)) {
    return StartError("it ended by signal " +
                      std::to_string(WTERMSIG(exit_status_)));
  }
  return StartError("it ended with status " +
                    std::to_string(WEXITSTATUS(exit_status_)));
}

}  // namespace

Result<std::unique_ptr<PrivateDaemon>> PrivateDaemon::Start(
    const PrivateDaemonOptions& options) {
  return PrivateDaemonImpl::Start(options);
}

}  // namespace tvarant::client

// Daemon: a tvarantd process of a test, with --ready-fd.

#ifndef TVARANT_DAEMON_DAEMON_PROCESS_H_
#define TVARANT_DAEMON_DAEMON_PROCESS_H_

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/base/unique_fd.h"

namespace tvarant {

inline constexpr char kDaemonBinary[] = "daemon/tvarantd";

// Thread-compatible. Killed if the test leaves it.
class Daemon {
 public:
  static constexpr std::chrono::seconds kLimit{20};

  // Of a launcher that closes the descriptors it does not know, none is given.
  enum class ReadyFd { kGiven, kNone };

  // `launcher`: the program that starts it, with arguments.
  explicit Daemon(std::vector<std::string> arguments,
                  std::vector<std::string> launcher = {},
                  ReadyFd ready = ReadyFd::kGiven) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    ready_.reset(ends[0]);
    const int ready_fd = launcher.empty() ? 3 : 9;
    std::vector<std::string> words = std::move(launcher);
    words.push_back(kDaemonBinary);
    words.insert(words.end(), arguments.begin(), arguments.end());
    if (ready == ReadyFd::kGiven) {
      words.push_back("--ready-fd=" + std::to_string(ready_fd));
    }
    words.push_back("--memory=64MiB");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], ready_fd);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(ends[1]);
  }
  ~Daemon() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  // What it says on the descriptor, up to its end.
  std::string ReadyText() {
    std::string text;
    char buffer[512];
    pollfd entry{ready_.get(), POLLIN, 0};
    while (::poll(&entry, 1, static_cast<int>(kLimit.count() * 1000)) > 0) {
      const ssize_t got = ::read(ready_.get(), buffer, sizeof(buffer));
      if (got <= 0) return text;
      text.append(buffer, static_cast<size_t>(got));
    }
    return "timeout";
  }

  // Exit status, or -1 if it doesn't end in time, or -signal.
  int Wait() {
    const auto end = std::chrono::steady_clock::now() + kLimit;
    int status;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) return -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  void Signal(int signal) { ::kill(pid_, signal); }
  pid_t pid() const { return pid_; }

 private:
  base::UniqueFd ready_;
  pid_t pid_ = -1;
};

}  // namespace tvarant

#endif  // TVARANT_DAEMON_DAEMON_PROCESS_H_

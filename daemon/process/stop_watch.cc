#include "daemon/process/stop_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvarant {
namespace {

// How often the parent's number is looked at without a pidfd, and how long no
// client may be there then.
constexpr int kPollMs = 500;
constexpr std::chrono::seconds kNoClients{10};

}  // namespace

absl::StatusOr<std::unique_ptr<StopWatch>> StopWatch::Create(pid_t parent) {
  std::unique_ptr<StopWatch> watch(new StopWatch);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) {
    return absl::InternalError("can't block signals");
  }
  watch->signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!watch->signals_.ok()) return absl::ErrnoToStatus(errno, "signalfd");
  if (parent == 0) return watch;
  watch->parent_ = parent;
  watch->parent_fd_.reset(
      static_cast<int>(::syscall(SYS_pidfd_open, parent, 0)));
  // Asked after the pidfd is there: while the number is that of the parent, the
  // pidfd is the parent's.
  if (::getppid() != parent) {
    return absl::FailedPreconditionError(absl::StrCat(
        "process ", parent, " is not the parent of this one, or has ended"));
  }
  return watch;
}

std::string StopWatch::Wait(const std::function<size_t()>& clients,
                            const std::function<void()>& on_reload) {
  const bool must_poll = parent_ != 0 && !parent_fd_.ok();
  bool had_clients = false;
  auto last_client = std::chrono::steady_clock::now();
  for (;;) {
    pollfd entries[2] = {{signals_.get(), POLLIN, 0},
                         {parent_fd_.get(), POLLIN, 0}};
    ::poll(entries, 2, must_poll ? kPollMs : -1);
    if (entries[0].revents != 0) {
      signalfd_siginfo info{};
      if (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGHUP) {
          on_reload();
          continue;
        }
        return info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM";
      }
    }
    if (entries[1].revents != 0) return "parent_ended";
    if (parent_ != 0 && ::getppid() != parent_) return "parent_ended";
    if (!must_poll || clients == nullptr) continue;
    const auto now = std::chrono::steady_clock::now();
    if (clients() > 0) {
      had_clients = true;
      last_client = now;
    } else if (had_clients && now - last_client > kNoClients) {
      return "clients_gone";
    }
  }
}

}  // namespace tvarant

#include "daemon/process/systemd.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tvarant {
namespace {

constexpr int kFirstSocket = 3;  // SD_LISTEN_FDS_START
constexpr int kMaxSockets = 64;

// The variable as a number; nullopt if it isn't set or isn't a number.
std::optional<int64_t> NumberIn(const char* name) {
  const char* text = std::getenv(name);
  int64_t value;
  if (text == nullptr || !absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

}  // namespace

absl::StatusOr<std::vector<base::UniqueFd>> TakeActivatedSockets() {
  std::vector<base::UniqueFd> sockets;
  const bool are_there = std::getenv("LISTEN_FDS") != nullptr;
  const std::optional<int64_t> owner = NumberIn("LISTEN_PID");
  const std::optional<int64_t> count = NumberIn("LISTEN_FDS");
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) {
    ::unsetenv(name);
  }
  if (!are_there || (owner.has_value() && *owner != ::getpid())) return sockets;
  if (!owner.has_value() || !count.has_value() || *count < 0 ||
      *count > kMaxSockets) {
    return absl::InvalidArgumentError(
        absl::StrCat("LISTEN_PID and LISTEN_FDS are not a process and 0 to ",
                     kMaxSockets, " sockets"));
  }
  for (int fd = kFirstSocket; fd < kFirstSocket + *count; ++fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags < 0 || ::fcntl(fd, F_SETFD, flags | FD_CLOEXEC) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "LISTEN_FDS promises descriptor ", fd, ", which is not open"));
    }
    sockets.emplace_back(fd);
  }
  return sockets;
}

bool NotifySystemd(std::string_view state) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  // A path, or '@' and a name in the abstract namespace.
  if (name == nullptr || (name[0] != '/' && name[0] != '@')) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = std::strlen(name);
  if (length >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return false;
  return ::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&address),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                         length)) ==
         static_cast<ssize_t>(state.size());
}

std::optional<std::chrono::microseconds> WatchdogTimeout() {
  const std::optional<int64_t> timeout = NumberIn("WATCHDOG_USEC");
  if (!timeout.has_value() || *timeout <= 0) return std::nullopt;
  const std::optional<int64_t> watched = NumberIn("WATCHDOG_PID");
  if (watched.has_value() && *watched != ::getpid()) return std::nullopt;
  return std::chrono::microseconds(*timeout);
}

}  // namespace tvarant

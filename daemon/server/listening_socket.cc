#include "daemon/server/listening_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/server/admin_policy.h"
#include "proto/base/status_macros.h"

namespace tvarant {
namespace {

constexpr int kBacklog = 128;

absl::Status SystemError(int error, const std::string& what) {
  return absl::ErrnoToStatus(error, what);
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Who made the socket at the other end of a connection.
std::string MakerOf(int connection) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials,
                   &length) != 0 ||
      credentials.pid <= 0) {
    return "another program";
  }
  return absl::StrCat("process ", credentials.pid);
}

std::string HolderOf(int lock) {
  char text[32] = {};
  const ssize_t got = ::pread(lock, text, sizeof(text) - 1, 0);
  std::string pid;
  for (ssize_t i = 0; i < got && text[i] >= '0' && text[i] <= '9'; ++i) {
    pid += text[i];
  }
  return pid.empty() ? "another process" : "process " + pid;
}

// Whether `path` names the file that is open as fd.
bool IsSameFile(int fd, const std::string& path) {
  struct stat opened, named;
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

absl::StatusOr<base::UniqueFd> TakeLock(const std::string& socket_path) {
  const std::string path = socket_path + ".lock";
  // A holder that ends removes its lock file; then the one opened here is no
  // longer the one that counts.
  for (int attempt = 0; attempt < 16; ++attempt) {
    base::UniqueFd lock(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!lock.ok()) {
      return SystemError(errno, absl::StrCat("can't open the lock ", path));
    }
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) {
        return SystemError(errno, absl::StrCat("can't lock ", path));
      }
      return absl::UnavailableError(absl::StrCat(
          "socket ", socket_path, " is served by ", HolderOf(lock.get())));
    }
    if (!IsSameFile(lock.get(), path)) continue;
    const std::string pid = absl::StrCat(::getpid(), "\n");
    if (::ftruncate(lock.get(), 0) != 0 ||
        ::pwrite(lock.get(), pid.data(), pid.size(), 0) !=
            static_cast<ssize_t>(pid.size())) {
      return SystemError(errno, absl::StrCat("can't write ", path));
    }
    return lock;
  }
  return absl::UnavailableError(
      absl::StrCat("the lock ", path, " changes hands all the time"));
}

// The lock is held, so a socket at the path is stale, unless a program that
// knows nothing of the lock serves it.
absl::Status RemoveStaleSocket(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus()
                           : SystemError(errno, "can't look at " + path);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " exists and is no socket"));
  }
  base::UniqueFd probe(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.ok()) return SystemError(errno, "socket");
  const sockaddr_un address = AddressOf(path);
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) == 0 ||
      errno == EAGAIN) {
    return absl::UnavailableError(
        absl::StrCat("socket ", path, " is served by ", MakerOf(probe.get())));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return SystemError(errno, "can't remove the stale socket " + path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ListeningSocket::ParsePath(
    const std::string& endpoint) {
  constexpr size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;
  if (endpoint.rfind("unix:", 0) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("endpoint \"", endpoint,
                                                   "\" is not of the form "
                                                   "unix:PATH"));
  }
  std::string path = endpoint.substr(5);
  if (path.rfind("///", 0) == 0) path.erase(0, 2);
  if (path.empty() || path.size() > kMaxPath ||
      path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("endpoint \"", endpoint, "\" has a path of ", path.size(),
                     " bytes; a socket's has 1 to ", kMaxPath));
  }
  return path;
}

absl::StatusOr<ListeningSocket> ListeningSocket::Bind(const Options& options) {
  std::optional<gid_t> gid;
  if (!options.group.empty()) {
    ASSIGN_OR_RETURN(gid, GroupId(options.group));
  }
  const std::string& path = options.path;
  ASSIGN_OR_RETURN(base::UniqueFd lock, TakeLock(path));
  RETURN_IF_ERROR(RemoveStaleSocket(path));
  base::UniqueFd fd(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return SystemError(errno, "socket");
  // The file gets its final rights when it is made, less the umask, so that
  // there is no moment with wider ones.
  if (::fchmod(fd.get(), options.mode) != 0) {
    return SystemError(errno, "fchmod");
  }
  const sockaddr_un address = AddressOf(path);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
             sizeof(address)) != 0) {
    return SystemError(errno, absl::StrCat("can't make the socket ", path));
  }
  ListeningSocket result;
  result.path_ = path;
  result.lock_ = std::move(lock);
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0) {
    result.device_ = info.st_dev;
    result.inode_ = info.st_ino;
  }
  result.socket_ = std::move(fd);
  result.bound_here_ = true;
  // The group first: changing it may clear bits of the mode.
  if (gid.has_value() &&
      ::chown(path.c_str(), static_cast<uid_t>(-1), *gid) != 0) {
    return SystemError(
        errno, absl::StrCat("can't give ", path, " to group ", options.group));
  }
  if (::chmod(path.c_str(), options.mode) != 0) {
    return SystemError(errno, absl::StrCat("can't set the mode of ", path));
  }
  if (::listen(result.socket_.get(), kBacklog) != 0) {
    return SystemError(errno, "listen");
  }
  return result;
}

absl::StatusOr<ListeningSocket> ListeningSocket::Adopt(base::UniqueFd socket) {
  int type = 0, listens = 0;
  socklen_t length = sizeof(int);
  sockaddr_un address{};
  socklen_t address_length = sizeof(address);
  // A path ends with a zero, except where it fills the whole address.
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address),
                    &address_length) != 0 ||
      address.sun_family != AF_UNIX ||
      ::getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &type, &length) != 0 ||
      type != SOCK_STREAM ||
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens,
                   &length) != 0 ||
      listens == 0 || address_length <= offsetof(sockaddr_un, sun_path) ||
      address.sun_path[0] == '\0') {
    return absl::InvalidArgumentError(
        absl::StrCat("descriptor ", socket.get(),
                     " is not a listening Unix stream socket with a path"));
  }
  ListeningSocket result;
  result.path_.assign(
      address.sun_path,
      ::strnlen(address.sun_path,
                address_length - offsetof(sockaddr_un, sun_path)));
  ASSIGN_OR_RETURN(result.lock_, TakeLock(result.path_));
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return SystemError(errno, "fcntl");
  }
  result.socket_ = std::move(socket);
  return result;
}

ListeningSocket::~ListeningSocket() {
  if (!socket_.ok()) return;
  struct stat info;
  if (bound_here_ && ::lstat(path_.c_str(), &info) == 0 &&
      info.st_dev == device_ && info.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
  const std::string lock_path = path_ + ".lock";
  if (IsSameFile(lock_.get(), lock_path)) ::unlink(lock_path.c_str());
}

}  // namespace tvarant

#include "client/endpoint.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace tvarant::client {
namespace {

Status ConnectError(const std::string& endpoint, int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return Status(Code::kUnavailable,
                    "no tvarantd at " + endpoint + ": there is no such socket");
    case ECONNREFUSED:
      return Status(Code::kUnavailable,
                    "no tvarantd at " + endpoint +
                        ": the socket is there, but nobody listens on it");
    case EACCES:
    case EPERM:
      return Status(Code::kPermissionDenied,
                    "may not use " + endpoint +
                        ": its owner or group must let this user in");
    case EPROTOTYPE:
    case ENOTSOCK:
      return Status(Code::kUnavailable,
                    "no tvarantd at " + endpoint + ": not a stream socket");
    case EAGAIN:
    case ETIMEDOUT:
      return Status(Code::kUnavailable,
                    "tvarantd at " + endpoint + " takes no more connections");
    default:
      return Status(Code::kUnavailable, "can't connect to " + endpoint + ": " +
                                            std::strerror(error));
  }
}

}  // namespace

Result<Endpoint> Endpoint::Parse(const std::string& text) {
  constexpr std::string_view kScheme = "unix:";
  if (text.rfind(kScheme, 0) != 0) {
    return Status(Code::kInvalidArgument,
                  "endpoint \"" + text + "\" is not of the form unix:PATH");
  }
  std::string path = text.substr(kScheme.size());
  if (path.rfind("///", 0) == 0) path.erase(0, 2);
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path) ||
      path.find('\0') != std::string::npos) {
    return Status(Code::kInvalidArgument,
                  "endpoint \"" + text + "\" has a path of " +
                      std::to_string(path.size()) +
                      " bytes; a socket's has 1 to " +
                      std::to_string(sizeof(sockaddr_un::sun_path) - 1));
  }
  Endpoint endpoint;
  endpoint.path_ = std::move(path);
  return endpoint;
}

Result<base::UniqueFd> Endpoint::Connect(Deadline deadline) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return ConnectError(text(), errno);
  // A full backlog makes connect() wait; SO_SNDTIMEO bounds that.
  const auto left = std::max<int64_t>(
      1, std::chrono::duration_cast<std::chrono::microseconds>(
             deadline - std::chrono::steady_clock::now())
             .count());
  const timeval timeout{static_cast<time_t>(left / 1000000),
                        static_cast<suseconds_t>(left % 1000000)};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  int result;
  do {
    result = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                       sizeof(address));
  } while (result != 0 && errno == EINTR);
  if (result != 0) return ConnectError(text(), errno);
  const timeval forever{0, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof(forever));
  return fd;
}

}  // namespace tvarant::client

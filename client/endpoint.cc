#include "client/endpoint.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace tvarant::client {
namespace {

constexpr std::string_view kTcpScheme = "tcp://";
constexpr size_t kMaxHostBytes = 255;

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
  if (text.rfind(kTcpScheme, 0) == 0) return ParseTcp(text);
  if (text.rfind(kScheme, 0) != 0) {
    return Status(Code::kInvalidArgument,
                  "endpoint \"" + text +
                      "\" is not of the form unix:PATH or tcp://HOST:PORT");
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

Result<Endpoint> Endpoint::ParseTcp(const std::string& text) {
  Endpoint endpoint;
  endpoint.address_ = text.substr(kTcpScheme.size());
  const std::string& address = endpoint.address_;
  const size_t colon = address.rfind(':');
  const std::string host =
      colon == std::string::npos ? "" : address.substr(0, colon);
  const std::string port =
      colon == std::string::npos ? "" : address.substr(colon + 1);
  const bool is_bracketed =
      host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool has_host =
      !host.empty() && host.size() <= kMaxHostBytes &&
      std::all_of(host.begin(), host.end(), [&](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ||
               c == '-' || c == '_' ||
               (is_bracketed && (c == ':' || c == '[' || c == ']' || c == '%'));
      });
  const bool has_port =
      !port.empty() && port.size() <= 5 &&
      port.find_first_not_of("0123456789") == std::string::npos &&
      std::stoi(port) > 0 && std::stoi(port) <= 65535;
  if (has_host && has_port) return endpoint;
  return Status(Code::kInvalidArgument,
                "endpoint \"" + text +
                    "\" is not of the form tcp://HOST:PORT, with an IPv6 "
                    "address in brackets and a port of 1 to 65535");
}

bool Endpoint::is_loopback() const {
  const std::string host = address_.substr(0, address_.rfind(':'));
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  return host == "localhost" || host == "[::1]";
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

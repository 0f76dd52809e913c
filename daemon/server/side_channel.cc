#include "daemon/server/side_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace tvarant {
namespace {

constexpr std::chrono::milliseconds kSendTimeout{2000};

// False when the time is over.
bool WaitWritable(int fd, std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0) return false;
  pollfd entry{fd, POLLOUT, 0};
  return ::poll(&entry, 1, static_cast<int>(left.count())) != 0;
}

}  // namespace

absl::Status SideChannel::Send(SideKind kind, uint64_t handle,
                               uint64_t size_bytes, int passed_fd) {
  SideMessage message{};
  std::memcpy(message.magic, kSideMagic, sizeof(kSideMagic));
  message.version = kSideVersion;
  message.kind = kind;
  message.handle = handle;
  message.size_bytes = size_bytes;

  const auto deadline = std::chrono::steady_clock::now() + kSendTimeout;
  const char* at = reinterpret_cast<const char*>(&message);
  size_t left = sizeof(message);
  base::MutexLock lock(send_mutex_);
  while (left > 0) {
    iovec part{const_cast<char*>(at), left};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    // The descriptor goes with the first byte.
    if (passed_fd >= 0 && left == sizeof(message)) {
      header.msg_control = control;
      header.msg_controllen = sizeof(control);
      cmsghdr* entry = CMSG_FIRSTHDR(&header);
      entry->cmsg_level = SOL_SOCKET;
      entry->cmsg_type = SCM_RIGHTS;
      entry->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(entry), &passed_fd, sizeof(int));
    }
    const ssize_t sent =
        ::sendmsg(fd_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      at += sent;
      left -= static_cast<size_t>(sent);
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    // ETOOMANYREFS: the client has not received descriptors sent before.
    if (sent < 0 && (errno == EAGAIN || errno == ETOOMANYREFS)) {
      const bool full = errno == EAGAIN;
      if (full && WaitWritable(fd_.get(), deadline)) continue;
      // What was sent in part can't be taken back.
      if (left != sizeof(message)) ::shutdown(fd_.get(), SHUT_RDWR);
      return absl::UnavailableError(
          "the client does not read its side connection");
    }
    return absl::UnavailableError("the client's side connection has ended");
  }
  return absl::OkStatus();
}

void SideChannel::Shutdown() { ::shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace tvarant

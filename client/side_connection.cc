#include "client/side_connection.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "client/status_macros.h"
#include "proto/wire/side_protocol.h"

namespace tvarant::client {
namespace {

// How long a reply may be ahead of the descriptor that belongs to it.
constexpr std::chrono::seconds kDescriptorTimeout{10};

// Reads one whole message and at most one descriptor with it; others that may
// come are closed. False at the end of the connection and on any fault.
bool Receive(int socket, SideMessage* message, base::UniqueFd* fd) {
  char* at = reinterpret_cast<char*>(message);
  size_t left = sizeof(*message);
  fd->reset();
  while (left > 0) {
    iovec part{at, left};
    alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    const ssize_t got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    for (cmsghdr* entry = CMSG_FIRSTHDR(&header); entry != nullptr;
         entry = CMSG_NXTHDR(&header, entry)) {
      if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) {
        continue;
      }
      const size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int passed;
        std::memcpy(&passed, CMSG_DATA(entry) + i * sizeof(int), sizeof(int));
        base::UniqueFd owned(passed);
        if (!fd->ok()) *fd = std::move(owned);
      }
    }
    at += got;
    left -= static_cast<size_t>(got);
  }
  return std::memcmp(message->magic, kSideMagic, sizeof(kSideMagic)) == 0 &&
         message->version == kSideVersion;
}

bool Send(int socket, const SideMessage& message) {
  const char* at = reinterpret_cast<const char*>(&message);
  size_t left = sizeof(message);
  while (left > 0) {
    const ssize_t sent = ::send(socket, at, left, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    left -= static_cast<size_t>(sent);
  }
  return true;
}

void SetReceiveTimeout(int socket, std::chrono::microseconds timeout) {
  const timeval value{static_cast<time_t>(timeout.count() / 1000000),
                      static_cast<suseconds_t>(timeout.count() % 1000000)};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof(value));
}

}  // namespace

Result<std::unique_ptr<SideConnection>> SideConnection::Attach(
    const Endpoint& endpoint, const std::string& token, Deadline deadline) {
  Result<base::UniqueFd> socket = endpoint.Connect(deadline);
  if (!socket.ok()) return socket.status();
  std::unique_ptr<SideConnection> side(new SideConnection);
  side->socket_ = std::move(socket.value());
  const int fd = side->socket_.get();

  SideMessage attach{};
  std::memcpy(attach.magic, kSideMagic, sizeof(kSideMagic));
  attach.version = kSideVersion;
  attach.kind = SideKind::kAttach;
  if (token.size() != sizeof(attach.token)) {
    return Status(Code::kInternal, "the daemon gave a token of another size");
  }
  std::memcpy(attach.token, token.data(), sizeof(attach.token));

  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
      deadline - std::chrono::steady_clock::now());
  SetReceiveTimeout(fd, std::max(left, std::chrono::microseconds(1000)));
  SideMessage reply;
  base::UniqueFd page;
  if (!Send(fd, attach) || !Receive(fd, &reply, &page) ||
      reply.kind != SideKind::kAttached || !page.ok()) {
    return Status(Code::kUnavailable,
                  "tvarantd at " + endpoint.text() +
                      " did not take the connection for shared memory");
  }
  SetReceiveTimeout(fd, std::chrono::microseconds(0));

  Result<void*> mapped = MapSealed(page.get(), kSharedPageBytes, nullptr);
  if (!mapped.ok()) return mapped.status();
  side->page_ = SharedMapping(mapped.value(), kSharedPageBytes);
  if (side->page()->magic != kSharedPageMagic || side->page()->version != 1) {
    return Status(Code::kInternal,
                  "the daemon's shared page is of another "
                  "version");
  }
  return side;
}

SideConnection::~SideConnection() {
  closing_.store(true, std::memory_order_release);
  // Wakes the reading thread; its read ends.
  ::shutdown(socket_.get(), SHUT_RDWR);
  thread_.Join();
}

Status SideConnection::Watch(std::function<void()> on_end) {
  on_end_ = std::move(on_end);
  return thread_.Start("tvarant-side", [this] { ReadLoop(); });
}

void SideConnection::ReadLoop() {
  SideMessage message;
  base::UniqueFd fd;
  while (Receive(socket_.get(), &message, &fd) &&
         message.kind == SideKind::kMemory) {
    base::MutexLock lock(mutex_);
    const auto found = expected_.find(message.handle);
    if (found == expected_.end()) continue;
    found->second.arrived = true;
    found->second.fd = std::move(fd);
    arrived_.NotifyAll();
  }
  // Memory that comes after a fault is of no use; say so to the daemon.
  ::shutdown(socket_.get(), SHUT_RDWR);
  if (!closing_.load(std::memory_order_acquire)) on_end_();
}

void SideConnection::Expect(uint64_t handle) {
  base::MutexLock lock(mutex_);
  expected_[handle];
}

Result<base::UniqueFd> SideConnection::Take(uint64_t handle,
                                            const Lifeline& life) {
  const Deadline deadline =
      std::chrono::steady_clock::now() + kDescriptorTimeout;
  base::MutexLock lock(mutex_);
  const auto found = expected_.find(handle);
  if (found == expected_.end()) {
    return Status(Code::kInternal, "memory was taken that nobody expected");
  }
  while (!found->second.arrived && life.alive() &&
         std::chrono::steady_clock::now() < deadline) {
    arrived_.WaitFor(mutex_, kWaitSlice);
  }
  Memory memory = std::move(found->second);
  expected_.erase(found);
  if (memory.fd.ok()) return std::move(memory.fd);
  if (!life.alive()) return life.death();
  return Status(Code::kResourceExhausted,
                memory.arrived
                    ? "can't receive the descriptor of device memory: too many "
                      "open files in this process"
                    : "the daemon did not pass the descriptor of device "
                      "memory");
}

void SideConnection::Forget(uint64_t handle) {
  base::MutexLock lock(mutex_);
  expected_.erase(handle);
}

}  // namespace tvarant::client

// Bytes of a stranger on the daemon's socket: which protocol, and the side
// protocol up to its end. The first byte says whether a valid token is put
// where a token belongs.

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/runtime/fake_runtime.h"
#include "daemon/server/listener.h"
#include "proto/base/logging.h"

namespace {

using namespace tvarant;

void Require(bool condition) {
  if (!condition) std::abort();
}

struct World {
  World() {
    // Also makes what the log lives in, so that it outlives this static: the
    // end of the sessions is logged.
    spdlog::set_level(spdlog::level::off);
    char pattern[] = "/tmp/tvfXXXXXX";
    Require(::mkdtemp(pattern) != nullptr);
    folder = pattern;
    std::vector<ListeningSocket> sockets;
    auto socket = ListeningSocket::Bind({.path = folder + "/s"});
    Require(socket.ok());
    sockets.push_back(*std::move(socket));
    auto started = Listener::Start(
        std::move(sockets), {}, peers, users, sessions, counters,
        // gRPC's part is not ours to test.
        [](int fd) { ::close(fd); },
        [this](std::shared_ptr<Session> gone) { sessions.End(gone, "gone"); });
    Require(started.ok());
    listener = *std::move(started);
    NewToken();
  }
  ~World() {
    listener.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  // A session that nobody has attached to.
  void NewToken() {
    if (session != nullptr) sessions.End(session, "used");
    auto opened = sessions.Open({::getpid(), ::getuid(), ::getgid()}, "f", 0);
    Require(opened.ok());
    session = *std::move(opened);
    token.assign(session->token().begin(), session->token().end());
  }

  FakeRuntime runtime{{}};
  BusyTracker busy;
  Counters counters;
  PeerTable peers;
  DeviceGate gate{1};
  UserTable users{gate, {}};
  SessionRegistry sessions{runtime, busy, counters, users, {}};
  std::string folder;
  std::shared_ptr<Session> session;
  std::string token;
  std::unique_ptr<Listener> listener;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  static World world;
  if (size_bytes < 1 || size_bytes > 4096) return 0;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size_bytes - 1);
  const size_t at = offsetof(SideMessage, token);
  const bool with_token =
      data[0] % 2 == 1 && bytes.size() >= at + world.token.size();
  if (with_token) bytes.replace(at, world.token.size(), world.token);

  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, (world.folder + "/s").c_str());
  Require(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                    sizeof(address)) == 0);
  [[maybe_unused]] const ssize_t sent =
      ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ::shutdown(fd.get(), SHUT_WR);
  // It always comes to an end, and soon.
  pollfd entry{fd.get(), POLLIN, 0};
  char reply[4096];
  ssize_t got;
  do {
    Require(::poll(&entry, 1, 10000) == 1);
    got = ::recv(fd.get(), reply, sizeof(reply), 0);
  } while (got > 0);
  if (with_token) world.NewToken();
  return 0;
}

// A process with a private daemon, to be ended in many ways.
//
//   private_parent DAEMON wait|thread|fork
//
// Prints "PID ENDPOINT CHILD": the daemon's pid and socket, and the pid of a
// forked child that lives on (0: none). Then waits for ever.

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "client/client.h"

namespace tvarant::client {
namespace {

int Run(const std::string& binary, const std::string& how) {
  std::unique_ptr<PrivateDaemon> daemon;
  std::shared_ptr<Session> session;
  const auto start = [&] {
    auto started = PrivateDaemon::Start({.binary = binary});
    if (!started.ok()) {
      std::fprintf(stderr, "%s\n", started.status().message().c_str());
      ::_exit(1);
    }
    daemon = std::move(started.value());
    auto connected = Session::Connect({.endpoint = daemon->endpoint()});
    if (!connected.ok()) ::_exit(2);
    session = std::move(connected.value());
  };
  if (how == "thread") {
    std::thread(start).join();
  } else {
    start();
  }
  pid_t child = 0;
  if (how == "fork") {
    child = ::fork();
    if (child == 0) {
      session->ForkChild();
      daemon->ForkChild();
      ::alarm(60);
      while (true) ::pause();
    }
  }
  std::printf("%d %s %d\n", daemon->pid(), daemon->endpoint().c_str(), child);
  std::fflush(stdout);
  ::alarm(60);
  while (true) ::pause();
}

}  // namespace
}  // namespace tvarant::client

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  return tvarant::client::Run(argv[1], argv[2]);
}

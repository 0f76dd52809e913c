#include "tests/integration/tcp_daemon.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "gtest/gtest.h"
#include "tests/integration/daemon_fixture.h"

namespace tvarant::client {
namespace {

std::string MakeFolder() {
  char folder[] = "/tmp/tvarant-tcp-XXXXXX";
  EXPECT_NE(::mkdtemp(folder), nullptr);
  return folder;
}

// A port that nobody has, a moment ago.
int FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

class TcpDaemon final : public PrivateDaemon {
 public:
  TcpDaemon(pid_t pid, std::string endpoint, std::string folder)
      : pid_(pid), endpoint_(std::move(endpoint)), folder_(std::move(folder)) {}
  ~TcpDaemon() override {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGCONT);
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  const std::string& endpoint() const override { return endpoint_; }
  int pid() const override { return pid_; }
  bool running() override { return ::kill(pid_, 0) == 0; }
  void ForkChild() override { pid_ = 0; }

 private:
  pid_t pid_;
  std::string endpoint_;
  std::string folder_;
};

}  // namespace

const std::string& CertificateFolder() {
  static const std::string& folder = *[] {
    auto* made = new std::string(MakeFolder());
    const std::string command = "deploy/certificates.sh " + *made +
                                " localhost,127.0.0.1,10.77.0.2 alice bob";
    EXPECT_EQ(::system(command.c_str()), 0);
    ::setenv("TVARANT_TLS_CA", (*made + "/ca.pem").c_str(), 1);
    ::setenv("TVARANT_TLS_CERT", (*made + "/alice.pem").c_str(), 1);
    ::setenv("TVARANT_TLS_KEY", (*made + "/alice.key").c_str(), 1);
    return made;
  }();
  return folder;
}

std::unique_ptr<PrivateDaemon> StartTcpDaemon(
    uint64_t memory_bytes, int port, const std::vector<std::string>& options,
    const std::string& host, const std::string& net_namespace) {
  const std::string& certificates = CertificateFolder();
  const std::string folder = MakeFolder();
  const std::string address =
      host + ":" + std::to_string(port == 0 ? FreePort() : port);
  int ready[2];
  if (::pipe(ready) != 0) return nullptr;
  std::vector<std::string> arguments;
  if (!net_namespace.empty()) {
    arguments = {"ip", "netns", "exec", net_namespace};
  }
  const std::vector<std::string> daemon = {
      DaemonBinary(),
      "--listen=unix:" + folder + "/s",
      "--listen-tcp=" + address,
      "--memory=" + std::to_string(memory_bytes),
      "--exit-with-parent=" + std::to_string(::getpid()),
      "--ready-fd=" + std::to_string(ready[1])};
  arguments.insert(arguments.end(), daemon.begin(), daemon.end());
  if (options.empty()) {
    arguments.push_back("--tls-cert=" + certificates + "/daemon.pem");
    arguments.push_back("--tls-key=" + certificates + "/daemon.key");
    arguments.push_back("--tls-client-ca=" + certificates + "/ca.pem");
  }
  arguments.insert(arguments.end(), options.begin(), options.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ready[0]);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(ready[1]);
  std::string word;
  char bytes[256];
  for (ssize_t got; (got = ::read(ready[0], bytes, sizeof(bytes))) > 0;) {
    word.append(bytes, static_cast<size_t>(got));
  }
  ::close(ready[0]);
  EXPECT_EQ(word.substr(0, 5), "ready") << word;
  return std::make_unique<TcpDaemon>(pid, "tcp://" + address, folder);
}

}  // namespace tvarant::client

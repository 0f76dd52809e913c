// Connecting to what is no daemon: one sentence, in time.

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "gtest/gtest.h"

namespace tvarant::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class ConnectTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/tvarant-test-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/s";
  }
  void TearDown() override {
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }

  // A bound socket; listens if asked.
  int Bind(bool listen) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    EXPECT_EQ(
        ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    if (listen) {
      EXPECT_EQ(::listen(fd, 8), 0);
    }
    return fd;
  }

  Status Connect(int timeout_ms = 2000) {
    ConnectOptions options;
    options.endpoint = "unix:" + path_;
    options.connect_timeout_ms = timeout_ms;
    const auto begin = steady_clock::now();
    const Status status = Session::Connect(options).status();
    took_ = steady_clock::now() - begin;
    // One sentence that names the place.
    EXPECT_NE(status.message().find(path_), std::string::npos)
        << status.message();
    EXPECT_EQ(status.message().find('\n'), std::string::npos)
        << status.message();
    return status;
  }

  std::string folder_;
  std::string path_;
  steady_clock::duration took_{};
};

TEST_F(ConnectTest, BadEndpoints) {
  const std::string endpoints[] = {"",
                                   "unix:",
                                   "tcp:localhost:1",
                                   "/run/socket",
                                   "unix:" + std::string(200, 'x'),
                                   std::string("unix:/a\0b", 9)};
  for (const std::string& endpoint : endpoints) {
    ConnectOptions options;
    options.endpoint = endpoint;
    EXPECT_EQ(Session::Connect(options).status().code(), Code::kInvalidArgument)
        << endpoint;
  }
}

TEST_F(ConnectTest, NoSocket) {
  EXPECT_EQ(Connect().code(), Code::kUnavailable);
  EXPECT_LT(took_, milliseconds(500));
}

TEST_F(ConnectTest, DeadSocket) {
  ::close(Bind(/*listen=*/true));
  EXPECT_EQ(Connect().code(), Code::kUnavailable);
  EXPECT_LT(took_, milliseconds(500));
}

TEST_F(ConnectTest, PlainFile) {
  std::ofstream(path_) << "no socket";
  EXPECT_EQ(Connect().code(), Code::kUnavailable);
}

TEST_F(ConnectTest, SilentServer) {
  const int fd = Bind(/*listen=*/true);
  EXPECT_EQ(Connect(/*timeout_ms=*/500).code(), Code::kUnavailable);
  EXPECT_GE(took_, milliseconds(400));
  EXPECT_LT(took_, milliseconds(2500));
  ::close(fd);
}

TEST_F(ConnectTest, ServerThatHangsUp) {
  const int fd = Bind(/*listen=*/true);
  std::thread server([fd] { ::close(::accept(fd, nullptr, nullptr)); });
  EXPECT_EQ(Connect().code(), Code::kUnavailable);
  server.join();
  ::close(fd);
}

TEST_F(ConnectTest, GarbageServer) {
  const int fd = Bind(/*listen=*/true);
  std::thread server([fd] {
    const int peer = ::accept(fd, nullptr, nullptr);
    const std::string garbage(4096, '\xa5');
    (void)::send(peer, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    char buffer[256];
    while (::read(peer, buffer, sizeof(buffer)) > 0) {
    }
    ::close(peer);
  });
  EXPECT_EQ(Connect().code(), Code::kUnavailable);
  EXPECT_LT(took_, milliseconds(3000));
  server.join();
  ::close(fd);
}

TEST_F(ConnectTest, HttpServer) {
  const int fd = Bind(/*listen=*/true);
  std::thread server([fd] {
    const int peer = ::accept(fd, nullptr, nullptr);
    const std::string reply =
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    (void)::send(peer, reply.data(), reply.size(), MSG_NOSIGNAL);
    ::close(peer);
  });
  EXPECT_EQ(Connect().code(), Code::kUnavailable);
  server.join();
  ::close(fd);
}

TEST_F(ConnectTest, ForbiddenSocket) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may use any socket";
  const int fd = Bind(/*listen=*/true);
  ::chmod(path_.c_str(), 0);
  EXPECT_EQ(Connect().code(), Code::kPermissionDenied);
  ::close(fd);
}

TEST(PrivateDaemonTest, SaysWhatIsWrong) {
  PrivateDaemonOptions options;
  options.start_timeout_ms = 2000;
  struct {
    const char* binary;
    const char* text;
  } const cases[] = {
      {"", "no binary"},
      {"/nonexistent/tvarantd", "/nonexistent/tvarantd"},
      {"/etc/passwd", "Permission denied"},
      {"/bin/false", "status 1"},
  };
  for (const auto& test : cases) {
    options.binary = test.binary;
    const auto daemon = PrivateDaemon::Start(options);
    EXPECT_EQ(daemon.status().code(), Code::kUnavailable);
    EXPECT_NE(daemon.status().message().find(test.text), std::string::npos)
        << daemon.status().message();
  }
}

}  // namespace
}  // namespace tvarant::client

// tvarantd under systemd, of which here are the socket
// (systemd-socket-activate) and the notify socket (the test's own).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "daemon/daemon_process.h"
#include "daemon/process/notify_socket.h"
#include "daemon/server/server_test_util.h"

namespace tvarant {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ActivationTest : public ::testing::Test {
 protected:
  // systemd-socket-activate becomes the daemon when the first client comes.
  std::vector<std::string> Launcher(std::vector<std::string> environment = {}) {
    std::vector<std::string> words = {"systemd-socket-activate",
                                      "--listen=" + path_,
                                      "-ENOTIFY_SOCKET=" + notify_.path()};
    for (const std::string& entry : environment) words.push_back("-E" + entry);
    return words;
  }
  bool WaitForSocket() {
    return Eventually([this] {
      struct stat info;
      return ::lstat(path_.c_str(), &info) == 0;
    });
  }

  TempFolder folder_;
  const std::string path_ = folder_.path() + "/s";
  NotifySocket notify_{folder_.path() + "/n"};
};

TEST_F(ActivationTest, AClientMayConnectBeforeTheDaemonIsThere) {
  Daemon daemon({}, Launcher(), Daemon::ReadyFd::kNone);
  ASSERT_TRUE(WaitForSocket());
  EXPECT_EQ(notify_.Receive(200ms), "");  // nobody has asked for it yet
  RawClient client(path_);
  const grpc::Status opened = client.Open();
  ASSERT_TRUE(opened.ok()) << opened.error_message();
  EXPECT_THAT(notify_.Receive(5s), StartsWith("READY=1\n"));
  ASSERT_TRUE(client.Attach());
  ASSERT_TRUE(client.CreateSegment(1, 4096).ok());
  daemon.Signal(SIGTERM);
  EXPECT_THAT(notify_.Receive(5s), StartsWith("STOPPING=1\n"));
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_EQ(client.page()->dead.load(), 1u);
  // The socket is systemd's: who comes now starts the next daemon.
  struct stat info;
  EXPECT_EQ(::lstat(path_.c_str(), &info), 0);
}

TEST_F(ActivationTest, AConfiguredEndpointIsTheSocketThatIsPassed) {
  Daemon daemon({"--listen", "unix:" + path_, "--listen",
                 "unix:" + folder_.path() + "/more"},
                Launcher(), Daemon::ReadyFd::kNone);
  ASSERT_TRUE(WaitForSocket());
  RawClient client(path_);
  ASSERT_TRUE(client.Open().ok());
  RawClient more(folder_.path() + "/more");
  EXPECT_TRUE(more.Open().ok());
}

TEST_F(ActivationTest, ASecondDaemonOnTheSocketIsRefused) {
  Daemon daemon({}, Launcher(), Daemon::ReadyFd::kNone);
  ASSERT_TRUE(WaitForSocket());
  ASSERT_TRUE(RawClient(path_).Open().ok());
  Daemon second({"--listen", "unix:" + path_});
  EXPECT_THAT(second.ReadyText(),
              HasSubstr("process " + std::to_string(daemon.pid())));
  EXPECT_EQ(second.Wait(), 69);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(ActivationTest, TheSocketOfSystemdIsNotTakenAway) {
  Daemon waiting({}, Launcher(), Daemon::ReadyFd::kNone);
  ASSERT_TRUE(WaitForSocket());
  Daemon other({"--listen", "unix:" + path_});
  EXPECT_THAT(other.ReadyText(),
              HasSubstr("process " + std::to_string(waiting.pid())));
  EXPECT_EQ(other.Wait(), 69);
}

TEST_F(ActivationTest, WhatIsNoSocketForUsIsAnError) {
  Daemon daemon({}, {"sh", "-c",
                     "exec 3</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; "
                     "exec \"$@\"",
                     "sh"});
  EXPECT_THAT(daemon.ReadyText(), HasSubstr("Unix stream socket"));
  EXPECT_EQ(daemon.Wait(), 64);
}

TEST_F(ActivationTest, ADescriptorThatIsNotOpenIsAnError) {
  Daemon daemon({"--listen", "unix:" + path_, "--ready-fd=77"}, {},
                Daemon::ReadyFd::kNone);
  EXPECT_EQ(daemon.Wait(), 64);
}

TEST_F(ActivationTest, FeedsTheWatchdogUntilItHangs) {
  Daemon daemon({}, Launcher({"WATCHDOG_USEC=400000"}), Daemon::ReadyFd::kNone);
  ASSERT_TRUE(WaitForSocket());
  ASSERT_TRUE(RawClient(path_).Open().ok());
  int signs = 0;
  while (signs < 3) {
    const std::string text = notify_.Receive(5s);
    ASSERT_NE(text, "");
    signs += text == "WATCHDOG=1" ? 1 : 0;
  }
  daemon.Signal(SIGSTOP);
  while (!notify_.Receive(200ms).empty()) {
  }
  EXPECT_EQ(notify_.Receive(300ms), "");
  daemon.Signal(SIGCONT);
  EXPECT_EQ(notify_.Receive(5s), "WATCHDOG=1");
}

TEST_F(ActivationTest, ReloadsTheLimitsOfUsers) {
  const std::string file = folder_.path() + "/conf";
  const auto write = [&file](const std::string& text) {
    std::ofstream(file, std::ios::trunc) << text;
  };
  const auto reload = [this](Daemon& daemon) {
    daemon.Signal(SIGHUP);
    EXPECT_THAT(notify_.Receive(5s),
                StartsWith("RELOADING=1\nMONOTONIC_USEC="));
    EXPECT_EQ(notify_.Receive(5s), "READY=1");
  };
  const std::string uid = std::to_string(::getuid());
  write("max_sessions_per_user = 1\n");
  Daemon daemon({"--config", file}, Launcher(), Daemon::ReadyFd::kNone);
  ASSERT_TRUE(WaitForSocket());
  RawClient a(path_), b(path_), c(path_);
  ASSERT_TRUE(a.Open().ok());
  EXPECT_THAT(notify_.Receive(5s), StartsWith("READY=1\n"));
  EXPECT_THAT(b.Open().error_message(),
              HasSubstr("limit of 1 sessions (max_sessions_per_user)"));
  write("max_sessions_per_user = 1\n[user " + uid +
        "]\nweight = 3\nmax_sessions_per_user = 2\n");
  reload(daemon);
  EXPECT_TRUE(b.Open().ok());
  EXPECT_THAT(c.Open().error_message(), HasSubstr("limit of 2 sessions"));
  // With a fault in the file, all stays as it is.
  write("max_sessions_per_user = none\n");
  reload(daemon);
  EXPECT_THAT(c.Open().error_message(), HasSubstr("limit of 2 sessions"));
  ASSERT_TRUE(a.Close().ok());
  EXPECT_TRUE(c.Open().ok());
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

// What systemd's watchdog does to a daemon that hangs.
TEST_F(ActivationTest, AnAbortLeavesTheLastCommandsInTheLog) {
  const std::string log = folder_.path() + "/log";
  {
    Daemon daemon({"--listen", "unix:" + path_},
                  {"sh", "-c", "exec 2>" + log + "; exec \"$@\"", "sh"});
    ASSERT_EQ(daemon.ReadyText(), "ready\n");
    RawClient client(path_);
    ASSERT_TRUE(client.Open().ok());
    ASSERT_TRUE(client.CreateSegment(1, 4096).ok());
    RawStream stream(client, 5);
    ASSERT_TRUE(stream.Send(FillRecord(1, 4) + ReadRecord(1, 0, 16), 2));
    ASSERT_TRUE(stream.Receive().has_value());
    daemon.Signal(SIGABRT);
    EXPECT_EQ(daemon.Wait(), -SIGABRT);
  }
  std::ifstream file(log);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(text, HasSubstr("reason=crash"));
  EXPECT_THAT(text, HasSubstr("stream=5 sequence=1 what=fill"));
  EXPECT_THAT(text, HasSubstr("stream=5 sequence=2 what=download"));
}

}  // namespace
}  // namespace tvarant

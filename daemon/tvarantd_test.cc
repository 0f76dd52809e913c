// tvarantd as a process: start, readiness, exit codes, signals, its parent.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "daemon/daemon_process.h"
#include "daemon/server/server_test_util.h"

namespace tvarant {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

bool Exists(const std::string& path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0;
}

TEST(TvarantdTest, ServesAndStopsOnASignal) {
  for (const int signal : {SIGTERM, SIGINT}) {
    TempFolder folder;
    const std::string path = folder.path() + "/s";
    Daemon daemon({"--listen", "unix:" + path});
    EXPECT_EQ(daemon.ReadyText(), "ready\n");
    RawClient client(path);
    ASSERT_TRUE(client.Open().ok());
    ASSERT_TRUE(client.Attach());
    EXPECT_EQ(client.session().properties().runtime(), "sim");
    ASSERT_TRUE(client.CreateSegment(1, 4096).ok());
    RawStream stream(client, 0);
    ASSERT_TRUE(stream.Send(FillRecord(1, 4) + ReadRecord(1, 0, 16), 2));
    EXPECT_TRUE(stream.Receive().has_value());
    daemon.Signal(signal);
    EXPECT_EQ(daemon.Wait(), 0);
    EXPECT_FALSE(stream.Receive().has_value());
    EXPECT_EQ(client.page()->dead.load(), 1u);
    EXPECT_FALSE(Exists(path));
    EXPECT_FALSE(Exists(path + ".lock"));
  }
}

TEST(TvarantdTest, ASecondOneOnTheSocketIsRefused) {
  TempFolder folder;
  const std::string endpoint = "unix:" + folder.path() + "/s";
  Daemon first({"--listen", endpoint});
  ASSERT_EQ(first.ReadyText(), "ready\n");
  Daemon second({"--listen", endpoint});
  const std::string text = second.ReadyText();
  EXPECT_THAT(text, StartsWith("error: "));
  EXPECT_THAT(text, HasSubstr("process " + std::to_string(first.pid())));
  EXPECT_EQ(second.Wait(), 69);
  RawClient client(folder.path() + "/s");
  EXPECT_TRUE(client.Open().ok());
}

TEST(TvarantdTest, TakesOverFromAKilledOne) {
  TempFolder folder;
  const std::string path = folder.path() + "/s";
  {
    Daemon killed({"--listen", "unix:" + path});
    ASSERT_EQ(killed.ReadyText(), "ready\n");
    killed.Signal(SIGKILL);
    EXPECT_EQ(killed.Wait(), -SIGKILL);
  }
  EXPECT_TRUE(Exists(path));
  Daemon next({"--listen", "unix:" + path});
  EXPECT_EQ(next.ReadyText(), "ready\n");
}

TEST(TvarantdTest, FaultsOfUseExitWith64) {
  TempFolder folder;
  const std::string endpoint = "unix:" + folder.path() + "/s";
  EXPECT_EQ(Daemon({"--no-such-option"}).Wait(), 64);
  {
    Daemon daemon({"--max-sessions=x"});
    EXPECT_THAT(daemon.ReadyText(), HasSubstr("--max-sessions"));
    EXPECT_EQ(daemon.Wait(), 64);
  }
  {
    Daemon daemon({"--listen", endpoint, "--runtime", "opencl",
                   "--opencl-platform", "nowhere"});
    EXPECT_THAT(daemon.ReadyText(),
                HasSubstr("no OpenCL platform is or contains \"nowhere\""));
    EXPECT_EQ(daemon.Wait(), 69);
  }
  {
    Daemon daemon({"--listen", endpoint, "--runtime", "quantum"});
    EXPECT_THAT(daemon.ReadyText(), HasSubstr("quantum"));
    EXPECT_EQ(daemon.Wait(), 64);
  }
  {
    Daemon daemon({"--listen", "tcp:1.2.3.4:5"});
    EXPECT_THAT(daemon.ReadyText(), HasSubstr("unix:PATH"));
    EXPECT_EQ(daemon.Wait(), 64);
  }
  const std::string config = folder.path() + "/conf";
  std::ofstream(config) << "nonsense = 1\n";
  EXPECT_EQ(Daemon({"--config", config}).Wait(), 64);
}

TEST(TvarantdTest, PrintsVersionAndHelp) {
  EXPECT_EQ(Daemon({"--version"}).Wait(), 0);
  EXPECT_EQ(Daemon({"--help"}).Wait(), 0);
}

TEST(TvarantdTest, AClosedReaderDoesNotKillIt) {
  TempFolder folder;
  const std::string path = folder.path() + "/s";
  Daemon daemon({"--listen", "unix:" + path});
  ASSERT_EQ(daemon.ReadyText(), "ready\n");
  for (int i = 0; i < 20; ++i) {
    RawClient client(path);
    ASSERT_TRUE(client.Open().ok());
    ASSERT_TRUE(client.Attach());
    client.Die();
  }
  RawClient client(path);
  EXPECT_TRUE(client.Open().ok());
}

TEST(TvarantdTest, EndsWithItsParent) {
  TempFolder folder;
  const std::string own_folder = folder.path() + "/own";
  ASSERT_EQ(::mkdir(own_folder.c_str(), 0700), 0);
  const std::string path = own_folder + "/s";
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  // A parent that starts a daemon, tells its pid and waits to be killed.
  const pid_t parent = ::fork();
  if (parent == 0) {
    const pid_t self = ::getpid();
    const pid_t daemon = ::fork();
    if (daemon == 0) {
      ::setsid();
      const std::string listen = "unix:" + path;
      const std::string pid = std::to_string(self);
      ::execl(kDaemonBinary, kDaemonBinary, "--listen", listen.c_str(),
              "--memory", "16MiB", "--exit-with-parent", pid.c_str(), nullptr);
      ::_exit(127);
    }
    [[maybe_unused]] const ssize_t written =
        ::write(ends[1], &daemon, sizeof(daemon));
    for (;;) ::pause();
  }
  pid_t daemon = 0;
  ASSERT_EQ(::read(ends[0], &daemon, sizeof(daemon)),
            static_cast<ssize_t>(sizeof(daemon)));
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_TRUE(Eventually([&] { return ConnectSocket(path).ok(); }));
  // It does not end before its parent.
  EXPECT_EQ(::kill(daemon, 0), 0);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  // It cleans up at its end; it is no child of this process.
  EXPECT_TRUE(Eventually([&] { return !Exists(own_folder); }));
}

TEST(TvarantdTest, AWrongParentIsRefused) {
  TempFolder folder;
  Daemon daemon(
      {"--listen", "unix:" + folder.path() + "/s", "--exit-with-parent", "1"});
  EXPECT_THAT(daemon.ReadyText(), HasSubstr("process 1"));
  EXPECT_EQ(daemon.Wait(), 69);
}

}  // namespace
}  // namespace tvarant
